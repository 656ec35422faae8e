package org.apache.mxnet

/** The outputs of a generated array function, in order. It converts implicitly to its first output.
  *
  * @param arr the outputs
  */
class NDArrayFuncReturn private[mxnet] (private[mxnet] val arr: Array[NDArray]) extends NDArrayArithmetic {
  private[mxnet] override def operand: NDArray = head

  /** The first output. */
  def head: NDArray = apply(0)

  /** The only output; more outputs are an error. */
  def get: NDArray = {
    if (arr.length != 1)
      throw new MXNetError(s"NDArrayFuncReturn: get needs exactly one output, there are ${arr.length}; use apply(i)")
    arr(0)
  }

  /** Output `i`. */
  def apply(i: Int): NDArray = {
    if (arr == null || i < 0 || i >= arr.length)
      throw new MXNetError(s"NDArrayFuncReturn: there is no output $i, there are ${if (arr == null) 0 else arr.length}")
    arr(i)
  }

  /** Whether the first output was disposed. */
  def isDisposed: Boolean = head.isDisposed

  /** The first output in MXNet's raw byte format. */
  def serialize(): Array[Byte] = head.serialize()

  /** Disposes the first output. */
  def dispose(): Unit = head.dispose()

  /** As [[NDArray.disposeDeps]] of the first output. */
  def disposeDeps(): NDArray = head.disposeDeps()

  /** As [[NDArray.disposeDepsExcept]] of the first output. */
  def disposeDepsExcept(arrs: NDArray*): NDArray = head.disposeDepsExcept(arrs: _*)

  /** Rows `start until stop` of the first output, as a view. */
  def slice(start: Int, stop: Int): NDArray = head.slice(start, stop)

  /** Rows `range._1 until range._2` of the first output, as a view. */
  def slice(range: (Int, Int)): NDArray = head.slice(range)

  /** Row `i` of the first output as a view that keeps the first axis. */
  def slice(i: Int): NDArray = head.slice(i)

  /** Row `idx` of the first output as a view without the first axis. */
  def at(idx: Int): NDArray = head.at(idx)

  /** The transpose of the first output, which must be a matrix. */
  def T: NDArray = head.T

  /** The element type of the first output. */
  def dtype: DType.DType = head.dtype

  /** The first output with another element type. */
  def asType(dtype: DType.DType): NDArray = head.asType(dtype)

  /** The first output as a view of another shape. */
  def reshape(dims: Array[Int]): NDArray = head.reshape(dims)

  /** The first output as a view of another shape. */
  def reshape(dims: Shape): NDArray = head.reshape(dims)

  /** Waits until the operations that write the first output are done. */
  def waitToRead(): Unit = head.waitToRead()

  /** The device of the first output. */
  def context: Context = head.context

  /** Sets every element of the first output. */
  def set(value: Float): NDArray = head.set(value)

  /** Sets every element of the first output. */
  def set(value: Double): NDArray = head.set(value)

  /** Copies the elements of an array of the same shape to the first output. */
  def set(other: NDArray): NDArray = head.set(other)

  /** Sets all elements of the first output, in row-major order. */
  def set(other: Array[Float]): NDArray = head.set(other)

  /** Sets all elements of the first output, in row-major order. */
  def set(other: Array[Double]): NDArray = head.set(other)

  /** The elements of the first output in row-major order, as 32-bit numbers. */
  def toArray: Array[Float] = head.toArray

  /** The elements of the first output in row-major order, as 64-bit numbers. */
  def toFloat64Array: Array[Double] = head.toFloat64Array

  /** The only element of the first output, whose shape must be (1). */
  def toScalar: Float = head.toScalar

  /** As [[toScalar]], as a 64-bit number. */
  def toFloat64Scalar: Double = head.toFloat64Scalar

  /** Copies the first output to an array of the same shape, which is returned. */
  def copyTo(other: NDArray): NDArray = head.copyTo(other)

  /** A copy of the first output on a device. */
  def copyTo(ctx: Context): NDArray = head.copyTo(ctx)

  /** A copy of the first output. */
  def copy(): NDArray = head.copy()

  /** The dimensions of the first output. */
  def shape: Shape = head.shape

  /** The number of elements of the first output. */
  def size: Int = head.size

  /** The first output itself if it is on the device, else a copy on it. */
  def asInContext(context: Context): NDArray = head.asInContext(context)

  override def toString: String = arr.mkString("\n")
}
