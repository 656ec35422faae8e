package org.apache.mxnet

/** Random arrays: `NDArray.random._`. Its functions are generated while this file is compiled. */
@AddNDArrayRandomAPIs(false)
object NDArrayRandomAPI extends NDArrayRandomAPIBase
