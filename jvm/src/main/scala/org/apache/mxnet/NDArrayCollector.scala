package org.apache.mxnet

import java.util.{Collections, IdentityHashMap}

import scala.jdk.CollectionConverters._
import org.apache.mxnet.internal.util.PerThread

/** Collects the arrays that its thread creates while [[withScope]] runs, so that temporaries can be disposed at once.
  *
  * {{{
  * val mean = NDArrayCollector.auto().withScope { (a + b) / 2 } // the sum is disposed, the quotient is not
  * }}}
  */
object NDArrayCollector {
  private val current = new PerThread[NDArrayCollector](() => null)

  /** A collector that disposes what it collected at the end of the scope, except for the scope's result. */
  def auto(): NDArrayCollector = new NDArrayCollector(autoDispose = true)

  /** A collector that keeps what it collected until [[NDArrayCollector.clear]]. */
  def manual(): NDArrayCollector = new NDArrayCollector(autoDispose = false)

  /** Gives arrays to the collector whose scope this thread is in, if any. */
  def collect(ndArray: NDArray*): Unit = {
    val collector = current.get()
    if (collector != null) ndArray.foreach(collector.add)
  }

  /** As `collect`, for the one array that a constructor makes. */
  private[mxnet] def collectOne(array: NDArray): Unit = {
    val collector = current.get()
    if (collector != null) collector.add(array)
  }
}

class NDArrayCollector private (autoDispose: Boolean) {
  private val arrays = Collections.newSetFromMap(new IdentityHashMap[NDArray, java.lang.Boolean])

  private def add(array: NDArray): Unit = synchronized(arrays.add(array))

  private def snapshot: Array[NDArray] = synchronized(arrays.asScala.toArray)

  /** Disposes everything collected so far and forgets it. */
  def clear(): Unit = {
    snapshot.foreach(_.dispose())
    synchronized(arrays.clear())
  }

  /** Calls `f` with each collected array. */
  def foreach(f: NDArray => Unit): Unit = snapshot.foreach(f)

  /** How many arrays were collected. */
  def size: Int = synchronized(arrays.size)

  /** Runs `codeBlock` and collects the arrays that it creates, but not those that it returns. */
  def withScope[T](codeBlock: => T): T = {
    val outer = NDArrayCollector.current.get()
    NDArrayCollector.current.set(this)
    try {
      val result = codeBlock
      synchronized(ResourceScope.resourcesIn(result).foreach(arrays.remove))
      result
    } finally {
      NDArrayCollector.current.set(outer)
      if (autoDispose) clear()
    }
  }
}
