package org.apache.mxnet.spark

import java.nio.file.Files
import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import org.apache.mxnet._
import org.apache.mxnet.optimizer.SGD
import org.apache.spark.TaskContext
import org.apache.spark.ml.evaluation.MulticlassClassificationEvaluator
import org.apache.spark.ml.tuning.{CrossValidator, ParamGridBuilder}
import org.apache.spark.ml.{Pipeline, PipelineStage}
import org.apache.spark.scheduler.{SparkListener, SparkListenerEvent}
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.functions.col

class MXNetEstimatorSuite extends ClusterSuite {
  import MXNetEstimatorSuite._

  override protected def coresPerExecutor: Int = 2

  private lazy val digits = Digits.train(spark).repartition(3).cache()
  private lazy val testDigits = Digits.test(spark)

  private def estimator: MXNetEstimator = new MXNetEstimator()
    .setSymbol(lenet)
    .setFeaturesCol("pixels")
    .setInputShapes(Map("data" -> Shape(1, 8, 8)))
    .setOptimizer(rate => new SGD(rate, momentum = 0.9f))
    .setLearningRate(0.05f)
    .setBatchSize(32)
    .setNumShards(4)
    .setNumWorkers(2)
    .setNumEpoch(1)
    .setTimeout(120)

  private def accuracy(model: MXNetModel): Double =
    new MulticlassClassificationEvaluator().setMetricName("accuracy").evaluate(model.transform(testDigits))

  /** The hash of the trained parameters. */
  private def bits(model: MXNetModel): String = model.files.hash

  /** A network with statistics of the batch and with random numbers. */
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

  /** What `body` gives, and the epochs that listeners were told of. */
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
    // Listeners are called by a thread of their own.
    Thread.sleep(2000)
    spark.sparkContext.removeSparkListener(listener)
    (result, events.asScala.toSeq)
  }

  private def message(error: Throwable): String =
    Iterator.iterate(error)(_.getCause).takeWhile(_ != null).map(_.toString).mkString("\n")

  test("LeNet on the digits is as good as on one machine, and its progress is told") {
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

  test("a loaded model is fine-tuned") {
    val start = new MXNetModel().setModelPath(Digits.ModelPath).setEpoch(Digits.ModelEpoch)
    val model = estimator.setInitialModel(start).setLearningRate(1e-6f).fit(digits.where("id < 200"))
    assert(accuracy(model) >= 0.94, accuracy(model))
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

  test("what cannot be trained is refused") {
    def refused(estimator: MXNetEstimator, frame: DataFrame = digits): String =
      intercept[IllegalArgumentException](estimator.fit(frame)).getMessage
    assert(refused(estimator.setFeaturesCol("image")).contains("there is no column 'image'"))
    assert(refused(estimator.setNumShards(3)).contains("numShards is 3, which 2 workers"))
    assert(refused(estimator.setBatchSize(30)).contains("batchSize is 30, which 4 shards"))
    assert(refused(estimator.setLabelName("other_label")).contains("the network has no argument 'other_label'"))
    assert(refused(estimator.setOutputCol("pixels")).contains("the new column 'pixels' exists already"))
    for (key <- Seq("spark.dynamicAllocation.enabled", "spark.network.crypto.enabled", "spark.io.encryption.enabled")) {
      val conf = spark.sparkContext.getConf.set(key, "true")
      assert(intercept[IllegalArgumentException](MXNetEstimator.requireSupported(conf)).getMessage.contains(key))
    }
    assert(estimator.explainParams().contains("numShards: number of parts of a batch"))
  }
}

object MXNetEstimatorSuite {

  /** A small LeNet. */
  def lenet: Symbol = {
    val data = Symbol.Variable("data")
    val first = block(data, filters = 20, number = 1)
    val second = block(first, filters = 50, number = 2)
    val flat = Symbol.api.Flatten(data = second, name = "flatten")
    val hidden = Symbol.api.FullyConnected(data = flat, num_hidden = 128, name = "fc1")
    val active = Symbol.api.Activation(data = hidden, act_type = "relu", name = "relu3")
    val scores = Symbol.api.FullyConnected(data = active, num_hidden = 10, name = "fc2")
    Symbol.api.SoftmaxOutput(data = scores, name = "softmax")
  }

  private def block(data: Symbol, filters: Int, number: Int): Symbol = {
    val convolved = Symbol.api.Convolution(
      data = data,
      kernel = Shape(3, 3),
      pad = Shape(1, 1),
      num_filter = filters,
      name = s"conv$number"
    )
    val active = Symbol.api.Activation(data = convolved, act_type = "relu", name = s"relu$number")
    Symbol.api.Pooling(
      data = active,
      pool_type = "max",
      kernel = Shape(2, 2),
      stride = Shape(2, 2),
      name = s"pool$number"
    )
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
