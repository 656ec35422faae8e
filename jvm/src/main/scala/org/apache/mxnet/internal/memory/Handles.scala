package org.apache.mxnet
package internal.memory

import scala.collection.mutable.ArrayBuffer

import org.apache.mxnet.Base._LIB

/** New handles, which belong to the engine or to an object that is still to be created. */
private[mxnet] object Handles {

  /** A handle of each array. */
  def ofArrays(arrays: Iterable[NDArray]): Array[Long] = createAll(arrays, _LIB.ndarrayFree(_)) { array =>
    val handle = _LIB.ndarrayShare(array.liveHandle)
    NativeResource.keepAlive(array)
    handle
  }

  /** A handle of each symbol; 0 for null. */
  def ofSymbols(symbols: Iterable[Symbol]): Array[Long] = createAll(symbols, _LIB.symbolFree(_)) { symbol =>
    if (symbol == null) 0L else symbol.native(handle => _LIB.symbolCreateGroup(Array(handle)))
  }

  /** A handle for each item. If one cannot be created, the earlier ones are freed. */
  private[mxnet] def createAll[A](items: Iterable[A], free: Long => Unit)(create: A => Long): Array[Long] = {
    val created = ArrayBuffer.empty[Long]
    try items.foreach(item => created += create(item))
    catch {
      case error: Throwable =>
        created.foreach(free)
        throw error
    }
    created.toArray
  }
}
