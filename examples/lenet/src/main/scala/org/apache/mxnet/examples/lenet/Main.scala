package org.apache.mxnet.examples.lenet

import java.nio.file.{Files, Path, Paths}

import org.apache.mxnet._
import org.apache.mxnet.module.Module

/** Trains LeNet on the digits of this project and saves it, or loads it and checks its predictions.
  *
  * Usage: `train` or `predict`, then optionally `--data FOLDER`, `--output FOLDER`, `--epochs N`, `--seed N`.
  */
object Main {
  private val Usage =
    "usage: (train | predict) [--data data/digits] [--output output] [--epochs 30] [--seed 42]"

  /** Tolerance of probabilities between two bindings of the network. */
  private val Tolerance = 1e-5f

  private final case class Settings(data: String, output: Path, epochs: Int, seed: Int) {
    def prefix: String = output.resolve("lenet").toString
    def predictions: String = output.resolve("lenet-predictions.params").toString
  }

  def main(arguments: Array[String]): Unit =
    try
      arguments.toList match {
        case "train" :: options   => train(settings(options))
        case "predict" :: options => predict(settings(options))
        case _                    => fail(Usage)
      }
    catch {
      case error: BadUsage => fail(s"${error.getMessage}\n$Usage")
    }

  private final class BadUsage(message: String) extends RuntimeException(message)

  private def settings(options: List[String]): Settings = {
    val chosen = options
      .grouped(2)
      .map {
        case key :: value :: Nil if key.startsWith("--") => key.drop(2) -> value
        case other => throw new BadUsage(s"'${other.mkString(" ")}' is not an option with a value")
      }
      .toMap
    (chosen.keySet -- Set("data", "output", "epochs", "seed")).headOption.foreach(key =>
      throw new BadUsage(s"unknown option --$key")
    )
    def number(key: String, default: Int): Int = chosen.get(key).fold(default) { text =>
      text.toIntOption.getOrElse(throw new BadUsage(s"--$key is '$text'; give an integer"))
    }
    Settings(
      chosen.getOrElse("data", "data/digits"),
      Paths.get(chosen.getOrElse("output", "output")),
      number("epochs", 30),
      number("seed", 42)
    )
  }

  private def train(settings: Settings): Unit = {
    Files.createDirectories(settings.output)
    Visualization.printSummary(LeNet.network, LeNet.inputShapes)

    val start = System.nanoTime()
    val (module, history) = LeNet.train(settings.data, settings.epochs, settings.seed)
    println(f"trained ${settings.epochs} epochs in ${(System.nanoTime() - start) / 1e9}%.1f s")

    module.saveCheckpoint(settings.prefix, settings.epochs)
    val probabilities = LeNet.probabilities(module, settings.data)
    NDArray.save(settings.predictions, Map("probabilities" -> probabilities))
    val network = settings.output.resolve("lenet-network.svg")
    val curve = settings.output.resolve("lenet-learning-curve.svg")
    Visualization.saveSvg(LeNet.network, network.toString, "LeNet", LeNet.inputShapes)
    Visualization.saveLearningCurve(history, curve.toString, "LeNet on 8x8 digits")
    println(
      s"saved ${settings.prefix}-symbol.json, ${f"${settings.prefix}-${settings.epochs}%04d.params"}, $network, $curve"
    )
    println(f"test accuracy ${LeNet.accuracy(module, settings.data)}%.3f")
  }

  private def predict(settings: Settings): Unit = {
    val module = Module.loadCheckpoint(settings.prefix, settings.epochs)
    val test = LeNet.testData(settings.data)
    module.bind(test.provideDataDesc, Some(test.provideLabelDesc), forTraining = false)
    val now = LeNet.probabilities(module, settings.data).toArray
    val before = NDArray.load2Map(settings.predictions)("probabilities").toArray
    val difference = now.lazyZip(before).map((a, b) => math.abs(a - b)).max
    println(f"accuracy of the loaded network ${LeNet.accuracy(module, settings.data)}%.3f")
    println(s"largest difference from the predictions after training: $difference")
    if (now.length != before.length || difference > Tolerance)
      fail("the predictions of the loaded network differ from those of the trained one")
  }

  private def fail(message: String): Nothing = {
    System.err.println(message)
    sys.exit(1)
  }
}
