package org.apache.mxnet

import org.apache.mxnet.Base.{_LIB, NDArrayHandle}
import org.apache.mxnet.NativeResource.keepAlive
import org.apache.mxnet.internal.operators.NDArrayOps
import org.apache.mxnet.internal.util.Given

/** Sparse arrays: compressed sparse rows, and row-sparse. */
object SparseNDArray {

  /** A matrix of compressed sparse rows.
    *
    * @param data the values that are not zero, row by row
    * @param indices the column of each value
    * @param indptr where in `data` each row starts, and the end
    */
  def csrMatrix(
      data: Array[Float],
      indices: Array[Float],
      indptr: Array[Float],
      shape: Shape,
      ctx: Context
  ): SparseNDArray = {
    Given("SparseNDArray.csrMatrix", "data" -> data, "indices" -> indices, "indptr" -> indptr, "shape" -> shape)
    val counts = Array(indptr.length.toLong, indices.length.toLong)
    val matrix = create(SparseFormat.CSR, shape, ctx, DType.Float32, counts)
    matrix.setPart(NDArray.array(data, Shape(data.length), ctx), values)
    matrix.setPart(indexArray(indptr, ctx), 0)
    matrix.setPart(indexArray(indices, ctx), 1)
    matrix
  }

  /** An array of which only the rows `indices` are not zero.
    *
    * @param data those rows, as nested Java arrays of `Float` or `Double`
    */
  def rowSparseArray(data: Array[_], indices: Array[Float], shape: Shape, ctx: Context): SparseNDArray = {
    Given("SparseNDArray.rowSparseArray", "data" -> data, "indices" -> indices, "shape" -> shape)
    rowSparseArray(NDArray.toNDArray(data, ctx), indexArray(indices, ctx), shape, ctx)
  }

  /** An array of which only the rows `indices` are not zero; `data` has these rows. */
  def rowSparseArray(data: NDArray, indices: NDArray, shape: Shape, ctx: Context): SparseNDArray = {
    Given("SparseNDArray.rowSparseArray", "data" -> data, "indices" -> indices, "shape" -> shape)
    val array = create(SparseFormat.ROW_SPARSE, shape, ctx, data.dtype, Array(indices.size.toLong))
    array.setPart(data, values)
    array.setPart(indices.asType(DType.Int64), 0)
    array
  }

  /** The given rows of a row-sparse array; the others become zero. */
  def retain(sparseNDArray: SparseNDArray, indices: Array[Float]): SparseNDArray = {
    Given("SparseNDArray.retain", "sparseNDArray" -> sparseNDArray, "indices" -> indices)
    if (sparseNDArray.sparseFormat != SparseFormat.ROW_SPARSE)
      throw new MXNetError(s"SparseNDArray.retain: it needs row_sparse, the format is ${sparseNDArray.sparseFormat}")
    val rows = indexArray(indices, sparseNDArray.context)
    NDArray.genericNDArrayFunctionInvoke("_sparse_retain", Seq(sparseNDArray, rows)).head match {
      case sparse: SparseNDArray => sparse
      case dense                 => throw new MXNetError(s"SparseNDArray.retain: the engine returned ${dense.describe}")
    }
  }

  /** The locator of the values, as opposed to an auxiliary array. */
  private val values = -1

  private def indexArray(indices: Array[Float], ctx: Context): NDArray =
    NDArray.empty(Shape(indices.length), ctx, DType.Int64).set(indices)

  /** @param auxCounts the length of each auxiliary array, all of 64-bit integers */
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

/** An array that stores only what is not zero. Conversions to Java arrays give all elements. */
class SparseNDArray private[mxnet] (address: NDArrayHandle, isWritable: Boolean = true)
    extends NDArray(address, isWritable) {

  override def isSparse: Boolean = true

  private[mxnet] override def describe: String = s"<SparseNDArray $shape $context $dtype $sparseFormat>"

  override def toString(): String = if (isDisposed) "<SparseNDArray, disposed>" else super.toString

  private[mxnet] override def elementsText: String = throughDense(_.elementsText)

  /** A copy that stores every element. */
  def toDense: NDArray =
    NDArray.invoke(NDArrayOps.castStorage, Array(this), null, Seq("stype" -> SparseFormat.DEFAULT)).head

  override def toArray: Array[Float] = throughDense(_.toArray)

  override def toFloat64Array: Array[Double] = throughDense(_.toFloat64Array)

  override def internal: NDArrayInternal = throughDense(_.internal)

  private[mxnet] def throughDense[R](read: NDArray => R): R = {
    val dense = toDense
    try read(dense)
    finally dense.dispose()
  }

  /** Row `idx` of the first axis, which is dropped, as a dense copy. */
  override def at(idx: Int): NDArray = {
    val row = rows(idx, idx + 1)
    try row.throughDense(_.at(0).copy())
    finally row.dispose()
  }

  /** Rows `start` until `end` of the first axis, as a copy in the same format. */
  override def slice(start: Int, end: Int): NDArray = rows(start, end)

  private def rows(start: Int, end: Int): SparseNDArray = {
    if (start < 0 || start >= end || end > shape(0))
      throw new MXNetError(
        s"SparseNDArray.slice: rows $start until $end were asked for, the shape is $shape; give 0 <= start < end"
      )
    if (sparseFormat == SparseFormat.CSR) asSparse(sliceRows(start, end)) else sliceStoredRows(start, end)
  }

  private def sliceRows(start: Int, end: Int): NDArray =
    NDArray.genericNDArrayFunctionInvoke("slice", Seq(this), Map("begin" -> s"($start)", "end" -> s"($end)")).head

  /** Of a row-sparse array: the stored rows are in ascending order. */
  private def sliceStoredRows(start: Int, end: Int): SparseNDArray = {
    val stored = getIndices
    val rows = stored.toFloat64Array.map(_.toInt)
    stored.dispose()
    val first = rows.count(_ < start)
    val kept = rows.slice(first, rows.count(_ < end))
    val newShape = Shape(end - start) ++ shape.drop(1)
    if (kept.isEmpty) {
      val zeros = NDArray.zeros(newShape, context, dtype)
      try zeros.toSparse(Some(SparseFormat.ROW_SPARSE))
      finally zeros.dispose()
    } else {
      val values = getData
      val indices = NDArray.array(kept.map(row => (row - start).toDouble), Shape(kept.length), context)
      try SparseNDArray.rowSparseArray(values.slice(first, first + kept.length), indices, newShape, context)
      finally {
        values.dispose()
        indices.dispose()
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

  /** Where in the values each row starts, and the end; of compressed sparse rows only. */
  def getIndptr: NDArray = {
    if (sparseFormat != SparseFormat.CSR)
      throw new MXNetError(s"SparseNDArray.getIndptr: it needs csr, the format is $sparseFormat")
    auxiliary(0)
  }

  /** The column of each value (csr), or the row of each stored row (row_sparse). */
  def getIndices: NDArray = auxiliary(if (sparseFormat == SparseFormat.CSR) 1 else 0)

  private def auxiliary(index: Int): NDArray = {
    val part = new NDArray(_LIB.ndarrayGetAux(nativeHandle, index))
    keepAlive(this)
    part
  }

  private[mxnet] def setPart(source: NDArray, locator: Int): Unit = {
    _LIB.ndarrayCopyFromNDArray(nativeHandle, source.liveHandle, locator)
    keepAlive(source)
    keepAlive(this)
  }

  private def nativeHandle: NDArrayHandle = handleOf("SparseNDArray")
}
