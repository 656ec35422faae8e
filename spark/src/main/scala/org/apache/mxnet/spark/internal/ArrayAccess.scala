package org.apache.mxnet.spark.internal

import org.apache.mxnet.Base._LIB
import org.apache.mxnet.NDArray
import org.apache.mxnet.NativeResource.keepAlive

/** Copies between arrays of the engine, of any type, and the first elements of buffers. */
private[mxnet] object ArrayAccess {
  def setFloats(array: NDArray, source: Array[Float]): Unit = {
    _LIB.ndarraySetFloats(array.liveHandle, 0L, source, 0, array.size)
    keepAlive(array)
  }

  def setDoubles(array: NDArray, source: Array[Double]): Unit = {
    _LIB.ndarraySetDoubles(array.liveHandle, 0L, source, 0, array.size)
    keepAlive(array)
  }

  def setLongs(array: NDArray, source: Array[Long]): Unit = {
    _LIB.ndarraySetLongs(array.liveHandle, 0L, source, 0, array.size)
    keepAlive(array)
  }

  def setInts(array: NDArray, source: Array[Int]): Unit = {
    _LIB.ndarraySetInts(array.liveHandle, 0L, source, 0, array.size)
    keepAlive(array)
  }

  def setBytes(array: NDArray, source: Array[Byte]): Unit = {
    _LIB.ndarraySetBytes(array.liveHandle, 0L, source, 0, array.size)
    keepAlive(array)
  }

  def longs(array: NDArray): Array[Long] = {
    val values = new Array[Long](array.size)
    _LIB.ndarrayGetLongs(array.liveHandle, 0L, values, 0, values.length)
    keepAlive(array)
    values
  }

  def ints(array: NDArray): Array[Int] = {
    val values = new Array[Int](array.size)
    _LIB.ndarrayGetInts(array.liveHandle, 0L, values, 0, values.length)
    keepAlive(array)
    values
  }
}
