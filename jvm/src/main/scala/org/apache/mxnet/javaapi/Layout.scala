package org.apache.mxnet.javaapi

/** What the axes of an array mean, for programs in Java: N batch, C channels, H height, W width, T time. */
object Layout {
  val UNDEFINED: String = org.apache.mxnet.Layout.UNDEFINED
  val NCHW: String = org.apache.mxnet.Layout.NCHW
  val NTC: String = org.apache.mxnet.Layout.NTC
  val NT: String = org.apache.mxnet.Layout.NT
  val N: String = org.apache.mxnet.Layout.N
}
