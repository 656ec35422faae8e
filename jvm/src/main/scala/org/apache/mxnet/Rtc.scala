package org.apache.mxnet

/** A CUDA kernel that is compiled at run time. This library has no CUDA backend, so creating one is an error. Define an
  * operator instead; see [[UserDefinedCustomOp]].
  *
  * @param name the kernel's name
  * @param inputs names and examples of the inputs
  * @param outputs names and examples of the outputs
  * @param kernel the body of the kernel
  */
class Rtc(name: String, inputs: Array[(String, NDArray)], outputs: Array[(String, NDArray)], kernel: String) {
  private def unsupported(): Nothing = throw new MXNetError(
    s"Rtc: the kernel '$name' (${inputs.length} inputs, ${outputs.length} outputs, ${kernel.length} characters) needs " +
      "a CUDA device, but this library runs on CPUs; write it as a CustomOp"
  )

  unsupported()

  /** Runs the kernel. */
  def push(ins: Array[NDArray], outs: Array[NDArray], gridDims: (Int, Int, Int), blockDims: (Int, Int, Int)): Unit =
    unsupported()

  /** Frees the kernel. */
  def dispose(): Unit = ()
}
