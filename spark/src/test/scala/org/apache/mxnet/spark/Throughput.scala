package org.apache.mxnet.spark

import java.lang.management.ManagementFactory

import org.apache.mxnet._
import org.apache.spark.sql.SparkSession

/** Measures the rows per second of LeNet on the digits: in a Spark pipeline with one task at a time, and in a loop over the
  * same rows in memory, in the same process. The runs alternate, and the best of each counts, in wall-clock time and in
  * processor time, which depends little on other load.
  *
  * Usage: `OMP_NUM_THREADS=1 sbt "Test/runMain org.apache.mxnet.spark.Throughput [ROWS] [FILE.onnx] [flat]"` in the folder
  * `spark`. With a file, the network is written there as ONNX, and the pipeline reads it. With `flat`, the network is a
  * small perceptron, as for tables, instead of LeNet.
  */
object Throughput {
  private val BatchSize = 64
  private val Rounds = 7

  def main(arguments: Array[String]): Unit = {
    val numRows = arguments.headOption.fold(100000)(_.toInt)
    val spark = SparkSession
      .builder()
      .master("local[1]")
      .config("spark.ui.enabled", "false")
      .config("spark.driver.host", "127.0.0.1")
      .getOrCreate()
    try {
      val images = Array.tabulate(numRows)(i => Digits.testImages(i % Digits.testImages.length))
      val table = spark.createDataFrame(images.toSeq.map(Tuple1(_))).toDF("pixels").repartition(4).cache()
      table.count()
      val network = if (arguments.length > 2) perceptron else lenet
      val model = (if (arguments.length > 1) network.onnx(arguments(1)) else network.stage).setBatchSize(BatchSize)
      val answers = model.transform(table).select("probabilities")
      val runs = Seq(
        "pipeline" -> (() => answers.write.format("noop").mode("overwrite").save()),
        "loop" -> (() => network.loop(images))
      )
      val times = Seq.fill(Rounds)(runs.map { case (name, run) => name -> timed(run()) }).flatten.groupMap(_._1)(_._2)
      report("second", times.map { case (name, found) => name -> found.map(_.clock).min }, numRows)
      report("processor second", times.map { case (name, found) => name -> found.map(_.process).min }, numRows)
      report(
        "processor second of tasks",
        times.map { case (name, found) => name -> found.map(_.tasks).min },
        numRows
      )
    } finally spark.stop()
  }

  private def report(unit: String, best: Map[String, Double], numRows: Int): Unit = {
    best.foreach { case (name, seconds) => println(f"$name%-8s ${numRows / seconds}%10.0f rows per $unit") }
    println(f"pipeline / loop ${best("loop") / best("pipeline")}%.2f per $unit")
  }

  /** A network on the digits.
    *
    * @param shape the shape of a row
    */
  private final case class Network(symbol: Symbol, args: Map[String, NDArray], shape: Shape) {
    def stage: MXNetModel = new MXNetModel()
      .setNetwork(symbol, args)
      .setFeedDict(Map("data" -> "pixels"))
      .setInputShapes(Map("data" -> shape))
      .setFetchDict(Map("probabilities" -> "softmax_output"))

    def onnx(file: String): MXNetModel = {
      // SynapseML, which reads the same file in tests/bench/synapseml, does not support newer versions.
      Onnx.exportModel(symbol, args, file, opset = 13, inputs = Map("data" -> Shape(-1 +: shape.toVector)))
      new MXNetModel()
        .setModelPath(file)
        .setFeedDict(Map("data" -> "pixels"))
        .setFetchDict(Map("probabilities" -> Onnx.importModel(file).outputs.head))
    }

    private lazy val executor: Executor = {
      val shapes = Map("data" -> Shape(BatchSize +: shape.toVector), "softmax_label" -> Shape(BatchSize))
      val bound = symbol.simpleBind(Context.cpu(), "null", shapes)
      bound.copyParamsFrom(args)
      bound
    }

    def loop(images: Array[Array[Float]]): Unit = {
      val input = new Array[Float](BatchSize * 64)
      images.grouped(BatchSize).foreach { batch =>
        batch.indices.foreach(i => System.arraycopy(batch(i), 0, input, i * 64, 64))
        executor.argDict("data").set(input)
        executor.forward(isTrain = false)
        executor.outputs.head.toArray
      }
    }
  }

  private def lenet: Network = {
    val (symbol, args, _) = Model.loadCheckpoint(Digits.ModelPath, Digits.ModelEpoch)
    Network(symbol, args, Shape(1, 8, 8))
  }

  private def perceptron: Network = {
    val hidden = Symbol.api.FullyConnected(data = Symbol.Variable("data"), num_hidden = 32, name = "one")
    val active = Symbol.api.Activation(data = hidden, act_type = "relu", name = "active")
    val scores = Symbol.api.FullyConnected(data = active, num_hidden = 10, name = "two")
    def ramp(name: String, shape: Shape) =
      name -> NDArray.array(Array.tabulate(shape.product)(i => (i % 7 - 3) * 0.1f), shape)
    val args =
      Seq(
        ramp("one_weight", Shape(32, 64)),
        ramp("one_bias", Shape(32)),
        ramp("two_weight", Shape(10, 32)),
        ramp("two_bias", Shape(10))
      )
    Network(Symbol.api.SoftmaxOutput(data = scores, name = "softmax"), args.toMap, Shape(64))
  }

  /** Seconds of wall-clock time, and of processor time of the process and of the threads that run tasks or the loop. */
  private final case class Times(clock: Double, process: Double, tasks: Double)

  private def timed(run: => Unit): Times = {
    val start = now
    run
    val end = now
    Times(end.clock - start.clock, end.process - start.process, end.tasks - start.tasks)
  }

  private def now: Times = {
    val process = ManagementFactory.getOperatingSystemMXBean match {
      case system: com.sun.management.OperatingSystemMXBean => system.getProcessCpuTime
      case other => throw new UnsupportedOperationException(s"$other does not tell the processor time")
    }
    val threads = ManagementFactory.getThreadMXBean
    val tasks = threads.getAllThreadIds.toSeq
      .flatMap(id => Option(threads.getThreadInfo(id)))
      .filter(info => info.getThreadName.startsWith("Executor task") || info.getThreadId == Thread.currentThread.getId)
      .map(info => threads.getThreadCpuTime(info.getThreadId))
    Times(System.nanoTime() / 1e9, process / 1e9, tasks.sum / 1e9)
  }
}
