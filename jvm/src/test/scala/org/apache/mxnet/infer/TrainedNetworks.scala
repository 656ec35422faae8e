package org.apache.mxnet.infer

import java.awt.Color
import java.awt.image.BufferedImage
import java.nio.file.Files
import java.util.concurrent.{Callable, Executors}

import scala.jdk.CollectionConverters._

import org.apache.mxnet._

/** Files of small networks, and inputs for them. */
trait TrainedNetworks extends TemporaryFiles {
  protected val folder = temporaryFolder("infer")
  private val random = new java.util.Random(3)

  protected def noise(shape: Int*): NDArray =
    NDArray.array(Array.fill(shape.product)(random.nextGaussian().toFloat), Shape(shape: _*))

  /** Saves a network of 6 inputs and 4 classes; returns the prefix of its files. */
  protected lazy val mlp: String = {
    val hidden = Symbol.api.FullyConnected(Some(Symbol.Variable("data")), num_hidden = 5, name = "fc1")
    val output = Symbol.api.FullyConnected(Some(Symbol.api.tanh(Some(hidden))), num_hidden = 4, name = "fc2")
    save(
      "mlp",
      Symbol.api.SoftmaxOutput(Some(output), name = "softmax"),
      Map("fc1_weight" -> noise(5, 6), "fc1_bias" -> noise(5), "fc2_weight" -> noise(4, 5), "fc2_bias" -> noise(4))
    )
  }

  /** Saves a network that sums red, green and blue of images of 4 x 2 pixels. */
  protected lazy val colors: String = {
    val sums = Symbol.api.sum(Some(Symbol.Variable("data")), axis = Some(Shape(2, 3)))
    save("colors", Symbol.api.softmax(Some(sums * 0.001f)), Map.empty)
  }

  /** Saves a network that finds the same three objects in every image. */
  protected lazy val detector: String = {
    val zeros = Symbol.api.FullyConnected(
      Some(Symbol.api.Flatten(Some(Symbol.Variable("data")))),
      num_hidden = 18,
      name = "fc"
    )
    val rows = Array(1f, 0.6f, 0.1f, 0.2f, 0.3f, 0.4f, -1f, 0f, 0f, 0f, 0f, 0f, 2f, 0.9f, 0.5f, 0.5f, 0.7f, 0.8f)
    val params = Map("fc_weight" -> NDArray.zeros(18, 24), "fc_bias" -> NDArray.array(rows, Shape(18)))
    save("detector", Symbol.api.Reshape(Some(zeros), shape = Some(Shape(-1, 3, 6))), params)
  }

  protected def save(name: String, symbol: Symbol, params: Map[String, NDArray]): String = {
    val directory = Files.createDirectories(folder.resolve(name))
    Files.write(directory.resolve("synset.txt"), Seq("red", "green", "blue").asJava)
    val prefix = directory.resolve(name).toString
    Model.saveCheckpoint(prefix, 0, symbol, params, Map.empty)
    prefix
  }

  /** The results of a function for each item, in order, computed by some threads at the same time. */
  protected def inThreads[A, B](threads: Int, items: Seq[A])(f: A => B): Seq[B] = {
    val pool = Executors.newFixedThreadPool(threads)
    try pool.invokeAll(items.map(item => (() => f(item)): Callable[B]).asJava).asScala.map(_.get).toSeq
    finally pool.shutdown()
  }

  protected def mlpPredictor(batch: Int): Predictor =
    new Predictor(mlp, IndexedSeq(DataDesc("data", Shape(batch, 6), layout = Layout.NT)))

  protected def rows(count: Int, seed: Int): Array[Float] = {
    val generator = new java.util.Random(seed.toLong)
    Array.fill(6 * count)(generator.nextGaussian().toFloat)
  }

  protected def image(color: Color, width: Int = 4, height: Int = 2): BufferedImage = {
    val image = new BufferedImage(width, height, BufferedImage.TYPE_INT_RGB)
    val graphics = image.createGraphics()
    graphics.setColor(color)
    graphics.fillRect(0, 0, width, height)
    graphics.dispose()
    image
  }
}
