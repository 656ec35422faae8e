package org.apache.mxnet

import scala.collection.immutable.ArraySeq
import scala.language.implicitConversions

/** The inputs, outputs or auxiliary states of a user-defined operator: a `java.util.List` with the interface of Scala's
  * arrays, such as `arrays(0)` and `arrays.map(...)`.
  *
  * An output may be replaced by another array, which is copied after the run. `add` and `addAll` replace the first
  * element, then the second and so on.
  */
final class OpArrays private[mxnet] (private[mxnet] val elements: Array[NDArray], canReplace: Boolean)
    extends java.util.AbstractList[NDArray] {
  private var replaced = 0

  override def size: Int = elements.length

  override def get(index: Int): NDArray = {
    if (index < 0 || index >= elements.length)
      throw new MXNetError(s"a user-defined operator has ${elements.length} arrays here, there is none at $index")
    elements(index)
  }

  /** The array at an index. */
  def apply(index: Int): NDArray = get(index)

  override def set(index: Int, array: NDArray): NDArray = {
    val previous = get(index)
    if (!canReplace)
      throw new MXNetError("inputs and states of a user-defined operator cannot be replaced by other arrays")
    elements(index) = array
    previous
  }

  /** Replaces an output. */
  def update(index: Int, array: NDArray): Unit = set(index, array)

  override def add(array: NDArray): Boolean = {
    set(replaced, array)
    replaced += 1
    true
  }

  /** Resets [[add]] to the first output. */
  private[mxnet] def startRun(): Unit = replaced = 0
}

object OpArrays {

  /** The arrays as a Scala sequence. */
  implicit def asSequence(arrays: OpArrays): IndexedSeq[NDArray] = ArraySeq.unsafeWrapArray(arrays.elements)
}
