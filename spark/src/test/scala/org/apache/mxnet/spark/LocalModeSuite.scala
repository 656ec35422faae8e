package org.apache.mxnet.spark

import munit.FunSuite
import org.apache.mxnet.Symbol
import org.apache.spark.sql.SparkSession

/** Programs that run in one process, with `local[2]`. */
class LocalModeSuite extends FunSuite {
  // Starting Spark takes long on a busy machine.
  override val munitTimeout = scala.concurrent.duration.Duration(1, "h")

  private lazy val spark = SparkSession
    .builder()
    .master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .getOrCreate()

  override def afterAll(): Unit = spark.stop()

  test("more workers than the process has cores are refused at once") {
    val estimator = new MXNetEstimator()
      .setSymbol(Symbol.load(s"${Digits.ModelPath}-symbol.json"))
      .setFeaturesCol("pixels")
      .setNumWorkers(3)
    val error = intercept[IllegalArgumentException](estimator.fit(Digits.test(spark))).getMessage
    assert(error.contains("numWorkers is 3, but the master local[2] runs 2 tasks at the same time"), error)
  }
}
