package org.apache.mxnet.spark.internal

import org.apache.mxnet._
import org.apache.spark.ml.linalg.SQLDataTypes.VectorType
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters
import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.sql.types._

/** Collects the values of a column for a batch in one Java array.
  *
  * @param column the name of the column
  * @param rowSize the number of elements of a row
  * @param batch the number of rows of the largest batch
  */
private[mxnet] sealed abstract class InputColumn[A](
    val column: String,
    rowSize: Int,
    batch: Int,
    elementType: PrimitiveType[A]
) {
  protected val buffer: Array[A] = {
    val size = rowSize.toLong * batch
    if (size > Int.MaxValue)
      throw new IllegalArgumentException(
        s"column '$column' needs $rowSize numbers per row, too many for a batch of $batch rows; set a lower batchSize"
      )
    elementType.allocate(size.toInt)
  }

  /** Copies a value to the buffer from `index` on. */
  protected def copyValue(row: SpecializedGetters, ordinal: Int, index: Int): Unit

  /** Reads the value of a row.
    *
    * @param position the position of the row in the batch
    */
  final def read(row: InternalRow, ordinal: Int, position: Int): Unit = copyValue(row, ordinal, position * rowSize)

  /** Whether the value at a position of the batch has NaN. */
  final def hasNaN(position: Int): Boolean =
    elementType.hasNaN(buffer, position * rowSize, (position + 1) * rowSize)

  /** Writes the batch into an array, whose rows from `rows` on become 0. */
  final def write(target: NDArray, rows: Int): Unit = {
    elementType.clear(buffer, rows * rowSize, target.size)
    elementType.write(buffer, target)
  }

  /** Copies the row at the first position, as floats. */
  final def copyFirst(target: Array[Float], offset: Int): Unit = {
    var i = 0
    while (i < rowSize) {
      target(offset + i) = elementType.toFloat(buffer, i)
      i += 1
    }
  }

  protected final def checkLength(length: Int): Unit =
    if (length != rowSize)
      throw new IllegalArgumentException(
        s"column '$column' has a value of $length elements, but the model's input needs $rowSize per row (see inputShapes)"
      )

  protected final def checkNulls(values: ArrayData): Unit = {
    var i = 0
    while (i < values.numElements()) {
      if (values.isNullAt(i))
        throw new IllegalArgumentException(
          s"column '$column' has an array whose element $i is null; the model needs numbers"
        )
      i += 1
    }
  }
}

private[mxnet] object InputColumn {
  import PrimitiveType._

  /** The supported column types, for messages. */
  val Accepted: String =
    "a number, an array of numbers (byte, short, int, long, float, double, decimal, boolean), a vector of spark.ml, or " +
      "an image (the bytes of a JPEG, PNG or BMP file, or a row of the data source 'image')"

  def accepts(dataType: DataType): Boolean = dataType match {
    case VectorType | BinaryType         => true
    case ArrayType(element, _)           => isNumber(element)
    case other if DecodedImage.is(other) => true
    case other                           => isNumber(other)
  }

  private def isNumber(dataType: DataType): Boolean = dataType match {
    case ByteType | ShortType | IntegerType | LongType | FloatType | DoubleType | BooleanType | _: DecimalType => true
    case _                                                                                                     => false
  }

  /** The number of elements of a value, if it is known without the model. */
  def sizeOf(dataType: DataType, row: InternalRow, ordinal: Int): Option[Shape] = dataType match {
    case VectorType                      => Some(Shape(vectorSize(row.getStruct(ordinal, 4))))
    case ArrayType(_, _)                 => Some(Shape(row.getArray(ordinal).numElements()))
    case BinaryType                      => None
    case image if DecodedImage.is(image) => None
    case _                               => Some(Shape(Vector.empty[Int]))
  }

  private def vectorSize(vector: InternalRow): Int =
    if (vector.getByte(0) == 0) vector.getInt(1) else vector.getArray(3).numElements()

  /** Creates the reader of a column.
    *
    * @param column the name of the column
    * @param rowShape the shape of a row of the model's input
    * @param batch the number of rows of the largest batch
    * @param images the conversion of images
    */
  def of(column: String, dataType: DataType, rowShape: Shape, batch: Int, images: ImageFormat): InputColumn[_] = {
    val size = rowShape.product
    def arrays[A](elementType: PrimitiveType[A], nulls: Boolean) =
      new Arrays(column, size, batch, elementType, nulls)
    def numbers[A](elementType: PrimitiveType[A]) = new Numbers(column, size, batch, elementType)
    def widenedArrays[A](elementType: PrimitiveType[A], nulls: Boolean, number: NumberReader[A]) =
      new WidenedArrays(column, size, batch, elementType, nulls, number)
    def widenedNumbers[A](elementType: PrimitiveType[A], number: NumberReader[A]) =
      new WidenedNumbers(column, size, batch, elementType, number)
    dataType match {
      case VectorType                             => new Vectors(column, size, batch)
      case BinaryType                             => new Images(column, rowShape, batch, images)
      case image if DecodedImage.is(image)        => new DecodedImages(column, rowShape, batch, images)
      case ArrayType(FloatType, nulls)            => arrays(Floats, nulls)
      case ArrayType(DoubleType, nulls)           => arrays(Doubles, nulls)
      case ArrayType(LongType, nulls)             => arrays(Longs, nulls)
      case ArrayType(IntegerType, nulls)          => arrays(Ints, nulls)
      case ArrayType(ByteType, nulls)             => arrays(Bytes, nulls)
      case ArrayType(ShortType, nulls)            => widenedArrays(Ints, nulls, shorts)
      case ArrayType(BooleanType, nulls)          => widenedArrays(Ints, nulls, booleans)
      case ArrayType(decimal: DecimalType, nulls) => widenedArrays(Doubles, nulls, decimals(decimal))
      case FloatType                              => numbers(Floats)
      case DoubleType                             => numbers(Doubles)
      case LongType                               => numbers(Longs)
      case IntegerType                            => numbers(Ints)
      case ByteType                               => numbers(Bytes)
      case ShortType                              => widenedNumbers(Ints, shorts)
      case BooleanType                            => widenedNumbers(Ints, booleans)
      case decimal: DecimalType                   => widenedNumbers(Doubles, decimals(decimal))
      case other => throw new IllegalArgumentException(s"column '$column' has the type ${other.sql}, not $Accepted")
    }
  }

  private final class Numbers[A](column: String, size: Int, batch: Int, elementType: PrimitiveType[A])
      extends InputColumn(column, size, batch, elementType) {
    override protected def copyValue(row: SpecializedGetters, ordinal: Int, index: Int): Unit = {
      checkLength(1)
      elementType.readNumber(row, ordinal, buffer, index)
    }
  }

  /** Copies a number of a row or of an array as another type to `target(index)`. */
  private trait NumberReader[A] {
    def read(source: SpecializedGetters, ordinal: Int, target: Array[A], index: Int): Unit
  }

  private val shorts: NumberReader[Int] = (source, i, target, index) => target(index) = source.getShort(i).toInt

  private val booleans: NumberReader[Int] =
    (source, i, target, index) => target(index) = if (source.getBoolean(i)) 1 else 0

  private def decimals(decimal: DecimalType): NumberReader[Double] =
    (source, i, target, index) => target(index) = source.getDecimal(i, decimal.precision, decimal.scale).toDouble

  private final class WidenedNumbers[A](
      column: String,
      size: Int,
      batch: Int,
      elementType: PrimitiveType[A],
      number: NumberReader[A]
  ) extends InputColumn(column, size, batch, elementType) {
    override protected def copyValue(row: SpecializedGetters, ordinal: Int, index: Int): Unit = {
      checkLength(1)
      number.read(row, ordinal, buffer, index)
    }
  }

  private final class Arrays[A](
      column: String,
      size: Int,
      batch: Int,
      elementType: PrimitiveType[A],
      containsNull: Boolean
  ) extends InputColumn(column, size, batch, elementType) {
    override protected def copyValue(row: SpecializedGetters, ordinal: Int, index: Int): Unit = {
      val values = row.getArray(ordinal)
      checkLength(values.numElements())
      if (containsNull) checkNulls(values)
      elementType.readArray(values, buffer, index)
    }
  }

  private final class WidenedArrays[A](
      column: String,
      size: Int,
      batch: Int,
      elementType: PrimitiveType[A],
      containsNull: Boolean,
      number: NumberReader[A]
  ) extends InputColumn(column, size, batch, elementType) {
    override protected def copyValue(row: SpecializedGetters, ordinal: Int, index: Int): Unit = {
      val values = row.getArray(ordinal)
      checkLength(values.numElements())
      if (containsNull) checkNulls(values)
      var i = 0
      while (i < size) {
        number.read(values, i, buffer, index + i)
        i += 1
      }
    }
  }

  /** Vectors of spark.ml, which are structures of type (0 sparse, 1 dense), size, indices and values. */
  private final class Vectors(column: String, size: Int, batch: Int) extends InputColumn(column, size, batch, Doubles) {
    override protected def copyValue(row: SpecializedGetters, ordinal: Int, index: Int): Unit = {
      val vector = row.getStruct(ordinal, 4)
      checkLength(vectorSize(vector))
      val values = vector.getArray(3)
      if (vector.getByte(0) == 1) Doubles.readArray(values, buffer, index)
      else {
        val indices = vector.getArray(2)
        Doubles.clear(buffer, index, index + size)
        var i = 0
        while (i < values.numElements()) {
          buffer(index + indices.getInt(i)) = values.getDouble(i)
          i += 1
        }
      }
    }
  }

  private final class Images(column: String, rowShape: Shape, batch: Int, format: ImageFormat)
      extends InputColumn(column, rowShape.product, batch, Floats) {
    override protected def copyValue(row: SpecializedGetters, ordinal: Int, index: Int): Unit =
      try format.decode(row.getBinary(ordinal), rowShape, buffer, index)
      catch { case error: MXNetError => throw unreadable(column, error) }
  }

  /** Images that the data source `image` of Spark decoded. */
  private final class DecodedImages(column: String, rowShape: Shape, batch: Int, format: ImageFormat)
      extends InputColumn(column, rowShape.product, batch, Floats) {
    override protected def copyValue(row: SpecializedGetters, ordinal: Int, index: Int): Unit =
      try format.convert(DecodedImage.of(row, ordinal), rowShape, buffer, index)
      catch { case error: MXNetError => throw unreadable(column, error) }
  }

  private def unreadable(column: String, error: MXNetError) =
    new IllegalArgumentException(s"column '$column' has an image that cannot be read: ${error.getMessage}", error)
}
