package org.apache.mxnet.spark

import java.nio.file.{Files, Paths}

import org.apache.mxnet._
import org.apache.spark.sql.SparkSession

/** Measures the memory of a process that runs a model with 1 and with 32 tasks at a time, and with several batch sizes.
  *
  * Usage: `OMP_NUM_THREADS=1 sbt "Test/runMain org.apache.mxnet.spark.SessionMemory [UNITS]"` in the folder `spark`. The
  * model has two layers with UNITS x UNITS weights.
  */
object SessionMemory {
  private val Tasks = 32

  def main(arguments: Array[String]): Unit = {
    val units = arguments.headOption.fold(3000)(_.toInt)
    val spark = SparkSession
      .builder()
      .master(s"local[$Tasks]")
      .config("spark.ui.enabled", "false")
      .config("spark.driver.host", "127.0.0.1")
      .getOrCreate()
    try {
      val model = layers(units)
      val table = spark.range(Tasks * 16L).selectExpr("cast(id as float) as x").repartition(Tasks).cache()
      table.count()
      report("without the model")
      // Twice, because some weights are packed when they are used again.
      def run(tasks: Int, batchSize: Int): Unit = {
        (1 to 2).foreach { _ =>
          val answers = model.setBatchSize(batchSize).transform(table.coalesce(tasks))
          answers.select("y").write.format("noop").mode("overwrite").save()
        }
        report(s"with $tasks tasks and batch size $batchSize")
      }
      println(f"weights: ${2L * units * units * 4 / 1e6}%.0f MB")
      run(1, 16)
      run(Tasks, 16)
      run(Tasks, 64)
    } finally spark.stop()
  }

  private def layers(units: Int): MXNetModel = {
    val wide = Symbol.api.broadcast_axis(data = Symbol.Variable("data"), axis = Shape(1), size = Shape(units))
    val one = Symbol.api.FullyConnected(data = wide, num_hidden = units, no_bias = true, name = "one")
    val two = Symbol.api.FullyConnected(data = one, num_hidden = units, no_bias = true, name = "two")
    val weight = NDArray.ones(Shape(units, units)) * (1f / units)
    val prefix = Files.createTempDirectory("session").resolve("layers")
    Symbol.api.mean(data = Some(two), axis = Shape(1), name = "mean").save(s"$prefix-symbol.json")
    NDArray.save(s"$prefix-0000.params", Map("arg:one_weight" -> weight, "arg:two_weight" -> weight))
    weight.dispose()
    new MXNetModel()
      .setModelPath(prefix.toString)
      .setFeedDict(Map("data" -> "x"))
      .setInputShapes(Map("data" -> Shape(1)))
      .setFetchDict(Map("y" -> "mean_output"))
  }

  private def report(when: String): Unit = {
    System.gc()
    val lines = Files.readAllLines(Paths.get("/proc/self/status")).toArray.map(_.toString)
    val kilobytes = lines.find(_.startsWith("RssAnon:")).get.replaceAll("[^0-9]", "").toLong
    println(f"${kilobytes / 1e3}%.0f MB $when")
  }
}
