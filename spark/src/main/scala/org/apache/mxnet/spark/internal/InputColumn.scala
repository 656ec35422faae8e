package org.apache.mxnet.spark.internal

import java.util.Arrays

import org.apache.mxnet._
import org.apache.spark.ml.linalg.SQLDataTypes.VectorType
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters
import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.sql.types._

/** Reads a column into the memory of a batch, without an object for each number.
  *
  * @param column the name of the column
  * @param rowSize the number of elements of a row
  * @param batch the number of rows of the largest batch
  */
private[mxnet] sealed abstract class InputColumn(column: String, rowSize: Int) {

  /** Reads the value of a row.
    *
    * @param position the position of the row in the batch
    */
  def read(row: InternalRow, ordinal: Int, position: Int): Unit

  /** Writes the batch into an array, whose rows from `rows` on become 0. */
  def write(target: NDArray, rows: Int): Unit

  /** Copies the row at the first position, as floats. */
  def copyFirst(target: Array[Float], offset: Int): Unit

  protected def checkLength(length: Int): Unit =
    if (length != rowSize)
      throw new IllegalArgumentException(
        s"column '$column' has a value of $length elements, the model's input takes $rowSize; every row needs that many"
      )
}

private[mxnet] object InputColumn {

  /** What columns the model can read. */
  val Accepted: String =
    "a number, an array of numbers (byte, short, int, long, float, double, boolean), a vector of spark.ml, or the bytes " +
      "of a JPEG, PNG or BMP image"

  def accepts(dataType: DataType): Boolean = dataType match {
    case VectorType | BinaryType => true
    case ArrayType(element, _)   => isNumber(element)
    case other                   => isNumber(other)
  }

  private def isNumber(dataType: DataType): Boolean = dataType match {
    case ByteType | ShortType | IntegerType | LongType | FloatType | DoubleType | BooleanType => true
    case _                                                                                    => false
  }

  /** The number of elements of a value, where it is known without the model. */
  def sizeOf(dataType: DataType, row: InternalRow, ordinal: Int): Option[Shape] = dataType match {
    case VectorType      => Some(Shape(vectorSize(row.getStruct(ordinal, 4))))
    case ArrayType(_, _) => Some(Shape(row.getArray(ordinal).numElements()))
    case BinaryType      => None
    case _               => Some(Shape(Vector.empty[Int]))
  }

  private def vectorSize(vector: InternalRow): Int =
    if (vector.getByte(0) == 0) vector.getInt(1) else vector.getArray(3).numElements()

  /** @param column the name of the column
    * @param rowShape the shape of a row of the model's input
    * @param batch the number of rows of the largest batch
    * @param images how images become numbers
    */
  def of(column: String, dataType: DataType, rowShape: Shape, batch: Int, images: ImageFormat): InputColumn = {
    val size = rowShape.product
    val length = Math.multiplyExact(size, batch)
    dataType match {
      case VectorType                       => new Doubles(column, size, new Array(length), fromVector)
      case BinaryType                       => new Images(column, rowShape, new Array(length), images)
      case ArrayType(element, containsNull) =>
        def checked(row: SpecializedGetters, ordinal: Int): ArrayData = {
          val values = row.getArray(ordinal)
          if (containsNull) checkNulls(column, values)
          values
        }
        element match {
          case FloatType   => new Floats(column, size, new Array(length), (row, i) => checked(row, i).toFloatArray())
          case DoubleType  => new Doubles(column, size, new Array(length), (row, i) => checked(row, i).toDoubleArray())
          case LongType    => new Longs(column, size, new Array(length), (row, i) => checked(row, i).toLongArray())
          case IntegerType => new Ints(column, size, new Array(length), (row, i) => checked(row, i).toIntArray())
          case ByteType    => new Bytes(column, size, new Array(length), (row, i) => checked(row, i).toByteArray())
          case ShortType => new Ints(column, size, new Array(length), (row, i) => widen(checked(row, i).toShortArray()))
          case BooleanType =>
            new Ints(column, size, new Array(length), (row, i) => numbers(checked(row, i).toBooleanArray()))
          case other => throw new IllegalArgumentException(s"column '$column' has elements of type ${other.sql}")
        }
      case FloatType   => new Floats(column, size, new Array(length), (row, i) => Array(row.getFloat(i)))
      case DoubleType  => new Doubles(column, size, new Array(length), (row, i) => Array(row.getDouble(i)))
      case LongType    => new Longs(column, size, new Array(length), (row, i) => Array(row.getLong(i)))
      case IntegerType => new Ints(column, size, new Array(length), (row, i) => Array(row.getInt(i)))
      case ShortType   => new Ints(column, size, new Array(length), (row, i) => Array(row.getShort(i).toInt))
      case ByteType    => new Bytes(column, size, new Array(length), (row, i) => Array(row.getByte(i)))
      case BooleanType => new Ints(column, size, new Array(length), (row, i) => Array(if (row.getBoolean(i)) 1 else 0))
      case other => throw new IllegalArgumentException(s"column '$column' has the type ${other.sql}, not $Accepted")
    }
  }

  private def checkNulls(column: String, values: ArrayData): Unit = {
    var i = 0
    while (i < values.numElements()) {
      if (values.isNullAt(i))
        throw new IllegalArgumentException(
          s"column '$column' has an array whose element $i is null; the model takes numbers"
        )
      i += 1
    }
  }

  private def widen(values: Array[Short]): Array[Int] = {
    val wide = new Array[Int](values.length)
    var i = 0
    while (i < wide.length) {
      wide(i) = values(i).toInt
      i += 1
    }
    wide
  }

  private def numbers(values: Array[Boolean]): Array[Int] = {
    val wide = new Array[Int](values.length)
    var i = 0
    while (i < wide.length) {
      if (values(i)) wide(i) = 1
      i += 1
    }
    wide
  }

  /** The elements of a vector, which is a structure of type (0 sparse, 1 dense), size, indices and values. */
  private def fromVector(row: SpecializedGetters, ordinal: Int): Array[Double] = {
    val vector = row.getStruct(ordinal, 4)
    val values = vector.getArray(3).toDoubleArray()
    if (vector.getByte(0) == 1) values
    else {
      val indices = vector.getArray(2).toIntArray()
      val dense = new Array[Double](vector.getInt(1))
      var i = 0
      while (i < indices.length) {
        dense(indices(i)) = values(i)
        i += 1
      }
      dense
    }
  }

  private final class Floats(
      column: String,
      size: Int,
      buffer: Array[Float],
      get: (SpecializedGetters, Int) => Array[Float]
  ) extends InputColumn(column, size) {
    override def read(row: InternalRow, ordinal: Int, position: Int): Unit = {
      val values = get(row, ordinal)
      checkLength(values.length)
      System.arraycopy(values, 0, buffer, position * size, size)
    }
    override def copyFirst(target: Array[Float], offset: Int): Unit = System.arraycopy(buffer, 0, target, offset, size)
    override def write(target: NDArray, rows: Int): Unit = {
      Arrays.fill(buffer, rows * size, target.size, 0f)
      ArrayAccess.setFloats(target, buffer)
    }
  }

  private final class Doubles(
      column: String,
      size: Int,
      buffer: Array[Double],
      get: (SpecializedGetters, Int) => Array[Double]
  ) extends InputColumn(column, size) {
    override def read(row: InternalRow, ordinal: Int, position: Int): Unit = {
      val values = get(row, ordinal)
      checkLength(values.length)
      System.arraycopy(values, 0, buffer, position * size, size)
    }
    override def copyFirst(target: Array[Float], offset: Int): Unit = {
      var i = 0
      while (i < size) {
        target(offset + i) = buffer(i).toFloat
        i += 1
      }
    }
    override def write(target: NDArray, rows: Int): Unit = {
      Arrays.fill(buffer, rows * size, target.size, 0.0)
      ArrayAccess.setDoubles(target, buffer)
    }
  }

  private final class Longs(
      column: String,
      size: Int,
      buffer: Array[Long],
      get: (SpecializedGetters, Int) => Array[Long]
  ) extends InputColumn(column, size) {
    override def read(row: InternalRow, ordinal: Int, position: Int): Unit = {
      val values = get(row, ordinal)
      checkLength(values.length)
      System.arraycopy(values, 0, buffer, position * size, size)
    }
    override def copyFirst(target: Array[Float], offset: Int): Unit = {
      var i = 0
      while (i < size) {
        target(offset + i) = buffer(i).toFloat
        i += 1
      }
    }
    override def write(target: NDArray, rows: Int): Unit = {
      Arrays.fill(buffer, rows * size, target.size, 0L)
      ArrayAccess.setLongs(target, buffer)
    }
  }

  private final class Ints(column: String, size: Int, buffer: Array[Int], get: (SpecializedGetters, Int) => Array[Int])
      extends InputColumn(column, size) {
    override def read(row: InternalRow, ordinal: Int, position: Int): Unit = {
      val values = get(row, ordinal)
      checkLength(values.length)
      System.arraycopy(values, 0, buffer, position * size, size)
    }
    override def copyFirst(target: Array[Float], offset: Int): Unit = {
      var i = 0
      while (i < size) {
        target(offset + i) = buffer(i).toFloat
        i += 1
      }
    }
    override def write(target: NDArray, rows: Int): Unit = {
      Arrays.fill(buffer, rows * size, target.size, 0)
      ArrayAccess.setInts(target, buffer)
    }
  }

  private final class Bytes(
      column: String,
      size: Int,
      buffer: Array[Byte],
      get: (SpecializedGetters, Int) => Array[Byte]
  ) extends InputColumn(column, size) {
    override def read(row: InternalRow, ordinal: Int, position: Int): Unit = {
      val values = get(row, ordinal)
      checkLength(values.length)
      System.arraycopy(values, 0, buffer, position * size, size)
    }
    override def copyFirst(target: Array[Float], offset: Int): Unit = {
      var i = 0
      while (i < size) {
        target(offset + i) = buffer(i).toFloat
        i += 1
      }
    }
    override def write(target: NDArray, rows: Int): Unit = {
      Arrays.fill(buffer, rows * size, target.size, 0: Byte)
      ArrayAccess.setBytes(target, buffer)
    }
  }

  private final class Images(column: String, rowShape: Shape, buffer: Array[Float], format: ImageFormat)
      extends InputColumn(column, rowShape.product) {
    private val size = rowShape.product
    override def read(row: InternalRow, ordinal: Int, position: Int): Unit =
      try format.decode(row.getBinary(ordinal), rowShape, buffer, position * size)
      catch {
        case error: MXNetError =>
          throw new IllegalArgumentException(
            s"column '$column' has an image that cannot be read: ${error.getMessage}",
            error
          )
      }
    override def copyFirst(target: Array[Float], offset: Int): Unit = System.arraycopy(buffer, 0, target, offset, size)
    override def write(target: NDArray, rows: Int): Unit = {
      Arrays.fill(buffer, rows * size, target.size, 0f)
      ArrayAccess.setFloats(target, buffer)
    }
  }
}

/** How the bytes of an image become the numbers of an input.
  *
  * @param channelsFirst whether a row is (channels, height, width); else (height, width, channels)
  * @param mean what is subtracted from each channel; none if empty
  * @param std what each channel is then divided by; nothing if empty
  */
private[mxnet] final case class ImageFormat(channelsFirst: Boolean, mean: Seq[Double], std: Seq[Double]) {

  /** Decodes an image to red, green and blue (or grey, if the input has one channel), scales it, and writes it. */
  def decode(bytes: Array[Byte], rowShape: Shape, target: Array[Float], offset: Int): Unit = {
    require(
      rowShape.length == 3,
      s"an image goes to an input whose rows have three dimensions, not $rowShape; check the parameter inputShapes"
    )
    val (channels, height, width) =
      if (channelsFirst) (rowShape(0), rowShape(1), rowShape(2)) else (rowShape(2), rowShape(0), rowShape(1))
    require(
      channels == 1 || channels == 3,
      s"an image has one or three channels, the input has rows of shape $rowShape; check inputShapes and imageLayout"
    )
    val pixels = ResourceScope.using() {
      val image = Image.imDecode(bytes, if (channels == 3) 1 else 0, to_rgb = true, None)
      val scaled =
        if (image.shape(0) == height && image.shape(1) == width) image else Image.imResize(image, width, height)
      scaled.internal.getRaw
    }
    val plane = height * width
    var channel = 0
    while (channel < channels) {
      val shift = if (mean.isEmpty) 0f else mean(if (mean.length == 1) 0 else channel).toFloat
      val scale = if (std.isEmpty) 1f else std(if (std.length == 1) 0 else channel).toFloat
      var i = 0
      while (i < plane) {
        val value = ((pixels(i * channels + channel) & 0xff) - shift) / scale
        target(offset + (if (channelsFirst) channel * plane + i else i * channels + channel)) = value
        i += 1
      }
      channel += 1
    }
  }
}

private[mxnet] object ImageFormat {

  /** (channels, height, width) from 0 to 255. */
  val Plain: ImageFormat = ImageFormat(channelsFirst = true, Nil, Nil)
}
