package org.apache.mxnet

/** Typesafe array API: `NDArray.api._`. Its functions are generated while this file is compiled. */
@AddNDArrayAPIs(false)
object NDArrayAPI extends NDArrayAPIBase
