package org.apache.mxnet.spark

import java.io.IOException
import java.net.URI
import java.nio.{ByteBuffer, ByteOrder}
import java.nio.file.Files
import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.{ConcurrentLinkedQueue, CountDownLatch}

import scala.concurrent.duration.DurationInt
import scala.concurrent.{Await, ExecutionContext, Future}
import scala.jdk.CollectionConverters._

import munit.FunSuite
import org.apache.hadoop.fs.{FSDataInputStream, FSDataOutputStream, Path => HadoopPath, RawLocalFileSystem}
import org.apache.hadoop.util.Progressable
import org.apache.mxnet.io.NDArrayIter
import org.apache.mxnet.module.{FitParams, Module}
import org.apache.mxnet.{
  Base,
  Context,
  CustomMetric,
  DistributedJob,
  FactorScheduler,
  Model,
  NDArray,
  Random,
  Shape,
  Symbol
}
import org.apache.mxnet.optimizer.{NAG, SGD}
import org.apache.mxnet.spark.internal.{RowKey, ShardFile}
import org.apache.spark.ml.evaluation.MulticlassClassificationEvaluator
import org.apache.spark.ml.tuning.{CrossValidator, ParamGridBuilder, TrainValidationSplit}
import org.apache.spark.scheduler.{SparkListener, SparkListenerEvent}
import org.apache.spark.sql.ferromx.{FileTransfer, Listeners}
import org.apache.spark.sql.functions.{array, col, lit, udf, when}
import org.apache.spark.SparkException
import org.apache.spark.sql.{Column, DataFrame, SparkSession}

/** Programs that run in one process, with `local[2]`: workers are threads. */
class LocalModeSuite extends FunSuite {
  private implicit val threads: ExecutionContext = ExecutionContext.global

  // Starting Spark takes long on a busy machine.
  override val munitTimeout = scala.concurrent.duration.Duration(1, "h")

  private lazy val spark = SparkSession
    .builder()
    .master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()

  override def afterAll(): Unit = spark.stop()

  /** 120 points of three classes. */
  private lazy val points: DataFrame = {
    val random = new scala.util.Random(7)
    val rows = (0 until 120).map { i =>
      (i, Array.fill(2)(i % 3 + 0.3 * random.nextGaussian()), (i % 3).toDouble)
    }
    spark.createDataFrame(rows).toDF("id", "features", "label").repartition(3).cache()
  }

  private def network: Symbol = {
    val hidden = Symbol.api.FullyConnected(data = Symbol.Variable("data"), num_hidden = 8, name = "one")
    val dropped = Symbol.api.Dropout(data = hidden, p = 0.4f, name = "drop")
    val scores = Symbol.api.FullyConnected(data = dropped, num_hidden = 3, name = "two")
    Symbol.api.SoftmaxOutput(data = scores, name = "softmax")
  }

  private def estimator: MXNetEstimator = new MXNetEstimator()
    .setSymbol(network)
    .setBatchSize(24)
    .setNumEpoch(3)
    .setLearningRate(0.1f)
    .setNumShards(2)
    .setTimeout(120)

  private def bits(model: MXNetModel): String = model.files.hash

  /** What `body` gives, and the numbers of the epochs that were trained meanwhile. */
  private def withEpochs[A](body: => A): (A, Seq[Int]) = {
    val seen = new ConcurrentLinkedQueue[Int]
    val listener = onProgress(progress => { seen.add(progress.epoch); () })
    val result = body
    Listeners.flush(spark.sparkContext)
    spark.sparkContext.removeSparkListener(listener)
    (result, seen.asScala.toSeq)
  }

  private def onProgress(handle: TrainingProgress => Unit): SparkListener = {
    val listener = new SparkListener {
      override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
        case progress: TrainingProgress => handle(progress)
        case _                          => ()
      }
    }
    spark.sparkContext.addSparkListener(listener)
    listener
  }

  private def refused(estimator: => MXNetEstimator): String =
    intercept[IllegalArgumentException](estimator.fit(points)).getMessage

  test("more workers than the process has cores are refused at once") {
    val error = refused(estimator.setNumShards(3).setNumWorkers(3))
    assert(error.contains("numWorkers is 3, but the master local[2] runs 2 tasks at the same time"), error)
  }

  test("estimators that train at the same time compute what each computes alone") {
    def other = estimator.setSeed(9).setOptimizer("sgld").setLearningRate(1e-3f)
    val alone = Seq(bits(estimator.fit(points)), bits(other.fit(points)))
    assertNotEquals(alone.head, bits(estimator.setSeed(9).fit(points)), "the seed matters")
    Random.seed(1)
    val numbers = Random.uniform(0f, 1f, Shape(4)).toArray.toSeq
    for (_ <- 1 to 3) {
      Random.seed(1)
      val together = Seq(Future(bits(estimator.fit(points))), Future(bits(other.fit(points))))
      assertEquals(together.map(Await.result(_, 10.minutes)), alone)
      assertEquals(Random.uniform(0f, 1f, Shape(4)).toArray.toSeq, numbers, "the program has its own numbers")
    }
  }

  test("Module.fit without Spark ends with the same parameters") {
    val hidden = Symbol.api.FullyConnected(data = Symbol.Variable("data"), num_hidden = 8, name = "one")
    val active = Symbol.api.Activation(data = hidden, act_type = "tanh", name = "active")
    val scores = Symbol.api.FullyConnected(data = active, num_hidden = 3, name = "two")
    val network = Symbol.api.SoftmaxOutput(data = scores, name = "softmax")
    def start = Seq(
      "one_weight" -> Shape(8, 2),
      "one_bias" -> Shape(8),
      "two_weight" -> Shape(3, 8),
      "two_bias" -> Shape(3)
    ).map { case (name, shape) =>
      name -> NDArray.array(Array.tabulate(shape.product)(i => (i % 7 - 3) * 0.1f), shape)
    }.toMap
    val trained = estimator
      .setSymbol(network)
      .setInitialModel(new MXNetModel().setNetwork(network, start))
      .setOptimizer(rate => new SGD(rate, momentum = 0.9f))
      .setNumEpoch(2)
      .fit(points)
    // The rows of each shard and epoch, in the order that the guide documents.
    val records = points.select("features", "label").collect().map { row =>
      val numbers = (row.getSeq[Double](0) :+ row.getDouble(1)).map(_.toFloat)
      numbers.foldLeft(ByteBuffer.allocate(12).order(ByteOrder.LITTLE_ENDIAN))(_.putFloat(_)).array()
    }
    val keyed = records.sortBy(RowKey.hash(_, 42)).zipWithIndex.map { case (record, i) =>
      RowKey.of(validation = false, i.toLong, numShards = 2) -> record
    }
    val files = ShardFile.spool(keyed.sortBy(_._1).iterator, Files.createTempDirectory("shards").toFile)
    val shards = Seq(0, 1).map(shard => files(shard).training)
    val rows = (0 until 2).flatMap { epoch =>
      shards.zipWithIndex.foreach { case (file, shard) => file.shuffle(RowKey.orderSeed(42, epoch, shard)) }
      Seq.fill(5)(shards.flatMap(Seq.fill(12)(_))).flatten.map { file =>
        val row = new Array[Float](3)
        file.read(row)
        row
      }
    }
    val data = NDArray.array(rows.flatMap(_.take(2)).toArray, Shape(240, 2))
    val labels = NDArray.array(rows.map(_(2)).toArray, Shape(240))
    val job = DistributedJob.listen("127.0.0.1")
    try {
      job.join(0, Seq(s"127.0.0.1:${job.port}"), new Array[Byte](16))
      val module = new Module(network, contexts = Array(Context.cpu(0), Context.cpu(1)))
      val params = new FitParams()
        .setKVStore(job.createStore())
        .setArgParams(start)
        .setOptimizer(new SGD(0.1f, momentum = 0.9f))
      module.fit(
        new NDArrayIter(IndexedSeq(data), IndexedSeq(labels), 24, labelName = "softmax_label"),
        fitParams = params
      )
      def bits(params: Map[String, NDArray]) =
        params.map { case (name, array) => name -> array.toArray.toSeq.map(java.lang.Float.floatToRawIntBits) }
      assertEquals(bits(module.getParams._1), bits(trained.innerModel.getArgParams))
      assertNotEquals(bits(module.getParams._1), bits(start))
    } finally job.close()
    shards.foreach(_.close())
  }

  test("a cross-validation gives the same metrics with any parallelism") {
    val stage = estimator.setNumEpoch(1)
    val grid = new ParamGridBuilder().addGrid(stage.learningRate, Seq(0.03f, 0.1f)).build()
    def fitted(parallelism: Int) = new CrossValidator()
      .setEstimator(stage)
      .setEstimatorParamMaps(grid)
      .setEvaluator(new MulticlassClassificationEvaluator().setMetricName("accuracy"))
      .setNumFolds(2)
      .setSeed(3)
      .setParallelism(parallelism)
      .fit(points)
    val (one, two) = (fitted(1), fitted(2))
    assertEquals(two.avgMetrics.toSeq, one.avgMetrics.toSeq)
    assertEquals(bits(two.bestModel.asInstanceOf[MXNetModel]), bits(one.bestModel.asInstanceOf[MXNetModel]))
  }

  test("workers in one process draw the same numbers for an update") {
    def noisy = estimator.setOptimizer(rate => new LocalModeSuite.NoisySGD(rate))
    assertEquals(bits(noisy.setNumWorkers(2).fit(points)), bits(noisy.fit(points)))
    assertNotEquals(bits(noisy.fit(points)), bits(estimator.setOptimizer(rate => new SGD(rate)).fit(points)))
  }

  test("every optimizer has its name in MXNet, and resumes") {
    for (name <- Seq("SGD", "nag", "Adam", "adagrad", "rmsprop", "dcasgd", "sgld", "AdaDelta")) {
      def training = estimator.setOptimizer(name).setLearningRate(1e-3f).setNumEpoch(4)
      val directory = Files.createTempDirectory("checkpoints").toString
      training.setCheckpointDir(directory).setNumEpoch(2).fit(points)
      val (resumed, epochs) = withEpochs(training.setCheckpointDir(directory).setNumWorkers(2).fit(points))
      assertEquals(epochs, Seq(2, 3), name)
      assertEquals(bits(resumed), bits(training.fit(points)), name)
    }
  }

  test("the last checkpoints are kept, and those of other trainings") {
    val directory = Files.createTempDirectory("checkpoints").toFile
    def training = estimator.setCheckpointDir(directory.getPath).setNumEpoch(5)
    def epochs = directory.list().filter(_.endsWith(".checkpoint")).map(_.split("[-.]")(1).toInt).sorted.toSeq
    val model = training.fit(points)
    assertEquals(epochs, Seq(4, 5))
    training.setSeed(8).setCheckpointKeep(0).fit(points)
    assertEquals(epochs, Seq(1, 2, 3, 4, 4, 5, 5))
    training.setSeed(9).setCheckpointKeep(1).setCheckpointInterval(2).fit(points)
    assertEquals(epochs, Seq(1, 2, 3, 4, 4, 5, 5, 5))
    val (again, trained) = withEpochs(training.fit(points))
    assertEquals((bits(again), trained), (bits(model), Nil))
  }

  test("labels that are not classes of the network are refused") {
    val scores = Symbol.api.FullyConnected(data = Symbol.Variable("data"), num_hidden = 3, name = "one")
    def failure(network: Symbol, label: Column): String =
      Iterator
        .iterate[Throwable](intercept[Exception] {
          estimator
            .setSymbol(network)
            .fit(points.withColumn("label", when(col("id") === 7, label).otherwise(col("label"))))
        })(_.getCause)
        .takeWhile(_ != null)
        .map(_.toString)
        .mkString
    val expected = "but the layer 'softmax' (SoftmaxOutput) has 3 classes; give labels from 0 to 2"
    for ((label, shown) <- Seq(lit(3) -> "3.0", lit(-1) -> "-1.0", lit(Double.NaN) -> "NaN")) {
      val found = failure(network, label)
      assert(found.contains(s"column 'label' has the value $shown, $expected"), found)
    }
    val ignoring =
      Symbol.api.SoftmaxOutput(
        data = scores,
        use_ignore = true,
        ignore_label = 9f,
        preserve_shape = true,
        name = "softmax"
      )
    assert(failure(ignoring, lit(3)).contains(s"has the value 3.0, $expected, or 9.0 for no class"))
    estimator.setSymbol(ignoring).fit(points.withColumn("label", when(col("id") === 7, 9).otherwise(col("label"))))
    // Two positions with a label each.
    val positions = Symbol.api.Reshape(
      data = Symbol.api.FullyConnected(data = Symbol.Variable("data"), num_hidden = 6, name = "one"),
      shape = Shape(0, 3, 2)
    )
    val several = Symbol.api.SoftmaxOutput(data = positions, multi_output = true, name = "softmax")
    def pairs(second: Int) = points.withColumn("label", array(col("label"), lit(second)))
    estimator.setSymbol(several).fit(pairs(2))
    intercept[Exception](estimator.setSymbol(several).fit(pairs(3)))
    // Probabilities.
    val loss = Symbol.api.SoftmaxOutput(data = scores, name = "softmax")
    estimator
      .setSymbol(loss)
      .setMetric(() => new CustomMetric((_, _) => 1f, "constant"))
      .fit(points.withColumn("label", array(lit(5), lit(0.1), lit(0.7))))
  }

  test("training with another optimizer or other settings does not resume") {
    val directory = Files.createTempDirectory("checkpoints").toString
    def training = estimator.setCheckpointDir(directory).setNumEpoch(1)
    def epochs(estimator: MXNetEstimator) = withEpochs(estimator.fit(points))._2
    assertEquals(epochs(training), Seq(0))
    assertEquals(epochs(training), Nil)
    assertEquals(epochs(training.setOptimizer(rate => new SGD(rate))), Nil, "the same optimizer as code")
    assertEquals(epochs(training.setLearningRate(0.2f)), Seq(0))
    assertEquals(epochs(training.setOptimizer("nag")), Seq(0))
    assertEquals(epochs(training.setOptimizer(rate => new NAG(rate, wd = 0.5f))), Seq(0))
    def scheduled(factor: Float) =
      training.setOptimizer(rate => new SGD(rate, lrScheduler = new FactorScheduler(2, factor)))
    assertEquals(epochs(scheduled(0.5f)), Seq(0))
    assertEquals(epochs(scheduled(0.25f)), Seq(0))
    assertEquals(epochs(training.setMetric("ce")), Seq(0))
    val searched = estimator.setCheckpointDir(directory)
    val grid = new ParamGridBuilder().addGrid(searched.learningRate, Seq(1e-9f, 0.3f)).build()
    val split = new TrainValidationSplit()
      .setEstimator(searched)
      .setEstimatorParamMaps(grid)
      .setEvaluator(new MulticlassClassificationEvaluator().setMetricName("accuracy"))
      .setSeed(1)
    val metrics = split.fit(points).validationMetrics
    assert(metrics(1) > metrics(0), metrics.toSeq)
  }

  test("a metric of the program needs a mode to stop training early") {
    var value = 0f
    def constant = estimator
      .setMetric(() => new CustomMetric((_, _) => 1f, "constant"))
      .setEarlyStopping(1)
      .setNumEpoch(9)
    val error = refused(constant)
    assert(
      error.contains("whether the metric 'constant' should grow or shrink; set metricMode to 'max' or 'min'"),
      error
    )
    assertEquals(withEpochs(constant.setMetricMode("min").fit(points))._2, Seq(0, 1))
    val growing = estimator
      .setMetric(() => { value += 1; new CustomMetric((_, _) => value, "growing") })
      .setEarlyStopping(1)
      .setNumEpoch(3)
    assertEquals(withEpochs(growing.setMetricMode("max").fit(points))._2.length, 2, "one object for all epochs")
    intercept[IllegalArgumentException](estimator.setMetricMode("best"))
  }

  test("a canceled training ends") {
    val started = new CountDownLatch(1)
    val listener = onProgress(_ => started.countDown())
    val context = spark.sparkContext
    val training = Future {
      context.setJobGroup("training", "canceled", interruptOnCancel = false)
      estimator.setNumWorkers(2).setNumEpoch(1000000).fit(points)
    }
    started.await()
    context.cancelJobGroup("training")
    intercept[Exception](Await.result(training, 2.minutes))
    // Both cores are free again.
    assertEquals(
      Await.result(Future(estimator.setNumWorkers(2).fit(points)), 2.minutes).transform(points).count(),
      120L
    )
    context.removeSparkListener(listener)
  }

  test("a training leaves neither arrays nor files in the executors, and one that fails no files") {
    val scores = Symbol.api.FullyConnected(data = Symbol.Variable("data"), num_hidden = 100000, name = "one")
    def wide = estimator.setSymbol(Symbol.api.SoftmaxOutput(data = scores, name = "softmax")).setNumWorkers(2)
    val directory = FileTransfer.createDirectory()
    def directories = directory.getParentFile.list().toSeq.sorted
    def bytes: Long = Base._LIB.memoryInUse()
    def within20Seconds(holds: => Boolean): Unit =
      Iterator.continually(Thread.sleep(100)).take(200).takeWhile(_ => !holds).foreach(identity)
    wide.fit(points)
    val (filesBefore, bytesBefore) = (directories, bytes)
    wide.fit(points)
    assertEquals(directories, filesBefore)
    // A copy of the parameters has 1.2 MB. Arrays that no object refers to are freed after a collection.
    within20Seconds {
      System.gc()
      bytes - bytesBefore < (1L << 20)
    }
    assert(bytes - bytesBefore < (1L << 20), s"$bytesBefore bytes are in use before, $bytes after")
    val failing = wide.setMetric(() => new CustomMetric((_, _) => throw new IllegalStateException("no metric"), "none"))
    intercept[Exception](failing.fit(points))
    // A failed training returns before its other tasks end.
    within20Seconds(directories == filesBefore)
    assertEquals(directories, filesBefore)
  }

  test("the table is computed once") {
    val count = spark.sparkContext.longAccumulator
    val counted = udf((id: Int) => { count.add(1); id % 4 == 0 }).asNondeterministic()
    val table = points.withColumn("validation", counted(col("id")))
    estimator
      .setInputShapes(Map("data" -> Shape(2), "softmax_label" -> Shape()))
      .setValidationIndicatorCol("validation")
      .fit(table)
    assertEquals(count.value.longValue, 120L)
  }

  test("a network may have several outputs and labels") {
    val hidden = Symbol.api.FullyConnected(data = Symbol.Variable("data"), num_hidden = 8, name = "one")
    val scores = Symbol.api.FullyConnected(data = hidden, num_hidden = 3, name = "two")
    val size = Symbol.api.FullyConnected(data = hidden, num_hidden = 1, name = "three")
    val both = Symbol.Group(
      Symbol.api.SoftmaxOutput(data = scores, name = "softmax"),
      Symbol.api.LinearRegressionOutput(data = size, name = "size"),
      Symbol.api.BlockGrad(data = hidden, name = "features")
    )
    val model = estimator
      .setSymbol(both)
      .setFeedDict(Map("data" -> "features", "size_label" -> "double"))
      .setNumEpoch(20)
      .fit(points.withColumn("double", col("label") * 2))
    assertEquals(model.getFeedDict, Map("data" -> "features"))
    val answers = model
      .setFetchDict(Map("class" -> "softmax_output", "size" -> "size_output", "hidden" -> "features_output"))
      .setPredictionCol("")
      .transform(points)
    val errors = answers.select(col("size")(0) - col("label") * 2).collect().map(row => math.abs(row.getDouble(0)))
    assert(errors.sum / errors.length < 0.5, errors.toSeq)
    assertEquals(answers.head().getSeq[Float](answers.columns.indexOf("hidden")).length, 8)
  }

  test("a model on a remote file system is fetched once, and again when it changes") {
    val directory = Files.createTempDirectory("remote")
    def write(epochs: Int): Unit = {
      val model = estimator.setNumEpoch(epochs).fit(points).innerModel
      Model.saveCheckpoint(directory.resolve("net").toString, 0, network, model.getArgParams, model.getAuxParams)
    }
    spark.sparkContext.hadoopConfiguration.set("fs.remote.impl", classOf[LocalModeSuite.RemoteFileSystem].getName)
    val model = new MXNetModel()
      .setModelPath(s"remote://$directory/net")
      .setFeedDict(Map("data" -> "features"))
      .setFetchDict(Map("probabilities" -> "softmax_output"))
    def answers = model.transform(points).select("id", "probabilities").collect().map(_.toString).toSet
    def opened = LocalModeSuite.opened.getAndSet(0)
    write(1)
    val first = answers
    assertEquals(opened, 2, "symbol and parameters")
    assertEquals(answers, first)
    assertEquals(opened, 0)
    write(3)
    assertNotEquals(answers, first)
    assertEquals(opened, 2)
  }

  test("an input without a column is named before a job starts") {
    val sum = Symbol.Variable("data") + Symbol.Variable("other")
    val network = Symbol.api.FullyConnected(data = sum, num_hidden = 2, no_bias = true, name = "table")
    val model = new MXNetModel()
      .setNetwork(network, Map("table_weight" -> NDArray.ones(Shape(2, 2))))
      .setFeedDict(Map("data" -> "features"))
      .setFetchDict(Map("rows" -> "table_output"))
    val error = intercept[IllegalArgumentException](model.transform(points)).getMessage
    assert(error.contains("feedDict has no column for 'other', which table_output need"), error)
  }

  test("tables and directories that cannot be trained with are named") {
    def failure(estimator: MXNetEstimator, table: DataFrame = points): String =
      Iterator.iterate[Throwable](intercept[Exception](estimator.fit(table)))(_.getCause).takeWhile(_ != null).mkString
    val regression = Symbol.api.LinearRegressionOutput(
      data = Symbol.api.FullyConnected(data = Symbol.Variable("data"), num_hidden = 1, name = "one"),
      name = "size"
    )
    val lost = points.withColumn("label", when(col("id") === 7, Double.NaN).otherwise(col("label")))
    def regressor = estimator.setSymbol(regression).setLabelName("size_label").setMetric("rmse")
    val label = failure(regressor, lost)
    assert(label.contains("column 'label' has the value NaN, which cannot be trained on"), label)
    regressor.setMetric(() => new CustomMetric((_, _) => 1f, "constant")).fit(lost)
    val shards = failure(estimator.setValidationIndicatorCol("v"), points.withColumn("v", lit(true)))
    assert(shards.contains("fewer rows than numShards = 2, namely 0 for training and 120 for validation"), shards)
    val directory = Files.createTempDirectory("checkpoints").toFile
    estimator.setCheckpointDir(directory.getPath).fit(points)
    directory.listFiles().filter(_.getName.endsWith(".checkpoint")).foreach { file =>
      Files.write(file.toPath, Files.readAllBytes(file.toPath).take(40))
    }
    val damaged = failure(estimator.setCheckpointDir(directory.getPath).setNumEpoch(4))
    assert(damaged.contains(s"the checkpoint file:$directory/"), damaged)
    assert(damaged.contains("delete it to resume from the one before"), damaged)
    spark.sparkContext.hadoopConfiguration.set("fs.full.impl", classOf[LocalModeSuite.FullFileSystem].getName)
    val full = failure(estimator.setCheckpointDir(s"full://$directory"))
    assert(full.contains(s"checkpointDir is 'full://$directory', which cannot be used: no space left"), full)
  }

  test("rows with null, NaN or infinite numbers are an error or skipped; NaN may be kept") {
    val bad = Seq(lit(null), array(lit(1.0), lit(Double.NaN)), array(lit(Double.NegativeInfinity), lit(0.0)))
    val shown = Seq("is null in a row", "has the value NaN", "has the value -Infinity")
    val skipped = bits(estimator.fit(points.where("id != 7")))
    for ((value, text) <- bad.zip(shown)) {
      val table = points.withColumn("features", when(col("id") === 7, value).otherwise(col("features")))
      val error = intercept[SparkException](estimator.fit(table)).getMessage
      assert(error.contains(s"column 'features' $text"), error)
      assert(error.contains("set handleInvalid to 'skip'"), error)
      assertEquals(bits(estimator.setHandleInvalid("skip").fit(table)), skipped, text)
      if (text.contains("null")) intercept[SparkException](estimator.setHandleInvalid("keep").fit(table))
      else assertEquals(estimator.setHandleInvalid("keep").fit(table).getHandleInvalid, "keep")
    }
    val label = points.withColumn("label", when(col("id") === 7, Double.NaN).otherwise(col("label")))
    assertEquals(bits(estimator.setHandleInvalid("skip").fit(label)), skipped)
    // Classes that the network does not have are mistakes.
    val unknown = points.withColumn("label", when(col("id") === 7, 3).otherwise(col("label")))
    assert(intercept[SparkException](estimator.setHandleInvalid("skip").fit(unknown)).getMessage.contains("3 classes"))
    val none = points.withColumn("features", array(lit(Double.NaN), lit(0.0)))
    assert(intercept[SparkException](estimator.setHandleInvalid("skip").fit(none)).getMessage.contains("namely 0"))
  }

  private def modelAt(path: String) = new MXNetModel()
    .setModelPath(path)
    .setFeedDict(Map("data" -> "features"))
    .setFetchDict(Map("probabilities" -> "softmax_output"))
    .transform(points)

  test("errors of parameters say which values are valid") {
    def message(body: => Any): String = intercept[IllegalArgumentException](body).getMessage
    val expected = Seq(
      message(
        estimator.setOptimizer("adamw")
      ) -> "the parameter optimizer is invalid: 'adamw' is not one of sgd, nag, adam,",
      message(
        estimator.setBatchSize(0)
      ) -> "the parameter batchSize is invalid: it is 0; give a whole number of at least 1",
      message(estimator.setNumWorkers(-1)) -> "numWorkers is invalid: it is -1; give a whole number of at least 1",
      message(estimator.setCheckpointKeep(-1)) -> "it is -1; give a whole number of at least 0",
      message(new MXNetModel().setEpoch(-1)) -> "the parameter epoch is invalid: it is -1",
      message(estimator.setLearningRate(Float.NaN)) -> "it is NaN; give a finite number above 0",
      message(estimator.setLearningRate(Float.PositiveInfinity)) -> "it is Infinity; give a finite number above 0",
      message(
        estimator.setFeedDict(null: Map[String, String])
      ) -> "the parameter feedDict is invalid: it is null; give a map",
      message(
        estimator.setOptimizerParams(null: java.util.Map[String, String])
      ) -> "optimizerParams is invalid: it is null",
      message(
        modelAt("nowhere://host/model")
      ) -> "modelPath is 'nowhere://host/model', which cannot be used: No FileSystem",
      message(modelAt(null)) -> "modelPath is 'null', which cannot be used",
      message(estimator.setMetric("auc")) -> "the parameter metric is invalid: 'auc' is not one of acc, f1, ce,",
      message(estimator.setMetric("top_k_accuracy_1")) -> "top_k_accuracy_N",
      message(estimator.setInitializer("he")) -> "'he' is not one of xavier, uniform, normal",
      message(estimator.setLabelName("target")) -> "'target' does not end with 'label'",
      message(
        estimator.setInputShapes(java.util.Map.of("data", "1;2"))
      ) -> "the shape of 'data' is '1;2'; give the dimensions",
      message(new MXNetModel().setImageLayout("HWC")) -> "'HWC' is neither NCHW nor NHWC",
      refused(
        estimator.setOptimizerParams(Map("lr_step" -> "10"))
      ) -> "has no setting lr_factor; give a number between 0 and 1",
      refused(estimator.setOptimizerParams(Map("lr_step" -> "2.5", "lr_factor" -> "0.5"))) ->
        "the setting lr_step of the optimizer sgd is '2.5'; give a whole number of batches",
      refused(
        estimator.setOptimizerParams(Map("momentum" -> "NaN"))
      ) -> "the setting momentum of the optimizer sgd is 'NaN'",
      refused(estimator.setSymbol("{")) -> "the parameter symbol is not a network: ",
      refused(estimator.setFeedDict(Map.empty[String, String])) -> "feedDict is empty",
      refused(
        estimator.setLabelCol("features")
      ) -> "the network cannot take rows of shape data (2), softmax_label (2): ",
      refused(estimator.setOptimizer((_: Float) => null)) -> "the function of the optimizer returns null",
      refused(estimator.setMetric(() => null)) -> "the function of the metric returns null",
      refused(
        estimator.setCheckpointDir("nowhere://host/directory")
      ) -> "checkpointDir is 'nowhere://host/directory', which cannot",
      refused(estimator.setCheckpointDir(Files.createTempFile("no", "directory").toString)) -> "which cannot be used"
    )
    expected.foreach { case (found, text) => assert(found.contains(text), s"$found\ninstead of: $text") }
    Seq("accuracy", "cross-entropy", "crossentropy", "perplexity", "RMSE", "top_k_accuracy_2").foreach(
      estimator.setMetric(_: String)
    )
  }
}

object LocalModeSuite {

  /** SGD that adds noise, which it draws on the default device. */
  class NoisySGD(rate: Float) extends SGD(rate) {
    override def update(index: Int, weight: NDArray, gradient: NDArray, state: AnyRef): Unit = {
      super.update(index, weight, gradient, state)
      val noise = Random.normal(0f, 1e-3f, weight.shape)
      weight += noise
      noise.dispose()
    }
  }

  /** Directories can be created there, but no files. */
  class FullFileSystem extends RawLocalFileSystem {
    override def getUri: URI = URI.create("full:///")
    override def create(
        path: HadoopPath,
        overwrite: Boolean,
        bufferSize: Int,
        replication: Short,
        blockSize: Long,
        progress: Progressable
    ): FSDataOutputStream = throw new IOException("no space left")
  }

  /** Number of files that were opened on the remote file system. */
  val opened = new AtomicInteger

  /** The local files under another scheme. */
  class RemoteFileSystem extends RawLocalFileSystem {
    override def getUri: URI = URI.create("remote:///")
    override def open(path: HadoopPath, bufferSize: Int): FSDataInputStream = {
      opened.incrementAndGet()
      super.open(path, bufferSize)
    }
  }
}
