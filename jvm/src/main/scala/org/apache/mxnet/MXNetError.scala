package org.apache.mxnet

/** What the engine or this library reports when it cannot do what was asked: a wrong shape, type, name, handle or file.
  *
  * @param err the message: what was given, what was expected, and what to do
  */
class MXNetError(val err: String) extends RuntimeException(err)
