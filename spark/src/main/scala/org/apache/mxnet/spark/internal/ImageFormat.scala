package org.apache.mxnet.spark.internal

import org.apache.mxnet.{Image, NDArray, ResourceScope, Shape}

/** The conversion of an encoded image to the elements of an input.
  *
  * @param channelsFirst whether a row is (channels, height, width); else (height, width, channels)
  * @param mean mean of each channel, which is subtracted; none if empty
  * @param std divisor of each channel; none if empty
  */
private[mxnet] final case class ImageFormat(channelsFirst: Boolean, mean: Seq[Double], std: Seq[Double]) {

  /** Decodes an image to RGB (or gray, if the input has one channel), resizes and normalizes it, and writes it. */
  def decode(bytes: Array[Byte], rowShape: Shape, target: Array[Float], offset: Int): Unit =
    write(rowShape, target, offset) { channels =>
      Image.imDecode(bytes, if (channels == 3) 1 else 0, to_rgb = true, None)
    }

  /** As [[decode]], for an image that is decoded already. */
  def convert(image: DecodedImage, rowShape: Shape, target: Array[Float], offset: Int): Unit =
    write(rowShape, target, offset)(image.toNDArray)

  /** @param read gives the image (height, width, channels) of bytes, with as many channels as it is given */
  private def write(rowShape: Shape, target: Array[Float], offset: Int)(read: Int => NDArray): Unit = {
    require(
      rowShape.length == 3,
      s"an image needs an input with rows of three dimensions, not $rowShape; check the parameter inputShapes"
    )
    val (channels, height, width) =
      if (channelsFirst) (rowShape(0), rowShape(1), rowShape(2)) else (rowShape(2), rowShape(0), rowShape(1))
    require(
      channels == 1 || channels == 3,
      s"an image has one or three channels, but the input has rows of shape $rowShape; check inputShapes and imageLayout"
    )
    Seq("imageMean" -> mean, "imageStd" -> std).foreach { case (name, values) =>
      require(
        values.length <= 1 || values.length == channels,
        s"$name has ${values.length} numbers, but the input has $channels channels; give one number, or one for each channel"
      )
    }
    val pixels = ResourceScope.using() {
      val image = read(channels)
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
