package org.apache.mxnet

import java.io.PrintStream

import org.apache.mxnet.internal.util.Logging
import org.apache.mxnet.module.FitParams

import scala.collection.mutable

/** Callbacks that report the progress of training. */
object Callback {

  /** Logs speed and metric every `frequent` batches, by SLF4J at level info.
    *
    * @param batchSize number of instances in a batch
    * @param frequent number of batches between two lines
    */
  class Speedometer(val batchSize: Int, val frequent: Int = 50) extends BatchEndCallback {
    require(frequent > 0, s"frequent is $frequent; it must be at least 1 batch")

    private var started = false
    private var start = 0L
    private var lastCount = 0

    override def invoke(epoch: Int, count: Int, evalMetric: EvalMetric): Unit = {
      if (lastCount > count) started = false
      lastCount = count
      if (!started) {
        started = true
        start = System.nanoTime()
      } else if (count % frequent == 0) {
        val speed = frequent.toDouble * batchSize * 1e9 / (System.nanoTime() - start)
        if (evalMetric == null) Speedometer.logger.info(f"Iter[$epoch] Batch [$count]\tSpeed: $speed%.2f samples/sec")
        else {
          val (names, values) = evalMetric.get
          names.lazyZip(values).foreach { (name, value) =>
            Speedometer.logger.info(
              f"Epoch[$epoch] Batch [$count]\tSpeed: $speed%.2f samples/sec\tTrain-$name=$value%f"
            )
          }
        }
        start = System.nanoTime()
      }
    }
  }

  // Scala 3 cannot call a constructor with defaults if the companion is private.
  private[mxnet] object Speedometer {
    private val logger = Logging.of(classOf[Speedometer])
  }

  /** The results of one epoch.
    *
    * @param epoch number of the epoch, from 0
    * @param train metrics of the training data by name
    * @param validation metrics of the validation data by name; empty without validation
    * @param samplesPerSecond training speed
    * @param seconds time of the epoch, with validation
    */
  final case class EpochRecord(
      epoch: Int,
      train: Seq[(String, Float)],
      validation: Seq[(String, Float)],
      samplesPerSecond: Double,
      seconds: Double
  )

  /** Prints a line after each epoch: metrics, training speed, time and estimated time left.
    *
    * {{{
    * val progress = new Callback.Progress(batchSize = 32, numEpoch = 30, validation = true)
    * module.fit(train, Some(test), numEpoch = 30, progress.attachTo(new FitParams))
    * }}}
    *
    * @param batchSize number of instances in a batch
    * @param numEpoch the epoch at which training ends, exclusive, as passed to `fit`
    * @param validation whether `fit` gets validation data; the line is then printed after the validation
    * @param out where lines are printed
    */
  class Progress(batchSize: Int, numEpoch: Int, validation: Boolean = false, out: PrintStream = System.out)
      extends BatchEndCallback
      with EpochEndCallback {
    private val records = mutable.ArrayBuffer.empty[EpochRecord]
    private var epochStart = System.nanoTime()
    private var trainEnd = epochStart
    private var batches = 0
    private var metrics: Seq[(String, Float)] = Seq.empty

    /** The epochs so far, in order. */
    def history: IndexedSeq[EpochRecord] = records.toIndexedSeq

    /** The callback for the end of each evaluation; required with validation data. */
    val evalEnd: BatchEndCallback = (epoch, _, metric) => finish(epoch, Progress.valuesOf(metric))

    /** Adds this callback to the parameters of `fit`. */
    def attachTo(params: FitParams): FitParams = {
      params.setBatchEndCallback(this).setEpochEndCallback(this)
      if (validation) params.setEvalEndCallback(evalEnd) else params
    }

    override def invoke(epoch: Int, nBatch: Int, evalMetric: EvalMetric): Unit = {
      batches = nBatch + 1
      lastMetric = evalMetric
    }

    private var lastMetric: EvalMetric = null

    override def invoke(
        epoch: Int,
        symbol: Symbol,
        argParams: Map[String, NDArray],
        auxStates: Map[String, NDArray]
    ): Unit = {
      trainEnd = System.nanoTime()
      // The metric is read here because validation may use the same object.
      metrics = if (lastMetric == null) Seq.empty else Progress.valuesOf(lastMetric)
      if (!validation) finish(epoch, Seq.empty)
    }

    private def finish(epoch: Int, validationMetrics: Seq[(String, Float)]): Unit = {
      val now = System.nanoTime()
      val speed = batches.toDouble * batchSize * 1e9 / math.max(trainEnd - epochStart, 1)
      val record = EpochRecord(epoch, metrics, validationMetrics, speed, (now - epochStart) / 1e9)
      records += record
      out.println(line(record))
      epochStart = now
      batches = 0
    }

    private def line(record: EpochRecord): String =
      Progress.line(record, numEpoch, records.map(_.seconds).sum / records.length)
  }

  private[mxnet] object Progress {

    /** An epoch as a line of text.
      *
      * @param secondsPerEpoch mean time of an epoch, for the estimate of the time left
      */
    def line(record: EpochRecord, numEpoch: Int, secondsPerEpoch: Double): String = {
      val train = record.train.map { case (name, value) => f"$name $value%.4f" }
      val tested = record.validation.map { case (name, value) => f"validation $name $value%.4f" }
      val pace = Seq(
        f"${record.samplesPerSecond}%,.0f samples/s",
        f"${record.seconds}%.2f s",
        s"${duration(secondsPerEpoch * (numEpoch - record.epoch - 1))} left"
      )
      (head(record.epoch, numEpoch) +: (train ++ tested ++ pace)).mkString("  ")
    }

    /** The number of an epoch, from 1, and the number of epochs. */
    def head(epoch: Int, numEpoch: Int): String = {
      val width = numEpoch.toString.length
      s"epoch ${(epoch + 1).toString.reverse.padTo(width, ' ').reverse}/$numEpoch"
    }

    def valuesOf(metric: EvalMetric): Seq[(String, Float)] = {
      val (names, values) = metric.get
      names.toSeq.zip(values)
    }

    def duration(seconds: Double): String =
      if (seconds < 59.5) f"$seconds%.0f s"
      else if (seconds < 3570) f"${(seconds / 60).toInt}%d min ${(seconds % 60).toInt}%02d s"
      else f"${(seconds / 3600).toInt}%d h ${(seconds % 3600 / 60).toInt}%02d min"
  }
}
