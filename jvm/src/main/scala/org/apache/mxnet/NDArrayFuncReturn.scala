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

  // The methods of the first output; see NDArray.
  def isDisposed: Boolean = head.isDisposed
  def serialize(): Array[Byte] = head.serialize()
  def dispose(): Unit = head.dispose()
  def disposeDeps(): NDArray = head.disposeDeps()
  def disposeDepsExcept(arrs: NDArray*): NDArray = head.disposeDepsExcept(arrs: _*)
  def slice(start: Int, stop: Int): NDArray = head.slice(start, stop)
  def slice(range: (Int, Int)): NDArray = head.slice(range)
  def slice(i: Int): NDArray = head.slice(i)
  def at(idx: Int): NDArray = head.at(idx)
  def T: NDArray = head.T
  def dtype: DType.DType = head.dtype
  def asType(dtype: DType.DType): NDArray = head.asType(dtype)
  def reshape(dims: Array[Int]): NDArray = head.reshape(dims)
  def reshape(dims: Shape): NDArray = head.reshape(dims)
  def waitToRead(): Unit = head.waitToRead()
  def context: Context = head.context
  def set(value: Float): NDArray = head.set(value)
  def set(value: Double): NDArray = head.set(value)
  def set(other: NDArray): NDArray = head.set(other)
  def set(other: Array[Float]): NDArray = head.set(other)
  def set(other: Array[Double]): NDArray = head.set(other)
  def toArray: Array[Float] = head.toArray
  def toFloat64Array: Array[Double] = head.toFloat64Array
  def toScalar: Float = head.toScalar
  def toFloat64Scalar: Double = head.toFloat64Scalar
  def copyTo(other: NDArray): NDArray = head.copyTo(other)
  def copyTo(ctx: Context): NDArray = head.copyTo(ctx)
  def copy(): NDArray = head.copy()
  def shape: Shape = head.shape
  def size: Int = head.size
  def asInContext(context: Context): NDArray = head.asInContext(context)

  override def toString: String = arr.mkString("\n")
}
