package org.apache.mxnet.infer

import java.io.{File, ObjectStreamException}

import org.apache.mxnet._
import org.apache.mxnet.infer.internal._

/** Classifies instances. */
trait ClassifierBase {

  /** The classes of one instance; see [[Classifier.classify]]. */
  def classify[T](input: IndexedSeq[Array[T]], topK: Option[Int] = None): IndexedSeq[(String, T)]

  /** The classes of each instance of a batch; see [[Classifier.classifyWithNDArray]]. */
  def classifyWithNDArray(
      input: IndexedSeq[NDArray],
      topK: Option[Int] = None
  ): IndexedSeq[IndexedSeq[(String, Float)]]
}

/** Classifies instances by a trained network whose first output has a score per class. The class names are in
  * `synset.txt` in the directory of the network, one per line. Any number of threads may share a classifier. See
  * [[Predictor]] for the parameters.
  *
  * A subclass may override `getPredictor`, `getSynsetFilePath` and `readSynsetFile`, which the constructor calls in this
  * order.
  */
class Classifier(
    modelPathPrefix: String,
    protected val inputDescriptors: IndexedSeq[DataDesc],
    protected val contexts: Array[Context] = Array(Context.cpu()),
    protected val epoch: Option[Int] = Some(0)
) extends ClassifierBase
    with SerializableModel {

  /** Runs the network. */
  protected[infer] val predictor: PredictBase = getPredictor()

  /** The file with the names of the classes. */
  protected[infer] val synsetFilePath: String = getSynsetFilePath(modelPathPrefix)

  /** The names of the classes. */
  protected[infer] val synset: IndexedSeq[String] = readSynsetFile(synsetFilePath)

  /** Runs code in the thread that all models share. Nothing here needs it. */
  protected[infer] val handler: MXNetHandler = MXNetHandler()

  private[infer] def getPredictor(): PredictBase = new Predictor(modelPathPrefix, inputDescriptors, contexts, epoch)

  /** The path of `synset.txt` in the directory of the network. */
  private[infer] def getSynsetFilePath(modelPathPrefix: String): String = {
    val directory = new File(modelPathPrefix).getAbsoluteFile.getParentFile
    new File(directory, "synset.txt").getCanonicalPath
  }

  /** The names of the classes: the lines of a file. */
  private[infer] def readSynsetFile(synsetFilePath: String): IndexedSeq[String] = ModelContent.synset(synsetFilePath)

  @throws(classOf[ObjectStreamException])
  protected def writeReplace(): AnyRef = serialized(this, isSerializedByPath)

  /** The serialized form of this classifier, or of the object that contains it. */
  private[infer] def serialized(owner: AnyRef, byPath: Boolean): AnyRef = SerializedPredictor.of(
    owner,
    modelPathPrefix,
    inputDescriptors,
    if (contexts == null) Array.empty[Context] else contexts,
    epoch,
    predictor match {
      case network: Predictor if !byPath => Some(network.content(synset))
      case _                             => None
    }
  )

  /** The classes of one instance.
    *
    * @param input the inputs; see [[Predictor.predict]]
    * @param topK number of classes to return, by decreasing score; if absent, all classes in the order of `synset.txt`
    * @return the name and score of each class
    * @tparam T `Float` or `Double`
    */
  override def classify[T](input: IndexedSeq[Array[T]], topK: Option[Int] = None): IndexedSeq[(String, T)] = {
    val numbers = predictor.predict(input).head
    requireNames(numbers.length, "classify takes one instance, use classifyWithNDArray for more")
    ranked(numbers.toIndexedSeq, topK)(asDouble)
  }

  private def requireNames(scores: Int, advice: String): Unit = require(
    scores <= synset.length,
    s"the network returns $scores scores, but $synsetFilePath has ${synset.length} classes; $advice"
  )

  private def asDouble(number: Any): Double = number match {
    case value: Float  => value.toDouble
    case value: Double => value
    case other         => throw new IllegalArgumentException(s"the network returned ${other.getClass.getName}")
  }

  /** The classes of each instance of a batch.
    *
    * @param input the inputs, of one batch size
    * @param topK number of classes per instance, by decreasing score; if absent, all classes in the order of `synset.txt`
    * @return the names and scores of the classes, for each instance
    */
  override def classifyWithNDArray(
      input: IndexedSeq[NDArray],
      topK: Option[Int] = None
  ): IndexedSeq[IndexedSeq[(String, Float)]] = {
    val outputs = predictor.predictWithNDArray(input)
    try {
      val (instances, numbers) = (outputs.head.shape(0), outputs.head.toArray)
      requireNames(numbers.length / instances, s"the output has the shape ${outputs.head.shape}")
      numbers
        .grouped(numbers.length / instances)
        .map(scores => ranked(scores.toIndexedSeq, topK)(_.toDouble))
        .toIndexedSeq
    } finally outputs.foreach(_.dispose())
  }

  private def ranked[T](numbers: IndexedSeq[T], topK: Option[Int])(value: T => Double): IndexedSeq[(String, T)] =
    topK match {
      case None    => synset.zip(numbers)
      case Some(k) =>
        require(k > 0, s"topK is $k; it must be 1 or more")
        val order = numbers.indices.sortBy(i => value(numbers(i)))(Ordering.Double.TotalOrdering.reverse)
        order.take(k).map(i => (synset(i), numbers(i)))
    }
}
