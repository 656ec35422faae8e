package org.apache.mxnet.spark

import java.nio.file.Files
import java.nio.{ByteBuffer, ByteOrder}
import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import org.apache.mxnet._
import org.apache.mxnet.optimizer.SGD
import org.apache.mxnet.spark.internal.{ChunkPartitioner, RowKey, ShardFile}
import org.apache.spark.{SparkException, TaskContext}
import org.apache.spark.ml.evaluation.MulticlassClassificationEvaluator
import org.apache.spark.ml.param.ParamMap
import org.apache.spark.ml.tuning.{CrossValidator, ParamGridBuilder}
import org.apache.spark.ml.{Pipeline, PipelineStage}
import org.apache.spark.mllib.linalg.Vectors
import org.apache.spark.mllib.regression.LabeledPoint
import org.apache.spark.scheduler.{SparkListener, SparkListenerEvent, SparkListenerTaskEnd}
import org.apache.spark.sql.{Column, DataFrame}
import org.apache.spark.sql.ferromx.Listeners
import org.apache.spark.sql.functions.{array, array_repeat, col, lit, when}

class MXNetEstimatorSuite extends ClusterSuite {
  import MXNetEstimatorSuite._

  override protected def coresPerExecutor: Int = 2

  private lazy val digits = Digits.train(spark).repartition(3).cache()
  private lazy val testDigits = Digits.test(spark)

  private def estimator: MXNetEstimator = new MXNetEstimator()
    .setSymbol(Symbol.load(s"${Digits.ModelPath}-symbol.json"))
    .setFeaturesCol("pixels")
    .setInputShapes(Map("data" -> Shape(1, 8, 8)))
    .setOptimizer(rate => new SGD(rate, momentum = 0.9f))
    .setLearningRate(0.05f)
    .setBatchSize(32)
    .setNumShards(4)
    .setNumWorkers(2)
    .setNumEpoch(1)
    .setTimeout(120)

  private def accuracy(model: MXNetModel, table: DataFrame = testDigits): Double =
    new MulticlassClassificationEvaluator().setMetricName("accuracy").evaluate(model.transform(table))

  /** The hash of the trained parameters. */
  private def bits(model: MXNetModel): String = model.files.hash

  /** A network with batch statistics and random numbers. */
  private def small: MXNetEstimator = {
    val data = Symbol.Variable("data")
    val hidden = Symbol.api.FullyConnected(data = data, num_hidden = 16, name = "one")
    val normal = Symbol.api.BatchNorm(data = hidden, fix_gamma = false, name = "normal")
    val dropped = Symbol.api.Dropout(data = normal, p = 0.3f, name = "drop")
    val scores = Symbol.api.FullyConnected(data = dropped, num_hidden = 10, name = "two")
    estimator
      .setSymbol(Symbol.api.SoftmaxOutput(data = scores, name = "softmax"))
      .setInputShapes(Map("data" -> Shape(64)))
  }

  /** The result of `body`, and the epochs that listeners received. */
  private def withProgress[A](body: => A): (A, Seq[TrainingProgress]) = {
    val events = new ConcurrentLinkedQueue[TrainingProgress]
    val listener = new SparkListener {
      override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
        case progress: TrainingProgress => events.add(progress); ()
        case _                          => ()
      }
    }
    spark.sparkContext.addSparkListener(listener)
    val result = body
    Listeners.flush(spark.sparkContext)
    spark.sparkContext.removeSparkListener(listener)
    (result, events.asScala.toSeq)
  }

  private def message(error: Throwable): String =
    Iterator.iterate(error)(_.getCause).takeWhile(_ != null).map(_.toString).mkString("\n")

  test("LeNet on the digits is as good as on one machine, and its progress is reported") {
    val (model, seen) = withProgress(estimator.setNumEpoch(12).fit(digits))
    assert(accuracy(model) >= 0.94, accuracy(model))
    assertEquals(seen.map(_.epoch), 0 to 11)
    assert(seen.last.train("accuracy") > 0.97, seen.last.line)
    assert(seen.last.train("accuracy") > seen.head.train("accuracy"))
  }

  test("one, two and four workers end with the same bits") {
    val parameters = Seq(1, 2, 4).map(workers => bits(small.setNumWorkers(workers).fit(digits)))
    assertEquals(parameters.distinct.length, 1)
    assertEquals(
      bits(small.fit(digits.orderBy(col("id").desc).repartition(5))),
      parameters.head,
      "rows in another order"
    )
    assertNotEquals(bits(small.setSeed(7).fit(digits)), parameters.head)
  }

  test("a killed executor does not change the result, and training resumes with another number of workers") {
    val whole = bits(small.setNumEpoch(4).fit(digits))
    val directory = Files.createTempDirectory("checkpoints").toString
    val marker = Files.createTempFile("killed", "").toFile
    val killed = small
      .setNumEpoch(4)
      .setCheckpointDir(directory)
      .setMetric(() => new KillingAccuracy(marker.getPath))
    assertEquals(bits(killed.fit(digits)), whole, "an executor was killed")
    assert(!marker.exists(), "no executor was killed")
    val resumed = Files.createTempDirectory("checkpoints").toString
    small.setCheckpointDir(resumed).setNumEpoch(2).fit(digits)
    assertEquals(bits(small.setCheckpointDir(resumed).setNumWorkers(1).setNumEpoch(4).fit(digits)), whole)
  }

  test("a relative directory of checkpoints is the driver's") {
    val name = s"target/checkpoints-${System.nanoTime()}"
    small.setCheckpointDir(name).fit(digits.where("id < 64"))
    val files = Option(new java.io.File(name).list()).toSeq.flatten
    assertEquals(files.count(_.endsWith(".checkpoint")), 1, files)
  }

  test("empty and uneven partitions") {
    val uneven = digits.coalesce(1).repartition(7).where("id < 150").union(digits.where("id < 0"))
    val model = small.fit(uneven)
    assertEquals(model.transform(testDigits).count(), 297L)
    val few = message(intercept[Exception](small.fit(digits.where("id < 3").coalesce(1))))
    assert(few.contains("the table has fewer rows than numShards = 4"), few)
  }

  test("validation rows are measured, and end training early") {
    val marked = digits.withColumn("test", col("id") % 5 === 0)
    val training = small.setValidationIndicatorCol("test").setLearningRate(1e-7f).setEarlyStopping(2).setNumEpoch(30)
    val (_, seen) = withProgress(training.fit(marked))
    assert(seen.nonEmpty && seen.length < 30, seen.length)
    assertEquals(seen.head.validation.keySet, Set("accuracy"))
  }

  test("a saved estimator trains the same bits") {
    val named = small.setOptimizer("sgd").setOptimizerParams(Map("momentum" -> "0.9"))
    val path = Files.createTempDirectory("estimator").resolve("named").toString
    named.write.save(path)
    val loaded = MXNetEstimator.load(path)
    assertEquals(loaded.getOptimizerParams, Map("momentum" -> "0.9"))
    assertEquals(bits(loaded.fit(digits)), bits(small.fit(digits)), "by name, as by code")
    val coded = intercept[UnsupportedOperationException](small.write.overwrite().save(path)).getMessage
    assert(coded.contains("has code for the optimizer, which cannot be saved; set the parameter optimizer"), coded)
  }

  test("a name replaces code, also in the parameters of a copy, and code takes no settings") {
    val coded = small.setOptimizer(rate => new SGD(rate)).setMetric(() => new TopKAccuracy(2))
    val named = coded.copy(ParamMap(coded.optimizer -> "adam", coded.metric -> "ce"))
    assertEquals(bits(named.fit(digits)), bits(small.setOptimizer("adam").setMetric("ce").fit(digits)))
    named.save(Files.createTempDirectory("estimator").resolve("named").toString)
    val optimizer =
      intercept[IllegalArgumentException](coded.setOptimizerParams(Map("wd" -> "1")).fit(digits)).getMessage
    assert(optimizer.contains("optimizerParams has no effect on an optimizer that is set as code"), optimizer)
    val drawn = small.setInitializer(new Uniform(0.1f)).setInitializerParams(Map("scale" -> "0.2"))
    val initializer = intercept[IllegalArgumentException](drawn.fit(digits)).getMessage
    assert(initializer.contains("initializerParams has no effect on an initializer that is set as code"), initializer)
  }

  test("features may be the label, and columns may have dots in their names") {
    val data = Symbol.Variable("data")
    val code = Symbol.api.FullyConnected(data = data, num_hidden = 8, name = "code")
    val decoded = Symbol.api.FullyConnected(data = code, num_hidden = 64, name = "decoded")
    val autoencoder = estimator
      .setSymbol(Symbol.api.LinearRegressionOutput(data = decoded, name = "lro"))
      .setInputShapes(Map.empty[String, Shape])
      .setFeaturesCol("my.pixels")
      .setLabelCol("my.pixels")
      .setLabelName("lro_label")
      .setMetric("rmse")
    val renamed = digits.withColumnRenamed("pixels", "my.pixels")
    val (model, seen) = withProgress(autoencoder.setNumEpoch(3).fit(renamed))
    assertEquals(model.transform(renamed.limit(3)).head().getSeq[Float](3).length, 64)
    assert(seen.last.train("rmse") < seen.head.train("rmse"))
  }

  test("the rows of a shard have another order in each epoch, which the seed decides") {
    val records =
      (0 until 1000).map(i => ByteBuffer.allocate(4).order(ByteOrder.LITTLE_ENDIAN).putFloat(i.toFloat).array())
    val directory = Files.createTempDirectory("shard").toFile
    val rows = records.iterator.zipWithIndex.map { case (record, i) =>
      RowKey(validation = false, 0, i.toLong) -> record
    }
    val file = ShardFile.spool(rows, directory, chunkBytes = 40)(0).training
    def read(count: Int): Seq[Float] = {
      val row = new Array[Float](1)
      Seq.fill(count) { file.read(row); row(0) }
    }
    def epoch(seed: Long): Seq[Float] = {
      file.shuffle(seed)
      read(1000)
    }
    file.rewind()
    val sorted = read(1000)
    assertEquals(sorted, (0 until 1000).map(_.toFloat))
    assertEquals(read(2), Seq(0f, 1f), "after the last row the first again")
    val first = epoch(RowKey.orderSeed(42, epoch = 0, shard = 0))
    assertEquals(read(3), first.take(3), "after the last row the first again")
    val second = epoch(RowKey.orderSeed(42, epoch = 1, shard = 0))
    assertEquals(first.sorted, sorted)
    assertEquals(second.sorted, sorted)
    assert(first != sorted && first != second)
    assert(first.zip(first.tail).count { case (a, b) => b == a + 1 } < 50, "rows stay together")
    assertEquals(epoch(RowKey.orderSeed(42, epoch = 0, shard = 0)), first)
    file.close()
  }

  test("a program for MXNet's package for Spark trains, predicts in tasks, saves and loads") {
    val points = digits.select("label", "pixels").rdd.map { row =>
      LabeledPoint(row.getDouble(0), Vectors.dense(row.getSeq[Float](1).map(_.toDouble).toArray))
    }
    val builder = new MXNet()
      .setBatchSize(16)
      .setNumEpoch(6)
      .setDimension(Shape(1, 8, 8))
      .setNetwork(Symbol.load(s"${Digits.ModelPath}-symbol.json"))
      .setContext(Array(Context.cpu(0), Context.cpu(1)))
      .setNumWorker(2)
      .setLabelName("softmax_label")
    val settings = spark.conf.getAll
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    val model = builder.fit(points)
    val path = Files.createTempDirectory("model").resolve("saved").toString
    model.save(spark.sparkContext, path)
    assertEquals(spark.conf.get("spark.sql.shuffle.partitions"), "3", "the program's setting")
    spark.conf.set("spark.sql.shuffle.partitions", settings("spark.sql.shuffle.partitions"))
    val whole = accuracy(
      model.copy(ParamMap.empty).setPredictionCol("prediction"),
      testDigits.withColumnRenamed("pixels", "features")
    )
    assert(whole > 0.8, whole)
    val images =
      spark.sparkContext.parallelize(Digits.testImages.toSeq.zip(Digits.testLabels), 2).repartition(1).repartition(310)
    for (used <- Seq(model, MXNetModel.load(spark.sparkContext, path))) {
      val shared = spark.sparkContext.broadcast(used)
      val correct = images
        .mapPartitions { part =>
          val (pixels, labels) = part.toSeq.unzip
          val outputs = shared.value.predict(pixels.iterator.map(image => Vectors.dense(image.map(_.toDouble))))
          // Some partitions are empty.
          outputs.iterator.map { output =>
            val digit = NDArray.argmax_channel(output.get).toArray
            digit.zip(labels).count { case (found, label) => found == label }
          }
        }
        .sum()
      assertEquals(correct / Digits.testLabels.length, whole)
    }
    val first = Vectors.dense(Digits.testImages.head.map(_.toDouble))
    val alone = model.predict(first).head
    assertEquals(alone.get.shape, Shape(1, 10))
    val restored = FeedForward.deserialize(model.serializedModel)
    val input = NDArray.array(Digits.testImages.head, Shape(1, 1, 8, 8))
    val outputs = restored.predict(new io.NDArrayIter(IndexedSeq(input), dataBatchSize = 1))
    outputs.head.toArray.zip(alone.get.toArray).foreach { case (a, b) => assertEqualsFloat(a, b, 1e-5f) }
    intercept[IllegalArgumentException](new MXNet().setContext(Array(Context.gpu(0))))
  }

  test("a loaded model is fine-tuned") {
    val start = new MXNetModel().setModelPath(Digits.ModelPath).setEpoch(Digits.ModelEpoch)
    val model = estimator.setInitialModel(start).setLearningRate(1e-6f).fit(digits.where("id < 200"))
    assert(accuracy(model) >= 0.94, accuracy(model))
  }

  test("parameters that are larger than the result of a task come in several jobs") {
    val data = Symbol.Variable("data")
    val hidden = Symbol.api.FullyConnected(data = data, num_hidden = 250000, name = "one")
    val scores = Symbol.api.FullyConnected(data = hidden, num_hidden = 10, name = "two")
    val large = estimator
      .setSymbol(Symbol.api.SoftmaxOutput(data = scores, name = "softmax"))
      .setInputShapes(Map("data" -> Shape(64)))
      .setLearningRate(1e-6f)
      .setNumShards(2)
    val model = large.fit(digits.where("id < 32"))
    assert(Files.size(model.files.others.head) > ChunkPartitioner.PartitionBytes)
    assertEquals(model.transform(testDigits.limit(8)).count(), 8L)

    val partitions = new ChunkPartitioner(150L << 20)
    assertEquals(Seq(0, 15, 16, 31, 32, 37, 48).map(partitions.getPartition), Seq(0, 0, 1, 1, 2, 2, 2))
    assertEquals(new ChunkPartitioner(0).numPartitions, 1)
  }

  test("cross-validation in a pipeline") {
    val stage = small
    val grid = new ParamGridBuilder().addGrid(stage.learningRate, Seq(1e-9f, 0.05f)).build()
    val validator = new CrossValidator()
      .setEstimator(new Pipeline().setStages(Array[PipelineStage](stage)))
      .setEstimatorParamMaps(grid)
      .setEvaluator(new MulticlassClassificationEvaluator().setMetricName("accuracy"))
      .setNumFolds(2)
      .setSeed(1)
    val fitted = validator.fit(digits)
    assert(fitted.avgMetrics(1) > fitted.avgMetrics(0))
    assertEquals(fitted.transform(testDigits).count(), 297L)
  }

  /** The first error of a training, and the number of attempts of its tasks and stages that failed. */
  private def failureOf(estimator: MXNetEstimator, frame: DataFrame): (Throwable, Seq[Int]) = {
    val attempts = new ConcurrentLinkedQueue[Int]
    val listener = new SparkListener {
      override def onTaskEnd(end: SparkListenerTaskEnd): Unit =
        if (!end.taskInfo.successful) { attempts.add(math.max(end.stageAttemptId, end.taskInfo.attemptNumber)); () }
    }
    spark.sparkContext.addSparkListener(listener)
    val error = intercept[SparkException](estimator.fit(frame))
    Listeners.flush(spark.sparkContext)
    spark.sparkContext.removeSparkListener(listener)
    (error, attempts.asScala.toSeq)
  }

  test("errors that would occur again end training at once") {
    def check(text: String, stage: MXNetEstimator, frame: DataFrame = digits): Unit = {
      val (error, attempts) = failureOf(stage, frame)
      assert(error.getMessage.startsWith(s"${stage.uid}: $text"), error)
      assert(error.getCause.isInstanceOf[IllegalArgumentException] && error.getCause.getStackTrace.nonEmpty, error)
      assert(attempts.forall(_ <= 1), attempts)
    }
    def replaced(name: String, value: Column) =
      digits.withColumn(name, when(col("id") === 7, value).otherwise(col(name)))
    check("column 'label' is null in a row", estimator, replaced("label", lit(null)))
    check("column 'label' has the value 10.0, but the layer 'softmax'", estimator, replaced("label", lit(10)))
    check("column 'pixels' has a value of 1 elements", estimator, replaced("pixels", array(lit(1f))))
    check("column 'pixels' has the value NaN", estimator, digits.withColumn("pixels", array_repeat(lit(Float.NaN), 64)))
    check("shard 2 has no row to train on", estimator, digits.limit(2))
    // In the barrier stage, after the workers have connected.
    check("java.lang.ArithmeticException: / by zero", estimator.setMetric(() => new MXNetEstimatorSuite.FailingMetric))
    // The context can train again.
    estimator.fit(digits)
  }

  test("what cannot be trained is refused") {
    def refused(estimator: MXNetEstimator, frame: DataFrame = digits): String =
      intercept[IllegalArgumentException](estimator.fit(frame)).getMessage
    assert(
      refused(estimator.setFeaturesCol("image"))
        .contains("there is no column 'image' for the input 'data'; the columns are id, pixels, label")
    )
    val named = digits.withColumn("label", lit("three"))
    assert(
      refused(estimator, named).contains("column 'label' has the type STRING; the label 'softmax_label' takes a number")
    )
    val indicator = refused(estimator.setValidationIndicatorCol("id"))
    assert(indicator.contains("column 'id' has the type INT; validationIndicatorCol takes BOOLEAN"), indicator)
    val setting = refused(estimator.setOptimizer("adam").setOptimizerParams(Map("momentum" -> "0.9")))
    assert(setting.contains("the optimizer adam has no setting 'momentum'; it has beta1, beta2, epsilon"), setting)
    intercept[IllegalArgumentException](estimator.setMetric("accuracies"))
    assert(refused(estimator.setNumShards(3)).contains("numShards is 3, which 2 workers"))
    assert(refused(estimator.setBatchSize(30)).contains("batchSize is 30, which 4 shards"))
    assert(refused(estimator.setLabelName("other_label")).contains("the network has no argument 'other_label'"))
    assert(refused(estimator.setOutputCol("pixels")).contains("the new column 'pixels' exists already"))
    assert(refused(estimator.setOutputCol("")).contains("outputCol is empty"))
    val missing = digits.withColumn("label", when(col("id") =!= 7, col("label")))
    val label = message(intercept[Exception](estimator.fit(missing)))
    assert(label.contains("column 'label' is null in a row"), label)
    for (key <- Seq("spark.dynamicAllocation.enabled", "spark.network.crypto.enabled", "spark.io.encryption.enabled")) {
      val conf = spark.sparkContext.getConf.set(key, "true")
      assert(intercept[IllegalArgumentException](MXNetEstimator.requireSupported(conf)).getMessage.contains(key))
    }
    assert(estimator.explainParams().contains("numShards: number of shards of a batch"))
  }
}

object MXNetEstimatorSuite {

  /** Divides by zero in the second batch of the worker of rank 1. */
  class FailingMetric extends Accuracy {
    private var updates = 0

    override def update(labels: IndexedSeq[NDArray], preds: IndexedSeq[NDArray]): Unit = {
      updates += 1
      if (updates == 2 && TaskContext.getPartitionId() == 1) sumMetric += 1 / (updates - 2)
      super.update(labels, preds)
    }
  }

  /** Kills the process of rank 1 in the third epoch of the first attempt, as `kill -9` does. */
  class KillingAccuracy(marker: String) extends Accuracy {
    private var updates = 0

    override def update(labels: IndexedSeq[NDArray], preds: IndexedSeq[NDArray]): Unit = {
      super.update(labels, preds)
      updates += 1
      val isVictim = Option(TaskContext.get()).exists(_.partitionId() == 1)
      if (isVictim && updates > 2 * 47 + 10 && new java.io.File(marker).delete()) {
        new ProcessBuilder("kill", "-9", ProcessHandle.current().pid().toString).start().waitFor()
        ()
      }
    }
  }
}
