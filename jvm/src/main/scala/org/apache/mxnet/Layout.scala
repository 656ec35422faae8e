package org.apache.mxnet

/** Names of the order of an array's axes: N batch, C channel, H height, W width, T time. */
object Layout {

  /** An unspecified layout. */
  val UNDEFINED: String = "__undef__"

  /** Images. */
  val NCHW: String = "NCHW"

  /** Sequences of vectors. */
  val NTC: String = "NTC"

  /** Sequences of numbers. */
  val NT: String = "NT"

  /** One number for each example. */
  val N: String = "N"
}
