package org.apache.mxnet.spark.internal

import org.apache.mxnet.Base._LIB
import org.apache.mxnet.NDArray
import org.apache.mxnet.NativeResource.keepAlive
import org.apache.spark.sql.catalyst.expressions.{SpecializedGetters, UnsafeArrayData}
import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.unsafe.Platform

/** Copies arrays of a primitive type between Spark's rows and the engine, without boxing. The engine converts between
  * this type and that of an `NDArray`.
  *
  * @param numBytes size of an element
  * @param arrayOffset byte offset of the first element in a Java array
  */
private[mxnet] sealed abstract class PrimitiveType[A](numBytes: Int, arrayOffset: Int) {
  def allocate(length: Int): Array[A]

  /** Copies the number in a column to `target(index)`. */
  def readNumber(row: SpecializedGetters, ordinal: Int, target: Array[A], index: Int): Unit

  /** The elements of an array that is not an `UnsafeArrayData`. */
  protected def elements(values: ArrayData): Array[A]

  def toFloat(values: Array[A], index: Int): Float

  def toDouble(values: Array[A], index: Int): Double

  def isGreater(values: Array[A], left: Int, right: Int): Boolean

  def clear(values: Array[A], from: Int, until: Int): Unit

  /** Whether an element of a range is NaN. */
  def hasNaN(values: Array[A], from: Int, until: Int): Boolean = false

  protected def copyToHandle(source: Array[A], target: Long, length: Int): Unit

  protected def copyFromHandle(source: Long, target: Array[A], length: Int): Unit

  /** Copies the elements of an array in a row. */
  final def readArray(values: ArrayData, target: Array[A], index: Int): Unit = values match {
    case unsafe: UnsafeArrayData =>
      val count = unsafe.numElements()
      val source = unsafe.getBaseOffset + UnsafeArrayData.calculateHeaderPortionInBytes(count)
      Platform.copyMemory(
        unsafe.getBaseObject,
        source,
        target,
        arrayOffset + index.toLong * numBytes,
        count.toLong * numBytes
      )
    case other => System.arraycopy(elements(other), 0, target, index, other.numElements())
  }

  /** The elements from `index` on, as the array of a row. */
  final def toArrayData(values: Array[A], index: Int, count: Int): ArrayData = {
    val offset = arrayOffset + index.toLong * numBytes
    if (offset <= Int.MaxValue) UnsafeArrayData.fromPrimitiveArray(values, offset.toInt, count, numBytes)
    else {
      // Spark takes the offset as an Int.
      val row = allocate(count)
      System.arraycopy(values, index, row, 0, count)
      UnsafeArrayData.fromPrimitiveArray(row, arrayOffset, count, numBytes)
    }
  }

  /** Copies the first elements to an array of the engine. */
  final def write(source: Array[A], target: NDArray): Unit = {
    copyToHandle(source, target.liveHandle, target.size)
    keepAlive(target)
  }

  /** Copies the elements of an array of the engine. */
  final def read(source: NDArray): Array[A] = {
    val values = allocate(source.size)
    copyFromHandle(source.liveHandle, values, values.length)
    keepAlive(source)
    values
  }
}

private[mxnet] object PrimitiveType {
  object Floats extends PrimitiveType[Float](java.lang.Float.BYTES, Platform.FLOAT_ARRAY_OFFSET) {
    override def allocate(length: Int) = new Array(length)
    override def readNumber(row: SpecializedGetters, ordinal: Int, target: Array[Float], index: Int) =
      target(index) = row.getFloat(ordinal)
    override def elements(values: ArrayData) = values.toFloatArray()
    override def toFloat(values: Array[Float], index: Int) = values(index)
    override def toDouble(values: Array[Float], index: Int) = values(index).toDouble
    override def isGreater(values: Array[Float], left: Int, right: Int) = values(left) > values(right)
    override def clear(values: Array[Float], from: Int, until: Int) = java.util.Arrays.fill(values, from, until, 0f)
    override def hasNaN(values: Array[Float], from: Int, until: Int) = {
      var i = from
      while (i < until && !values(i).isNaN) i += 1
      i < until
    }
    override def copyToHandle(source: Array[Float], target: Long, length: Int) =
      _LIB.ndarraySetFloats(target, 0L, source, 0, length)
    override def copyFromHandle(source: Long, target: Array[Float], length: Int) =
      _LIB.ndarrayGetFloats(source, 0L, target, 0, length)
  }

  object Doubles extends PrimitiveType[Double](java.lang.Double.BYTES, Platform.DOUBLE_ARRAY_OFFSET) {
    override def allocate(length: Int) = new Array(length)
    override def readNumber(row: SpecializedGetters, ordinal: Int, target: Array[Double], index: Int) =
      target(index) = row.getDouble(ordinal)
    override def elements(values: ArrayData) = values.toDoubleArray()
    override def toFloat(values: Array[Double], index: Int) = values(index).toFloat
    override def toDouble(values: Array[Double], index: Int) = values(index)
    override def isGreater(values: Array[Double], left: Int, right: Int) = values(left) > values(right)
    override def clear(values: Array[Double], from: Int, until: Int) = java.util.Arrays.fill(values, from, until, 0.0)
    override def hasNaN(values: Array[Double], from: Int, until: Int) = {
      var i = from
      while (i < until && !values(i).isNaN) i += 1
      i < until
    }
    override def copyToHandle(source: Array[Double], target: Long, length: Int) =
      _LIB.ndarraySetDoubles(target, 0L, source, 0, length)
    override def copyFromHandle(source: Long, target: Array[Double], length: Int) =
      _LIB.ndarrayGetDoubles(source, 0L, target, 0, length)
  }

  object Longs extends PrimitiveType[Long](java.lang.Long.BYTES, Platform.LONG_ARRAY_OFFSET) {
    override def allocate(length: Int) = new Array(length)
    override def readNumber(row: SpecializedGetters, ordinal: Int, target: Array[Long], index: Int) =
      target(index) = row.getLong(ordinal)
    override def elements(values: ArrayData) = values.toLongArray()
    override def toFloat(values: Array[Long], index: Int) = values(index).toFloat
    override def toDouble(values: Array[Long], index: Int) = values(index).toDouble
    override def isGreater(values: Array[Long], left: Int, right: Int) = values(left) > values(right)
    override def clear(values: Array[Long], from: Int, until: Int) = java.util.Arrays.fill(values, from, until, 0L)
    override def copyToHandle(source: Array[Long], target: Long, length: Int) =
      _LIB.ndarraySetLongs(target, 0L, source, 0, length)
    override def copyFromHandle(source: Long, target: Array[Long], length: Int) =
      _LIB.ndarrayGetLongs(source, 0L, target, 0, length)
  }

  object Ints extends PrimitiveType[Int](Integer.BYTES, Platform.INT_ARRAY_OFFSET) {
    override def allocate(length: Int) = new Array(length)
    override def readNumber(row: SpecializedGetters, ordinal: Int, target: Array[Int], index: Int) =
      target(index) = row.getInt(ordinal)
    override def elements(values: ArrayData) = values.toIntArray()
    override def toFloat(values: Array[Int], index: Int) = values(index).toFloat
    override def toDouble(values: Array[Int], index: Int) = values(index).toDouble
    override def isGreater(values: Array[Int], left: Int, right: Int) = values(left) > values(right)
    override def clear(values: Array[Int], from: Int, until: Int) = java.util.Arrays.fill(values, from, until, 0)
    override def copyToHandle(source: Array[Int], target: Long, length: Int) =
      _LIB.ndarraySetInts(target, 0L, source, 0, length)
    override def copyFromHandle(source: Long, target: Array[Int], length: Int) =
      _LIB.ndarrayGetInts(source, 0L, target, 0, length)
  }

  object Bytes extends PrimitiveType[Byte](java.lang.Byte.BYTES, Platform.BYTE_ARRAY_OFFSET) {
    override def allocate(length: Int) = new Array(length)
    override def readNumber(row: SpecializedGetters, ordinal: Int, target: Array[Byte], index: Int) =
      target(index) = row.getByte(ordinal)
    override def elements(values: ArrayData) = values.toByteArray()
    override def toFloat(values: Array[Byte], index: Int) = values(index).toFloat
    override def toDouble(values: Array[Byte], index: Int) = values(index).toDouble
    override def isGreater(values: Array[Byte], left: Int, right: Int) = values(left) > values(right)
    override def clear(values: Array[Byte], from: Int, until: Int) = java.util.Arrays.fill(values, from, until, 0: Byte)
    override def copyToHandle(source: Array[Byte], target: Long, length: Int) =
      _LIB.ndarraySetBytes(target, 0L, source, 0, length)
    override def copyFromHandle(source: Long, target: Array[Byte], length: Int) =
      _LIB.ndarrayGetBytes(source, 0L, target, 0, length)
  }
}
