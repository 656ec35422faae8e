package org.apache.mxnet.infer

import java.io.ObjectStreamException
import java.nio.file.{Path, Paths}

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
  */
class Classifier(
    modelPathPrefix: String,
    protected val inputDescriptors: IndexedSeq[DataDesc],
    protected val contexts: Array[Context] = Array(Context.cpu()),
    protected val epoch: Option[Int] = Some(0)
) extends ClassifierBase
    with SerializableModel {
  private val network = new Predictor(modelPathPrefix, inputDescriptors, contexts, epoch)
  private[infer] val predictor: PredictBase = network

  private[infer] val synsetFilePath: Path =
    Option(Paths.get(modelPathPrefix).toAbsolutePath.getParent).fold(Paths.get("synset.txt"))(_.resolve("synset.txt"))

  /** The names of the classes. */
  private[infer] val synset: IndexedSeq[String] = ModelContent.synset(synsetFilePath)

  @throws(classOf[ObjectStreamException])
  protected def writeReplace(): AnyRef = serialized(this, isSerializedByPath)

  /** The serialized form of this classifier, or of the object that contains it. */
  private[infer] def serialized(owner: AnyRef, byPath: Boolean): AnyRef = SerializedPredictor.of(
    owner,
    modelPathPrefix,
    inputDescriptors,
    if (contexts == null) Array.empty[Context] else contexts,
    epoch,
    Option.unless(byPath)(network.content(synset))
  )

  /** The classes of one instance.
    *
    * @param input the inputs; see [[Predictor.predict]]
    * @param topK number of classes to return, by decreasing score; if absent, all classes in their order
    * @tparam T `Float` or `Double`
    */
  override def classify[T](input: IndexedSeq[Array[T]], topK: Option[Int] = None): IndexedSeq[(String, T)] = {
    val numbers = predictor.predict(input).head
    require(
      numbers.length == synset.length,
      s"the network gave ${numbers.length} numbers, there are ${synset.length} classes in $synsetFilePath; classify " +
        "takes one instance, use classifyWithNDArray for more"
    )
    ranked(numbers.toIndexedSeq, topK)(asDouble)
  }

  private def asDouble(number: Any): Double = number match {
    case value: Float  => value.toDouble
    case value: Double => value
    case other         => throw new IllegalArgumentException(s"the network gave ${other.getClass.getName}")
  }

  /** The classes of each instance of a batch.
    *
    * @param input the inputs, of one batch size
    * @param topK number of classes per instance, by decreasing score; if absent, all classes in their order
    */
  override def classifyWithNDArray(
      input: IndexedSeq[NDArray],
      topK: Option[Int] = None
  ): IndexedSeq[IndexedSeq[(String, Float)]] = {
    val outputs = predictor.predictWithNDArray(input)
    try {
      val (instances, numbers) = (outputs.head.shape(0), outputs.head.toArray)
      require(
        numbers.length == instances * synset.length,
        s"the network's output has the shape ${outputs.head.shape}, there are ${synset.length} classes in " +
          s"$synsetFilePath"
      )
      (0 until instances).map { i =>
        ranked(numbers.slice(i * synset.length, (i + 1) * synset.length).toIndexedSeq, topK)(_.toDouble)
      }
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
