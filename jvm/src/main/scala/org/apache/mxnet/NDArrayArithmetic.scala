package org.apache.mxnet

import org.apache.mxnet.MX_PRIMITIVES.MX_PRIMITIVE_TYPE
import org.apache.mxnet.internal.operators.NDArrayOps

/** Arithmetic and comparison of an array with arrays of the same shape and with scalars.
  *
  * Comparisons return 1 where they are true and 0 elsewhere. Operators that end in `=` write to this array and return
  * it.
  */
trait NDArrayArithmetic {

  /** The array on the left-hand side. */
  private[mxnet] def operand: NDArray

  def +(other: NDArray): NDArray = NDArray.binary(NDArrayOps.add, operand, other)
  def +(other: MX_PRIMITIVE_TYPE): NDArray = NDArray.scalar(NDArrayOps.addScalar, operand, other)
  def +=(other: NDArray): NDArray = NDArray.binaryInto(NDArrayOps.add, operand, other)
  def +=(other: MX_PRIMITIVE_TYPE): NDArray = NDArray.scalarInto(NDArrayOps.addScalar, operand, other)

  def -(other: NDArray): NDArray = NDArray.binary(NDArrayOps.subtract, operand, other)
  def -(other: MX_PRIMITIVE_TYPE): NDArray = NDArray.scalar(NDArrayOps.subtractScalar, operand, other)
  def -=(other: NDArray): NDArray = NDArray.binaryInto(NDArrayOps.subtract, operand, other)
  def -=(other: MX_PRIMITIVE_TYPE): NDArray = NDArray.scalarInto(NDArrayOps.subtractScalar, operand, other)

  def *(other: NDArray): NDArray = NDArray.binary(NDArrayOps.multiply, operand, other)
  def *(other: MX_PRIMITIVE_TYPE): NDArray = NDArray.scalar(NDArrayOps.multiplyScalar, operand, other)
  def *=(other: NDArray): NDArray = NDArray.binaryInto(NDArrayOps.multiply, operand, other)
  def *=(other: MX_PRIMITIVE_TYPE): NDArray = NDArray.scalarInto(NDArrayOps.multiplyScalar, operand, other)

  /** The element-wise negation. */
  def unary_- : NDArray = NDArray.scalar(NDArrayOps.multiplyScalar, operand, -1f)

  def /(other: NDArray): NDArray = NDArray.binary(NDArrayOps.divide, operand, other)
  def /(other: MX_PRIMITIVE_TYPE): NDArray = NDArray.scalar(NDArrayOps.divideScalar, operand, other)
  def /=(other: NDArray): NDArray = NDArray.binaryInto(NDArrayOps.divide, operand, other)
  def /=(other: MX_PRIMITIVE_TYPE): NDArray = NDArray.scalarInto(NDArrayOps.divideScalar, operand, other)

  /** The element-wise power. */
  def **(other: NDArray): NDArray = NDArray.binary(NDArrayOps.power, operand, other)
  def **(other: MX_PRIMITIVE_TYPE): NDArray = NDArray.scalar(NDArrayOps.powerScalar, operand, other)
  def **=(other: NDArray): NDArray = NDArray.binaryInto(NDArrayOps.power, operand, other)
  def **=(other: MX_PRIMITIVE_TYPE): NDArray = NDArray.scalarInto(NDArrayOps.powerScalar, operand, other)

  /** The remainder of the division, with the sign of the divisor. */
  def %(other: NDArray): NDArray = NDArray.binary(NDArrayOps.mod, operand, other)
  def %(other: MX_PRIMITIVE_TYPE): NDArray = NDArray.scalar(NDArrayOps.modScalar, operand, other)
  def %=(other: NDArray): NDArray = NDArray.binaryInto(NDArrayOps.mod, operand, other)
  def %=(other: MX_PRIMITIVE_TYPE): NDArray = NDArray.scalarInto(NDArrayOps.modScalar, operand, other)

  def >(other: NDArray): NDArray = NDArray.greater(operand, other)
  def >(other: MX_PRIMITIVE_TYPE): NDArray = NDArray.greater(operand, other)
  def >=(other: NDArray): NDArray = NDArray.greaterEqual(operand, other)
  def >=(other: MX_PRIMITIVE_TYPE): NDArray = NDArray.greaterEqual(operand, other)
  def <(other: NDArray): NDArray = NDArray.lesser(operand, other)
  def <(other: MX_PRIMITIVE_TYPE): NDArray = NDArray.lesser(operand, other)
  def <=(other: NDArray): NDArray = NDArray.lesserEqual(operand, other)
  def <=(other: MX_PRIMITIVE_TYPE): NDArray = NDArray.lesserEqual(operand, other)
}

/** Element-wise functions of two arrays of the same shape, or of an array and a scalar. */
trait NDArrayFunctions {

  /** `lhs` to the power of `rhs`. */
  def power(lhs: NDArray, rhs: NDArray): NDArray = NDArray.binary(NDArrayOps.power, lhs, rhs)
  def power(lhs: NDArray, rhs: MX_PRIMITIVE_TYPE): NDArray = NDArray.scalar(NDArrayOps.powerScalar, lhs, rhs)
  def power(lhs: MX_PRIMITIVE_TYPE, rhs: NDArray): NDArray = NDArray.scalar(NDArrayOps.scalarPower, rhs, lhs)

  def maximum(lhs: NDArray, rhs: NDArray): NDArray = NDArray.binary(NDArrayOps.maximum, lhs, rhs)
  def maximum(lhs: NDArray, rhs: MX_PRIMITIVE_TYPE): NDArray = NDArray.scalar(NDArrayOps.maximumScalar, lhs, rhs)
  def maximum(lhs: MX_PRIMITIVE_TYPE, rhs: NDArray): NDArray = NDArray.scalar(NDArrayOps.maximumScalar, rhs, lhs)

  def minimum(lhs: NDArray, rhs: NDArray): NDArray = NDArray.binary(NDArrayOps.minimum, lhs, rhs)
  def minimum(lhs: NDArray, rhs: MX_PRIMITIVE_TYPE): NDArray = NDArray.scalar(NDArrayOps.minimumScalar, lhs, rhs)
  def minimum(lhs: MX_PRIMITIVE_TYPE, rhs: NDArray): NDArray = NDArray.scalar(NDArrayOps.minimumScalar, rhs, lhs)

  /** 1 where the elements are equal, 0 elsewhere. */
  def equal(lhs: NDArray, rhs: NDArray): NDArray = NDArray.binary(NDArrayOps.equal, lhs, rhs)
  def equal(lhs: NDArray, rhs: MX_PRIMITIVE_TYPE): NDArray = NDArray.scalar(NDArrayOps.equalScalar, lhs, rhs)

  /** 1 where the elements differ, 0 elsewhere. */
  def notEqual(lhs: NDArray, rhs: NDArray): NDArray = NDArray.binary(NDArrayOps.notEqual, lhs, rhs)
  def notEqual(lhs: NDArray, rhs: MX_PRIMITIVE_TYPE): NDArray = NDArray.scalar(NDArrayOps.notEqualScalar, lhs, rhs)

  /** 1 where `lhs` is greater, 0 elsewhere. */
  def greater(lhs: NDArray, rhs: NDArray): NDArray = NDArray.binary(NDArrayOps.greater, lhs, rhs)
  def greater(lhs: NDArray, rhs: MX_PRIMITIVE_TYPE): NDArray = NDArray.scalar(NDArrayOps.greaterScalar, lhs, rhs)

  /** 1 where `lhs` is greater or equal, 0 elsewhere. */
  def greaterEqual(lhs: NDArray, rhs: NDArray): NDArray = NDArray.binary(NDArrayOps.greaterEqual, lhs, rhs)
  def greaterEqual(lhs: NDArray, rhs: MX_PRIMITIVE_TYPE): NDArray =
    NDArray.scalar(NDArrayOps.greaterEqualScalar, lhs, rhs)

  /** 1 where `lhs` is less, 0 elsewhere. */
  def lesser(lhs: NDArray, rhs: NDArray): NDArray = NDArray.binary(NDArrayOps.lesser, lhs, rhs)
  def lesser(lhs: NDArray, rhs: MX_PRIMITIVE_TYPE): NDArray = NDArray.scalar(NDArrayOps.lesserScalar, lhs, rhs)

  /** 1 where `lhs` is less or equal, 0 elsewhere. */
  def lesserEqual(lhs: NDArray, rhs: NDArray): NDArray = NDArray.binary(NDArrayOps.lesserEqual, lhs, rhs)
  def lesserEqual(lhs: NDArray, rhs: MX_PRIMITIVE_TYPE): NDArray =
    NDArray.scalar(NDArrayOps.lesserEqualScalar, lhs, rhs)
}
