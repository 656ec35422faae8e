package org.apache.mxnet.spark

import java.nio.file.{Files, Paths}

import org.apache.mxnet._
import org.apache.spark.sql.SparkSession

/** Measures the memory of two executors of one machine that run the same model: anonymous memory, memory of files, and the
  * share of each process in both (PSS), in which pages of several processes are divided among them.
  *
  * Usage: `OMP_NUM_THREADS=1 sbt "Test/runMain org.apache.mxnet.spark.ExecutorMemory [UNITS] [onnx]"` in the folder `spark`. The
  * model has two layers with UNITS x UNITS weights, and an embedding of as many numbers.
  */
object ExecutorMemory {
  def main(arguments: Array[String]): Unit = {
    val units = arguments.headOption.fold(4000)(_.toInt)
    val spark = SparkSession
      .builder()
      .master("local-cluster[1,2,4096]")
      .config("spark.executor.cores", "1")
      .config("spark.executor.memory", "1024m")
      .config("spark.executor.extraJavaOptions", "-XX:TieredStopAtLevel=1")
      .config("spark.executor.extraClassPath", System.getProperty("ferromx.test.classes"))
      .config("spark.ui.enabled", "false")
      .config("spark.driver.host", "127.0.0.1")
      .getOrCreate()
    try {
      val model = layers(units, arguments.contains("onnx"))
      val table = spark.range(64).selectExpr("cast(id as float) as x").repartition(4).cache()
      table.count()
      report(spark, "without the model")
      println(f"weights: ${3L * units * units * 4 / 1e6}%.0f MB")
      // Weights are packed when they are used again.
      for (run <- 1 to 3) {
        val start = System.nanoTime()
        model.transform(table).select("y").write.format("noop").mode("overwrite").save()
        report(spark, f"after run $run of ${(System.nanoTime() - start) / 1e9}%.2f s")
      }
    } finally spark.stop()
  }

  private def layers(units: Int, isOnnx: Boolean): MXNetModel = {
    val row =
      Symbol.api.Embedding(data = Symbol.Variable("data"), input_dim = units, output_dim = units, name = "words")
    val one = Symbol.api.FullyConnected(data = row, num_hidden = units, no_bias = true, name = "one")
    val two = Symbol.api.FullyConnected(data = one, num_hidden = units, no_bias = true, name = "two")
    val mean = Symbol.api.mean(data = Some(two), axis = Shape(1), keepdims = true, name = "mean")
    val prefix = Files.createTempDirectory("session").resolve("layers")
    val names = Seq("words_weight", "one_weight", "two_weight")
    val params = names.map(name => name -> NDArray.ones(Shape(units, units)) * (1f / units)).toMap
    val model = new MXNetModel().setFeedDict(Map("data" -> "x"))
    if (isOnnx) {
      Onnx.exportModel(mean, params, s"$prefix.onnx", inputs = Map("data" -> Shape(-1)))
      params.values.foreach(_.dispose())
      model.setModelPath(s"$prefix.onnx").setFetchDict(Map("y" -> Onnx.importModel(s"$prefix.onnx").outputs.head))
    } else {
      mean.save(s"$prefix-symbol.json")
      NDArray.save(s"$prefix-0000.params", params.map { case (name, array) => s"arg:$name" -> array })
      params.values.foreach(_.dispose())
      model.setModelPath(prefix.toString).setFetchDict(Map("y" -> "mean_output"))
    }
  }

  private def report(spark: SparkSession, when: String): Unit = {
    val perProcess = spark.sparkContext
      .parallelize(1 to 4, 4)
      .map { _ =>
        Thread.sleep(300)
        def megabytes(file: String, field: String) =
          Files.readString(Paths.get(file)).linesIterator.find(_.startsWith(field)).get.filter(_.isDigit).toLong / 1000
        val status = "/proc/self/status"
        System.gc()
        ProcessHandle.current().pid() ->
          (f"anonymous ${megabytes(status, "RssAnon:")}%5d MB, files ${megabytes(status, "RssFile:")}%5d MB, " +
            f"share ${megabytes("/proc/self/smaps_rollup", "Pss:")}%5d MB")
      }
      .collect()
      .toMap
    println(when)
    perProcess.toSeq.sortBy(_._1).foreach { case (_, text) => println(s"  $text") }
  }
}
