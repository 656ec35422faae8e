package org.apache.mxnet.contrib

import org.apache.mxnet.{AddNDArrayAPIs, AddNDArrayFunctions}

/** Operators over arrays in their untyped form, `_contrib_` ones included; `api` has the typesafe ones. Generated while
  * this file is compiled.
  */
@AddNDArrayFunctions(true)
object NDArray extends NDArrayBase {

  /** The typesafe `_contrib_` operators, without that prefix. */
  val api: NDArrayAPI.type = NDArrayAPI
}

/** Typesafe `_contrib_` operators over arrays: `contrib.NDArray.api._`. Generated while this file is compiled. */
@AddNDArrayAPIs(true)
object NDArrayAPI extends NDArrayAPIBase
