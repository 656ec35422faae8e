package org.apache.mxnet.javaapi

import java.awt.image.BufferedImage
import java.io.InputStream
import java.util.{List => JList, Map => JMap}

import scala.jdk.CollectionConverters._

import org.apache.mxnet.javaapi.internal.JavaValues
import org.apache.mxnet.{Image => CoreImage}

/** Reads, transforms and draws images, for Java; see [[org.apache.mxnet.Image]]. */
object Image {

  /** Decodes an image.
    *
    * @param buf the bytes of the file
    * @param flag 1 for three channels, 0 for gray
    * @param toRGB whether the channels are red, green, blue; else they are blue, green, red
    */
  def imDecode(buf: Array[Byte], flag: Int, toRGB: Boolean): NDArray = CoreImage.imDecode(buf, flag, toRGB, None)

  /** Decodes an image to RGB. */
  def imDecode(buf: Array[Byte]): NDArray = imDecode(buf, 1, true)

  /** Decodes an image; the stream is not closed. */
  def imDecode(inputStream: InputStream, flag: Int, toRGB: Boolean): NDArray =
    CoreImage.imDecode(inputStream, flag, toRGB)

  /** Decodes an image to RGB; the stream is not closed. */
  def imDecode(inputStream: InputStream): NDArray = imDecode(inputStream, 1, true)

  /** Reads and decodes an image file; see [[imDecode]]. */
  def imRead(filename: String, flag: Int, toRGB: Boolean): NDArray =
    CoreImage.imRead(filename, Some(flag), Some(toRGB))

  /** Reads and decodes an image file to RGB. */
  def imRead(filename: String): NDArray = imRead(filename, 1, true)

  /** Resizes an image.
    *
    * @param interp the interpolation: 0 nearest, 1 bilinear, 2 bicubic, 3 area, 4 Lanczos; null for bilinear
    */
  def imResize(src: NDArray, w: Int, h: Int, interp: Integer): NDArray =
    CoreImage.imResize(JavaValues.unwrapped(src), w, h, Option(interp).map(_.intValue))

  /** Resizes an image, with bilinear interpolation. */
  def imResize(src: NDArray, w: Int, h: Int): NDArray = imResize(src, w, h, null)

  /** A copy of the rectangle of width `w` and height `h` with the upper left corner (`x0`, `y0`). */
  def fixedCrop(src: NDArray, x0: Int, y0: Int, w: Int, h: Int): NDArray =
    CoreImage.fixedCrop(JavaValues.unwrapped(src), x0, y0, w, h)

  /** Converts an array of shape (height, width, channels), RGB or gray, to an image of the JDK. */
  def toImage(src: NDArray): BufferedImage = CoreImage.toImage(JavaValues.unwrapped(src))

  /** Draws boxes into an image.
    *
    * @param coordinate `xmin`, `ymin`, `xmax` and `ymax` of each box
    * @param names label of each box; null for none
    */
  def drawBoundingBox(src: BufferedImage, coordinate: JList[JMap[String, Integer]], names: JList[String]): Unit =
    CoreImage.drawBoundingBox(
      src,
      coordinate.asScala.map(_.asScala.view.mapValues(_.intValue).toMap).toArray,
      Option(names).map(_.asScala.toArray)
    )
}
