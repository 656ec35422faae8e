package org.apache.mxnet.javaapi

import java.util.{List => JList}

import scala.language.implicitConversions

import org.apache.mxnet.internal.memory.ResourceHolder
import org.apache.mxnet.javaapi.internal.JavaValues
import org.apache.mxnet.javaapi.internal.JavaValues.{device, dims, unwrapped}
import org.apache.mxnet.{MXNetError, NDArray => CoreArray}

/** Creates and compares arrays, for Java, and has every operator as a generated function. A function with the name of
  * an array's method is called through `NDArray$.MODULE$`.
  */
@AddJNDArrayAPIs(false)
object NDArray extends NDArrayBase with NDArrayFunctions {
  private val core = CoreArray

  implicit def fromNDArray(nd: CoreArray): NDArray = new NDArray(nd)

  implicit def toNDArray(jnd: NDArray): CoreArray = jnd.nd

  /** Waits until all operations are done. */
  def waitall(): Unit = core.waitall()

  /** Writes the one-hot encoding of `indices`, one row each, to `out` and returns `out`. */
  def onehotEncode(indices: NDArray, out: NDArray): NDArray = core.onehotEncode(unwrapped(indices), unwrapped(out))

  /** An uninitialized array. */
  def empty(shape: Shape, ctx: Context, dtype: DType.DType): NDArray = core.empty(dims(shape), device(ctx), dtype)

  /** An uninitialized float32 array. */
  def empty(ctx: Context, shape: Array[Int]): NDArray = empty(new Shape(shape), ctx, DType.Float32)

  /** An uninitialized float32 array. */
  def empty(ctx: Context, shape: JList[Integer]): NDArray = empty(new Shape(shape), ctx, DType.Float32)

  /** An array of zeros. */
  def zeros(shape: Shape, ctx: Context, dtype: DType.DType): NDArray = core.zeros(dims(shape), device(ctx), dtype)

  /** A float32 array of zeros. */
  def zeros(ctx: Context, shape: Array[Int]): NDArray = zeros(new Shape(shape), ctx, DType.Float32)

  /** A float32 array of zeros. */
  def zeros(ctx: Context, shape: JList[Integer]): NDArray = zeros(new Shape(shape), ctx, DType.Float32)

  /** An array of ones. */
  def ones(shape: Shape, ctx: Context, dtype: DType.DType): NDArray = core.ones(dims(shape), device(ctx), dtype)

  /** A float32 array of ones. */
  def ones(ctx: Context, shape: Array[Int]): NDArray = ones(new Shape(shape), ctx, DType.Float32)

  /** A float32 array of ones. */
  def ones(ctx: Context, shape: JList[Integer]): NDArray = ones(new Shape(shape), ctx, DType.Float32)

  /** An array filled with a 32-bit value. */
  def full(shape: Shape, value: Float, ctx: Context): NDArray = core.full(dims(shape), value, device(ctx))

  /** An array filled with a 64-bit value. */
  def full(shape: Shape, value: Double, ctx: Context): NDArray = core.full(dims(shape), value, device(ctx))

  /** An array of 32-bit numbers, given in row-major order. */
  def array(sourceArr: JList[java.lang.Float], shape: Shape, ctx: Context = null): NDArray =
    core.array(floats(sourceArr), dims(shape), device(ctx))

  /** An array of 64-bit numbers, given in row-major order. */
  def arrayWithDouble(sourceArr: JList[java.lang.Double], shape: Shape, ctx: Context = null): NDArray =
    core.array(JavaValues.converted("NDArray", "sourceArr", sourceArr)(_.doubleValue).toArray, dims(shape), device(ctx))

  /** The numbers `start until stop by step`, each repeated `repeat` times. */
  def arange(start: Float, stop: Float, step: Float, repeat: Int, ctx: Context, dType: DType.DType): NDArray =
    core.arange(start, Some(stop), step, repeat, device(ctx), dType)

  private[javaapi] def floats(values: JList[java.lang.Float]): Array[Float] =
    JavaValues.converted("NDArray", "sourceArr", values)(_.floatValue).toArray
}

/** A multi-dimensional array on a device, for Java. Its memory is outside the Java heap and freed by `close` or by
  * garbage collection.
  *
  * @param nd the corresponding array of the Scala API
  */
class NDArray private[mxnet] (val nd: CoreArray) extends NDArrayOperators with ResourceHolder with AutoCloseable {

  /** An array of 32-bit numbers, given in row-major order. */
  def this(arr: Array[Float], shape: Shape, ctx: Context) =
    this(CoreArray.array(arr, dims(shape), device(ctx)))

  /** An array of 64-bit numbers, given in row-major order. */
  def this(arr: Array[Double], shape: Shape, ctx: Context) =
    this(CoreArray.array(arr, dims(shape), device(ctx)))

  /** An array of 32-bit numbers, given in row-major order. */
  def this(arr: JList[java.lang.Float], shape: Shape, ctx: Context) = this(NDArray.floats(arr), shape, ctx)

  if (nd == null) throw new MXNetError("javaapi.NDArray: the array is null")

  override private[mxnet] def heldResources: Iterator[Any] = Iterator(nd)

  override def toString: String = nd.toString

  /** This array in MXNet's raw byte format. */
  def serialize(): Array[Byte] = nd.serialize()

  /** Frees the array. Using it afterwards is an error. */
  def dispose(): Unit = nd.dispose()

  override def close(): Unit = dispose()

  /** Disposes the arrays that this one was computed from; returns this array. */
  def disposeDeps(): NDArray = wrapped(nd.disposeDeps())

  /** Disposes the arrays that this one was computed from, except those given; returns this array. */
  def disposeDepsExcept(arr: Array[NDArray]): NDArray = wrapped(
    nd.disposeDepsExcept(JavaValues.arrays("NDArray.disposeDepsExcept", "arr", arr): _*)
  )

  /** Rows `start until stop` of the first axis, as a view. */
  def slice(start: Int, stop: Int): NDArray = nd.slice(start, stop)

  /** Row `i` as a view that keeps the first axis, with length 1. */
  def slice(i: Int): NDArray = nd.slice(i)

  /** Row `idx` as a view without the first axis. */
  def at(idx: Int): NDArray = nd.at(idx)

  /** The transpose of a matrix, as a copy. */
  def T: NDArray = nd.T

  /** The element type. */
  def dtype: DType.DType = nd.dtype

  /** A copy with another element type; this array itself if it has that type. */
  def asType(dtype: DType.DType): NDArray = nd.asType(dtype)

  /** A view of another shape, with the special values 0, -1, -2, -3 and -4 of the operator `Reshape`. */
  def reshape(dims: Array[Int]): NDArray = nd.reshape(dims)

  /** Waits until this array is computed. */
  def waitToRead(): Unit = nd.waitToRead()

  /** The device of this array. */
  def context: Context = nd.context

  /** Sets every element. */
  def set(value: Float): NDArray = wrapped(nd.set(value))

  /** Sets every element. */
  def set(value: Double): NDArray = wrapped(nd.set(value))

  /** Copies the elements of another array. */
  def set(other: NDArray): NDArray = wrapped(nd.set(unwrapped(other)))

  /** Sets all elements, in row-major order. */
  def set(other: Array[Float]): NDArray = wrapped(nd.set(other))

  /** Sets all elements, in row-major order. */
  def set(other: Array[Double]): NDArray = wrapped(nd.set(other))

  /** The elements as 32-bit numbers, in row-major order. */
  def toArray: Array[Float] = nd.toArray

  /** The elements as 64-bit numbers, in row-major order. */
  def toFloat64Array: Array[Double] = nd.toFloat64Array

  /** The only element. */
  def toScalar: Float = nd.toScalar

  /** The only element. */
  def toFloat64Scalar: Double = nd.toFloat64Scalar

  /** Copies the elements into `other`, converting their type; returns `other`. */
  def copyTo(other: NDArray): NDArray = nd.copyTo(unwrapped(other))

  /** A copy on a device. */
  def copyTo(ctx: Context): NDArray = nd.copyTo(device(ctx))

  /** A copy on the same device. */
  def copy(): NDArray = nd.copy()

  /** The dimensions. */
  def shape: Shape = nd.shape

  /** The number of elements. */
  def size: Int = nd.size

  /** This array if it is on the device, else a copy on it. */
  def asInContext(context: Context): NDArray = nd.asInContext(device(context))

  override def equals(obj: Any): Boolean = obj match {
    case that: NDArray => nd == that.nd
    case _             => false
  }

  override def hashCode(): Int = nd.hashCode

  /** This object if the result is its array, as of operations in place. */
  private[javaapi] override def wrapped(result: CoreArray): NDArray = if (result eq nd) this else result
}
