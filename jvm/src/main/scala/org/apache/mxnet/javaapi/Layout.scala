package org.apache.mxnet.javaapi

/** Names of the order of an array's axes, for Java: N batch, C channels, H height, W width, T time. */
object Layout {
  val UNDEFINED: String = org.apache.mxnet.Layout.UNDEFINED
  val NCHW: String = org.apache.mxnet.Layout.NCHW
  val NTC: String = org.apache.mxnet.Layout.NTC
  val NT: String = org.apache.mxnet.Layout.NT
  val N: String = org.apache.mxnet.Layout.N
}
