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

  /** The sum of elements at the same positions. The shapes must be equal: `broadcast_*` operators expand axes. */
  def +(other: NDArray): NDArray = NDArray.binary(NDArrayOps.add, operand, other)

  /** The sum of each element and a number, converted to the type of this array. */
  def +(other: MX_PRIMITIVE_TYPE): NDArray = NDArray.scalar(NDArrayOps.addScalar, operand, other)

  /** As `+`, written to this array, which is returned. */
  def +=(other: NDArray): NDArray = NDArray.binaryInto(NDArrayOps.add, operand, other)

  /** As `+`, written to this array, which is returned. */
  def +=(other: MX_PRIMITIVE_TYPE): NDArray = NDArray.scalarInto(NDArrayOps.addScalar, operand, other)

  /** The difference of elements at the same positions of arrays with equal shapes. */
  def -(other: NDArray): NDArray = NDArray.binary(NDArrayOps.subtract, operand, other)

  /** The difference of each element and a number, converted to the type of this array. */
  def -(other: MX_PRIMITIVE_TYPE): NDArray = NDArray.scalar(NDArrayOps.subtractScalar, operand, other)

  /** As `-`, written to this array, which is returned. */
  def -=(other: NDArray): NDArray = NDArray.binaryInto(NDArrayOps.subtract, operand, other)

  /** As `-`, written to this array, which is returned. */
  def -=(other: MX_PRIMITIVE_TYPE): NDArray = NDArray.scalarInto(NDArrayOps.subtractScalar, operand, other)

  /** The product of elements at the same positions of arrays with equal shapes. */
  def *(other: NDArray): NDArray = NDArray.binary(NDArrayOps.multiply, operand, other)

  /** The product of each element and a number, converted to the type of this array. */
  def *(other: MX_PRIMITIVE_TYPE): NDArray = NDArray.scalar(NDArrayOps.multiplyScalar, operand, other)

  /** As `*`, written to this array, which is returned. */
  def *=(other: NDArray): NDArray = NDArray.binaryInto(NDArrayOps.multiply, operand, other)

  /** As `*`, written to this array, which is returned. */
  def *=(other: MX_PRIMITIVE_TYPE): NDArray = NDArray.scalarInto(NDArrayOps.multiplyScalar, operand, other)

  /** The element-wise negation. */
  def unary_- : NDArray = NDArray.scalar(NDArrayOps.multiplyScalar, operand, -1f)

  /** The quotient of elements at the same positions of arrays with equal shapes. */
  def /(other: NDArray): NDArray = NDArray.binary(NDArrayOps.divide, operand, other)

  /** The quotient of each element and a number, converted to the type of this array. */
  def /(other: MX_PRIMITIVE_TYPE): NDArray = NDArray.scalar(NDArrayOps.divideScalar, operand, other)

  /** As `/`, written to this array, which is returned. */
  def /=(other: NDArray): NDArray = NDArray.binaryInto(NDArrayOps.divide, operand, other)

  /** As `/`, written to this array, which is returned. */
  def /=(other: MX_PRIMITIVE_TYPE): NDArray = NDArray.scalarInto(NDArrayOps.divideScalar, operand, other)

  /** The element-wise power. */
  def **(other: NDArray): NDArray = NDArray.binary(NDArrayOps.power, operand, other)

  /** Each element to the power of a number. */
  def **(other: MX_PRIMITIVE_TYPE): NDArray = NDArray.scalar(NDArrayOps.powerScalar, operand, other)

  /** As `**`, written to this array, which is returned. */
  def **=(other: NDArray): NDArray = NDArray.binaryInto(NDArrayOps.power, operand, other)

  /** As `**`, written to this array, which is returned. */
  def **=(other: MX_PRIMITIVE_TYPE): NDArray = NDArray.scalarInto(NDArrayOps.powerScalar, operand, other)

  /** The remainder of the division, with the sign of the divisor. */
  def %(other: NDArray): NDArray = NDArray.binary(NDArrayOps.mod, operand, other)

  /** The remainder, with the sign of the divisor, of each element and a number. */
  def %(other: MX_PRIMITIVE_TYPE): NDArray = NDArray.scalar(NDArrayOps.modScalar, operand, other)

  /** As `%`, written to this array, which is returned. */
  def %=(other: NDArray): NDArray = NDArray.binaryInto(NDArrayOps.mod, operand, other)

  /** As `%`, written to this array, which is returned. */
  def %=(other: MX_PRIMITIVE_TYPE): NDArray = NDArray.scalarInto(NDArrayOps.modScalar, operand, other)

  /** 1 where an element is greater than that of `other`, which has the same shape, else 0. */
  def >(other: NDArray): NDArray = NDArray.greater(operand, other)

  /** 1 where an element is greater than a number, else 0. */
  def >(other: MX_PRIMITIVE_TYPE): NDArray = NDArray.greater(operand, other)

  /** 1 where an element is greater than or equal to that of `other`, which has the same shape, else 0. */
  def >=(other: NDArray): NDArray = NDArray.greaterEqual(operand, other)

  /** 1 where an element is greater than or equal to a number, else 0. */
  def >=(other: MX_PRIMITIVE_TYPE): NDArray = NDArray.greaterEqual(operand, other)

  /** 1 where an element is less than that of `other`, which has the same shape, else 0. */
  def <(other: NDArray): NDArray = NDArray.lesser(operand, other)

  /** 1 where an element is less than a number, else 0. */
  def <(other: MX_PRIMITIVE_TYPE): NDArray = NDArray.lesser(operand, other)

  /** 1 where an element is less than or equal to that of `other`, which has the same shape, else 0. */
  def <=(other: NDArray): NDArray = NDArray.lesserEqual(operand, other)

  /** 1 where an element is less than or equal to a number, else 0. */
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
