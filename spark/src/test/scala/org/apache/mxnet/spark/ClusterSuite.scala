package org.apache.mxnet.spark

import munit.FunSuite
import org.apache.spark.sql.SparkSession

/** Tests on two executors in separate processes, as on a cluster. */
abstract class ClusterSuite extends FunSuite {
  // Only guards against a hanging executor: the first test starts the cluster, possibly on a busy machine.
  override val munitTimeout = scala.concurrent.duration.Duration(1, "h")

  /** The number of tasks that an executor runs at the same time. */
  protected def coresPerExecutor: Int = 1

  /** The number of executors. */
  protected def numExecutors: Int = 2

  /** The heap of an executor in MiB. */
  protected def executorMemory: Int = 512

  /** More settings of Spark. */
  protected def settings: Map[String, String] = Map.empty

  lazy val spark: SparkSession = SparkSession
    .builder()
    .master(s"local-cluster[$numExecutors,$coresPerExecutor,${executorMemory + 512}]")
    .appName("ferromx-spark4 tests")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.sql.shuffle.partitions", "4")
    // Less than the parameters of a large network, so that several jobs must fetch them.
    .config("spark.driver.maxResultSize", "72m")
    .config("spark.executor.memory", s"${executorMemory}m")
    .config("spark.executor.extraJavaOptions", "-XX:TieredStopAtLevel=1")
    .config("spark.executor.extraClassPath", System.getProperty("ferromx.test.classes"))
    .config(settings)
    .getOrCreate()

  override def afterAll(): Unit = spark.stop()
}
