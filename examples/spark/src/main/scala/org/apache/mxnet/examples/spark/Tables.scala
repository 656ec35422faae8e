package org.apache.mxnet.examples.spark

import org.apache.mxnet.{Shape, Symbol}
import org.apache.mxnet.spark.MXNetEstimator
import org.apache.spark.ml.evaluation.MulticlassClassificationEvaluator
import org.apache.spark.ml.feature.{StandardScaler, VectorAssembler}
import org.apache.spark.ml.tuning.{CrossValidator, ParamGridBuilder}
import org.apache.spark.ml.{Pipeline, PipelineStage}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.functions.{col, hash}
import org.apache.spark.sql.types.DoubleType

/** Classifies the rows of a table, with features scaled by Spark and the learning rate chosen by cross-validation.
  *
  * Usage: `FILE.csv [MASTER]`. The file has a header, numbers, and a column `class` with 0, 1 and so on, like the tables of
  * scikit-learn (wine, iris, breast cancer). MASTER is the cluster, `local[*]` if absent.
  */
object Tables {
  def main(arguments: Array[String]): Unit = {
    if (arguments.isEmpty) {
      System.err.println("usage: FILE.csv [MASTER], for example: wine.csv")
      sys.exit(1)
    }
    val spark = SparkSession.builder().master(arguments.lift(1).getOrElse("local[*]")).appName("tables").getOrCreate()
    try {
      val read = spark.read.option("header", "true").option("inferSchema", "true").csv(arguments(0))
      // Spark takes dots in names for fields of structures.
      val table = read.toDF(read.columns.map(_.replace('.', '_')).toIndexedSeq: _*)
      val features = table.columns.filter(_ != "class")
      val numClasses = table.select("class").distinct().count().toInt
      val labeled = table.withColumn("label", col("class").cast(DoubleType))
      val isTest = hash(features.map(col).toIndexedSeq: _*) % 4 === 0
      val (training, test) = (labeled.where(!isTest), labeled.where(isTest))

      val estimator = new MXNetEstimator()
        .setSymbol(perceptron(numClasses))
        .setInputShapes(Map("data" -> Shape(features.length)))
        .setOptimizer("adam")
        .setBatchSize(16)
        .setNumShards(2)
        .setNumWorkers(2)
        .setNumEpoch(30)
      val stages = Array[PipelineStage](
        new VectorAssembler().setInputCols(features).setOutputCol("raw"),
        new StandardScaler().setInputCol("raw").setOutputCol("features").setWithMean(true),
        estimator
      )
      val evaluator = new MulticlassClassificationEvaluator().setMetricName("accuracy")
      val validator = new CrossValidator()
        .setEstimator(new Pipeline().setStages(stages))
        .setEstimatorParamMaps(new ParamGridBuilder().addGrid(estimator.learningRate, Seq(0.0001f, 0.01f)).build())
        .setEvaluator(evaluator)
        .setNumFolds(3)
        .setSeed(1)
      val best = validator.fit(training)
      println(f"accuracy in cross-validation: ${best.avgMetrics.map(accuracy => f"$accuracy%.3f").mkString(", ")}")
      println(f"test accuracy ${evaluator.evaluate(best.transform(test))}%.3f")
    } finally spark.stop()
  }

  private def perceptron(numClasses: Int): Symbol = {
    val hidden = Symbol.api.FullyConnected(data = Symbol.Variable("data"), num_hidden = 32, name = "hidden")
    val active = Symbol.api.Activation(data = hidden, act_type = "relu", name = "active")
    val scores = Symbol.api.FullyConnected(data = active, num_hidden = numClasses, name = "scores")
    Symbol.api.SoftmaxOutput(data = scores, name = "softmax")
  }
}
