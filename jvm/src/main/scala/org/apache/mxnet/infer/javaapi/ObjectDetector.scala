package org.apache.mxnet.infer.javaapi

import java.awt.image.BufferedImage
import java.lang.{Iterable => JIterable}
import java.util.{List => JList}

import scala.jdk.CollectionConverters._
import scala.language.implicitConversions

import org.apache.mxnet.infer.{ImageClassifier, ObjectDetector => CoreDetector}
import org.apache.mxnet.javaapi.internal.JavaValues
import org.apache.mxnet.javaapi.{Context, DataDesc, NDArray, Shape}

/** Detects objects in images, for Java; see [[org.apache.mxnet.infer.ObjectDetector]]. Any number of threads may share
  * it.
  */
class ObjectDetector private[mxnet] (val objDetector: CoreDetector) extends Serializable {

  /** @param modelPathPrefix prefix of the files: `prefix-symbol.json` and `prefix-NNNN.params`
    * @param inputDescriptors the input, with the expected batch size
    * @param contexts the devices, used in turn
    * @param epoch the number NNNN
    */
  def this(
      modelPathPrefix: String,
      inputDescriptors: JIterable[DataDesc],
      contexts: JIterable[Context],
      epoch: Int
  ) = this(
    new CoreDetector(
      modelPathPrefix,
      JavaValues.converted("ObjectDetector", "inputDescriptors", inputDescriptors)(_.dataDesc),
      JavaValues.converted("ObjectDetector", "contexts", contexts)(_.context).toArray,
      Some(epoch)
    )
  )

  /** Detects the objects in an image: the only element of the list.
    *
    * @param topK number of objects to return, the most likely first; 0 for all in the network's order
    */
  def imageObjectDetect(inputImage: BufferedImage, topK: Int): JList[JList[ObjectDetectorOutput]] =
    inJava(objDetector.imageObjectDetect(inputImage, atMost(topK)))

  /** Detects the objects in each image of a batch; see `imageObjectDetect`. */
  def objectDetectWithNDArray(input: JIterable[NDArray], topK: Int): JList[JList[ObjectDetectorOutput]] =
    inJava(
      objDetector.objectDetectWithNDArray(
        JavaValues.converted("ObjectDetector.objectDetectWithNDArray", "input", input)(_.nd),
        atMost(topK)
      )
    )

  /** Detects the objects in each of several images; see `imageObjectDetect`. */
  def imageBatchObjectDetect(inputBatch: JIterable[BufferedImage], topK: Int): JList[JList[ObjectDetectorOutput]] = {
    val images = JavaValues.converted("ObjectDetector.imageBatchObjectDetect", "inputBatch", inputBatch)(identity)
    inJava(objDetector.imageBatchObjectDetect(images, atMost(topK)))
  }

  private def atMost(topK: Int): Option[Int] = Some(topK).filter(_ != 0)

  private def inJava(found: IndexedSeq[IndexedSeq[(String, Array[Float])]]): JList[JList[ObjectDetectorOutput]] =
    found.map(_.map { case (name, box) => new ObjectDetectorOutput(name, box) }.asJava).asJava

  /** Each element converted by an implicit view. */
  def convert[B, A](l: IndexedSeq[A])(implicit view: A => B): IndexedSeq[B] = l.map(view)
}

object ObjectDetector {
  implicit def fromObjectDetector(OD: CoreDetector): ObjectDetector = new ObjectDetector(OD)

  implicit def toObjectDetector(jOD: ObjectDetector): CoreDetector = jOD.objDetector

  /** Reads an image file in a format that the JDK supports. */
  def loadImageFromFile(inputImagePath: String): BufferedImage = ImageClassifier.loadImageFromFile(inputImagePath)

  /** Resizes an image. */
  def reshapeImage(img: BufferedImage, newWidth: Int, newHeight: Int): BufferedImage =
    ImageClassifier.reshapeImage(img, newWidth, newHeight)

  /** An array of an image's red, green and blue planes, with values from 0 to 255 and the shape (3, height, width). */
  def bufferedImageToPixels(resizedImage: BufferedImage, inputImageShape: Shape): NDArray =
    ImageClassifier.bufferedImageToPixels(resizedImage, JavaValues.dims(inputImageShape))

  /** Reads several image files. */
  def loadInputBatch(inputImagePaths: JIterable[String]): JList[BufferedImage] =
    ImageClassifier
      .loadInputBatch(
        JavaValues.converted("ObjectDetector.loadInputBatch", "inputImagePaths", inputImagePaths)(identity).toList
      )
      .toSeq
      .asJava
}

/** A detected object.
  *
  * @param className its class
  * @param args probability, xmin, ymin, xmax and ymax
  */
class ObjectDetectorOutput(className: String, args: Array[Float]) {

  /** The name of its class, from the file `synset.txt`. */
  def getClassName: String = className

  /** The probability of the class, from 0 to 1. */
  def getProbability: Float = args(0)

  /** The left edge, as a fraction of the width of the image. */
  def getXMin: Float = args(1)

  /** The upper edge, as a fraction of the height of the image. */
  def getYMin: Float = args(2)

  /** The right edge, as a fraction of the width of the image. */
  def getXMax: Float = args(3)

  /** The lower edge, as a fraction of the height of the image. */
  def getYMax: Float = args(4)
}
