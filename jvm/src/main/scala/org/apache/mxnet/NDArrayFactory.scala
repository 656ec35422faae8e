package org.apache.mxnet

import scala.collection.mutable.ArrayBuffer

import org.apache.mxnet.Base.{_LIB, NDArrayHandle}
import org.apache.mxnet.DType.DType
import org.apache.mxnet.NativeResource.keepAlive
import org.apache.mxnet.internal.operators.{NDArrayOps, NativeOp}
import org.apache.mxnet.internal.util.NullChecks.{requireNonNull, requireValue}

/** Creates arrays from shapes, Java arrays, other arrays, files and bytes.
  *
  * A context that is absent or null is [[Context.defaultCtx]]. The default element type is float32. A dimension may be 0.
  */
trait NDArrayFactory {

  /** An array whose elements are arbitrary until they are set. */
  def empty(shape: Shape, ctx: Context = null, dtype: DType = Base.MX_REAL_TYPE): NDArray = {
    requireValue("NDArray.empty", "dtype", dtype)
    emptyOf(shape, ctx, dtype.id)
  }

  /** A float32 array whose elements are arbitrary until they are set. */
  def empty(shape: Shape): NDArray = emptyOf(shape, null, NDArrayFactory.float32Id)

  /** A float32 array whose elements are arbitrary until they are set. */
  def empty(shape: Int*): NDArray = emptyOf(Shape(shape: _*), null, NDArrayFactory.float32Id)

  /** A float32 array whose elements are arbitrary until they are set. */
  def empty(ctx: Context, shape: Int*): NDArray = emptyOf(Shape(shape: _*), ctx, NDArrayFactory.float32Id)

  /** An array of zeros. */
  def zeros(shape: Shape, ctx: Context = null, dtype: DType = Base.MX_REAL_TYPE): NDArray =
    create("NDArray.zeros", NDArrayOps.zeros, shape, ctx, nameOf("NDArray.zeros", dtype))

  /** A float32 array of zeros. */
  def zeros(shape: Shape): NDArray = zerosOf(shape, null)

  /** A float32 array of zeros. */
  def zeros(shape: Int*): NDArray = zerosOf(Shape(shape: _*), null)

  /** A float32 array of zeros. */
  def zeros(ctx: Context, shape: Int*): NDArray = zerosOf(Shape(shape: _*), ctx)

  // As in `Shape`: without a sequence for the arguments, a program starts earlier.

  /** A float32 vector of zeros. */
  def zeros(length: Int): NDArray = zerosOf(Shape(length), null)

  /** A float32 matrix of zeros. */
  def zeros(rows: Int, columns: Int): NDArray = zerosOf(Shape(rows, columns), null)

  /** A float32 array of zeros with three axes, outermost first. */
  def zeros(dim0: Int, dim1: Int, dim2: Int): NDArray = zerosOf(Shape(dim0, dim1, dim2), null)

  /** A float32 array of zeros with four axes, outermost first. */
  def zeros(dim0: Int, dim1: Int, dim2: Int, dim3: Int): NDArray = zerosOf(Shape(dim0, dim1, dim2, dim3), null)

  private def zerosOf(shape: Shape, ctx: Context): NDArray =
    create("NDArray.zeros", NDArrayOps.zeros, shape, ctx, NDArrayFactory.float32)

  /** An array of ones. */
  def ones(shape: Shape, ctx: Context = null, dtype: DType = Base.MX_REAL_TYPE): NDArray =
    create("NDArray.ones", NDArrayOps.ones, shape, ctx, nameOf("NDArray.ones", dtype))

  /** A float32 array of ones. */
  def ones(shape: Shape): NDArray = onesOf(shape, null)

  /** A float32 array of ones. */
  def ones(shape: Int*): NDArray = onesOf(Shape(shape: _*), null)

  /** A float32 array of ones. */
  def ones(ctx: Context, shape: Int*): NDArray = onesOf(Shape(shape: _*), ctx)

  // As in `Shape`: without a sequence for the arguments, a program starts earlier.

  /** A float32 vector of ones. */
  def ones(length: Int): NDArray = onesOf(Shape(length), null)

  /** A float32 matrix of ones. */
  def ones(rows: Int, columns: Int): NDArray = onesOf(Shape(rows, columns), null)

  /** A float32 array of ones with three axes, outermost first. */
  def ones(dim0: Int, dim1: Int, dim2: Int): NDArray = onesOf(Shape(dim0, dim1, dim2), null)

  /** A float32 array of ones with four axes, outermost first. */
  def ones(dim0: Int, dim1: Int, dim2: Int, dim3: Int): NDArray = onesOf(Shape(dim0, dim1, dim2, dim3), null)

  private def onesOf(shape: Shape, ctx: Context): NDArray =
    create("NDArray.ones", NDArrayOps.ones, shape, ctx, NDArrayFactory.float32)

  /** A float32 array filled with a value. */
  def full(shape: Shape, value: Float, ctx: Context = null): NDArray =
    create("NDArray.full", NDArrayOps.fill, shape, ctx, NDArrayFactory.float32, NativeOp.render(value))

  // Scala prefers overloads without default arguments: without this one, it would choose that for `Double`.
  /** A float32 array filled with a value. */
  def full(shape: Shape, value: Float): NDArray = full(shape, value, null)

  /** A float64 array filled with a value. */
  def full(shape: Shape, value: Double, ctx: Context): NDArray =
    create("NDArray.full", NDArrayOps.fill, shape, ctx, NDArrayFactory.float64, NativeOp.render(value))

  /** A float64 array filled with a value. */
  def full(shape: Shape, value: Double): NDArray = full(shape, value, null)

  /** A float32 array of the given elements.
    *
    * @param sourceArr the elements in row-major order
    * @throws MXNetError unless there are as many elements as the shape has
    */
  def array(sourceArr: Array[Float], shape: Shape, ctx: Context = null): NDArray = {
    requireValue("NDArray.array", "sourceArr", sourceArr)
    emptyOf(shape, ctx, NDArrayFactory.float32Id).set(sourceArr)
  }

  /** A float64 array of the given elements.
    *
    * @param sourceArr the elements in row-major order
    * @throws MXNetError unless there are as many elements as the shape has
    */
  def array(sourceArr: Array[Double], shape: Shape, ctx: Context): NDArray = {
    requireValue("NDArray.array", "sourceArr", sourceArr)
    empty(shape, ctx, DType.Float64).set(sourceArr)
  }

  /** A float64 array of the given elements, in row-major order. */
  def array(sourceArr: Array[Double], shape: Shape): NDArray = array(sourceArr, shape, null)

  /** An array from nested Java arrays of `Float` (float32) or `Double` (float64), whose rows have equal lengths. */
  def toNDArray(sourceArr: Array[_], ctx: Context = null): NDArray = NDArrayFactory.toNDArray(sourceArr, ctx)

  /** The numbers `start until stop by step` (`0 until start` without `stop`), each repeated `repeat` times. */
  def arange(
      start: Float,
      stop: Option[Float] = None,
      step: Float = 1.0f,
      repeat: Int = 1,
      ctx: Context = null,
      dType: DType = Base.MX_REAL_TYPE
  ): NDArray = NDArrayFactory.arange(start, stop, step, repeat, ctx, dType)

  /** Concatenates arrays along an axis. Their other dimensions must be equal.
    *
    * @param arrays at least one array
    * @param axis the axis; negative ones count from the last
    * @param alwaysCopy if false, a single array is returned itself
    */
  def concatenate(arrays: Seq[NDArray], axis: Int = 0, alwaysCopy: Boolean = true): NDArray =
    NDArrayFactory.concatenate(arrays, axis, alwaysCopy)

  /** Concatenates arrays along the first axis. */
  def concatenate(arrays: NDArray*): NDArray = NDArrayFactory.concatenate(arrays, axis = 0, alwaysCopy = true)

  /** Reads a file that [[save]] or MXNet wrote, usually `*.params`.
    *
    * @throws MXNetError if the file is missing or damaged
    * @return names and arrays; no names if the file was saved without
    */
  def load(fname: String): (Array[String], Array[NDArray]) = NDArrayFactory.load(fname)

  /** Reads a `.params` file that was saved with names. */
  def load2Map(fname: String): Map[String, NDArray] = NDArrayFactory.load2Map(fname)

  /** Reads the arrays of a `.params` file, with or without names. */
  def load2Array(fname: String): Array[NDArray] = load(fname)._2

  /** Writes a `.params` file with names. */
  def save(fname: String, data: Map[String, NDArray]): Unit = NDArrayFactory.save(fname, data)

  /** Writes a `.params` file without names. */
  def save(fname: String, data: Iterable[NDArray]): Unit = NDArrayFactory.save(fname, data)

  /** Reads what [[NDArray.serialize]] wrote. */
  def deserialize(bytes: Array[Byte]): NDArray = NDArray.fromHandle(_LIB.ndarrayLoadFromRawBytes(bytes))

  // The default type is given by its code or name, because the first use of `DType` loads many classes.

  private def emptyOf(shape: Shape, ctx: Context, dtypeId: Int): NDArray = {
    requireShape("NDArray.empty", shape)
    val device = orDefault(ctx)
    ofShape(_LIB.ndarrayCreate(shape.toLongs, device.deviceTypeid, device.deviceId, delayAlloc = false, dtypeId), shape)
  }

  /** The result of an operator without inputs; `value` is the parameter of this name, or null. */
  private def create(
      owner: String,
      op: NativeOp,
      shape: Shape,
      ctx: Context,
      dtype: String,
      value: String = null
  ): NDArray = {
    requireShape(owner, shape)
    val dims = shape.toString
    val device = orDefault(ctx).toString
    val keys = if (value == null) Array("shape", "ctx", "dtype") else Array("shape", "ctx", "dtype", "value")
    val values = if (value == null) Array(dims, device, dtype) else Array(dims, device, dtype, value)
    ofShape(_LIB.imperativeInvoke(op.handle, new Array[Long](0), null, keys, values)(0), shape)
  }

  private def ofShape(handle: NDArrayHandle, shape: Shape): NDArray = {
    val array = new NDArray(handle)
    if (shape.isKnown) array.knownShape = shape
    array
  }

  private def nameOf(owner: String, dtype: DType): String = {
    requireValue(owner, "dtype", dtype)
    dtype.toString
  }

  private def requireShape(owner: String, shape: Shape): Unit = {
    requireValue(owner, "shape", shape)
    if (shape.isNegative) throw new MXNetError(s"$owner: the shape $shape has a negative dimension; give lengths")
  }

  private def orDefault(ctx: Context): Context = if (ctx == null) Context.defaultCtx else ctx
}

/** What needs collections. The first array of a program does not load these methods; see `Shape`. */
private object NDArrayFactory {
  final val float32 = "float32"
  final val float64 = "float64"

  /** The code of float32. */
  final val float32Id = 0

  private def orDefault(ctx: Context): Context = if (ctx == null) Context.defaultCtx else ctx

  def toNDArray(sourceArr: Array[_], ctx: Context): NDArray = {
    val dims = ArrayBuffer.empty[Int]
    def measure(value: Any): Unit = value match {
      case items: Array[_] =>
        if (items.isEmpty)
          throw new MXNetError("NDArray.toNDArray: an empty nested array has no shape; give at least one element")
        dims += items.length
        measure(items(0))
      case _: Float | _: Double =>
      case other => throw new MXNetError(s"NDArray.toNDArray: elements must be Float or Double, not ${typeName(other)}")
    }
    measure(sourceArr)
    val isDouble = leaf(sourceArr).isInstanceOf[Double]
    val values = new Array[Double](dims.foldLeft(1)(Math.multiplyExact(_, _)))
    var next = 0
    def fill(value: Any, axis: Int): Unit = value match {
      case items: Array[_] if axis < dims.length && items.length == dims(axis) =>
        items.foreach(fill(_, axis + 1))
      case number: Number if axis == dims.length && number.isInstanceOf[java.lang.Double] == isDouble =>
        values(next) = number.doubleValue
        next += 1
      case other =>
        throw new MXNetError(
          s"NDArray.toNDArray: the elements at depth $axis differ: the first ones have the shape ${Shape(dims)}, but " +
            s"one is ${typeName(other)}"
        )
    }
    fill(sourceArr, 0)
    NDArray.empty(Shape(dims), ctx, if (isDouble) DType.Float64 else DType.Float32).set(values)
  }

  private def leaf(value: Any): Any = value match {
    case items: Array[_] => leaf(items(0))
    case other           => other
  }

  private def typeName(value: Any): String = value match {
    case null            => "null"
    case items: Array[_] => s"an array of ${items.length}"
    case other           => other.getClass.getSimpleName
  }

  def arange(
      start: Float,
      stop: Option[Float],
      step: Float,
      repeat: Int,
      ctx: Context,
      dType: DType
  ): NDArray = {
    requireNonNull("NDArray.arange", "stop" -> stop)
    val params = Seq("start" -> start, "step" -> step, "repeat" -> repeat, "ctx" -> orDefault(ctx), "dtype" -> dType)
    NDArray.invoke(NDArrayOps.arange, Array.empty, null, params ++ stop.map("stop" -> _)).head
  }

  def concatenate(arrays: Seq[NDArray], axis: Int, alwaysCopy: Boolean): NDArray = {
    requireNonNull("NDArray.concatenate", "arrays" -> arrays)
    if (arrays.isEmpty) throw new MXNetError("NDArray.concatenate: the list of arrays is empty; give at least one")
    if (arrays.length == 1 && !alwaysCopy) arrays.head
    else
      NDArray.invoke(NDArrayOps.concat, arrays.toArray, null, Seq("num_args" -> arrays.length, "dim" -> axis)).head
  }

  def load(fname: String): (Array[String], Array[NDArray]) = load(fname, isMapped = false)

  /** @param isMapped see `LibInfo.ndarrayLoad` */
  def load(fname: String, isMapped: Boolean): (Array[String], Array[NDArray]) = {
    val loaded = _LIB.ndarrayLoad(fname, isMapped)
    (loaded.names, loaded.handles.map(NDArray.fromHandle(_)))
  }

  def load2Map(fname: String): Map[String, NDArray] = {
    val (names, arrays) = load(fname)
    if (names.length != arrays.length)
      throw new MXNetError(s"NDArray.load2Map: the ${arrays.length} arrays in '$fname' have no names; use load2Array")
    names.zip(arrays).toMap
  }

  def save(fname: String, data: Map[String, NDArray]): Unit = {
    requireNonNull("NDArray.save", "fname" -> fname, "data" -> data)
    val (names, arrays) = data.toArray.unzip
    _LIB.ndarraySave(fname, arrays.map(_.liveHandle), names)
    keepAlive(arrays)
  }

  def save(fname: String, data: Iterable[NDArray]): Unit = {
    requireNonNull("NDArray.save", "fname" -> fname, "data" -> data)
    val arrays = data.toArray
    requireNonNull("NDArray.save", "data" -> arrays)
    _LIB.ndarraySave(fname, arrays.map(_.liveHandle), null)
    keepAlive(arrays)
  }
}
