package org.apache.mxnet.examples.operators

import org.apache.mxnet._
import org.apache.mxnet.module.{FitParams, Module}
import org.apache.mxnet.optimizer.SGD

/** Networks for images of digits, each with one of the user-defined operators. */
object Networks {
  private val BatchSize = 32

  private def dense(data: Symbol, units: Int, name: String): Symbol =
    Symbol.api.FullyConnected(data = data, num_hidden = units, name = name)

  private def relu(data: Symbol): Symbol = Symbol.api.Activation(data = data, act_type = "relu")

  private def pixels: Symbol = Symbol.api.Flatten(data = Symbol.Variable("data"))

  private def scored(hidden: Symbol): Symbol =
    Symbol.api.SoftmaxOutput(data = dense(hidden, 10, "scores"), name = "softmax")

  /** A hidden layer, with a shortcut around a second one: the two are added. */
  def shortcut: Symbol = {
    val first = relu(dense(pixels, 64, "first"))
    val second = relu(dense(first, 64, "second"))
    scored(Symbol.doUdf(new TestAddUdf(first, second), "sum").head)
  }

  /** A hidden layer, trained by the focal loss. */
  def focal: Symbol = {
    val scores = dense(relu(dense(pixels, 64, "first")), 10, "scores")
    new FocalLoss(classes = 10, gamma = 2f).named("softmax", scores)
  }

  /** Weights and activations of four bits. */
  def quantized: Symbol = {
    val weight = new Quantizer(bits = 4).named("weight4", Symbol.Variable("first_weight"))
    val first = Symbol.api.FullyConnected(data = pixels, weight = weight, num_hidden = 64, name = "first")
    val activations = new Quantizer(bits = 4).named("activations4", Symbol.api.tanh(first))
    scored(activations)
  }

  /** A filter that smooths along the units of a hidden layer, so that neighbors learn similar features. */
  def filtered: Symbol = {
    val smooth = new BilateralFilter(radius = 2, sigmaSpace = 1f, sigmaRange = 0.5f)
    scored(relu(smooth.named("smooth", dense(pixels, 64, "first"))))
  }

  /** All networks by name. */
  val all: Seq[(String, () => Symbol)] = Seq(
    "shortcut" -> (() => shortcut),
    "focal" -> (() => focal),
    "quantized" -> (() => quantized),
    "filtered" -> (() => filtered)
  )

  /** Batches of the training images, shuffled. */
  private def trainingData(folder: String): DataIter =
    IO.MNISTIter(files(folder, "train") ++ Map("batch_size" -> s"$BatchSize", "shuffle" -> "1", "seed" -> "7"))

  /** Batches of the test images: 9 batches of 33 are all 297 of them. */
  def testData(folder: String): DataIter =
    IO.MNISTIter(files(folder, "t10k") ++ Map("batch_size" -> "33", "shuffle" -> "0"))

  private def files(folder: String, part: String): Map[String, String] = Map(
    "image" -> s"$folder/$part-images-idx3-ubyte",
    "label" -> s"$folder/$part-labels-idx1-ubyte",
    "label_name" -> "softmax_label",
    "silent" -> "1"
  )

  /** Trains a network on the digits in a folder. */
  def train(network: Symbol, folder: String, epochs: Int): Module = {
    Random.seed(7)
    val module = new Module(network)
    val parameters = new FitParams()
      .setInitializer(new Xavier())
      .setOptimizer(new SGD(learningRate = 0.05f, momentum = 0.9f))
      .setEvalMetric(new Accuracy())
    module.fit(trainingData(folder), None, epochs, parameters)
    module
  }

  /** A saved network, bound for prediction. */
  def load(prefix: String, epochs: Int, folder: String): Module = {
    val module = Module.loadCheckpoint(prefix, epochs)
    val test = testData(folder)
    module.bind(test.provideDataDesc, Some(test.provideLabelDesc), forTraining = false)
    module
  }

  /** Accuracy of a module on the test images. */
  def accuracy(module: Module, folder: String): Float = module.score(testData(folder), new Accuracy()).get._2.head

  /** Probability of each digit for each test image. */
  def probabilities(module: Module, folder: String): NDArray = module.predict(testData(folder)).head
}
