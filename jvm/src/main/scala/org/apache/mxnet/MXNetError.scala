package org.apache.mxnet

/** What the engine or this library reports when it cannot do what was asked: a wrong shape, type, name, handle or file.
  *
  * @param err the message: what was given, what was expected, and what to do
  * @param cause what the program's own code threw, if the engine called it
  */
class MXNetError(val err: String, cause: Throwable) extends RuntimeException(err, cause) {
  def this(err: String) = this(err, null)
}
