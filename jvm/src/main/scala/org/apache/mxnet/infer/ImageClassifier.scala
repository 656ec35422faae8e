package org.apache.mxnet.infer

import java.awt.image.BufferedImage
import java.io.File
import javax.imageio.ImageIO

import org.apache.mxnet._
import org.apache.mxnet.internal.util.NullChecks.requireNonNull

/** Classifies images by a trained network whose only input is a batch of RGB images with values from 0 to 255, by
  * default in the layout NCHW. Images are resized to the network's size. See [[Classifier]] for the files and
  * parameters. Any number of threads may share a classifier.
  */
class ImageClassifier(
    modelPathPrefix: String,
    inputDescriptors: IndexedSeq[DataDesc],
    contexts: Array[Context] = Array(Context.cpu()),
    epoch: Option[Int] = Some(0)
) extends Classifier(modelPathPrefix, inputDescriptors, contexts, epoch) {
  require(
    inputDescriptors.length == 1 && inputDescriptors.head.shape.length == 4,
    s"the inputs are ${inputDescriptors.mkString(", ")}; an image classifier has one, with four dimensions such as NCHW"
  )

  protected[infer] val inputLayout: String = inputDescriptors.head.layout match {
    case Layout.UNDEFINED => Layout.NCHW
    case chosen           => chosen
  }
  require(inputLayout == Layout.NCHW, s"the layout is $inputLayout; images are given in NCHW")

  /** The shape of a batch. */
  protected[infer] val inputShape: Shape = inputDescriptors.head.shape

  protected[infer] val batch: Int = inputShape(0)
  protected[infer] val channel: Int = inputShape(1)
  protected[infer] val height: Int = inputShape(2)
  protected[infer] val width: Int = inputShape(3)

  /** A classifier without images, of any network. */
  private[infer] def getClassifier(
      modelPathPrefix: String,
      inputDescriptors: IndexedSeq[DataDesc],
      contexts: Array[Context] = Array(Context.cpu()),
      epoch: Option[Int] = Some(0)
  ): Classifier = new Classifier(modelPathPrefix, inputDescriptors, contexts, epoch)

  /** Names and shapes of the outputs for the described batch. */
  def outputShapes: IndexedSeq[(String, Shape)] = predictor.outputShapes

  /** Classifies an image.
    *
    * @param inputImage an image of any size
    * @param topK number of classes to return, the most likely first; if absent, all classes in the order of `synset.txt`
    * @param dType the element type of the network's input
    * @return in the only element, the name and score of each class
    */
  def classifyImage(
      inputImage: BufferedImage,
      topK: Option[Int] = None,
      dType: DType.DType = Base.MX_REAL_TYPE
  ): IndexedSeq[IndexedSeq[(String, Float)]] = classifyImageBatch(Seq(inputImage), topK, dType)

  /** Classifies several images.
    *
    * @param inputBatch images of any sizes
    * @param topK number of classes per image, the most likely first; if absent, all classes in the order of `synset.txt`
    * @param dType the element type of the network's input
    * @return the names and scores of the classes, for each image
    */
  def classifyImageBatch(
      inputBatch: Iterable[BufferedImage],
      topK: Option[Int] = None,
      dType: DType.DType = Base.MX_REAL_TYPE
  ): IndexedSeq[IndexedSeq[(String, Float)]] = {
    val batch = pixels(inputBatch, dType)
    try classifyWithNDArray(IndexedSeq(batch), topK)
    finally batch.dispose()
  }

  /** Images as a batch, resized to the network's size. */
  private[infer] def pixels(images: Iterable[BufferedImage], dType: DType.DType): NDArray = {
    if (images == null) requireNonNull("ImageClassifier", "inputBatch" -> images)
    val all = images.toIndexedSeq
    require(all.nonEmpty, "there are no images; give at least one")
    requireNonNull("ImageClassifier", "inputBatch" -> all)
    val samples = all.toArray.map { image =>
      ImageClassifier.samples(ImageClassifier.reshapeImage(image, width, height), inputShape.drop(1))
    }
    NDArray.empty(Shape(samples.length) ++ inputShape.drop(1), Context.cpu(), dType).set(samples.flatten)
  }
}

/** Converts images to arrays. */
object ImageClassifier {

  /** Resizes an image. Each pixel has the color of the nearest one of the original, as in MXNet's Scala package. */
  def reshapeImage(img: BufferedImage, newWidth: Int, newHeight: Int): BufferedImage = {
    requireNonNull("ImageClassifier.reshapeImage", "img" -> img)
    require(newWidth > 0 && newHeight > 0, s"the new size is $newWidth x $newHeight; both must be 1 or more")
    val scaled = new BufferedImage(newWidth, newHeight, BufferedImage.TYPE_INT_RGB)
    val graphics = scaled.createGraphics()
    try graphics.drawImage(img, 0, 0, newWidth, newHeight, null)
    finally graphics.dispose()
    scaled
  }

  /** An array of an image's red, green and blue planes, with values from 0 to 255.
    *
    * @param resizedImage an image of the network's size
    * @param inputImageShape the shape of an instance: (3, height, width)
    * @param dType the type of the array
    */
  def bufferedImageToPixels(
      resizedImage: BufferedImage,
      inputImageShape: Shape,
      dType: DType.DType = Base.MX_REAL_TYPE
  ): NDArray = NDArray.empty(inputImageShape, Context.cpu(), dType).set(samples(resizedImage, inputImageShape))

  private[infer] def samples(image: BufferedImage, shape: Shape): Array[Float] = {
    requireNonNull("ImageClassifier.bufferedImageToPixels", "resizedImage" -> image, "inputImageShape" -> shape)
    val (width, height) = (image.getWidth, image.getHeight)
    val expected = Seq(3, height, width)
    require(
      shape.toVector.dropWhile(_ == 1) == expected.dropWhile(_ == 1) || shape.toVector.takeRight(3) == expected,
      s"the image is $width x $height, which does not match the shape $shape; scale it with reshapeImage"
    )
    val pixels = image.getRGB(0, 0, width, height, null, 0, width)
    val samples = new Array[Float](3 * pixels.length)
    var i = 0
    while (i < pixels.length) {
      val rgb = pixels(i)
      samples(i) = ((rgb >> 16) & 0xff).toFloat
      samples(pixels.length + i) = ((rgb >> 8) & 0xff).toFloat
      samples(2 * pixels.length + i) = (rgb & 0xff).toFloat
      i += 1
    }
    samples
  }

  /** Reads an image file in a format that the JDK supports. */
  def loadImageFromFile(inputImagePath: String): BufferedImage = {
    requireNonNull("ImageClassifier.loadImageFromFile", "inputImagePath" -> inputImagePath)
    val file = new File(inputImagePath)
    require(file.isFile, s"there is no image file $inputImagePath")
    val image = ImageIO.read(file)
    require(
      image != null,
      s"$inputImagePath is not an image of a known format: ${ImageIO.getReaderFormatNames.mkString(", ")}"
    )
    image
  }

  /** Reads several image files. */
  def loadInputBatch(inputImagePaths: List[String]): Iterable[BufferedImage] = inputImagePaths.map(loadImageFromFile)
}
