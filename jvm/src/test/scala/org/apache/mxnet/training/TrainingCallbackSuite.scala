package org.apache.mxnet.training

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, PrintStream}
import java.nio.file.{Files, Path}
import javax.xml.parsers.DocumentBuilderFactory

import org.apache.mxnet.Callback.EpochRecord
import org.apache.mxnet._
import org.apache.mxnet.io.NDArrayIter
import org.apache.mxnet.module.{FitParams, Module}
import org.apache.mxnet.optimizer.SGD
import org.w3c.dom.Document

/** Training callbacks, without resuming. */
class TrainingCallbackSuite extends munit.FunSuite with TemporaryFiles {
  private val folder = FunFixture[Path](_ => temporaryFolder("callbacks"), _ => ())

  private def network: Symbol = {
    val hidden = Symbol.api.FullyConnected(data = Symbol.Variable("data"), num_hidden = 4, name = "fc")
    Symbol.api.SoftmaxOutput(data = hidden, name = "softmax")
  }

  private def data: NDArrayIter = new NDArrayIter(
    IndexedSeq(NDArray.array(Array.tabulate(24)(i => (i * 7 % 5).toFloat), Shape(12, 2))),
    IndexedSeq(NDArray.array(Array.tabulate(12)(i => (i % 4).toFloat), Shape(12))),
    4,
    labelName = "softmax_label"
  )

  /** A metric of the validation data with a given value for each epoch. */
  private class Scripted(values: Float*) extends EvalMetric("accuracy") {
    private var epoch = -1
    override def reset(): Unit = epoch += 1
    override def update(labels: IndexedSeq[NDArray], preds: IndexedSeq[NDArray]): Unit = ()
    override def get: (Array[String], Array[Float]) = (Array(name), Array(values(epoch)))
  }

  private def fit(numEpoch: Int, metric: EvalMetric, callbacks: TrainingCallback*): Module = {
    Random.seed(3)
    val module = new Module(network)
    val params = new FitParams()
      .setInitializer(new Xavier())
      .setOptimizer(new SGD(0.1f))
      .setValidationMetric(metric)
      .addCallback(callbacks: _*)
    module.fit(data, Some(data), numEpoch, params)
    module
  }

  private def weights(module: Module): Seq[Float] = module.getParams._1("fc_weight").toArray.toSeq

  /** Records the weights after each epoch. */
  private class Recorder extends TrainingCallback {
    var calls: Vector[String] = Vector.empty
    var weights: Vector[Seq[Float]] = Vector.empty
    override def onTrainBegin(training: Training): Unit = calls :+= "begin"
    override def onEpochBegin(epoch: Int, training: Training): Unit = calls :+= s"epoch $epoch"
    override def onBatchEnd(epoch: Int, nBatch: Int, evalMetric: EvalMetric, training: Training): Unit =
      calls :+= s"batch $epoch $nBatch"
    override def onEpochEnd(record: EpochRecord, training: Training): Unit = {
      calls :+= s"end ${record.epoch} ${training.history.length}"
      weights :+= training.module.getParams._1("fc_weight").toArray.toSeq
    }
    override def onTrainEnd(training: Training): Unit = calls :+= "end"
  }

  test("callbacks are called in order, with what they need") {
    val recorder = new Recorder
    fit(2, new Scripted(0.5f, 0.6f), recorder)
    def epoch(i: Int) = Seq(s"epoch $i", s"batch $i 0", s"batch $i 1", s"batch $i 2", s"end $i ${i + 1}")
    assertEquals(recorder.calls.toSeq, Seq("begin") ++ epoch(0) ++ epoch(1) :+ "end")
  }

  test("early stopping waits for `patience` epochs, and may restore the best one") {
    val values = Seq(0.5f, 0.7f, 0.705f, 0.6f, 0.69f, 0.9f)
    Seq(false, true).foreach { restoreBest =>
      val stopping = new EarlyStopping("validation-accuracy", patience = 3, minDelta = 0.01f, restoreBest = restoreBest)
      val recorder = new Recorder
      val module = fit(6, new Scripted(values: _*), stopping, recorder)
      assertEquals(recorder.weights.length, 5)
      assertEquals(stopping.bestEpoch.map(_.epoch), Some(1))
      assertEquals(weights(module), recorder.weights(if (restoreBest) 1 else 4))
    }
  }

  test("smaller is better if the metric or `mode` says so; an unknown metric needs `mode`") {
    def epochs(metric: EvalMetric, stopping: EarlyStopping): Int = {
      val recorder = new Recorder
      fit(4, metric, stopping, recorder)
      recorder.weights.length
    }
    class SquaredError(values: Float*) extends Scripted(values: _*) {
      override def get: (Array[String], Array[Float]) = (Array("mse"), super.get._2)
    }
    class Profit(values: Float*) extends Scripted(values: _*) {
      override def get: (Array[String], Array[Float]) = (Array("profit"), super.get._2)
    }
    assertEquals(epochs(new SquaredError(4f, 3f, 2f, 1f), new EarlyStopping(patience = 1)), 4)
    assertEquals(epochs(new SquaredError(1f, 2f, 3f, 4f), new EarlyStopping(patience = 1)), 2)
    assertEquals(epochs(new Profit(1f, 2f, 1f, 4f), new EarlyStopping(mode = "max", patience = 1)), 3)
    assertEquals(epochs(new SquaredError(Float.NaN, 2f, Float.NaN, 1f), new EarlyStopping(patience = 2)), 4)
    val unknown = intercept[MXNetError](epochs(new Profit(1f, 2f, 3f, 4f), new EarlyStopping(patience = 1)))
    assert(unknown.getMessage.contains("set mode to max or min"), unknown.getMessage)
    val missing = intercept[MXNetError](epochs(new SquaredError(1f, 2f, 3f, 4f), new EarlyStopping("loss")))
    assert(missing.getMessage.contains("validation-mse, train-accuracy"), missing.getMessage)
    assert(intercept[IllegalArgumentException](new EarlyStopping(patience = 0)).getMessage.contains("patience is 0"))
    assert(
      intercept[IllegalArgumentException](new EarlyStopping(mode = "best")).getMessage.contains("auto, max or min")
    )
  }

  folder.test("the k best epochs are in files, and no others") { directory =>
    val prefix = directory.resolve("sub/model").toString
    val best = new BestCheckpoints(prefix, k = 2)
    val recorder = new Recorder
    fit(5, new Scripted(0.5f, 0.7f, Float.NaN, 0.9f, 0.7f), best, recorder)
    assertEquals(best.kept.map(_.epoch), IndexedSeq(3, 1))
    val files = directory.resolve("sub").toFile.list().toSet
    assertEquals(files, Set("model-symbol.json", "model-0002.params", "model-0004.params"))
    val module = Module.loadCheckpoint(prefix, best.kept.head.epoch + 1)
    module.bind(data.provideDataDesc, Some(data.provideLabelDesc))
    assertEquals(weights(module), recorder.weights(3))
  }

  folder.test("the history is in a file of comma-separated values after each epoch") { directory =>
    val file = directory.resolve("history.csv")
    val history = new MetricHistory(csv = file.toString)
    var lines = Vector.empty[Int]
    val reader = new TrainingCallback {
      override def onEpochEnd(record: EpochRecord, training: Training): Unit =
        lines :+= Files.readAllLines(file).size
    }
    fit(2, new Scripted(0.25f, 0.5f), history, reader)
    assertEquals(lines, Vector(2, 3))
    val text = new String(Files.readAllBytes(file))
    assert(text.matches("epoch,train-accuracy,validation-accuracy\n0,0[.]\\d+,0[.]25\n1,0[.]\\d+,0[.]5\n"), text)
    val records = Seq(
      EpochRecord(0, Seq("a,b" -> 1f), Nil, 10, 2),
      EpochRecord(1, Seq("c\"" -> Float.NaN), Seq("a" -> -1e-9f), 20, 3)
    )
    assertEquals(
      MetricHistory.toCsv(records, timing = true),
      "epoch,\"train-a,b\",samples_per_second,seconds,\"train-c\"\"\",validation-a\n0,1.0,10.0,2.0,,\n1,,20.0,3.0,NaN,-1.0E-9\n"
    )
  }

  folder.test("the learning curve is an image with a plot for each metric") { directory =>
    val file = directory.resolve("curve.svg")
    fit(3, new Scripted(Float.NaN, 0.5f, 0.75f), new LearningCurve(file.toString, "Digits & more"))
    val svg = parsed(new String(Files.readAllBytes(file)))
    assertEquals(texts(svg, "title"), Seq("Digits & more"))
    assertEquals(texts(svg, "polyline").length, 2)
    val records = Seq(0, 1).map(i => EpochRecord(i, Seq("loss" -> (2f - i), "accuracy" -> 0.5f), Nil, 1, 1))
    val two = parsed(LearningCurve.toSvg(records))
    assertEquals(texts(two, "g").length, 2)
    assert(texts(two, "text").containsSlice(Seq("epoch", "loss")))
    val nothing = Seq(EpochRecord(0, Seq("loss" -> Float.NaN), Nil, 1, 1))
    assert(intercept[IllegalArgumentException](LearningCurve.toSvg(nothing)).getMessage.contains("nothing to plot"))
  }

  private def parsed(svg: String): Document =
    DocumentBuilderFactory.newInstance().newDocumentBuilder().parse(new ByteArrayInputStream(svg.getBytes("UTF-8")))

  /** The texts of all elements with this name. */
  private def texts(svg: Document, name: String): Seq[String] = {
    val found = svg.getElementsByTagName(name)
    (0 until found.getLength).map(found.item(_).getTextContent)
  }

  private def printed(terminal: Boolean, width: Int = 80): String = {
    val bytes = new ByteArrayOutputStream()
    val slow = new TrainingCallback {
      override def onBatchEnd(epoch: Int, nBatch: Int, evalMetric: EvalMetric, training: Training): Unit =
        Thread.sleep(110)
    }
    fit(2, new Scripted(0.5f, 0.6f), slow, new ProgressBar(new PrintStream(bytes, true), terminal, width))
    bytes.toString
  }

  test("the progress bar prints a line for each epoch into a file, and draws over itself in a terminal") {
    val log = printed(terminal = false)
    assert(!log.contains('\r'), log)
    val lines = log.linesIterator.toSeq
    assertEquals(lines.length, 2)
    val form = """epoch 2/2  accuracy [\d.]+  validation accuracy 0\.6000  [\d,]+ samples/s  [\d.]+ s  0 s left"""
    assert(lines(1).matches(form), lines(1))

    val drawn = printed(terminal = true).split("\n").toSeq
    assertEquals(drawn.length, 2)
    val frames = drawn(1).split("\r").toSeq.filter(_.trim.nonEmpty)
    assert(frames.head.startsWith("epoch 2/2  [========                ]  1/3  "), frames.head)
    assert(frames.dropRight(1).forall(_.length < 80), frames.toString)
    assert(frames.last.matches(form), frames.last)
    assert(printed(terminal = true, width = 20).split("[\r\n]").filter(_.contains("batches")).forall(_.length <= 19))
  }

  test("a process without a terminal is recognized") {
    val output = JavaProcess.run(Seq(JavaProcess.Library), classOf[TerminalProgram].getName)
    assertEquals(output.linesIterator.toSeq.last, "false")
  }

  test("FeedForward has the callbacks too") {
    val recorder = new Recorder
    def builder = FeedForward.newBuilder(network).setNumEpoch(2).setOptimizer(new SGD(0.1f))
    builder.setTrainData(data).addCallback(recorder).build()
    assertEquals(recorder.weights.length, 2)
    builder.setup().fit(data, data, new FitParams().addCallback(recorder))
    assertEquals(recorder.weights.length, 4)
  }
}

class TerminalProgram

object TerminalProgram {
  def main(args: Array[String]): Unit = println(ProgressBar.isTerminal)
}
