package org.apache.mxnet.spark

import munit.FunSuite
import org.apache.spark.sql.SparkSession

/** Tests on two executors, each a process of its own, as on a cluster. */
abstract class ClusterSuite extends FunSuite {
  // Against a hanging executor only: the first test starts the cluster, on a machine that may be busy.
  override val munitTimeout = scala.concurrent.duration.Duration(1, "h")

  /** The number of tasks that an executor runs at the same time. */
  protected def coresPerExecutor: Int = 1

  /** The number of executors. */
  protected def numExecutors: Int = 2

  /** The heap of an executor in MiB. */
  protected def executorMemory: Int = 512

  lazy val spark: SparkSession = SparkSession
    .builder()
    .master(s"local-cluster[$numExecutors,$coresPerExecutor,${executorMemory + 512}]")
    .appName("ferromx-spark4 tests")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.sql.shuffle.partitions", "4")
    // Less than the parameters of a large network: they must come in several jobs.
    .config("spark.driver.maxResultSize", "72m")
    .config("spark.executor.memory", s"${executorMemory}m")
    .config("spark.executor.extraClassPath", System.getProperty("ferromx.test.classes"))
    .getOrCreate()

  override def afterAll(): Unit = spark.stop()
}
