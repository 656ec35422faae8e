package org.apache.mxnet.spark.internal

import java.util.Arrays.copyOfRange

import org.apache.mxnet.DType.DType
import org.apache.mxnet.{DType, NDArray}
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData
import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.sql.types._

/** The values of an output for the rows of a batch. */
private[mxnet] sealed trait OutputColumn {

  /** The elements of a row. */
  def row(position: Int): ArrayData

  /** The index of the largest element of a row, the first of equal ones; the element itself where there is only one. */
  def prediction(position: Int): Double
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
  def of(name: String, output: NDArray, batch: Int): OutputColumn = {
    val shape = output.shape
    if (shape.length == 0 || shape(0) != batch)
      throw new IllegalArgumentException(
        s"output '$name' has the shape $shape for a batch of $batch rows; the first dimension must be that of the batch"
      )
    val size = output.size / batch
    typeOf(output.dtype) match {
      case ArrayType(DoubleType, _)  => new Doubles(output.toFloat64Array, size)
      case ArrayType(LongType, _)    => new Longs(ArrayAccess.longs(output), size)
      case ArrayType(IntegerType, _) => new Ints(ArrayAccess.ints(output), size)
      case _                         => new Floats(output.toArray, size)
    }
  }

  private final class Floats(values: Array[Float], size: Int) extends OutputColumn {
    override def row(position: Int): ArrayData =
      UnsafeArrayData.fromPrimitiveArray(copyOfRange(values, position * size, (position + 1) * size))
    override def prediction(position: Int): Double =
      if (size == 1) values(position).toDouble
      else firstMax(size)((i, j) => values(position * size + i) > values(position * size + j))
  }

  private final class Doubles(values: Array[Double], size: Int) extends OutputColumn {
    override def row(position: Int): ArrayData =
      UnsafeArrayData.fromPrimitiveArray(copyOfRange(values, position * size, (position + 1) * size))
    override def prediction(position: Int): Double =
      if (size == 1) values(position).toDouble
      else firstMax(size)((i, j) => values(position * size + i) > values(position * size + j))
  }

  private final class Longs(values: Array[Long], size: Int) extends OutputColumn {
    override def row(position: Int): ArrayData =
      UnsafeArrayData.fromPrimitiveArray(copyOfRange(values, position * size, (position + 1) * size))
    override def prediction(position: Int): Double =
      if (size == 1) values(position).toDouble
      else firstMax(size)((i, j) => values(position * size + i) > values(position * size + j))
  }

  private final class Ints(values: Array[Int], size: Int) extends OutputColumn {
    override def row(position: Int): ArrayData =
      UnsafeArrayData.fromPrimitiveArray(copyOfRange(values, position * size, (position + 1) * size))
    override def prediction(position: Int): Double =
      if (size == 1) values(position).toDouble
      else firstMax(size)((i, j) => values(position * size + i) > values(position * size + j))
  }

  private def firstMax(size: Int)(isGreater: (Int, Int) => Boolean): Double = {
    var best = 0
    var i = 1
    while (i < size) {
      if (isGreater(i, best)) best = i
      i += 1
    }
    best.toDouble
  }
}
