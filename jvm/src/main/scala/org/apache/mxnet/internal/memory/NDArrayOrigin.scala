package org.apache.mxnet
package internal.memory

import java.lang.ref.WeakReference
import java.util.{Collections, IdentityHashMap, Set => JSet}

import scala.collection.mutable.ArrayBuffer

/** The arrays that an array was computed from, by weak references, for [[NDArray.disposeDeps]].
  *
  * @param array the array
  * @param parents the origins of its inputs
  * @param depth the length of the longest path to an array without inputs or to a summary
  */
private[mxnet] sealed class NDArrayOrigin private[memory] (
    array: NDArray,
    private[memory] val parents: Array[NDArrayOrigin],
    private[memory] val depth: Int
) extends WeakReference[NDArray](array)

/** The live arrays of a long history.
  *
  * @param arrays those that are in no older summary, by origins without parents
  * @param older summaries of earlier parts of the history
  */
private final class HistorySummary(val arrays: Array[NDArrayOrigin], val older: Array[NDArrayOrigin])
    extends NDArrayOrigin(null, arrays ++ older, 0) {

  /** The number of operations since this summary was created or copied. Concurrent updates may be lost, which only delays
    * the next copy.
    */
  var age: Int = 0
}

private[mxnet] object NDArrayOrigin {
  val none: Array[NDArrayOrigin] = new Array(0)

  /** Longer histories are summarized, so that the history of `x = x + 1` in a loop does not grow. */
  private val maxDepth = 64

  /** The origin of an array with inputs of these origins. */
  def apply(array: NDArray, inputs: Array[NDArrayOrigin]): NDArrayOrigin = {
    val deepest = depthOf(inputs)
    if (deepest < maxDepth) new NDArrayOrigin(array, inputs, deepest + 1)
    else new NDArrayOrigin(array, Array(summaryOf(inputs)), 1)
  }

  private def depthOf(inputs: Array[NDArrayOrigin]): Int = {
    var deepest = 0
    var i = 0
    while (i < inputs.length) {
      deepest = Math.max(deepest, inputs(i).depth)
      i += 1
    }
    deepest
  }

  private def identitySet: JSet[AnyRef] = Collections.newSetFromMap(new IdentityHashMap[AnyRef, java.lang.Boolean])

  /** The distinct arrays of a history that were neither collected nor disposed. */
  def liveArrays(inputs: Array[NDArrayOrigin]): collection.Seq[NDArray] = {
    val seen = identitySet
    val found = ArrayBuffer.empty[NDArray]
    def visit(origin: NDArrayOrigin): Unit = if (seen.add(origin)) {
      newlySeen(origin, seen).foreach(found += _)
      origin.parents.foreach(visit)
    }
    inputs.foreach(visit)
    found
  }

  private def newlySeen(origin: NDArrayOrigin, seen: JSet[AnyRef]): Option[NDArray] =
    Option(origin.get()).filter(array => !array.isDisposed && seen.add(array))

  /** Summarizes a history. An older summary is copied without its dead arrays if it is not larger than the new one, or if
    * as many operations have followed it as it has arrays. So the copies cost a constant time for each operation, and all
    * summaries together grow in proportion to the live arrays.
    */
  private def summaryOf(inputs: Array[NDArrayOrigin]): HistorySummary = {
    val seen = identitySet
    val live = ArrayBuffer.empty[NDArrayOrigin]
    val older = ArrayBuffer.empty[HistorySummary]
    def visit(origin: NDArrayOrigin): Unit = if (seen.add(origin)) origin match {
      case summary: HistorySummary =>
        older += summary
        summary.older.foreach(visit)
      case _ =>
        newlySeen(origin, seen).foreach(array => live += new NDArrayOrigin(array, none, 1))
        origin.parents.foreach(visit)
    }
    inputs.foreach(visit)
    val kept = ArrayBuffer.empty[NDArrayOrigin]
    val newArrays = live.length
    older.foreach { summary =>
      summary.age += maxDepth
      if (summary.arrays.length > math.max(newArrays, summary.age)) kept += summary
      else {
        summary.age = 0
        summary.arrays.foreach(origin => if (newlySeen(origin, seen).isDefined) live += origin)
      }
    }
    new HistorySummary(live.toArray, kept.toArray)
  }
}
