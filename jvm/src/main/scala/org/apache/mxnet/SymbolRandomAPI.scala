package org.apache.mxnet

/** Random symbols: `Symbol.random._`. Its functions are generated while this file is compiled. */
@AddSymbolRandomAPIs(false)
object SymbolRandomAPI extends SymbolRandomAPIBase
