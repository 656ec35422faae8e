package org.apache.mxnet.javaapi

/** Element types, for Java: `DType.Float32()`. */
object DType {
  type DType = org.apache.mxnet.DType.DType

  val Float32: DType = org.apache.mxnet.DType.Float32
  val Float64: DType = org.apache.mxnet.DType.Float64
  val Float16: DType = org.apache.mxnet.DType.Float16
  val UInt8: DType = org.apache.mxnet.DType.UInt8
  val Int8: DType = org.apache.mxnet.DType.Int8
  val Int32: DType = org.apache.mxnet.DType.Int32
  val Int64: DType = org.apache.mxnet.DType.Int64
  val Unknown: DType = org.apache.mxnet.DType.Unknown
}
