package org.apache.mxnet

import scala.language.implicitConversions

/** A number on the left-hand side of arithmetic with a symbol, as in `1 - symbol`.
  *
  * @param value the number
  */
class SymbolConversions[V](val value: V) {
  def +(other: Symbol): Symbol = other + value
  def -(other: Symbol): Symbol = Symbol.scalar("_RMinusScalar", other, value)
  def *(other: Symbol): Symbol = other * value
  def /(other: Symbol): Symbol = Symbol.scalar("_RDivScalar", other, value)
  def **(other: Symbol): Symbol = Symbol.pow(value, other)
  def >(other: Symbol): Symbol = Symbol.greater(value, other)
  def >=(other: Symbol): Symbol = Symbol.greaterEqual(value, other)
  def <(other: Symbol): Symbol = Symbol.lesser(value, other)
  def <=(other: Symbol): Symbol = Symbol.lesserEqual(value, other)
  def %(other: Symbol): Symbol = Symbol.scalar("_RModScalar", other, value)
}

object SymbolConversions {
  implicit def int2Scalar(x: Int): SymbolConversions[Int] = new SymbolConversions(x)
  implicit def double2Scalar(x: Double): SymbolConversions[Double] = new SymbolConversions(x)
  implicit def float2Scalar(x: Float): SymbolConversions[Float] = new SymbolConversions(x)
}
