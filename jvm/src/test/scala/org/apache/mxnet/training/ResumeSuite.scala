package org.apache.mxnet.training

import java.awt.image.BufferedImage
import java.io.ByteArrayOutputStream
import java.nio.file.{Files, Path, Paths}
import javax.imageio.ImageIO

import org.apache.mxnet._
import org.apache.mxnet.io.{NDArrayIter, PrefetchingIter, ResizeIter}
import org.apache.mxnet.module._
import org.apache.mxnet.module.internal.TrainingCheckpoint
import org.apache.mxnet.optimizer._

import scala.concurrent.duration.{Duration, MINUTES}

/** Resumed training gives the same bits as uninterrupted training. */
class ResumeSuite extends munit.FunSuite with TemporaryFiles {
  override val munitTimeout: Duration = Duration(10, MINUTES)

  private val folder = FunFixture[Path](_ => temporaryFolder("resume"), _ => ())

  /** Starts [[ResumeProgram]] in a separate process. */
  private def start(directory: Path): Process =
    JavaProcess.start(Seq(JavaProcess.Library), classOf[ResumeProgram].getName, directory.toString)

  private def finish(process: Process): Unit = { JavaProcess.outputOf(process): Unit }

  /** Kills the process (SIGKILL on Unix) once it has printed a line. */
  private def killAt(process: Process, line: String): Unit = {
    val lines = scala.io.Source.fromInputStream(process.getInputStream).getLines()
    assert(lines.contains(line), s"the program ended before '$line'")
    process.destroyForcibly()
    assertNotEquals(process.waitFor(), 0)
  }

  /** The files of a finished program, and its last checkpoint without times. */
  private def results(directory: Path): Map[String, Seq[Any]] = {
    val files = directory.toFile.listFiles().filterNot(_.getName == "training.checkpoint").filter(_.isFile)
    val saved = TrainingCheckpoint.read(directory.resolve("training.checkpoint").toString)
    files.map(file => file.getName -> Files.readAllBytes(file.toPath).toSeq).toMap ++ Map(
      "params" -> (saved.params.args ++ saved.params.aux).toSeq.sortBy(_._1).map { case (n, a) =>
        n -> a.toArray.toSeq
      },
      "optimizer" -> (saved.optimizer.states.toSeq ++ saved.optimizer.updateCounts.toSeq.sorted),
      "counters" -> (saved.optimizer.counters +: saved.optimizer.schedules),
      "random" -> saved.random.toSeq,
      "data" -> (saved.trainData.toSeq ++ saved.evalData.toSeq.flatMap(_.toSeq)),
      "history" -> saved.history.map(record => (record.epoch, record.train, record.validation)),
      "callbacks" -> saved.callbacks.flatMap { case (name, state) => name +: state.toSeq }
    )
  }

  folder.test("after kill -9 in any epoch") { directory =>
    val whole = Files.createDirectory(directory.resolve("whole"))
    finish(start(whole))
    val expected = results(whole)
    assertEquals(expected.keySet.count(_.endsWith(".params")), 3)

    val broken = Files.createDirectory(directory.resolve("broken"))
    Seq("0 2", "1 0", "2 4", "4 1").foreach(line => killAt(start(broken), line))
    finish(start(broken))
    val found = results(broken)
    assertEquals(found.keySet, expected.keySet)
    expected.foreach { case (name, content) => assertEquals(found(name), content, name) }
  }

  private val inProcess = new ResumeProgram

  /** Trains without interruption, and with a stop after each epoch, after which all objects are created again. */
  private def sameBits(directory: Path, clue: String = "")(
      train: (Int, FitParams, Boolean) => Map[String, NDArray]
  ): Unit = {
    def content(params: Map[String, NDArray]) = params.map { case (name, array) => name -> array.toArray.toSeq }
    def params(file: String) =
      new FitParams().setInitializer(new Xavier()).setCheckpoint(directory.resolve(file).toString)
    val expected = content(train(4, params("whole"), false))
    val parts = (1 to 4).map(numEpoch => content(train(numEpoch, params("parts"), true)))
    assertEquals(parts.last, expected, clue)
    assertNotEquals(parts(2), expected)
    Seq("whole", "parts").foreach(file => Files.delete(directory.resolve(file)))
  }

  folder.test("with every optimizer") { directory =>
    def schedule = new FactorScheduler(5, 0.7f)
    val optimizers = Seq[() => Optimizer](
      () => new SGD(0.1f, momentum = 0.9f, lrScheduler = schedule),
      () => new Adam(0.01f, lrScheduler = schedule),
      () => new NAG(0.05f, momentum = 0.9f, lrScheduler = schedule),
      () => new AdaGrad(0.05f),
      () => new AdaDelta(),
      () => new RMSProp(0.01f, lrScheduler = schedule),
      () => new SGLD(0.01f, lrScheduler = schedule),
      () => new DCASGD(0.05f, momentum = 0.9f, lrScheduler = schedule),
      () => new CountingOptimizer
    )
    optimizers.foreach { optimizer =>
      sameBits(directory) { (numEpoch, params, resume) =>
        Random.seed(9)
        val module = new Module(inProcess.network)
        module.fit(inProcess.data(), Some(inProcess.data()), numEpoch, params.setOptimizer(optimizer()), resume)
        module.getParams._1 ++ module.getParams._2
      }
    }
  }

  folder.test("with every iterator, also one of a program") { directory =>
    class Foreign(iter: NDArrayIter) extends DataIter {
      override def reset(): Unit = iter.reset()
      override def batchSize: Int = iter.batchSize
      override def hasNext: Boolean = iter.hasNext
      override def next(): DataBatch = iter.next()
      override def getData() = iter.getData()
      override def getLabel() = iter.getLabel()
      override def getPad() = iter.getPad()
      override def getIndex() = iter.getIndex()
      override def provideData = iter.provideData
      override def provideLabel = iter.provideLabel
      override def provideDataDesc = iter.provideDataDesc
      override def provideLabelDesc = iter.provideLabelDesc
    }
    val iterators = Seq[() => DataIter](
      () => inProcess.data("roll_over"),
      () => new ResizeIter(inProcess.data(), 5, resetInternal = false),
      () => new ResizeIter(inProcess.data(), 9),
      () => new PrefetchingIter(IndexedSeq(inProcess.data("roll_over"))),
      // Not shuffled, because its thread would draw random numbers concurrently with the network.
      () => new PrefetchingIter(IndexedSeq(new ResizeIter(inProcess.data(shuffle = false), 5, resetInternal = false))),
      () => new Foreign(inProcess.data("roll_over", shuffle = false)),
      () => csv(directory)
    )
    iterators.zipWithIndex.foreach { case (iterator, i) =>
      sameBits(directory, s"iterator $i") { (numEpoch, params, resume) =>
        Random.seed(9)
        val module = new Module(inProcess.network)
        module.fit(iterator(), None, numEpoch, params, resume)
        module.getParams._1
      }
    }
  }

  /** Rows of a file whose last batch continues with rows of the next pass. */
  private def csv(directory: Path): DataIter = {
    val (values, labels) = inProcess.rows
    def write(name: String, lines: Seq[String]) =
      Files.write(directory.resolve(name), lines.mkString("\n").getBytes("UTF-8")).toString
    IO.CSVIter(
      Map(
        "data_csv" -> write("data.csv", values.map(_.mkString(",")).toSeq),
        "label_csv" -> write("label.csv", labels.map(_.toString).toSeq),
        "data_shape" -> "(3,)",
        "batch_size" -> "8",
        "label_name" -> "softmax_label"
      )
    )
  }

  folder.test(
    "an iterator over images goes on in the same order, with the same changes and batches that reach further"
  ) { directory =>
    val file = directory.resolve("images.rec").toString
    val writer = new MXRecordIO(file, MXRecordIO.IOWrite)
    (0 until 10).foreach { i =>
      val image = new BufferedImage(12, 12, BufferedImage.TYPE_INT_RGB)
      for (x <- 0 until 12; y <- 0 until 12) image.setRGB(x, y, i * 20 << 16 | x * 20 << 8 | y * 20)
      val png = new ByteArrayOutputStream()
      ImageIO.write(image, "png", png)
      writer.writeBytes(MXRecordIO.packBytes(MXRecordIO.IRHeader(0, Array(i.toFloat), i, 0), png.toByteArray))
    }
    writer.close()
    def images() = IO
      .ImageRecordIter(
        Map(
          "path_imgrec" -> file,
          "data_shape" -> "(3, 8, 8)",
          "batch_size" -> "4",
          "shuffle" -> "1",
          "rand_crop" -> "1",
          "rand_mirror" -> "1",
          "seed" -> "3"
        )
      )
      .asInstanceOf[DataIter with ResumableIter]
    def read(iter: DataIter, batches: Int) = Seq.fill(batches) {
      if (!iter.hasNext) iter.reset()
      val batch = iter.next()
      (batch.index, batch.pad, batch.label.head.toArray.toSeq, batch.data.head.toArray.toSeq)
    }
    Seq(0, 1, 2, 3, 4, 8).foreach { before =>
      val iter = images()
      read(iter, before)
      val state = iter.saveState()
      val other = images()
      other.restoreState(state)
      assertEquals(read(other, 7), read(iter, 7), s"after $before batches")
    }
    intercept[MXNetError](images().restoreState(Array[Byte](1, 2, 3)))
  }

  folder.test("with two devices and each kind of store, in a row of modules, and with buckets") { directory =>
    val devices = Array(Context.cpu(0), Context.cpu(1))
    val optimizer = () => new SGD(0.1f, momentum = 0.9f)
    Seq("local", "device", "local_allreduce_cpu").foreach { store =>
      sameBits(directory) { (numEpoch, params, resume) =>
        Random.seed(9)
        val module = new Module(inProcess.network, contexts = devices)
        module.fit(inProcess.data(), None, numEpoch, params.setOptimizer(optimizer()).setKVStore(store), resume)
        module.getParams._1
      }
    }
    sameBits(directory) { (numEpoch, params, resume) =>
      Random.seed(9)
      val hidden = Symbol.api.FullyConnected(Symbol.Variable("data"), num_hidden = 4, name = "fc0")
      val module = new SequentialModule()
        .add(new Module(hidden, labelNames = IndexedSeq.empty))
        .add(new Module(inProcess.network), "take_labels" -> true, "auto_wiring" -> true)
      module.fit(inProcess.data(), None, numEpoch, params.setOptimizer(new Adam(0.01f)), resume)
      module.getParams._1
    }
    sameBits(directory) { (numEpoch, params, resume) =>
      Random.seed(9)
      def network(key: AnyRef) = (inProcess.network, IndexedSeq("data"), IndexedSeq("softmax_label"))
      val module = new BucketingModule(network, "only")
      module.fit(inProcess.data(), None, numEpoch, params.setOptimizer(optimizer()), resume)
      module.getParams._1
    }
  }

  folder.test("of a FeedForward, also with epochs that end in the middle of a pass") { directory =>
    Seq(-1, 5).foreach { epochSize =>
      sameBits(directory) { (numEpoch, params, resume) =>
        Random.seed(9)
        val model = new FeedForward(
          inProcess.network,
          numEpoch = numEpoch,
          epochSize = epochSize,
          optimizer = new SGD(0.1f, momentum = 0.9f),
          initializer = new Xavier()
        )
        model.fit(inProcess.data("roll_over"), inProcess.data(), params, resume)
        model.getArgParams
      }
    }
  }

  folder.test("early stopping and the best epochs remember the epochs before") { directory =>
    def run(file: String, resume: Boolean, epochs: Int*) = epochs.map { numEpoch =>
      Random.seed(9)
      val module = new Module(inProcess.network)
      val stopping = new EarlyStopping("train-accuracy", "min", patience = 3, restoreBest = true)
      val best = new BestCheckpoints(directory.resolve(file).toString, k = 2, metric = "train-accuracy", mode = "min")
      val history = new MetricHistory()
      val params = new FitParams().setInitializer(new Xavier()).setCheckpoint(directory.resolve(file).toString)
      module.fit(inProcess.data(), None, numEpoch, params.addCallback(stopping, best, history), resume)
      (history.records.map(_.train), best.kept.map(_.epoch), module.getParams._1("fc1_weight").toArray.toSeq)
    }.last
    assertEquals(run("parts", resume = true, 2, 3, 12, 12), run("whole", resume = false, 12))
  }

  folder.test("what cannot be resumed is an error that says why") { directory =>
    val file = directory.resolve("training").toString
    def fit(
        params: FitParams = new FitParams,
        optimizer: Optimizer = new SGD(),
        data: DataIter = inProcess.data()
    ): Unit =
      new Module(inProcess.network).fit(data, None, 1, params.setOptimizer(optimizer), resume = true)
    def saved = new FitParams().setCheckpoint(file)
    assert(intercept[IllegalArgumentException](fit()).getMessage.contains("setCheckpoint"))
    fit(saved)
    val whole = Files.readAllBytes(Paths.get(file))
    def message(body: => Unit): String = intercept[MXNetError](body).getMessage
    assert(message(fit(saved, new Adam())).contains("org.apache.mxnet.optimizer.SGD"))
    val fewer =
      new NDArrayIter(IndexedSeq(NDArray.zeros(8, 3)), IndexedSeq(NDArray.zeros(8)), 8, labelName = "softmax_label")
    assert(message(fit(saved, data = fewer)).contains("same data"))
    (0 until whole.length by 97).foreach { length =>
      Files.write(Paths.get(file), whole.take(length))
      intercept[MXNetError](fit(saved))
    }
    (0 until whole.length by 89).foreach { index =>
      Files.write(Paths.get(file), whole.updated(index, (whole(index) ^ 1).toByte))
      assert(message(fit(saved)).contains("checksum"), s"byte $index")
    }
  }

  test("a random state is restored; anything else is an error") {
    Random.seed(4)
    Random.uniform(0f, 1f, Shape(5)).dispose()
    val state = Random.getState()
    val first = Random.normal(0f, 1f, Shape(5)).toArray.toSeq
    val other = Random.normal(0f, 1f, Shape(5), ctx = Context.cpu(1)).toArray.toSeq
    Random.setState(state)
    assertEquals(Random.normal(0f, 1f, Shape(5)).toArray.toSeq, first)
    assertEquals(Random.normal(0f, 1f, Shape(5), ctx = Context.cpu(1)).toArray.toSeq, other)
    Seq(null, Array.empty[Long], Array(1L, 2L), Array(1L, 9L, 0L, 0L, 0L), Array(1L, 2L, 0L, 0L, 0L)).foreach { wrong =>
      intercept[MXNetError](Random.setState(wrong))
    }
    assertEquals(Random.normal(0f, 1f, Shape(0)).size, 0)
  }
}

/** A user's optimizer, with its own counter and schedule. */
class CountingOptimizer extends Optimizer {
  class Halving extends LRScheduler(0.2f) {
    private var calls = 0L
    override def apply(numUpdate: Int): Float = {
      calls += 1
      if (calls % 7 == 0) baseLR *= 0.9f
      baseLR
    }
  }
  private val schedule = new Halving
  private var updates = 0
  override def update(index: Int, weight: NDArray, grad: NDArray, state: AnyRef): Unit = {
    updates += 1
    weight -= grad * (schedule(updates) * rescaleGrad / (1 + updates % 3))
    ()
  }
  override def createState(index: Int, weight: NDArray): AnyRef = null
  override def disposeState(state: AnyRef): Unit = ()
  override def serializeState(state: AnyRef): Array[Byte] = null
  override def deserializeState(bytes: Array[Byte]): AnyRef = null
}

/** The training setup, in which every component draws random numbers. */
class ResumeProgram {
  private val count = 60

  def rows: (Array[Array[Float]], Array[Float]) = {
    val random = new scala.util.Random(5)
    val values = Array.fill(count)(Array.fill(3)(random.nextGaussian().toFloat))
    (values, values.map(row => if (row.sum > 0) 1f else 0f))
  }

  def data(last: String = "pad", shuffle: Boolean = true): NDArrayIter = {
    val (values, labels) = rows
    new NDArrayIter(
      IndexedSeq(NDArray.array(values.flatten, Shape(count, 3))),
      IndexedSeq(NDArray.array(labels, Shape(count))),
      8,
      shuffle,
      last,
      labelName = "softmax_label"
    )
  }

  def network: Symbol = {
    val hidden = Symbol.api.FullyConnected(data = Symbol.Variable("data"), num_hidden = 8, name = "fc1")
    val normalized = Symbol.api.BatchNorm(hidden, name = "norm")
    val dropped = Symbol.api.Dropout(data = Symbol.api.Activation(normalized, act_type = "relu"), p = 0.3f)
    Symbol.api.SoftmaxOutput(
      data = Symbol.api.FullyConnected(data = dropped, num_hidden = 2, name = "fc2"),
      name = "softmax"
    )
  }
}

/** Trains and prints a line for each batch, at which the test can kill the process. */
object ResumeProgram {
  def main(args: Array[String]): Unit = {
    val program = new ResumeProgram
    def file(name: String) = Paths.get(args(0), name).toString
    Random.seed(21)
    val announced = new TrainingCallback {
      override def onBatchEnd(epoch: Int, nBatch: Int, evalMetric: EvalMetric, training: Training): Unit = {
        println(s"$epoch $nBatch")
        Thread.sleep(30)
      }
    }
    val params = new FitParams()
      .setInitializer(new Xavier())
      .setOptimizer(new Adam(0.02f, wd = 0.001f, lrScheduler = new FactorScheduler(6, 0.8f)))
      .setCheckpoint(file("training.checkpoint"))
      .addCallback(announced, new MetricHistory(csv = file("history.csv")), new LearningCurve(file("curve.svg")))
      .addCallback(new BestCheckpoints(file("best"), k = 2), new EarlyStopping(patience = 9, restoreBest = true))
    val module = new Module(program.network)
    module.fit(program.data("roll_over"), Some(program.data()), 6, params, resume = true)
    module.saveParams(file("last.params"))
  }
}
