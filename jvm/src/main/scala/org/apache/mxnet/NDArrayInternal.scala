package org.apache.mxnet

import java.nio.{ByteBuffer, ByteOrder}

/** The bytes of an array in memory order, and their values.
  *
  * @param internal the bytes, little-endian
  * @param dtype the type of the elements
  */
class NDArrayInternal private[mxnet] (internal: Array[Byte], dtype: DType.DType) {
  private val unit = DType.numOfBytes(dtype)
  if (internal.length % unit != 0)
    throw new MXNetError(s"NDArrayInternal: ${internal.length} bytes are not a whole number of $dtype elements")
  private val buffer = ByteBuffer.wrap(internal).order(ByteOrder.LITTLE_ENDIAN)

  /** The bytes. */
  def getRaw: Array[Byte] = internal

  /** The elements as `Double`; 64-bit integers may be rounded. */
  def toDoubleArray: Array[Double] = Array.tabulate(size)(i => if (isIntegral) long(i).toDouble else real(i))

  /** The elements as `Float`; larger types are rounded. */
  def toFloatArray: Array[Float] = Array.tabulate(size)(i => if (isIntegral) long(i).toFloat else real(i).toFloat)

  /** The elements as `Int`: fractions are truncated, and 64-bit integers keep their low 32 bits. */
  def toIntArray: Array[Int] = Array.tabulate(size)(i => if (isIntegral) long(i).toInt else real(i).toInt)

  /** The elements as `Long`; fractions are truncated. */
  def toLongArray: Array[Long] = Array.tabulate(size)(i => if (isIntegral) long(i) else real(i).toLong)

  /** The elements as `Byte`: fractions are truncated, and larger integers keep their low 8 bits. */
  def toByteArray: Array[Byte] = Array.tabulate(size)(i => if (isIntegral) long(i).toByte else real(i).toByte)

  private def size: Int = internal.length / unit

  private val isIntegral: Boolean = dtype match {
    case DType.UInt8 | DType.Int8 | DType.Int32 | DType.Int64 | DType.Bool => true
    case _                                                                 => false
  }

  private def long(i: Int): Long = dtype match {
    case DType.UInt8 => buffer.get(i) & 0xffL
    case DType.Int32 => buffer.getInt(i * 4).toLong
    case DType.Int64 => buffer.getLong(i * 8)
    case _           => buffer.get(i).toLong
  }

  private def real(i: Int): Double = dtype match {
    case DType.Float64  => buffer.getDouble(i * 8)
    case DType.Float32  => buffer.getFloat(i * 4).toDouble
    case DType.BFloat16 => java.lang.Float.intBitsToFloat(buffer.getShort(i * 2) << 16).toDouble
    case _              => NDArrayInternal.halfToDouble(buffer.getShort(i * 2))
  }
}

private object NDArrayInternal {

  /** The value of an IEEE 754 half-precision number. */
  def halfToDouble(bits: Short): Double = {
    val exponent = (bits >> 10) & 0x1f
    val fraction = bits & 0x3ff
    val magnitude = exponent match {
      case 0    => Math.scalb(fraction.toDouble, -24)
      case 0x1f => if (fraction == 0) Double.PositiveInfinity else Double.NaN
      case _    => Math.scalb((fraction | 0x400).toDouble, exponent - 25)
    }
    if (bits < 0) -magnitude else magnitude
  }
}
