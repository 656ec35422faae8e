package org.apache.mxnet
package internal.util

import java.lang.ref.WeakReference
import java.util.{Collections, WeakHashMap}

/** A value for each thread, like `ThreadLocal`.
  *
  * The value of a `ThreadLocal` lives as long as its thread and keeps the class loader of its class reachable. Threads
  * of an application server, of sbt or of a notebook outlive the applications that run on them; here they hold only a
  * weak reference.
  *
  * @param initial the initial value of each thread: a constant, because the JVM needs long to link the first function
  *   value of a program
  */
private[mxnet] final class PerThread[T](initial: T) {
  import PerThread.Cell

  private val local = new ThreadLocal[WeakReference[Cell[T]]]

  /** Keeps each cell reachable as long as its thread and this object. */
  private val cells = Collections.synchronizedMap(new WeakHashMap[Thread, Cell[T]])

  def get(): T = cell().value

  def set(value: T): Unit = cell().value = value

  private def cell(): Cell[T] = {
    val reference = local.get()
    if (reference == null) newCell() else reference.get()
  }

  private def newCell(): Cell[T] = {
    val cell = new Cell(initial)
    cells.put(Thread.currentThread(), cell)
    local.set(new WeakReference(cell))
    cell
  }
}

private[mxnet] object PerThread {
  private final class Cell[T](var value: T)
}
