package org.apache.mxnet
package internal.memory

import java.lang.ref.WeakReference
import java.util.{Collections, IdentityHashMap}

import scala.collection.mutable.ArrayBuffer

/** The arrays that an array was computed from, by weak references, for [[NDArray.disposeDeps]].
  *
  * @param array the array
  * @param inputs the origins of its inputs
  */
private[mxnet] final class NDArrayOrigin(array: NDArray, inputs: Array[NDArrayOrigin])
    extends WeakReference[NDArray](array) {
  private val parents: Array[NDArrayOrigin] = NDArrayOrigin.bounded(inputs)
  private val depth: Int = parents.foldLeft(0)((deepest, parent) => math.max(deepest, parent.depth)) + 1
}

private[mxnet] object NDArrayOrigin {
  val none: Array[NDArrayOrigin] = new Array(0)

  /** Longer histories are reduced to the live arrays, so that the history of `x = x + 1` in a loop does not grow. */
  private val maxDepth = 64

  private def bounded(inputs: Array[NDArrayOrigin]): Array[NDArrayOrigin] =
    if (inputs.forall(_.depth < maxDepth)) inputs else liveArrays(inputs).map(new NDArrayOrigin(_, none)).toArray

  /** The distinct arrays of a history that were neither collected nor disposed. */
  def liveArrays(inputs: Array[NDArrayOrigin]): collection.Seq[NDArray] = {
    val seen = Collections.newSetFromMap(new IdentityHashMap[AnyRef, java.lang.Boolean])
    val found = ArrayBuffer.empty[NDArray]
    def visit(origin: NDArrayOrigin): Unit = if (seen.add(origin)) {
      val array = origin.get()
      if (array != null && !array.isDisposed && seen.add(array)) found += array
      origin.parents.foreach(visit)
    }
    inputs.foreach(visit)
    found
  }
}
