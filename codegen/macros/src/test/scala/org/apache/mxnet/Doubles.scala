package org.apache.mxnet

import scala.language.implicitConversions

/** Test doubles of the library for generated code: symbols and results that record their call. */
final case class Call(
    operator: String,
    name: String,
    attr: Map[String, String],
    positional: Seq[Any],
    named: Map[String, Any]
)

class Symbol(val call: Call)

@AddSymbolFunctions(false)
object Symbol extends SymbolBase {
  val api: SymbolAPI.type = SymbolAPI
  val random: SymbolRandomAPI.type = SymbolRandomAPI

  def variable(name: String): Symbol = new Symbol(Call("variable", name, Map.empty, Nil, Map.empty))

  def createSymbolGeneral(
      operator: String,
      name: String,
      attr: Map[String, String],
      symbols: Seq[Symbol],
      kwargs: Map[String, Any]
  ): Symbol = new Symbol(Call(operator, name, attr, symbols, kwargs))
}

class NDArray

@AddNDArrayFunctions(false)
object NDArray extends NDArrayBase {
  val api: NDArrayAPI.type = NDArrayAPI
  val random: NDArrayRandomAPI.type = NDArrayRandomAPI

  def genericNDArrayFunctionInvoke(funcName: String, args: Seq[Any], kwargs: Map[String, Any]): NDArrayFuncReturn =
    new NDArrayFuncReturn(Call(funcName, null, null, args, kwargs))

  implicit def getFirstResult(result: NDArrayFuncReturn): NDArray = result.first
}

class NDArrayFuncReturn(val call: Call) {
  val first: NDArray = new NDArray
}

class Shape(val dims: Int*)

object Shape {
  def apply(dims: Int*): Shape = new Shape(dims: _*)
}

object Base {
  type MXFloat = Float
}

package internal.operators {

  /** None of the operators here has an argument that accepts None and has another default. */
  object NativeOp {
    def apply(name: String): NativeOp.type = this

    def acceptsNonDefaultNone(argument: String): Boolean = false
  }
}

package javaapi {
  class NDArray

  class Shape(val dims: Int*)
}
