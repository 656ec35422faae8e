package org.apache.mxnet.spark

import java.nio.file.{Files, Paths}

import org.apache.mxnet._
import org.apache.spark.sql.{DataFrame, SparkSession}

/** The digits of this project, 8 by 8 pixels from 0 to 1, and a LeNet trained on them. */
object Digits {
  val ModelPath: String = "tests/oracle/fixtures/lenet"
  val ModelEpoch: Int = 30

  private def images(part: String): Array[Array[Float]] = {
    val bytes = Files.readAllBytes(Paths.get(s"data/digits/$part-images-idx3-ubyte")).drop(16)
    bytes.grouped(64).map(_.map(byte => (byte & 0xff) / 256f)).toArray
  }

  private def labels(part: String): Array[Double] =
    Files.readAllBytes(Paths.get(s"data/digits/$part-labels-idx1-ubyte")).drop(8).map(_.toDouble)

  lazy val testImages: Array[Array[Float]] = images("t10k")
  lazy val testLabels: Array[Double] = labels("t10k")
  lazy val trainImages: Array[Array[Float]] = images("train")
  lazy val trainLabels: Array[Double] = labels("train")

  /** Rows with `id`, `pixels` and `label`. */
  def test(spark: SparkSession): DataFrame = rows(spark, testImages, testLabels)

  def train(spark: SparkSession): DataFrame = rows(spark, trainImages, trainLabels)

  private def rows(spark: SparkSession, images: Array[Array[Float]], labels: Array[Double]): DataFrame =
    spark.createDataFrame(images.indices.map(i => (i, images(i), labels(i)))).toDF("id", "pixels", "label")

  /** The probabilities of the test images, by the library alone. */
  lazy val expected: Array[Array[Float]] = {
    val count = testImages.length
    val (symbol, args, aux) = Model.loadCheckpoint(ModelPath, ModelEpoch)
    val executor =
      symbol.simpleBind(Context.cpu(), "null", Map("data" -> Shape(count, 1, 8, 8), "softmax_label" -> Shape(count)))
    executor.copyParamsFrom(args, aux)
    executor.argDict("data").set(testImages.flatten)
    executor.forward(isTrain = false)
    executor.outputs.head.toArray.grouped(10).toArray
  }
}
