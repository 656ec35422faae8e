package org.apache.mxnet

import org.apache.mxnet.DType.DType
import org.apache.mxnet.internal.operators.NativeOp
import org.apache.mxnet.internal.util.NullChecks.requireNonNull

/** Element-wise functions of two symbols, or of a symbol and a number, and symbols of constants. */
trait SymbolFunctions {

  private[mxnet] def binary(operator: String, left: Symbol, right: Symbol): Symbol =
    Symbol.createFromListedSymbols(operator)(Array(left, right))

  private[mxnet] def scalar[V](operator: String, symbol: Symbol, value: V): Symbol = {
    value match {
      case _: Float | _: Double | _: Int | _: Long | _: Short | _: Byte | _: MX_PRIMITIVES.MX_PRIMITIVE_TYPE =>
      case other                                                                                             =>
        val kind = if (other == null) "null" else other.getClass.getName
        throw new MXNetError(s"$operator: the operand must be a Symbol or a number, it is $kind")
    }
    Symbol.createFromListedSymbols(operator)(Array(symbol), Map("scalar" -> NativeOp.render(value)))
  }

  /** `sym1` to the power of `sym2`. */
  def pow(sym1: Symbol, sym2: Symbol): Symbol = binary("_Power", sym1, sym2)
  def pow[V](sym: Symbol, number: V): Symbol = scalar("_PowerScalar", sym, number)
  def pow[V](number: V, sym: Symbol): Symbol = scalar("_RPowerScalar", sym, number)

  /** The greater of both. */
  def max(left: Symbol, right: Symbol): Symbol = binary("_Maximum", left, right)
  def max[V](left: Symbol, right: V): Symbol = scalar("_MaximumScalar", left, right)
  def max[V](left: V, right: Symbol): Symbol = scalar("_MaximumScalar", right, left)

  /** The lesser of both. */
  def min(left: Symbol, right: Symbol): Symbol = binary("_Minimum", left, right)
  def min[V](left: Symbol, right: V): Symbol = scalar("_MinimumScalar", left, right)
  def min[V](left: V, right: Symbol): Symbol = scalar("_MinimumScalar", right, left)

  /** 1 where the elements are equal, 0 elsewhere. */
  def equal(left: Symbol, right: Symbol): Symbol = binary("_equal", left, right)
  def equal[V](left: Symbol, right: V): Symbol = scalar("_equal_scalar", left, right)
  def equal[V](left: V, right: Symbol): Symbol = scalar("_equal_scalar", right, left)

  /** 1 where the elements differ, 0 elsewhere. */
  def notEqual(left: Symbol, right: Symbol): Symbol = binary("_not_equal", left, right)
  def notEqual[V](left: Symbol, right: V): Symbol = scalar("_not_equal_scalar", left, right)
  def notEqual[V](left: V, right: Symbol): Symbol = scalar("_not_equal_scalar", right, left)

  /** 1 where `left` is greater, 0 elsewhere. */
  def greater(left: Symbol, right: Symbol): Symbol = binary("_greater", left, right)
  def greater[V](left: Symbol, right: V): Symbol = scalar("_greater_scalar", left, right)
  def greater[V](left: V, right: Symbol): Symbol = scalar("_lesser_scalar", right, left)

  /** 1 where `left` is greater or equal, 0 elsewhere. */
  def greaterEqual(left: Symbol, right: Symbol): Symbol = binary("_greater_equal", left, right)
  def greaterEqual[V](left: Symbol, right: V): Symbol = scalar("_greater_equal_scalar", left, right)
  def greaterEqual[V](left: V, right: Symbol): Symbol = scalar("_lesser_equal_scalar", right, left)

  /** 1 where `left` is less, 0 elsewhere. */
  def lesser(left: Symbol, right: Symbol): Symbol = binary("_lesser", left, right)
  def lesser[V](left: Symbol, right: V): Symbol = scalar("_lesser_scalar", left, right)
  def lesser[V](left: V, right: Symbol): Symbol = scalar("_greater_scalar", right, left)

  /** 1 where `left` is less or equal, 0 elsewhere. */
  def lesserEqual(left: Symbol, right: Symbol): Symbol = binary("_lesser_equal", left, right)
  def lesserEqual[V](left: Symbol, right: V): Symbol = scalar("_lesser_equal_scalar", left, right)
  def lesserEqual[V](left: V, right: Symbol): Symbol = scalar("_greater_equal_scalar", right, left)

  /** An array of zeros. */
  def zeros(shape: Shape, dType: DType = Base.MX_REAL_TYPE, ctx: Context = null): Symbol =
    constant("_zeros", shape, dType, ctx)

  /** An array of ones. */
  def ones(shape: Shape, dType: DType = Base.MX_REAL_TYPE, ctx: Context = null): Symbol =
    constant("_ones", shape, dType, ctx)

  private def constant(operator: String, shape: Shape, dType: DType, ctx: Context): Symbol = {
    val params = Map[String, Any]("shape" -> shape, "dtype" -> dType) ++ Option(ctx).map("ctx" -> _)
    Symbol.createSymbolGeneral(operator, null, null, Nil, params)
  }

  /** The numbers `start until stop by step` (`0 until start` without `stop`), each repeated `repeat` times. */
  def arange(
      start: Float,
      stop: Option[Float] = None,
      step: Float = 1.0f,
      repeat: Int = 1,
      name: String = null,
      dType: DType = Base.MX_REAL_TYPE
  ): Symbol = arange(start, stop, step, repeat, infer_range = false, name, dType)

  /** @param infer_range whether to infer `stop` from the required shape */
  def arange(
      start: Float,
      stop: Option[Float],
      step: Float,
      repeat: Int,
      infer_range: Boolean,
      name: String,
      dType: DType
  ): Symbol = {
    requireNonNull("Symbol.arange", "stop" -> stop)
    val params = Map[String, Any](
      "start" -> start,
      "step" -> step,
      "repeat" -> repeat,
      "infer_range" -> infer_range,
      "dtype" -> dType
    )
    Symbol.createSymbolGeneral("_arange", name, null, Nil, params ++ stop.map("stop" -> _))
  }
}
