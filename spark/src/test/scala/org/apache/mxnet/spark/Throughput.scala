package org.apache.mxnet.spark

import org.apache.mxnet._
import org.apache.spark.sql.SparkSession

/** Measures the rows per second of LeNet on the digits: in a Spark pipeline with one task at a time, and in a loop of the
  * same process over the same rows, which are in its memory. The runs alternate; the best of each is taken.
  *
  * Usage: `OMP_NUM_THREADS=1 sbt "Test/runMain org.apache.mxnet.spark.Throughput [ROWS]"` in the folder `spark`.
  */
object Throughput {
  private val BatchSize = 64
  private val Rounds = 5

  def main(arguments: Array[String]): Unit = {
    val numRows = arguments.headOption.fold(100000)(_.toInt)
    val spark = SparkSession
      .builder()
      .master("local[1]")
      .config("spark.ui.enabled", "false")
      .config("spark.driver.host", "127.0.0.1")
      .getOrCreate()
    try {
      val images = Array.tabulate(numRows)(i => Digits.testImages(i % Digits.testImages.length))
      val table = spark.createDataFrame(images.toSeq.map(Tuple1(_))).toDF("pixels").repartition(4).cache()
      table.count()
      val model = new MXNetModel()
        .setModelPath(Digits.ModelPath)
        .setEpoch(Digits.ModelEpoch)
        .setFeedDict(Map("data" -> "pixels"))
        .setInputShapes(Map("data" -> Shape(1, 8, 8)))
        .setFetchDict(Map("probabilities" -> "softmax_output"))
        .setBatchSize(BatchSize)
      val answers = model.transform(table).select("probabilities")
      val runs = Seq(
        "pipeline" -> (() => answers.write.format("noop").mode("overwrite").save()),
        "loop" -> (() => loop(images))
      )
      val seconds = Seq.fill(Rounds)(runs.map { case (name, run) => name -> timed(run()) }).flatten.groupMap(_._1)(_._2)
      runs.foreach { case (name, _) => println(f"$name%-8s ${numRows / seconds(name).min}%10.0f rows/s") }
      println(f"pipeline / loop ${seconds("loop").min / seconds("pipeline").min}%.2f")
    } finally spark.stop()
  }

  private lazy val executor: Executor = {
    val (symbol, args, aux) = Model.loadCheckpoint(Digits.ModelPath, Digits.ModelEpoch)
    val shapes = Map("data" -> Shape(BatchSize, 1, 8, 8), "softmax_label" -> Shape(BatchSize))
    val bound = symbol.simpleBind(Context.cpu(), "null", shapes)
    bound.copyParamsFrom(args, aux)
    bound
  }

  private def loop(images: Array[Array[Float]]): Unit = {
    val input = new Array[Float](BatchSize * 64)
    images.grouped(BatchSize).foreach { batch =>
      batch.indices.foreach(i => System.arraycopy(batch(i), 0, input, i * 64, 64))
      executor.argDict("data").set(input)
      executor.forward(isTrain = false)
      executor.outputs.head.toArray
    }
  }

  private def timed(run: => Unit): Double = {
    val start = System.nanoTime()
    run
    (System.nanoTime() - start) / 1e9
  }
}
