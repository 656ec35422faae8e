package org.apache.mxnet

import java.awt.image.BufferedImage
import java.awt.{AlphaComposite, BasicStroke, Color, Font, Graphics2D}
import java.io.InputStream

import org.apache.mxnet.internal.util.NullChecks.requireNonNull

/** Reads, transforms and draws images: arrays of shape (height, width, channels) and type uint8. */
object Image {

  /** Decodes a JPEG, PNG or BMP image.
    *
    * @param buf the bytes of the file
    * @param flag 1 for three channels, 0 for gray
    * @param to_rgb whether the channels are red, green, blue; else they are blue, green, red
    * @param out an array that receives the image
    */
  def imDecode(buf: Array[Byte], flag: Int, to_rgb: Boolean, out: Option[NDArray]): NDArray = {
    if (buf == null || buf.isEmpty) throw new MXNetError("Image.imDecode: there are no bytes to decode")
    val bytes = NDArray.empty(Shape(buf.length), Context.cpu(), DType.UInt8)
    try {
      bytes.setBytes(buf)
      invoke("_cvimdecode", Seq(bytes), out, "flag" -> flag, "to_rgb" -> to_rgb)
    } finally bytes.dispose()
  }

  /** Decodes a JPEG, PNG or BMP image. The stream is read to its end and not closed. */
  def imDecode(
      inputStream: InputStream,
      flag: Int = 1,
      to_rgb: Boolean = true,
      out: Option[NDArray] = None
  ): NDArray = {
    requireNonNull("Image.imDecode", "inputStream" -> inputStream)
    imDecode(inputStream.readAllBytes(), flag, to_rgb, out)
  }

  /** Reads a JPEG, PNG or BMP file; see [[imDecode]]. */
  def imRead(
      filename: String,
      flag: Option[Int] = None,
      to_rgb: Option[Boolean] = None,
      out: Option[NDArray] = None
  ): NDArray = invoke("_cvimread", Nil, out, "filename" -> filename, "flag" -> flag, "to_rgb" -> to_rgb)

  /** Resizes an image.
    *
    * @param w the new width
    * @param h the new height
    * @param interp the interpolation: 0 nearest, 1 bilinear, 2 bicubic, 3 area, 4 Lanczos; bilinear if absent
    */
  def imResize(src: NDArray, w: Int, h: Int, interp: Option[Int] = None, out: Option[NDArray] = None): NDArray =
    invoke("_cvimresize", Seq(src), out, "w" -> w, "h" -> h, "interp" -> interp)

  /** Pads an image.
    *
    * @param top rows above
    * @param bot rows below
    * @param left columns on the left
    * @param right columns on the right
    * @param typeOf the padding mode: 0 constant color, 1 replicated edge, 2 reflection, 3 wrap, 4 reflection without
    *   the edge pixels
    * @param value the value of all channels, if `values` is absent
    * @param values the value of each channel
    */
  def copyMakeBorder(
      src: NDArray,
      top: Int,
      bot: Int,
      left: Int,
      right: Int,
      typeOf: Option[Int] = None,
      value: Option[Double] = None,
      values: Option[Any] = None,
      out: Option[NDArray] = None
  ): NDArray = {
    val sides = Seq("top" -> top, "bot" -> bot, "left" -> left, "right" -> right)
    val border = Seq("type" -> typeOf, "value" -> value, "values" -> values)
    invoke("_cvcopyMakeBorder", Seq(src), out, sides ++ border: _*)
  }

  /** A copy of the rectangle of width `w` and height `h` with the upper left corner (`x0`, `y0`). */
  def fixedCrop(src: NDArray, x0: Int, y0: Int, w: Int, h: Int): NDArray = {
    requireNonNull("Image.fixedCrop", "src" -> src)
    invoke("slice", Seq(src), None, "begin" -> Seq(y0, x0, 0), "end" -> Seq(y0 + h, x0 + w, src.shape(2)))
  }

  /** Converts an array to an image of the JDK.
    *
    * @param src an array (height, width, 3) of red, green and blue, or (height, width, 1) of gray, from 0 to 255
    */
  def toImage(src: NDArray): BufferedImage = {
    requireNonNull("Image.toImage", "src" -> src)
    val shape = src.shape
    if (shape.length != 3 || (shape(2) != 1 && shape(2) != 3))
      throw new MXNetError(s"Image.toImage: the shape must be (height, width, 3) or (height, width, 1), not $shape")
    val (height, width, channels) = (shape(0), shape(1), shape(2))
    val samples =
      (if (src.dtype == DType.UInt8) src.internal.getRaw.map(_ & 0xff) else src.toArray.map(_.toInt)).toArray
    val pixels = Array.tabulate(height * width) { i =>
      def sample(channel: Int): Int = samples(i * channels + math.min(channel, channels - 1)) & 0xff
      (sample(0) << 16) | (sample(1) << 8) | sample(2)
    }
    val image = new BufferedImage(width, height, BufferedImage.TYPE_INT_RGB)
    image.setRGB(0, 0, width, height, pixels, 0, width)
    image
  }

  /** Draws boxes in different colors into an image.
    *
    * @param coordinate `xmin`, `ymin`, `xmax` and `ymax` of each box, in pixels
    * @param names label of each box
    * @param stroke width of the lines in pixels; 3 if absent
    * @param fontSizeMult scale of the font size; 1 is the default
    * @param transparency opacity from 0 to 1; 1 if absent
    */
  def drawBoundingBox(
      src: BufferedImage,
      coordinate: Array[Map[String, Int]],
      names: Option[Array[String]] = None,
      stroke: Option[Int] = None,
      fontSizeMult: Option[Float] = None,
      transparency: Option[Float] = None
  ): Unit = {
    requireNonNull(
      "Image.drawBoundingBox",
      "src" -> src,
      "coordinate" -> coordinate,
      "names" -> names,
      "stroke" -> stroke,
      "fontSizeMult" -> fontSizeMult,
      "transparency" -> transparency
    )
    names.foreach { texts =>
      if (texts.length != coordinate.length)
        throw new MXNetError(
          s"Image.drawBoundingBox: ${texts.length} names were given for ${coordinate.length} boxes; give one for each"
        )
    }
    val opacity = transparency.getOrElse(1f)
    if (!(opacity >= 0f && opacity <= 1f))
      throw new MXNetError(s"Image.drawBoundingBox: transparency is $opacity, it must be from 0 to 1")
    val graphics = src.createGraphics()
    try {
      graphics.setComposite(AlphaComposite.getInstance(AlphaComposite.SRC_OVER, opacity))
      graphics.setStroke(new BasicStroke(stroke.getOrElse(3).toFloat))
      val fontSize = math.max(1f, fontSizeMult.getOrElse(1f) * defaultFontSize)
      graphics.setFont(new Font(Font.SANS_SERIF, Font.BOLD, 1).deriveFont(fontSize))
      coordinate.indices.foreach { i =>
        graphics.setColor(Color.getHSBColor(i * goldenRatio, 0.85f, 0.95f))
        drawBox(graphics, coordinate(i), names.map(_(i)))
      }
    } finally graphics.dispose()
  }

  private val defaultFontSize = 12f

  /** A hue step that gives neighboring boxes distinct colors. */
  private val goldenRatio = 0.618034f

  private def drawBox(graphics: Graphics2D, box: Map[String, Int], name: Option[String]): Unit = {
    def corner(key: String): Int =
      box.getOrElse(
        key,
        throw new MXNetError(
          s"Image.drawBoundingBox: a box has no $key, only ${box.keys.mkString(", ")}; give xmin, ymin, xmax and ymax"
        )
      )
    val (xmin, ymin, xmax, ymax) = (corner("xmin"), corner("ymin"), corner("xmax"), corner("ymax"))
    graphics.drawRect(xmin, ymin, xmax - xmin, ymax - ymin)
    name.foreach { text =>
      val metrics = graphics.getFontMetrics
      val boxColor = graphics.getColor
      graphics.fillRect(xmin, ymin, metrics.stringWidth(text) + 4, metrics.getHeight)
      graphics.setColor(Color.WHITE)
      graphics.drawString(text, xmin + 2, ymin + metrics.getAscent)
      graphics.setColor(boxColor)
    }
  }

  private def invoke(op: String, inputs: Seq[NDArray], out: Option[NDArray], params: (String, Any)*): NDArray = {
    requireNonNull(s"Image ($op)", ("inputs" -> inputs) +: ("out" -> out) +: params: _*)
    val arguments = params.filter(_._2 != None) ++ out.map("out" -> _)
    NDArray.genericNDArrayFunctionInvoke(op, inputs, arguments.toMap).head
  }
}
