package org.apache.mxnet.examples.spark

import java.nio.file.{Files, Paths}

import org.apache.mxnet.Shape
import org.apache.mxnet.spark.MXNetModel
import org.apache.spark.ml.evaluation.MulticlassClassificationEvaluator
import org.apache.spark.sql.{DataFrame, SparkSession}

/** Recognises the digits of this project in a Spark table with a LeNet from files.
  *
  * Usage: `PREFIX EPOCH [MASTER]`, where `PREFIX-symbol.json` and `PREFIX-NNNN.params` are the model and MASTER is the
  * cluster, `local[*]` if absent. `sbt "run train"` in `examples/lenet` writes the model `output/lenet`, epoch 30.
  */
object Digits {
  def main(arguments: Array[String]): Unit = {
    if (arguments.length < 2) {
      System.err.println("usage: PREFIX EPOCH [MASTER], for example: output/lenet 30")
      sys.exit(1)
    }
    val spark = SparkSession.builder().master(arguments.lift(2).getOrElse("local[*]")).appName("digits").getOrCreate()
    try {
      val model = new MXNetModel()
        .setModelPath(arguments(0))
        .setEpoch(arguments(1).toInt)
        .setFeedDict(Map("data" -> "pixels"))
        .setInputShapes(Map("data" -> Shape(1, 8, 8)))
        .setFetchDict(Map("probabilities" -> "softmax_output"))
        .setPredictionCol("prediction")
      val answers = model.transform(digits(spark))
      answers.select("label", "prediction", "probabilities").show(5)
      val accuracy = new MulticlassClassificationEvaluator().setMetricName("accuracy").evaluate(answers)
      println(f"test accuracy $accuracy%.3f")
    } finally spark.stop()
  }

  /** The test images as rows: 64 pixels from 0 to 1, and the digit. */
  private def digits(spark: SparkSession): DataFrame = {
    val pixels = Files.readAllBytes(Paths.get("data/digits/t10k-images-idx3-ubyte")).drop(16).grouped(64)
    val labels = Files.readAllBytes(Paths.get("data/digits/t10k-labels-idx1-ubyte")).drop(8)
    val rows = pixels.map(_.map(byte => (byte & 0xff) / 256f)).zip(labels.map(_.toDouble)).toSeq
    spark.createDataFrame(rows).toDF("pixels", "label")
  }
}
