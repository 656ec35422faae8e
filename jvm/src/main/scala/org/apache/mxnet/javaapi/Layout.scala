package org.apache.mxnet.javaapi

/** Names of the order of an array's axes, for Java: N batch, C channels, H height, W width, T time. */
object Layout {

  /** No layout: the first axis is the batch. */
  val UNDEFINED: String = org.apache.mxnet.Layout.UNDEFINED

  /** Batch, channels, height, width: images. */
  val NCHW: String = org.apache.mxnet.Layout.NCHW

  /** Batch, time, channels: sequences of vectors. */
  val NTC: String = org.apache.mxnet.Layout.NTC

  /** Batch, time: sequences of numbers. */
  val NT: String = org.apache.mxnet.Layout.NT

  /** Batch only: a number for each instance. */
  val N: String = org.apache.mxnet.Layout.N
}
