package org.apache.mxnet

import java.util.{Collections, IdentityHashMap}

import scala.language.implicitConversions
import scala.ref.WeakReference

import org.apache.mxnet.Base.{_LIB, CPtrAddress, NDArrayHandle}
import org.apache.mxnet.DType.DType
import org.apache.mxnet.MX_PRIMITIVES.MX_PRIMITIVE_TYPE
import org.apache.mxnet.NativeResource.keepAlive
import org.apache.mxnet.SparseFormat.SparseFormat
import org.apache.mxnet.internal.memory.{MemoryPressure, NDArrayOrigin}
import org.apache.mxnet.internal.operators.{NDArrayCalls, NDArrayOps, NativeOp}
import org.apache.mxnet.internal.util.BufferConversion
import org.apache.mxnet.internal.util.NullChecks.{requireNonNull, requireValue}

/** Arrays on a device: creation, input and output, and every operator of the engine as a function. */
@AddNDArrayFunctions(false)
object NDArray extends NDArrayBase with NDArrayFactory with NDArrayFunctions with BufferConversion[NDArray] {

  /** The operators with typed parameters. */
  lazy val api: NDArrayAPI.type = NDArrayAPI

  /** Random arrays. */
  lazy val random: NDArrayRandomAPI.type = NDArrayRandomAPI

  /** Converts the result of a function to an array: its first output. */
  implicit def getFirstResult(ret: NDArrayFuncReturn): NDArray = {
    requireValue("NDArray", "the result of a function", ret)
    ret.head
  }

  /** Waits until all operations are done. */
  def waitall(): Unit = _LIB.ndarrayWaitAll()

  /** Writes the one-hot encoding of `indices`, one row each, to `out` and returns `out`. */
  def onehotEncode(indices: NDArray, out: NDArray): NDArray = {
    requireValue("NDArray.onehotEncode", "indices", indices)
    requireValue("NDArray.onehotEncode", "out", out)
    NDArrayCalls.onehotEncode(indices, out)
  }

  /** Runs an operator by name.
    *
    * @param funcName the operator's name or alias
    * @param args arrays (also in sequences, or results of other functions) are the operator's inputs; other values are
    *   bound, in order, to the arguments that are not arrays
    * @param kwargs parameters by name; `out` is the array, or the sequence of arrays, to write to
    */
  private[mxnet] def genericNDArrayFunctionInvoke(
      funcName: String,
      args: Seq[Any],
      kwargs: Map[String, Any] = null
  ): NDArrayFuncReturn = NDArrayCalls.byName(funcName, args, kwargs)

  private[mxnet] def withInputCount(op: NativeOp, count: Int, params: Seq[(String, Any)]): Seq[(String, Any)] =
    NDArrayCalls.withInputCount(op, count, params)

  /** Runs an operator.
    *
    * @param outputs the arrays to write to; null for new ones
    */
  private[mxnet] def invoke(
      op: NativeOp,
      inputs: Array[NDArray],
      outputs: Array[NDArray],
      params: Iterable[(String, Any)]
  ): NDArrayFuncReturn = NDArrayCalls.invoke(op, inputs, outputs, params)

  private def requireOperand(op: NativeOp, array: NDArray): NDArray = {
    if (array == null) throw new MXNetError(s"${op.name}: an operand is null; give an array")
    array
  }

  /** Creates an array of the class for its storage type. */
  private[mxnet] def fromHandle(handle: NDArrayHandle, writable: Boolean = true): NDArray =
    if (_LIB.ndarrayStorageType(handle) == SparseFormat.DEFAULT.id) new NDArray(handle, writable)
    else new SparseNDArray(handle, writable)

  private def result(handle: NDArrayHandle, inputs: Array[NDArrayOrigin], isSparse: Boolean): NDArray = {
    val array = if (isSparse) fromHandle(handle) else new NDArray(handle)
    array.inputs = inputs
    array
  }

  private[mxnet] def binary(op: NativeOp, lhs: NDArray, rhs: NDArray): NDArray = {
    val left = requireOperand(op, lhs).liveHandle
    val right = requireOperand(op, rhs).liveHandle
    val out = _LIB.imperativeInvokeBinary(op.handle, left, right, 0L)
    result(out, Array(lhs.origin, rhs.origin), lhs.isSparse || rhs.isSparse)
  }

  private[mxnet] def binaryInto(op: NativeOp, target: NDArray, other: NDArray): NDArray = {
    target.requireWritable(op)
    val handle = requireOperand(op, other).liveHandle
    _LIB.imperativeInvokeBinary(op.handle, target.liveHandle, handle, target.liveHandle)
    keepAlive(other)
    keepAlive(target)
    target
  }

  private[mxnet] def scalar(op: NativeOp, array: NDArray, value: MX_PRIMITIVE_TYPE): NDArray = {
    requireValue(op.name, "the operand", value)
    val out = _LIB.imperativeInvokeScalar(op.handle, requireOperand(op, array).liveHandle, value.toDouble, 0L)
    result(out, Array(array.origin), array.isSparse)
  }

  private[mxnet] def scalarInto(op: NativeOp, target: NDArray, value: MX_PRIMITIVE_TYPE): NDArray = {
    requireValue(op.name, "the operand", value)
    target.requireWritable(op)
    _LIB.imperativeInvokeScalar(op.handle, target.liveHandle, value.toDouble, target.liveHandle)
    keepAlive(target)
    target
  }

  // A class, because the JVM needs long to link the first function value of a program.
  private val free: CPtrAddress => Int = new (CPtrAddress => Int) {
    override def apply(handle: CPtrAddress): Int = {
      _LIB.ndarrayFree(handle)
      0
    }
  }
}

/** A multi-dimensional array on a device.
  *
  * An array refers to memory outside the Java heap; see [[NativeResource]] for when it is freed. Slices and reshaped
  * arrays share memory with the original array.
  *
  * @param handle the native array, which this object owns
  * @param writable whether operations may write to this array
  */
class NDArray private[mxnet] (
    private[mxnet] val handle: NDArrayHandle,
    val writable: Boolean = true,
    addToCollector: Boolean = true
) extends NativeResource
    with NDArrayArithmetic {

  override def nativeAddress: CPtrAddress = handle

  override def nativeDeAllocator: CPtrAddress => Int = NDArray.free

  override val ref: NativeResourceRef = register()

  override lazy val bytesAllocated: Long = DType.numOfBytes(dtype).toLong * size

  private[mxnet] var inputs: Array[NDArrayOrigin] = NDArrayOrigin.none
  private var ownOrigin: NDArrayOrigin = _
  private[mxnet] var knownShape: Shape = _
  private var knownDType: DType = _
  private var knownContext: Context = _

  if (addToCollector) NDArrayCollector.collectOne(this)
  MemoryPressure.arrayCreated()

  /** The handle for a native call. */
  private[mxnet] def liveHandle: NDArrayHandle = handleOf("NDArray")

  private[mxnet] override def detail: String = if (knownShape == null) "" else s" of shape $knownShape"

  private[mxnet] override def operand: NDArray = this

  /** The origin of this array, for arrays computed from it. */
  private[mxnet] def origin: NDArrayOrigin = {
    if (ownOrigin == null) ownOrigin = NDArrayOrigin(this, inputs)
    ownOrigin
  }

  /** The arrays that this one was computed from and that were not freed, by their handles. */
  private[mxnet] def dependencies: collection.Map[Long, WeakReference[NDArray]] = NDArrayCalls.dependencies(inputs)

  private[mxnet] def requireWritable(op: NativeOp): Unit = if (!writable) readOnly(op.name)

  private def readOnly(what: String): Nothing =
    throw new MXNetError(s"$what: the array to write into, $describe, is read-only; write into a copy of it")

  /** Runs a native call on this array; the array cannot be collected before the call returns. */
  @inline private def native[R](call: NDArrayHandle => R): R = {
    val result = call(liveHandle)
    keepAlive(this)
    result
  }

  /** This array in MXNet's raw byte format; see [[NDArray.deserialize]]. */
  def serialize(): Array[Byte] = native(_LIB.ndarraySaveRawBytes)

  override def dispose(): Unit = {
    super.dispose()
    inputs = NDArrayOrigin.none
    ownOrigin = null
  }

  /** Disposes the arrays that this one was computed from; returns this array. */
  def disposeDeps(): NDArray = disposeDepsExcept()

  /** Disposes the arrays that this one was computed from, except the given ones and those they were computed from;
    * returns this array.
    */
  def disposeDepsExcept(arrs: NDArray*): NDArray = {
    requireNonNull("NDArray.disposeDepsExcept", "arrs" -> arrs)
    val origins = arrs.filter(kept => !kept.isDisposed && (kept ne this)).map(_.origin).toArray
    val kept = Collections.newSetFromMap(new IdentityHashMap[NDArray, java.lang.Boolean])
    kept.add(this)
    NDArrayOrigin.liveArrays(origins).foreach(kept.add)
    NDArrayOrigin.liveArrays(inputs).filterNot(kept.contains).foreach(_.dispose())
    inputs = origins
    ownOrigin = null
    this
  }

  /** Elements (an excerpt of a large array), shape, context and type. */
  override def toString(): String =
    if (isDisposed) "<NDArray, disposed>"
    else elementsText + "\n" + describe

  private[mxnet] def describe: String = s"<NDArray $shape $context $dtype>"

  private[mxnet] def elementsText: String = NDArrayText.format(shape.toArray, elements)

  /** Elements as text, in 64 bits where the type has numbers that 32 bits cannot hold. */
  private def elements(offset: Int, count: Int): Array[String] =
    if (dtype == DType.Float64 || dtype == DType.Int32 || dtype == DType.Int64) {
      val values = new Array[Double](count)
      native(_LIB.ndarrayGetDoubles(_, offset.toLong, values, 0, count))
      values.map(_.toString)
    } else {
      val values = new Array[Float](count)
      native(_LIB.ndarrayGetFloats(_, offset.toLong, values, 0, count))
      values.map(_.toString)
    }

  /** Rows `start until stop` of the first axis, as a view: writing to it changes this array.
    *
    * @throws MXNetError if the range exceeds the axis
    */
  def slice(start: Int, stop: Int): NDArray = view(native(_LIB.ndarraySlice(_, start.toLong, stop.toLong)))

  /** Rows `range._1 until range._2` of the first axis, as a view. */
  def slice(range: (Int, Int)): NDArray = {
    requireValue("NDArray.slice", "range", range)
    slice(range._1, range._2)
  }

  /** Row `i` as a view that keeps the first axis, with length 1. */
  def slice(i: Int): NDArray = slice(i, i + 1)

  /** Row `idx` as a view without the first axis: that of an array of shape (2, 3) has the shape (3).
    *
    * @throws MXNetError if there is no such row
    */
  def at(idx: Int): NDArray = view(native(_LIB.ndarrayAt(_, idx.toLong)))

  private[mxnet] def view(handle: NDArrayHandle): NDArray = {
    val array = NDArray.fromHandle(handle, writable)
    array.inputs = Array(origin)
    array
  }

  /** The transpose of a matrix, as a copy. */
  def T: NDArray = {
    if (shape.size != 2)
      throw new MXNetError(
        s"NDArray.T: the array must be a matrix, but its shape is $shape; use NDArray.transpose with axes"
      )
    NDArray.invoke(NDArrayOps.transpose, Array(this), null, Nil).head
  }

  /** The element type. */
  def dtype: DType = {
    if (knownDType == null) knownDType = DType.fromId(native(_LIB.ndarrayDType))
    knownDType
  }

  /** The storage type. */
  lazy val sparseFormat: SparseFormat = SparseFormat(native(_LIB.ndarrayStorageType))

  /** A copy with another element type; this array itself if it has that type. */
  def asType(dtype: DType): NDArray = {
    requireValue("NDArray.asType", "dtype", dtype)
    if (dtype == this.dtype) this
    else NDArray.invoke(NDArrayOps.cast, Array(this), null, Seq("dtype" -> dtype)).head
  }

  /** A view of another shape. Special values are those of the operator `Reshape`: 0 keeps a dimension, -1 infers it, -2
    * keeps all remaining ones, -3 joins two, and -4 splits one.
    *
    * @throws MXNetError if the shape has more elements than this array
    */
  def reshape(dims: Array[Int]): NDArray = {
    requireValue("NDArray.reshape", "dims", dims)
    val longs = new Array[Long](dims.length)
    var i = 0
    while (i < longs.length) {
      longs(i) = dims(i)
      i += 1
    }
    reshape(longs)
  }

  /** A view of another shape.
    *
    * @param reverse whether special values in `dims` are resolved from the right
    */
  def reshape(dims: Array[Long], reverse: Option[Boolean] = None): NDArray = {
    requireNonNull("NDArray.reshape", "dims" -> dims, "reverse" -> reverse)
    view(native(_LIB.ndarrayReshape(_, dims, reverse.getOrElse(false))))
  }

  /** A view of another shape. */
  def reshape(dims: Shape): NDArray = {
    requireValue("NDArray.reshape", "dims", dims)
    reshape(dims.toLongs)
  }

  /** Waits until the operations that write this array are done. */
  def waitToRead(): Unit = native(_LIB.ndarrayWaitToRead)

  /** The device of this array. */
  def context: Context = {
    if (knownContext == null) knownContext = Context.fromCodes(native(_LIB.ndarrayContext))
    knownContext
  }

  /** Sets every element to a number, converted to the type of this array.
    *
    * @return this array
    */
  def set(value: MX_PRIMITIVE_TYPE): NDArray = {
    val params = Seq("shape" -> shape, "dtype" -> dtype, "ctx" -> context, "value" -> value)
    NDArray.invoke(NDArrayOps.fill, Array.empty, Array(this), params)
    this
  }

  /** Copies the elements of an array of the same shape, converting their type.
    *
    * @return this array
    */
  def set(other: NDArray): NDArray = {
    requireValue("NDArray.set", "other", other)
    other.copyTo(this)
  }

  /** Sets all elements, in row-major order, converted to the type of this array.
    *
    * @throws MXNetError if there are more or fewer elements than in this array
    * @return this array
    */
  def set(other: Array[Float]): NDArray = {
    requireValue("NDArray.set", "other", other)
    checkSource(other.length)
    _LIB.ndarraySetFloats(liveHandle, 0L, other, 0, other.length)
    keepAlive(this)
    this
  }

  /** As above, from 64-bit numbers. */
  def set(other: Array[Double]): NDArray = {
    requireValue("NDArray.set", "other", other)
    checkSource(other.length)
    _LIB.ndarraySetDoubles(liveHandle, 0L, other, 0, other.length)
    keepAlive(this)
    this
  }

  /** Sets all elements, in row-major order, to numbers from -128 to 127 (in an unsigned array modulo 256). */
  private[mxnet] def setBytes(other: Array[Byte]): NDArray = {
    checkSource(other.length)
    native(_LIB.ndarraySetBytes(_, 0L, other, 0, other.length))
    this
  }

  private def checkSource(length: Int): Unit = {
    if (!writable) readOnly("NDArray.set")
    if (length != size)
      throw new MXNetError(s"NDArray.set: $length values were given, but an array of shape $shape needs $size")
  }

  /** A copy of the elements in row-major order, converted to 32-bit numbers. */
  def toArray: Array[Float] = {
    val values = new Array[Float](size)
    _LIB.ndarrayGetFloats(liveHandle, 0L, values, 0, values.length)
    keepAlive(this)
    values
  }

  /** A copy of the elements in row-major order, converted to 64-bit numbers. */
  def toFloat64Array: Array[Double] = {
    val values = new Array[Double](size)
    native(_LIB.ndarrayGetDoubles(_, 0L, values, 0, values.length))
    values
  }

  /** The bytes of this array in memory order. */
  def internal: NDArrayInternal = new NDArrayInternal(native(_LIB.ndarrayGetRaw), dtype)

  /** The only element of an array of shape (1), as a 32-bit number.
    *
    * @throws IllegalArgumentException for another shape
    */
  def toScalar: Float = toFloat64Scalar.toFloat

  /** As [[toScalar]], as a 64-bit number. */
  def toFloat64Scalar: Double = {
    require(
      size == 1 && shape.length <= 1,
      s"The current array is not a scalar: its shape is $shape, it must be (1); use at(i) or reshape first"
    )
    native(_LIB.ndarrayScalar)
  }

  /** Copies the elements into `other`, converting their type; returns `other`. Shapes must be equal. */
  def copyTo(other: NDArray): NDArray = {
    if (other == null) throw new MXNetError("NDArray.copyTo: the array to copy to is null")
    if (other ne this) NDArray.invoke(NDArrayOps.copyTo, Array(this), Array(other), Nil)
    other
  }

  /** A copy on a device. */
  def copyTo(ctx: Context): NDArray = copyTo(NDArray.empty(shape, ctx, dtype))

  /** A copy on the same device. */
  def copy(): NDArray = copyTo(context)

  /** The dimensions. */
  def shape: Shape = {
    if (knownShape == null) {
      knownShape = Shape.fromLongs(_LIB.ndarrayShape(liveHandle))
      keepAlive(this)
    }
    knownShape
  }

  /** The number of elements. */
  def size: Int = shape.product

  /** This array if it is on the device, else a copy on it. */
  def asInContext(context: Context): NDArray = if (this.context == context) this else copyTo(context)

  /** Whether the array is sparse. */
  def isSparse: Boolean = false

  /** A copy in a sparse storage type, by default row_sparse. */
  def toSparse(sfOption: Option[SparseFormat] = None): SparseNDArray = {
    requireValue("NDArray.toSparse", "sfOption", sfOption)
    val format = sfOption.getOrElse(SparseFormat.ROW_SPARSE)
    if (format == SparseFormat.DEFAULT)
      throw new MXNetError("NDArray.toSparse: 'default' is not a sparse format; use row_sparse or csr")
    NDArray.invoke(NDArrayOps.castStorage, Array(this), null, Seq("stype" -> format)).head match {
      case sparse: SparseNDArray => sparse
      case dense => throw new MXNetError(s"NDArray.toSparse: the engine returned ${dense.describe} for format $format")
    }
  }

  /** Whether type, shape and elements are equal; NaN equals NaN. */
  override def equals(o: Any): Boolean = o match {
    case that: NDArray =>
      (this eq that) ||
      (!isDisposed && !that.isDisposed && shape == that.shape && dtype == that.dtype && sameElements(that))
    case _ => false
  }

  private def sameElements(that: NDArray): Boolean = dtype match {
    case DType.Int64 => internal.toLongArray.sameElements(that.internal.toLongArray)
    case _           =>
      val (mine, others) = (toFloat64Array, that.toFloat64Array)
      mine.indices.forall(i => mine(i) == others(i) || (mine(i).isNaN && others(i).isNaN))
  }

  /** A hash of shape and type only, because elements may change while an array is a key. */
  override def hashCode(): Int = 31 * shape.hashCode + dtype.hashCode
}

/** Formats nested rows of numbers as MXNet's Scala package does. */
private object NDArrayText {

  /** Only the first row of larger arrays is printed. */
  private val maxElements = 100000

  /** Only the first and last elements of longer rows are printed. */
  private val maxRow = 1000

  /** @param read reads elements from an index in row-major order, and a count */
  def format(dims: Array[Int], read: (Int, Int) => Array[String]): String = {
    def numbers(offset: Int, count: Int): String = read(offset, count).mkString(",")
    def nested(axis: Int, offset: Int, size: Int): String = {
      val (indent, length) = (" " * axis, dims(axis))
      if (axis == dims.length - 1) {
        val text =
          if (length > maxRow) s"${numbers(offset, 10)} ... ${numbers(offset + length - 10, 9)}"
          else numbers(offset, length)
        s"$indent[$text]"
      } else {
        val isShortened = size > maxElements
        val rows = (0 until (if (isShortened) 1 else length)).map { i =>
          nested(axis + 1, offset + i * (size / length), size / length) + "\n"
        }
        val note = if (isShortened) s"\n$indent ... with length $length\n" else ""
        s"$indent[\n${rows.mkString}$indent$note]"
      }
    }
    val size = dims.product
    if (size == 0) "[]" else if (dims.isEmpty) numbers(0, 1) else nested(0, 0, size)
  }
}
