package org.apache.mxnet.javaapi

/** Element types, for Java: `DType.Float32()`. */
object DType {
  type DType = org.apache.mxnet.DType.DType

  /** 32-bit floating point, the default. */
  val Float32: DType = org.apache.mxnet.DType.Float32

  /** 64-bit floating point. */
  val Float64: DType = org.apache.mxnet.DType.Float64

  /** 16-bit floating point, stored only: operators compute in 32 bits. */
  val Float16: DType = org.apache.mxnet.DType.Float16

  /** Integers from 0 to 255. */
  val UInt8: DType = org.apache.mxnet.DType.UInt8

  /** Integers from -128 to 127. */
  val Int8: DType = org.apache.mxnet.DType.Int8

  /** 32-bit integers. */
  val Int32: DType = org.apache.mxnet.DType.Int32

  /** 64-bit integers. */
  val Int64: DType = org.apache.mxnet.DType.Int64

  /** An unknown type. */
  val Unknown: DType = org.apache.mxnet.DType.Unknown
}
