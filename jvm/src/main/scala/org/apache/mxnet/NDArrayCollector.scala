package org.apache.mxnet

import java.util.{Collections, IdentityHashMap}

import scala.jdk.CollectionConverters._

import org.apache.mxnet.internal.util.PerThread

/** Collects the arrays that a thread creates in [[withScope]], so that temporary arrays can be disposed together.
  *
  * {{{
  * val mean = NDArrayCollector.auto().withScope { (a + b) / 2 } // the sum is disposed, the quotient is not
  * }}}
  */
object NDArrayCollector {
  private val current = new PerThread[NDArrayCollector](null)

  /** A collector that disposes the arrays at the end of the scope, except its result. */
  def auto(): NDArrayCollector = new NDArrayCollector(autoDispose = true)

  /** A collector that disposes the arrays in [[NDArrayCollector.clear]]. */
  def manual(): NDArrayCollector = new NDArrayCollector(autoDispose = false)

  /** Adds arrays to the collector of this thread's scope, if there is one. */
  def collect(ndArray: NDArray*): Unit = {
    val collector = current.get()
    if (collector != null) ndArray.foreach(collector.add)
  }

  /** As `collect`, for the constructor of an array. */
  private[mxnet] def collectOne(array: NDArray): Unit = {
    val collector = current.get()
    if (collector != null) collector.add(array)
  }

  /** Whether new arrays of this thread go to a collector. */
  private[mxnet] def isCollecting: Boolean = current.get() != null

  /** Runs `body`, whose arrays go to no collector. */
  private[mxnet] def outside[A](body: => A): A = {
    val around = current.get()
    current.set(null)
    try body
    finally current.set(around)
  }
}

class NDArrayCollector private (autoDispose: Boolean) {
  private val arrays = Collections.newSetFromMap(new IdentityHashMap[NDArray, java.lang.Boolean])

  private def add(array: NDArray): Unit = synchronized(arrays.add(array))

  private def snapshot: Array[NDArray] = synchronized(arrays.asScala.toArray)

  /** Disposes all collected arrays. */
  def clear(): Unit = {
    snapshot.foreach(_.dispose())
    synchronized(arrays.clear())
  }

  /** Calls `f` with each collected array. */
  def foreach(f: NDArray => Unit): Unit = snapshot.foreach(f)

  /** Number of collected arrays. */
  def size: Int = synchronized(arrays.size)

  /** Runs `codeBlock` and collects the arrays that it creates, except those that it returns. */
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
