package org.apache.mxnet.examples.operators

import java.nio.file.{Files, Path, Paths}

import org.apache.mxnet._

/** Trains and saves a small network with each of the operators, or loads them in another JVM and checks their
  * predictions.
  *
  * Usage: `(train | predict) [data/digits [output]]`.
  */
object Main {
  private val Epochs = 12

  def main(arguments: Array[String]): Unit = {
    val (mode, folders) = arguments.splitAt(1)
    val data = folders.headOption.getOrElse("data/digits")
    val output = Paths.get(folders.lift(1).getOrElse("output"))
    mode.headOption match {
      case Some("train")   => train(data, output)
      case Some("predict") => predict(data, output)
      case _               =>
        System.err.println("usage: (train | predict) [data/digits [output]]")
        sys.exit(1)
    }
  }

  /** Trains and saves all networks. */
  def train(data: String, output: Path): Unit = {
    Files.createDirectories(output)
    Networks.all.foreach { case (name, network) =>
      val module = Networks.train(network(), data, Epochs)
      val prefix = output.resolve(s"operators-$name").toString
      module.saveCheckpoint(prefix, Epochs)
      NDArray.save(s"$prefix-predictions.params", Map("probabilities" -> Networks.probabilities(module, data)))
      println(f"$name%-10s test accuracy ${Networks.accuracy(module, data)}%.3f, saved as $prefix-symbol.json")
    }
  }

  /** Loads all networks and compares their predictions with those of the trained ones. */
  def predict(data: String, output: Path): Unit = Networks.all.foreach { case (name, _) =>
    val prefix = output.resolve(s"operators-$name").toString
    val module = Networks.load(prefix, Epochs, data)
    val now = Networks.probabilities(module, data).toArray
    val before = NDArray.load2Map(s"$prefix-predictions.params")("probabilities").toArray
    val difference = now.lazyZip(before).map((a, b) => math.abs(a - b)).max
    println(f"$name%-10s accuracy of the loaded network ${Networks.accuracy(module, data)}%.3f, difference $difference")
    if (now.length != before.length || difference > 1e-6f) {
      System.err.println(s"$name: the predictions differ after loading")
      sys.exit(1)
    }
  }
}
