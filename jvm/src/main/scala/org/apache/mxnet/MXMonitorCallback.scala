package org.apache.mxnet

/** Receives the outputs of an executor's nodes, on the thread that runs the executor. */
trait MXMonitorCallback {

  /** @param name the output's name
    * @param arr a handle to the array, which belongs to the receiver
    */
  def invoke(name: String, arr: Base.NDArrayHandle): Unit
}
