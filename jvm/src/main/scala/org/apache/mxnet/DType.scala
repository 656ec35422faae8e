package org.apache.mxnet

import scala.language.implicitConversions

import org.apache.mxnet.literal.OneOf

/** Element types of arrays. The identifiers are the type flags of MXNet's C API. */
object DType extends Enumeration {
  type DType = Value

  /** 32-bit floating point, the default. */
  val Float32: Value = Value(0, "float32")

  /** 64-bit floating point. */
  val Float64: Value = Value(1, "float64")

  /** 16-bit floating point, stored only: operators compute in 32 bits. */
  val Float16: Value = Value(2, "float16")

  /** Integers from 0 to 255. */
  val UInt8: Value = Value(3, "uint8")

  /** 32-bit integers. */
  val Int32: Value = Value(4, "int32")

  /** Integers from -128 to 127. */
  val Int8: Value = Value(5, "int8")

  /** 64-bit integers. */
  val Int64: Value = Value(6, "int64")

  /** 0 (false) or 1 (true), one byte each. */
  val Bool: Value = Value(7, "bool")

  /** The upper 16 bits of a 32-bit floating-point number, stored only. */
  val BFloat16: Value = Value(12, "bfloat16")

  /** An unknown type. */
  val Unknown: Value = Value(-1, "unknown")

  /** `dtype = DType.Int32` for `dtype = "int32"`; a type that the operator does not take is an error when it runs. */
  implicit def toOneOf[V <: String with Singleton](dtype: DType): OneOf[V] =
    OneOf.text[V](if (dtype == null) null else dtype.toString)

  /** Bytes of one element. */
  private[mxnet] def numOfBytes(dtype: DType): Int = dtype match {
    case Float64 | Int64     => 8
    case Float32 | Int32     => 4
    case Float16 | BFloat16  => 2
    case UInt8 | Int8 | Bool => 1
    case other               => throw new MXNetError(s"DType: elements of type '$other' have no size")
  }

  /** The type with this flag of the C API. */
  private[mxnet] def fromId(id: Int): DType =
    values.find(_.id == id).getOrElse(throw new MXNetError(s"DType: $id is not a type flag; known: $knownTypes"))

  /** The type of this name, such as `float32`. */
  private[mxnet] def fromName(name: String): DType =
    values.find(_.toString == name).getOrElse(throw new MXNetError(s"DType: '$name' is not a type; known: $knownTypes"))

  private def knownTypes: String = values.toSeq.map(v => s"${v.id} ${v.toString}").mkString(", ")
}
