package org.apache.mxnet

import java.awt.image.BufferedImage
import java.io.{ByteArrayInputStream, ByteArrayOutputStream}
import java.nio.file.Files
import javax.imageio.ImageIO

class ImageSuite extends munit.FunSuite {
  private val pixels = Array(0xff0000, 0x00ff00, 0x0000ff, 0x102030, 0xffffff, 0x000000)

  /** A PNG image of 3 x 2 pixels. */
  private val png: Array[Byte] = {
    val image = new BufferedImage(3, 2, BufferedImage.TYPE_INT_RGB)
    image.setRGB(0, 0, 3, 2, pixels, 0, 3)
    val bytes = new ByteArrayOutputStream
    ImageIO.write(image, "png", bytes)
    bytes.toByteArray
  }

  private def samples(order: Int*): Seq[Float] =
    pixels.toSeq.flatMap(rgb => order.map(shift => ((rgb >> shift) & 0xff).toFloat))

  test("images are decoded from bytes, streams and files, in the requested order of channels") {
    val decoded = Image.imDecode(new ByteArrayInputStream(png))
    assertEquals((decoded.shape, decoded.dtype), (Shape(2, 3, 3), DType.UInt8))
    assertEquals(decoded.toArray.toSeq, samples(16, 8, 0))
    assertEquals(Image.imDecode(png, 1, to_rgb = false, None).toArray.toSeq, samples(0, 8, 16))
    assertEquals(Image.imDecode(png, 0, to_rgb = true, None).shape, Shape(2, 3, 1))
    val file = Files.createTempFile("image", ".png")
    Files.write(file, png)
    assertEquals(Image.imRead(file.toString), decoded)
    assertEquals(javaapi.Image.imRead(file.toString).nd, decoded)
    Files.delete(file)
    intercept[MXNetError](Image.imRead(file.toString))
    intercept[MXNetError](Image.imDecode("no image".getBytes, 1, to_rgb = true, None))
  }

  test("images are cropped, scaled and padded, and converted to images of the JDK") {
    val image = Image.imDecode(png, 1, to_rgb = true, None)
    val crop = Image.fixedCrop(image, x0 = 1, y0 = 0, w = 2, h = 1)
    assertEquals((crop.shape, crop.toArray.toSeq), (Shape(1, 2, 3), samples(16, 8, 0).slice(3, 9)))
    assertEquals(
      Image.imResize(image, w = 6, h = 4, interp = Some(0)).at(0).toArray.toSeq.take(6),
      Seq(255f, 0f, 0f, 255f, 0f, 0f)
    )
    val framed = Image.copyMakeBorder(image, 1, 0, 0, 2, value = Some(9.0))
    assertEquals((framed.shape, framed.at(0).toArray.toSeq.distinct), (Shape(3, 5, 3), Seq(9f)))
    val shown = Image.toImage(image)
    assertEquals(shown.getRGB(0, 0, 3, 2, null, 0, 3).map(_ & 0xffffff).toSeq, pixels.toSeq)
    assert(intercept[MXNetError](Image.toImage(NDArray.zeros(2, 2))).getMessage.contains("(height, width, 3)"))
  }

  test("boxes are drawn where they are") {
    val image = new BufferedImage(40, 30, BufferedImage.TYPE_INT_RGB)
    val box = Map("xmin" -> 5, "ymin" -> 6, "xmax" -> 30, "ymax" -> 20)
    Image.drawBoundingBox(image, Array(box), stroke = Some(1))
    def isDrawn(x: Int, y: Int) = (image.getRGB(x, y) & 0xffffff) != 0
    assertEquals(
      Seq((5, 6), (30, 20), (17, 6), (17, 13), (2, 2)).map { case (x, y) => isDrawn(x, y) },
      Seq(true, true, true, false, false)
    )
    Image.drawBoundingBox(image, Array(box), Some(Array("dog")), fontSizeMult = Some(0.5f), transparency = Some(0.5f))
    assert(intercept[MXNetError](Image.drawBoundingBox(image, Array(box - "ymax"))).getMessage.contains("no ymax"))
    assert(
      intercept[MXNetError](Image.drawBoundingBox(image, Array(box), Some(Array()))).getMessage.contains("0 names")
    )
  }
}
