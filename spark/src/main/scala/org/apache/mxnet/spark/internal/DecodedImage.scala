package org.apache.mxnet.spark.internal

import org.apache.mxnet._
import org.apache.spark.ml.image.ImageSchema
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters
import org.apache.spark.sql.types.{DataType, StructType}

/** An image of Spark's data source `image`: rows of pixels with `numChannels` bytes, of which the first three are blue, green
  * and red, or one is gray.
  */
private[mxnet] final case class DecodedImage(height: Int, width: Int, numChannels: Int, bytes: Array[Byte]) {

  /** The pixels as an array (height, width, channels) of bytes.
    *
    * @param channels 3 for red, green and blue, 1 for gray
    */
  def toNDArray(channels: Int): NDArray = {
    val pixels = new Array[Byte](Math.multiplyExact(height * width, channels))
    var i = 0
    while (i < height * width) {
      val (blue, green, red) = pixel(i)
      if (channels == 3) {
        pixels(3 * i) = red.toByte
        pixels(3 * i + 1) = green.toByte
        pixels(3 * i + 2) = blue.toByte
      } else pixels(i) = math.round(0.299f * red + 0.587f * green + 0.114f * blue).toByte
      i += 1
    }
    val array = NDArray.empty(Shape(height, width, channels), Context.cpu(), DType.UInt8)
    PrimitiveType.Bytes.write(pixels, array)
    array
  }

  private def pixel(index: Int): (Int, Int, Int) = {
    def byte(channel: Int) = bytes(index * numChannels + channel) & 0xff
    if (numChannels == 1) (byte(0), byte(0), byte(0)) else (byte(0), byte(1), byte(2))
  }
}

private[mxnet] object DecodedImage {

  /** Whether a column has images of the data source. */
  def is(dataType: DataType): Boolean = dataType match {
    case struct: StructType => struct.map(field) == ImageSchema.columnSchema.map(field)
    case _                  => false
  }

  private def field(column: org.apache.spark.sql.types.StructField) = column.name -> column.dataType

  /** Reads the structure (origin, height, width, nChannels, mode, data). */
  def of(row: SpecializedGetters, ordinal: Int): DecodedImage = {
    val image = row.getStruct(ordinal, ImageSchema.columnSchema.length)
    val decoded = DecodedImage(image.getInt(1), image.getInt(2), image.getInt(3), image.getBinary(5))
    val numBytes = decoded.height.toLong * decoded.width * decoded.numChannels
    if (decoded.height <= 0 || !Set(1, 3, 4)(decoded.numChannels) || decoded.bytes.length != numBytes)
      throw new MXNetError(
        s"it is ${decoded.width} by ${decoded.height} pixels with ${decoded.numChannels} channels and " +
          s"${decoded.bytes.length} bytes; expected 1, 3 or 4 channels of a byte (the option dropInvalid of the data " +
          "source drops files that are not images)"
      )
    decoded
  }
}
