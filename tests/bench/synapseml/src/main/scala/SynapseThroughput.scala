import java.lang.management.ManagementFactory
import java.nio.file.{Files, Paths}

import com.microsoft.azure.synapse.ml.onnx.ONNXModel
import org.apache.spark.sql.SparkSession

/** Measures the rows per second of SynapseML's ONNXModel, as `Throughput` in `spark` does for MXNetModel: with the same
  * rows, file, batch size and number of runs, one task at a time; the best run counts.
  *
  * Usage: `sbt "run ROWS FILE.onnx IMAGES [flat]"`, where IMAGES are digits in IDX format, and FILE.onnx is a network that
  * `Throughput` has written, with the same last argument.
  */
object SynapseThroughput {
  private val Rounds = 7

  def main(arguments: Array[String]): Unit = {
    val numRows = arguments(0).toInt
    val spark = SparkSession
      .builder()
      .master("local[1]")
      .config("spark.ui.enabled", "false")
      .config("spark.driver.host", "127.0.0.1")
      .getOrCreate()
    try {
      val pixels = Files.readAllBytes(Paths.get(arguments(2))).drop(16).grouped(64).map(_.map(b => (b & 0xff) / 256f)).toArray
      def repeated[A](images: Array[A]) = Seq.tabulate(numRows)(i => Tuple1(images(i % images.length)))
      val rows =
        if (arguments.length > 3) spark.createDataFrame(repeated(pixels))
        // ONNXModel takes an array within an array for each dimension of the input (1, 8, 8).
        else spark.createDataFrame(repeated(pixels.map(image => Seq(image.toSeq.grouped(8).toSeq))))
      val table = rows.toDF("pixels").repartition(4).cache()
      table.count()
      val model = new ONNXModel().setModelLocation(arguments(1)).setDeviceType("CPU").setMiniBatchSize(64)
      val configured = model
        .setFeedDict(Map(model.modelInput.keys.head -> "pixels"))
        .setFetchDict(Map("probabilities" -> model.modelOutput.keys.head))
      val answers = configured.transform(table).select("probabilities")
      println(answers.head())
      val times = Seq.fill(Rounds)(timed(answers.write.format("noop").mode("overwrite").save()))
      println(f"SynapseML ${numRows / times.map(_._1).min}%10.0f rows per second")
      println(f"SynapseML ${numRows / times.map(_._2).min}%10.0f rows per processor second")
    } finally spark.stop()
  }

  /** Seconds of wall-clock time and of processor time. */
  private def timed(run: => Unit): (Double, Double) = {
    val (start, startCpu) = (System.nanoTime(), cpuTime)
    run
    ((System.nanoTime() - start) / 1e9, (cpuTime - startCpu) / 1e9)
  }

  private def cpuTime: Long =
    ManagementFactory.getOperatingSystemMXBean.asInstanceOf[com.sun.management.OperatingSystemMXBean].getProcessCpuTime
}
