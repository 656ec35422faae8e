package org.apache.mxnet.contrib

import org.apache.mxnet.{AddSymbolAPIs, AddSymbolFunctions}

/** Operators over symbols in their untyped form, `_contrib_` ones included; `api` has the typesafe ones. Generated while
  * this file is compiled.
  */
@AddSymbolFunctions(true)
object Symbol extends SymbolBase {

  /** The typesafe `_contrib_` operators, without that prefix. */
  val api: SymbolAPI.type = SymbolAPI
}

/** Typesafe `_contrib_` operators over symbols: `contrib.Symbol.api._`. Generated while this file is compiled. */
@AddSymbolAPIs(true)
object SymbolAPI extends SymbolAPIBase
