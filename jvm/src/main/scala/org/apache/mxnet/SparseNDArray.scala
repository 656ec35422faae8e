package org.apache.mxnet

import scala.util.Using

import org.apache.mxnet.Base.{_LIB, NDArrayHandle}
import org.apache.mxnet.NativeResource.keepAlive
import org.apache.mxnet.internal.operators.NDArrayOps
import org.apache.mxnet.internal.util.NullChecks.requireNonNull

/** Creates csr and row_sparse arrays. */
object SparseNDArray {

  /** A csr matrix.
    *
    * @param data the stored values, row by row
    * @param indices the column of each value
    * @param indptr the row pointers: the index in `data` of the start of each row, and the end
    */
  def csrMatrix(
      data: Array[Float],
      indices: Array[Float],
      indptr: Array[Float],
      shape: Shape,
      ctx: Context
  ): SparseNDArray = {
    requireNonNull(
      "SparseNDArray.csrMatrix",
      "data" -> data,
      "indices" -> indices,
      "indptr" -> indptr,
      "shape" -> shape
    )
    val counts = Array(indptr.length.toLong, indices.length.toLong)
    val matrix = create(SparseFormat.CSR, shape, ctx, DType.Float32, counts)
    Using.resource(NDArray.array(data, Shape(data.length), ctx))(matrix.setComponent(_, values))
    Using.resource(indexArray(indptr, ctx))(matrix.setComponent(_, 0))
    Using.resource(indexArray(indices, ctx))(matrix.setComponent(_, 1))
    matrix
  }

  /** A row_sparse array with the stored rows `indices`.
    *
    * @param data those rows, as nested Java arrays of `Float` or `Double`
    */
  def rowSparseArray(data: Array[_], indices: Array[Float], shape: Shape, ctx: Context): SparseNDArray = {
    requireNonNull("SparseNDArray.rowSparseArray", "data" -> data, "indices" -> indices, "shape" -> shape)
    Using.resources(NDArray.toNDArray(data, ctx), indexArray(indices, ctx))(rowSparseArray(_, _, shape, ctx))
  }

  /** A row_sparse array with the stored rows `indices` and their values `data`. */
  def rowSparseArray(data: NDArray, indices: NDArray, shape: Shape, ctx: Context): SparseNDArray = {
    requireNonNull("SparseNDArray.rowSparseArray", "data" -> data, "indices" -> indices, "shape" -> shape)
    val array = create(SparseFormat.ROW_SPARSE, shape, ctx, data.dtype, Array(indices.size.toLong))
    array.setComponent(data, values)
    array.setComponent(indices.asType(DType.Int64), 0)
    array
  }

  /** Keeps the given rows of a row_sparse array; the others become zero. */
  def retain(sparseNDArray: SparseNDArray, indices: Array[Float]): SparseNDArray = {
    requireNonNull("SparseNDArray.retain", "sparseNDArray" -> sparseNDArray, "indices" -> indices)
    if (sparseNDArray.sparseFormat != SparseFormat.ROW_SPARSE)
      throw new MXNetError(s"SparseNDArray.retain: the array must be row_sparse, not ${sparseNDArray.sparseFormat}")
    Using.resource(indexArray(indices, sparseNDArray.context)) { rows =>
      NDArray.genericNDArrayFunctionInvoke("_sparse_retain", Seq(sparseNDArray, rows)).head match {
        case sparse: SparseNDArray => sparse
        case dense => throw new MXNetError(s"SparseNDArray.retain: the engine returned ${dense.describe}")
      }
    }
  }

  /** Selects the values in `setComponent`; auxiliary arrays are selected by index. */
  private val values = -1

  private def indexArray(indices: Array[Float], ctx: Context): NDArray =
    NDArray.empty(Shape(indices.length), ctx, DType.Int64).set(indices)

  /** @param auxCounts the length of each auxiliary array, of type int64 */
  private def create(
      format: SparseFormat.SparseFormat,
      shape: Shape,
      ctx: Context,
      dtype: DType.DType,
      auxCounts: Array[Long]
  ): SparseNDArray = {
    val device = if (ctx == null) Context.defaultCtx else ctx
    val handle = _LIB.ndarrayCreateSparse(
      format.id,
      shape.toLongs,
      device.deviceTypeid,
      device.deviceId,
      delayAlloc = false,
      dtype.id,
      auxCounts.map(_ => DType.Int64.id),
      auxCounts.map(_ => 1),
      auxCounts
    )
    new SparseNDArray(handle)
  }
}

/** A sparse array. Conversions to Java arrays include the zeros. */
class SparseNDArray private[mxnet] (address: NDArrayHandle, isWritable: Boolean = true)
    extends NDArray(address, isWritable) {

  override def isSparse: Boolean = true

  private[mxnet] override def describe: String = s"<SparseNDArray $shape $context $dtype $sparseFormat>"

  override def toString(): String = if (isDisposed) "<SparseNDArray, disposed>" else super.toString

  private[mxnet] override def elementsText: String = throughDense(_.elementsText)

  /** A dense copy. */
  def toDense: NDArray =
    NDArray.invoke(NDArrayOps.castStorage, Array(this), null, Seq("stype" -> SparseFormat.DEFAULT)).head

  override def toArray: Array[Float] = throughDense(_.toArray)

  override def toFloat64Array: Array[Double] = throughDense(_.toFloat64Array)

  override def internal: NDArrayInternal = throughDense(_.internal)

  private[mxnet] def throughDense[R](read: NDArray => R): R = {
    Using.resource(toDense)(read)
  }

  /** A dense copy of row `idx`, without the first axis. */
  override def at(idx: Int): NDArray = {
    Using.resource(rows(idx, idx + 1))(_.throughDense(_.at(0).copy()))
  }

  /** A copy of the rows `start until end` in the same storage type. */
  override def slice(start: Int, end: Int): NDArray = rows(start, end)

  private def rows(start: Int, end: Int): SparseNDArray = {
    if (start < 0 || start >= end || end > shape(0))
      throw new MXNetError(
        s"SparseNDArray.slice: rows $start until $end are out of range for the shape $shape; give 0 <= start < end"
      )
    if (sparseFormat == SparseFormat.CSR) asSparse(sliceRows(start, end)) else sliceStoredRows(start, end)
  }

  private def sliceRows(start: Int, end: Int): NDArray =
    NDArray.genericNDArrayFunctionInvoke("slice", Seq(this), Map("begin" -> s"($start)", "end" -> s"($end)")).head

  /** For row_sparse arrays, whose stored rows are in ascending order. */
  private def sliceStoredRows(start: Int, end: Int): SparseNDArray = {
    val rows = Using.resource(getIndices)(_.toFloat64Array.map(_.toInt))
    val first = rows.count(_ < start)
    val kept = rows.slice(first, rows.count(_ < end))
    val newShape = Shape(end - start) ++ shape.drop(1)
    if (kept.isEmpty)
      Using.resource(NDArray.zeros(newShape, context, dtype))(_.toSparse(Some(SparseFormat.ROW_SPARSE)))
    else {
      def indices = NDArray.array(kept.map(row => (row - start).toDouble), Shape(kept.length), context)
      Using.resources(getData, indices) { (values, indices) =>
        SparseNDArray.rowSparseArray(values.slice(first, first + kept.length), indices, newShape, context)
      }
    }
  }

  private def asSparse(array: NDArray): SparseNDArray = array match {
    case sparse: SparseNDArray => sparse
    case dense                 => dense.toSparse(Some(sparseFormat))
  }

  /** The stored values. */
  def getData: NDArray = {
    val data = new NDArray(_LIB.ndarrayGetData(nativeHandle))
    keepAlive(this)
    data
  }

  /** The row pointers of a csr array: the index in the values of the start of each row, and the end. */
  def getIndptr: NDArray = {
    if (sparseFormat != SparseFormat.CSR)
      throw new MXNetError(s"SparseNDArray.getIndptr: the array must be csr, not $sparseFormat")
    auxiliary(0)
  }

  /** The column of each value (csr), or the row of each stored row (row_sparse). */
  def getIndices: NDArray = auxiliary(if (sparseFormat == SparseFormat.CSR) 1 else 0)

  private def auxiliary(index: Int): NDArray = {
    val array = new NDArray(_LIB.ndarrayGetAux(nativeHandle, index))
    keepAlive(this)
    array
  }

  /** Copies `source` to the values or to an auxiliary array. */
  private[mxnet] def setComponent(source: NDArray, locator: Int): Unit = {
    _LIB.ndarrayCopyFromNDArray(nativeHandle, source.liveHandle, locator)
    keepAlive(source)
    keepAlive(this)
  }

  private def nativeHandle: NDArrayHandle = handleOf("SparseNDArray")
}
