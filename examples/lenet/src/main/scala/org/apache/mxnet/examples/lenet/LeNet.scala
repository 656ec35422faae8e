package org.apache.mxnet.examples.lenet

import org.apache.mxnet._
import org.apache.mxnet.module.{FitParams, Module}
import org.apache.mxnet.optimizer.SGD

/** A convolutional network after LeNet-5 (LeCun and others, 1998) for images of digits. */
object LeNet {

  /** Height and width of an image. */
  val ImageSize = 8

  private val BatchSize = 32

  /** Two convolutions with pooling, a hidden layer, and the probabilities of the ten digits. */
  def network: Symbol = {
    val data = Symbol.Variable("data")
    val first = block(data, filters = 20, number = 1)
    val second = block(first, filters = 50, number = 2)
    val flat = Symbol.api.Flatten(data = second, name = "flatten")
    val hidden = Symbol.api.FullyConnected(data = flat, num_hidden = 128, name = "fc1")
    val active = Symbol.api.Activation(data = hidden, act_type = "relu", name = "relu3")
    val scores = Symbol.api.FullyConnected(data = active, num_hidden = 10, name = "fc2")
    Symbol.api.SoftmaxOutput(data = scores, name = "softmax")
  }

  private def block(data: Symbol, filters: Int, number: Int): Symbol = {
    val convolved = Symbol.api.Convolution(
      data = data,
      kernel = Shape(3, 3),
      pad = Shape(1, 1),
      num_filter = filters,
      name = s"conv$number"
    )
    val active = Symbol.api.Activation(data = convolved, act_type = "relu", name = s"relu$number")
    Symbol.api.Pooling(
      data = active,
      pool_type = "max",
      kernel = Shape(2, 2),
      stride = Shape(2, 2),
      name = s"pool$number"
    )
  }

  /** Shapes of the inputs of a batch. */
  def inputShapes: Map[String, Shape] =
    Map("data" -> Shape(BatchSize, 1, ImageSize, ImageSize), "softmax_label" -> Shape(BatchSize))

  /** Batches of the training images, in random order. */
  def trainingData(folder: String, seed: Int): DataIter =
    IO.MNISTIter(files(folder, "train") ++ Map("batch_size" -> s"$BatchSize", "shuffle" -> "1", "seed" -> s"$seed"))

  /** Batches of the test images: 9 batches of 33 are all 297 of them. */
  def testData(folder: String): DataIter =
    IO.MNISTIter(files(folder, "t10k") ++ Map("batch_size" -> "33", "shuffle" -> "0"))

  private def files(folder: String, part: String): Map[String, String] = Map(
    "image" -> s"$folder/$part-images-idx3-ubyte",
    "label" -> s"$folder/$part-labels-idx1-ubyte",
    "label_name" -> "softmax_label",
    "silent" -> "1"
  )

  /** Trains a network and reports the progress after each epoch.
    *
    * @param folder folder of the digits
    * @param seed seed of the initial weights and of the order of the images
    * @return the trained module and its training history
    */
  def train(folder: String, epochs: Int, seed: Int): (Module, Seq[Callback.EpochRecord]) = {
    Random.seed(seed)
    val module = new Module(network)
    val progress = new Callback.Progress(BatchSize, epochs, validation = true)
    val parameters = new FitParams()
      .setInitializer(new Xavier())
      .setOptimizer(new SGD(learningRate = 0.05f, momentum = 0.9f))
      .setEvalMetric(new Accuracy())
    module.fit(trainingData(folder, seed), Some(testData(folder)), epochs, progress.attachTo(parameters))
    (module, progress.history)
  }

  /** Accuracy of a module on the test images. */
  def accuracy(module: Module, folder: String): Float = module.score(testData(folder), new Accuracy()).get._2.head

  /** Probability of each digit for each test image. */
  def probabilities(module: Module, folder: String): NDArray = module.predict(testData(folder)).head
}
