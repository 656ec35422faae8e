package org.apache.mxnet
package internal.util

import java.lang.ref.WeakReference
import java.util.{Collections, WeakHashMap}

/** A value for each thread, like `ThreadLocal`.
  *
  * What a `ThreadLocal` holds lives as long as the thread, and keeps the class loader of its class alive. Threads of an
  * application server, of sbt or of a notebook outlive the application that ran on them; here they only hold a weak
  * reference of the JDK.
  *
  * @param initial the value of a thread that has set none
  */
private[mxnet] final class PerThread[T](initial: () => T) {
  import PerThread.Cell

  private val local = new ThreadLocal[WeakReference[Cell[T]]]

  /** Keeps each cell as long as its thread and this object live. */
  private val cells = Collections.synchronizedMap(new WeakHashMap[Thread, Cell[T]])

  def get(): T = cell().value

  def set(value: T): Unit = cell().value = value

  private def cell(): Cell[T] = {
    val reference = local.get()
    if (reference == null) newCell() else reference.get()
  }

  private def newCell(): Cell[T] = {
    val cell = new Cell(initial())
    cells.put(Thread.currentThread(), cell)
    local.set(new WeakReference(cell))
    cell
  }
}

private[mxnet] object PerThread {
  private final class Cell[T](var value: T)
}
