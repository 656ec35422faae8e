package org.apache.mxnet.infer

import java.awt.image.BufferedImage
import java.io.ObjectStreamException

import org.apache.mxnet._
import org.apache.mxnet.infer.internal.SerializableModel

/** Detects objects in images by a trained network such as SSD, whose output has rows of class, probability and bounding
  * box for each image. See [[Classifier]] for the files and parameters. Any number of threads may share a detector.
  */
class ObjectDetector(
    modelPathPrefix: String,
    inputDescriptors: IndexedSeq[DataDesc],
    contexts: Array[Context] = Array(Context.cpu()),
    epoch: Option[Int] = Some(0)
) extends SerializableModel {
  protected[infer] val imgClassifier: ImageClassifier =
    getImageClassifier(modelPathPrefix, inputDescriptors, contexts, epoch)

  /** The shape of a batch. */
  protected[infer] val inputShape: Shape = imgClassifier.inputShape

  protected[infer] val handler: MXNetHandler = imgClassifier.handler

  protected[infer] val predictor: PredictBase = imgClassifier.predictor

  /** The names of the classes. */
  protected[infer] val synset: IndexedSeq[String] = imgClassifier.synset

  protected[infer] val height: Int = imgClassifier.height

  protected[infer] val width: Int = imgClassifier.width

  /** The classifier whose predictor and classes this detector uses. */
  private[infer] def getImageClassifier(
      modelPathPrefix: String,
      inputDescriptors: IndexedSeq[DataDesc],
      contexts: Array[Context] = Array(Context.cpu()),
      epoch: Option[Int] = Some(0)
  ): ImageClassifier = {
    val classifier = new ImageClassifier(modelPathPrefix, inputDescriptors, contexts, epoch)
    ObjectDetector.requireDetections(classifier.outputShapes.head._2)
    classifier
  }

  @throws(classOf[ObjectStreamException])
  protected def writeReplace(): AnyRef = imgClassifier.serialized(this, isSerializedByPath)

  /** Detects the objects in an image.
    *
    * @param topK number of objects to return, the most likely first; if absent, all in the network's order
    * @return in the only element, class and (probability, xmin, ymin, xmax, ymax) of each object. The coordinates are those of
    *   the network: for SSD, fractions of the width and height of the image
    */
  def imageObjectDetect(
      inputImage: BufferedImage,
      topK: Option[Int] = None
  ): IndexedSeq[IndexedSeq[(String, Array[Float])]] = imageBatchObjectDetect(Seq(inputImage), topK)

  /** Detects the objects in each image of a batch; see [[imageObjectDetect]].
    *
    * @param input the batch, of shape (batch, 3, height, width) with the network's height and width
    * @param topK number of objects per image, the most likely first; if absent, all in the network's order
    */
  def objectDetectWithNDArray(
      input: IndexedSeq[NDArray],
      topK: Option[Int]
  ): IndexedSeq[IndexedSeq[(String, Array[Float])]] = {
    topK.foreach(k => require(k > 0, s"topK is $k; it must be 1 or more"))
    val outputs = predictor.predictWithNDArray(input)
    try {
      val shape = outputs.head.shape
      ObjectDetector.requireDetections(shape)
      outputs.head.toArray.grouped(shape(2)).toIndexedSeq.grouped(shape(1)).map(detections(_, topK)).toIndexedSeq
    } finally outputs.foreach(_.dispose())
  }

  /** The objects in one image; see [[imageObjectDetect]].
    *
    * @param predictResultND a row of class, probability and bounding box for each object
    */
  private[infer] def sortAndReformat(
      predictResultND: NDArray,
      topK: Option[Int]
  ): IndexedSeq[(String, Array[Float])] =
    detections(predictResultND.toArray.grouped(predictResultND.shape(1)).toIndexedSeq, topK)

  private def detections(rows: IndexedSeq[Array[Float]], topK: Option[Int]): IndexedSeq[(String, Array[Float])] = {
    val objects = rows.filter(_(0) >= 0f) // a class of -1 is an empty row
    val chosen = topK.fold(objects)(k => objects.sortBy(-_(1)).take(k))
    chosen.map { row =>
      val index = row(0).toInt
      require(
        index < synset.length,
        s"the network detected class $index, but synset.txt has only ${synset.length} classes"
      )
      (synset(index), row.takeRight(5))
    }
  }

  /** Detects the objects in each of several images; see [[imageObjectDetect]]. */
  def imageBatchObjectDetect(
      inputBatch: Iterable[BufferedImage],
      topK: Option[Int] = None
  ): IndexedSeq[IndexedSeq[(String, Array[Float])]] = {
    val batch = imgClassifier.pixels(inputBatch, inputDescriptors.head.dtype)
    try objectDetectWithNDArray(IndexedSeq(batch), topK)
    finally batch.dispose()
  }
}

private object ObjectDetector {
  private def requireDetections(shape: Shape): Unit = require(
    shape.length == 3 && shape(2) >= 6,
    s"the network's output has the shape $shape; expected (batch, objects, 6)"
  )
}
