package org.apache.mxnet

import scala.collection.mutable

import org.apache.mxnet.internal.operators.OperatorCall

/** Typesafe symbol API: `Symbol.api._`. Its functions are generated while this file is compiled. */
@AddSymbolAPIs(false)
object SymbolAPI extends SymbolAPIBase {

  /** A user-defined operator.
    *
    * @param op_type the name that it is registered by
    * @param kwargs its inputs and parameters by name
    */
  def Custom(
      op_type: String,
      kwargs: mutable.Map[String, Any],
      name: Opt[String] = Opt.absent,
      attr: Opt[Map[String, String]] = Opt.absent
  ): Symbol =
    Symbol.createSymbolGeneral(
      "Custom",
      OperatorCall.name(name),
      OperatorCall.attributes(attr),
      Seq(),
      kwargs.toMap + ("op_type" -> op_type)
    )
}
