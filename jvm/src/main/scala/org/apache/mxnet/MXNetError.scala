package org.apache.mxnet

/** An error of the engine or this library, such as an invalid shape, type, name, handle or file. It is an
  * `IllegalArgumentException`, because MXNet's Scala package throws that for many wrong arguments.
  *
  * @param err the message: what was given, what was expected, and what to do
  * @param cause the exception of a callback or user-defined operator, if one caused the error
  */
class MXNetError(val err: String, cause: Throwable) extends IllegalArgumentException(err, cause) {
  def this(err: String) = this(err, null)
}
