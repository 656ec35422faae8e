package org.apache.mxnet.examples.spark

import java.nio.file.{Files, Paths}

import org.apache.mxnet.{Shape, Symbol}
import org.apache.mxnet.optimizer.SGD
import org.apache.mxnet.spark.{MXNetEstimator, MXNetModel}
import org.apache.spark.ml.evaluation.MulticlassClassificationEvaluator
import org.apache.spark.sql.{DataFrame, SparkSession}

/** Recognizes the digits of this project in a Spark table.
  *
  * Usage: `PREFIX EPOCH [MASTER]` runs the LeNet of `PREFIX-symbol.json` and `PREFIX-NNNN.params`; `train PREFIX [MASTER]`
  * trains the network of `PREFIX-symbol.json` with two workers. MASTER is the cluster, `local[*]` if absent. `sbt "run train"`
  * in `examples/lenet` writes the model `output/lenet`, epoch 30.
  */
object Digits {
  def main(arguments: Array[String]): Unit = {
    if (arguments.length < 2) {
      System.err.println("usage: PREFIX EPOCH [MASTER] or: train PREFIX [MASTER], for example: output/lenet 30")
      sys.exit(1)
    }
    val spark = SparkSession.builder().master(arguments.lift(2).getOrElse("local[*]")).appName("digits").getOrCreate()
    try {
      val model =
        if (arguments(0) == "train") trained(arguments(1), digits(spark, "train"))
        else loaded(arguments(0), arguments(1).toInt)
      val answers = model.transform(digits(spark, "t10k"))
      answers.select("label", "prediction").show(5)
      val accuracy = new MulticlassClassificationEvaluator().setMetricName("accuracy").evaluate(answers)
      println(f"test accuracy $accuracy%.3f")
    } finally spark.stop()
  }

  private def loaded(prefix: String, epoch: Int): MXNetModel = new MXNetModel()
    .setModelPath(prefix)
    .setEpoch(epoch)
    .setFeedDict(Map("data" -> "pixels"))
    .setInputShapes(Map("data" -> Shape(1, 8, 8)))
    .setFetchDict(Map("probabilities" -> "softmax_output"))
    .setPredictionCol("prediction")

  private def trained(prefix: String, table: DataFrame): MXNetModel = new MXNetEstimator()
    .setSymbol(Symbol.load(s"$prefix-symbol.json"))
    .setFeaturesCol("pixels")
    .setInputShapes(Map("data" -> Shape(1, 8, 8)))
    .setOptimizer(rate => new SGD(rate, momentum = 0.9f))
    .setLearningRate(0.05f)
    .setBatchSize(32)
    .setNumWorkers(2)
    .setNumEpoch(12)
    .fit(table)

  /** Images as rows: 64 pixels from 0 to 1, and the digit. */
  private def digits(spark: SparkSession, part: String): DataFrame = {
    val pixels = Files.readAllBytes(Paths.get(s"data/digits/$part-images-idx3-ubyte")).drop(16).grouped(64)
    val labels = Files.readAllBytes(Paths.get(s"data/digits/$part-labels-idx1-ubyte")).drop(8)
    val rows = pixels.map(_.map(byte => (byte & 0xff) / 256f)).zip(labels.map(_.toDouble)).toSeq
    spark.createDataFrame(rows).toDF("pixels", "label")
  }
}
