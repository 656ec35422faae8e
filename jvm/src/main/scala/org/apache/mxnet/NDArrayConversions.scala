package org.apache.mxnet

import org.apache.mxnet.MX_PRIMITIVES.MX_PRIMITIVE_TYPE
import org.apache.mxnet.internal.operators.NDArrayOps

import scala.language.implicitConversions

/** A scalar on the left-hand side of arithmetic with an array, as in `1f - array`.
  *
  * @param value the scalar
  */
class NDArrayConversions(val value: MX_PRIMITIVE_TYPE) {
  def +(other: NDArray): NDArray = other + value
  def +(other: NDArrayFuncReturn): NDArray = other.head + value
  def -(other: NDArray): NDArray = NDArray.scalar(NDArrayOps.scalarSubtract, other, value)
  def -(other: NDArrayFuncReturn): NDArray = this - other.head
  def *(other: NDArray): NDArray = other * value
  def *(other: NDArrayFuncReturn): NDArray = other.head * value
  def /(other: NDArray): NDArray = NDArray.scalar(NDArrayOps.scalarDivide, other, value)
  def /(other: NDArrayFuncReturn): NDArray = this / other.head
  def **(other: NDArray): NDArray = NDArray.power(value, other)
  def **(other: NDArrayFuncReturn): NDArray = NDArray.power(value, other.head)
  def >(other: NDArray): NDArray = NDArray.lesser(other, value)
  def >(other: NDArrayFuncReturn): NDArray = NDArray.lesser(other.head, value)
  def >=(other: NDArray): NDArray = NDArray.lesserEqual(other, value)
  def >=(other: NDArrayFuncReturn): NDArray = NDArray.lesserEqual(other.head, value)
  def <(other: NDArray): NDArray = NDArray.greater(other, value)
  def <(other: NDArrayFuncReturn): NDArray = NDArray.greater(other.head, value)
  def <=(other: NDArray): NDArray = NDArray.greaterEqual(other, value)
  def <=(other: NDArrayFuncReturn): NDArray = NDArray.greaterEqual(other.head, value)
}

object NDArrayConversions {
  implicit def int2Scalar(x: Int): NDArrayConversions = new NDArrayConversions(MX_PRIMITIVES.IntToMX_Float(x))
  implicit def double2Scalar(x: Double): NDArrayConversions = new NDArrayConversions(MX_PRIMITIVES.DoubleToMX_Double(x))
  implicit def float2Scalar(x: Float): NDArrayConversions = new NDArrayConversions(MX_PRIMITIVES.FloatToMX_Float(x))
}
