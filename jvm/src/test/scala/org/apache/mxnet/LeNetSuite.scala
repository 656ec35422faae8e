package org.apache.mxnet

import java.nio.ByteBuffer
import java.nio.ByteOrder.LITTLE_ENDIAN
import java.nio.file.{Files, Path}

import scala.concurrent.duration.{Duration, DurationInt}

import org.apache.mxnet.internal.util.Json
import org.apache.mxnet.io.NDArrayIter
import org.apache.mxnet.module.{FitParams, Module}
import org.apache.mxnet.optimizer.SGD

/** Compares LeNet with MXNet 1.9.1, which trained and saved the network in `tests/oracle/fixtures` (see its README). */
class LeNetSuite extends munit.FunSuite {
  override val munitTimeout: Duration = 5.minutes

  private val fixtures = "tests/oracle/fixtures"
  private val batch = 32

  private lazy val expected: Map[String, Any] = {
    val lines = Files.readString(Path.of(fixtures, "expected.jsonl")).linesIterator
    lines
      .map(Json.parse)
      .collectFirst {
        case line: Map[_, _] if line.toMap[Any, Any].get("id").contains("checkpoint/lenet") =>
          line.map { case (key, value) => key.toString -> value }
      }
      .getOrElse(fail("the fixtures do not say what the checkpoint predicts"))
  }

  /** The float32 array of this name that MXNet computed. */
  private def floats(name: String): Array[Float] = expected(name) match {
    case array: Map[_, _] =>
      val fields = array.map { case (key, value) => key.toString -> value }
      val shape = fields("shape") match {
        case dims: Seq[_] => dims.map(_.toString.toDouble.toInt)
        case other        => fail(s"$other is not a shape")
      }
      val bytes = Files.readAllBytes(Path.of(fixtures, "expected.bin"))
      val buffer = ByteBuffer.wrap(bytes, fields("at").toString.toDouble.toInt, 4 * shape.product).order(LITTLE_ENDIAN)
      Array.fill(shape.product)(buffer.getFloat())
    case other => fail(s"$other is not an array")
  }

  /** Images, divided by 255, and labels of a part of the digits. */
  private def digits(part: String): (NDArray, NDArray) = {
    val pixels = Files.readAllBytes(Path.of("data/digits", s"$part-images-idx3-ubyte")).drop(16)
    val labels = Files.readAllBytes(Path.of("data/digits", s"$part-labels-idx1-ubyte")).drop(8)
    val images = NDArray.array(pixels.map(pixel => (pixel & 0xff) / 255f), Shape(labels.length, 1, 8, 8))
    (images, NDArray.array(labels.map(_.toFloat), Shape(labels.length)))
  }

  private def iterator(part: String): NDArrayIter = {
    val (images, labels) = digits(part)
    new NDArrayIter(IndexedSeq(images), IndexedSeq(labels), batch, labelName = "softmax_label")
  }

  private def network: Symbol = Symbol.load(s"$fixtures/lenet-symbol.json")

  private def assertClose(actual: Array[Float], wanted: Array[Float], tolerance: Float, what: String): Unit = {
    assertEquals(actual.length, wanted.length, what)
    val worst = actual.lazyZip(wanted).map((a, e) => math.abs(a - e)).max
    assert(worst <= tolerance, s"$what: the largest difference is $worst")
  }

  test("MXNet's checkpoint predicts what it predicts in MXNet") {
    val module = Module.loadCheckpoint(s"$fixtures/lenet", 30)
    val test = iterator("t10k")
    module.bind(test.provideDataDesc, Some(test.provideLabelDesc), forTraining = false)
    assertClose(module.predict(test).head.toArray, floats("probabilities"), 1e-4f, "probabilities")
  }

  test("a step of training gives MXNet's weights and momentum") {
    val step = NDArray.load2Map(s"$fixtures/lenet-0030-step.params")
    val (symbol, args, aux) = Model.loadCheckpoint(s"$fixtures/lenet", 30)
    val (images, labels) = digits("train")
    val inputs = Map("data" -> images.slice(0, batch), "softmax_label" -> labels.slice(0, batch))
    val executor = symbol.simpleBind(Context.cpu(), "write", inputs.map { case (name, array) => name -> array.shape })
    executor.copyParamsFrom(args, aux)
    executor.forward(isTrain = true, inputs.toSeq: _*)
    executor.backward()
    val optimizer = new SGD(0.05f, momentum = 0.9f, wd = 0f)
    optimizer.setRescaleGrad(1f / batch)
    args.keys.toSeq.sorted.zipWithIndex.foreach { case (name, index) =>
      val momentum = step(s"momentum:$name")
      optimizer.update(index, executor.argDict(name), executor.gradDict(name), momentum)
      assertClose(momentum.toArray, step(s"momentum_after:$name").toArray, 1e-5f, s"momentum of $name")
      assertClose(executor.argDict(name).toArray, step(s"after:$name").toArray, 1e-5f, name)
    }
  }

  test("five seeds reach MXNet's mean accuracy") {
    val accuracies = (0 until 5).map { seed =>
      Random.seed(seed)
      val module = new Module(network)
      val params = new FitParams()
        .setInitializer(new Xavier())
        .setOptimizer(new SGD(0.05f, momentum = 0.9f, wd = 0f))
      module.fit(iterator("train"), None, 30, params)
      module.score(iterator("t10k"), new Accuracy()).get._2.head
    }
    val mean = accuracies.sum / accuracies.length
    val wanted = expected("mean").toString.toFloat
    assert(mean >= wanted - 0.01f, s"accuracies ${accuracies.mkString(", ")}, mean $mean; MXNet's mean is $wanted")
  }
}
