package org.apache.mxnet.spark.internal

import org.apache.mxnet.DType.DType
import org.apache.mxnet.{DType, NDArray}
import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.sql.types._

/** The values of an output for the rows of a batch.
  *
  * @param values the elements of all rows
  * @param rowSize the number of elements of a row
  */
private[mxnet] final class OutputColumn[A] private (elementType: PrimitiveType[A], values: Array[A], rowSize: Int) {

  /** The elements of a row. */
  def row(position: Int): ArrayData = elementType.toArrayData(values, position * rowSize, rowSize)

  /** The index of the largest element of a row, or of the first such element; the element itself if it is the only one.
    */
  def prediction(position: Int): Double = {
    val first = position * rowSize
    if (rowSize == 1) elementType.toDouble(values, first)
    else {
      var best = first
      var i = first + 1
      while (i < first + rowSize) {
        if (elementType.isGreater(values, i, best)) best = i
        i += 1
      }
      (best - first).toDouble
    }
  }
}

private[mxnet] object OutputColumn {

  /** The type of a column with an output of this type. */
  def typeOf(dtype: DType): DataType = ArrayType(
    dtype match {
      case DType.Float64                                       => DoubleType
      case DType.Int64                                         => LongType
      case DType.Int32 | DType.Int8 | DType.UInt8 | DType.Bool => IntegerType
      case _                                                   => FloatType
    },
    containsNull = false
  )

  /** Copies an output.
    *
    * @param name its name
    * @param batch the number of rows that were run
    */
  def of(name: String, output: NDArray, batch: Int): OutputColumn[_] = {
    val shape = output.shape
    if (shape.length == 0 || shape(0) != batch)
      throw new IllegalArgumentException(
        s"output '$name' has the shape $shape for a batch of $batch rows; the first dimension must be that of the batch"
      )
    def copied[A](elementType: PrimitiveType[A]) =
      new OutputColumn(elementType, elementType.read(output), output.size / batch)
    typeOf(output.dtype) match {
      case ArrayType(DoubleType, _)  => copied(PrimitiveType.Doubles)
      case ArrayType(LongType, _)    => copied(PrimitiveType.Longs)
      case ArrayType(IntegerType, _) => copied(PrimitiveType.Ints)
      case _                         => copied(PrimitiveType.Floats)
    }
  }
}
