package org.apache.mxnet

import java.io.{Console, PrintStream}

import org.apache.mxnet.Callback.{EpochRecord, Progress}

import scala.util.Try

/** Shows the progress of training. In a terminal, a bar is redrawn after each batch. In a log file or a notebook, which
  * cannot be overwritten, there is one line per epoch.
  *
  * @param out the stream to print to
  * @param terminal whether `out` is a terminal; detected by default
  * @param width the terminal's width in characters
  */
class ProgressBar(
    out: PrintStream = System.out,
    terminal: Boolean = ProgressBar.isTerminal,
    width: Int = ProgressBar.terminalWidth
) extends TrainingCallback {
  private var epochStart = 0L
  private var lastDrawn = 0L
  private var epochBatches = 0

  /** Length of the line that is drawn. */
  private var drawnLength = 0

  /** Number of batches of the previous epoch; 0 if unknown. */
  private var batchesBefore = 0

  override def onTrainBegin(training: Training): Unit = {
    drawnLength = 0
    batchesBefore = 0
  }

  override def onEpochBegin(epoch: Int, training: Training): Unit = {
    epochStart = System.nanoTime()
    lastDrawn = epochStart
    epochBatches = 0
  }

  override def onBatchEnd(epoch: Int, nBatch: Int, evalMetric: EvalMetric, training: Training): Unit = {
    epochBatches = nBatch + 1
    val now = System.nanoTime()
    if (terminal && now - lastDrawn >= ProgressBar.NanosBetweenDrawings) {
      lastDrawn = now
      draw(bar(epoch, evalMetric, training, (now - epochStart) / 1e9))
    }
  }

  override def onEpochEnd(record: EpochRecord, training: Training): Unit = {
    batchesBefore = epochBatches
    val times = training.history.map(_.seconds)
    val line = Progress.line(record, training.numEpoch, times.sum / times.length)
    if (terminal) out.print("\r" + " " * drawnLength + "\r")
    drawnLength = 0
    out.println(line)
    out.flush()
  }

  override def onTrainEnd(training: Training): Unit =
    training.stopReason.foreach(reason => out.println(s"stopped: $reason"))

  /** Overwrites the previous line. */
  private def draw(line: String): Unit = {
    // A line that reaches the last column would wrap, and the carriage return would not go to its start.
    val visible = line.take(math.max(width - 1, 1))
    out.print("\r" + visible + " " * math.max(0, drawnLength - visible.length))
    out.flush()
    drawnLength = visible.length
  }

  private def bar(epoch: Int, metric: EvalMetric, training: Training, seconds: Double): String = {
    val values = Progress.valuesOf(metric).map { case (name, value) => f"$name $value%.4f" }
    val speed = f"${epochBatches.toDouble * training.batchSize / seconds}%,.0f samples/s"
    val done =
      if (batchesBefore == 0) Seq(s"$epochBatches batches")
      else {
        val share = math.min(1.0, epochBatches.toDouble / batchesBefore)
        val filled = (share * ProgressBar.BarLength).toInt
        val left = Progress.duration(seconds / share * (1 - share))
        Seq(
          "[" + "=" * filled + " " * (ProgressBar.BarLength - filled) + "]",
          s"$epochBatches/$batchesBefore",
          s"$left left"
        )
      }
    (Progress.head(epoch, training.numEpoch) +: (done ++ values :+ speed)).mkString("  ")
  }
}

/** Detects the terminal of the process. */
object ProgressBar {
  private val NanosBetweenDrawings = 100000000L
  private val BarLength = 24

  /** Whether the process writes to a terminal that can overwrite a line. */
  def isTerminal: Boolean = {
    val console = System.console()
    console != null && isInteractive(console) && !sys.env.get("TERM").contains("dumb") && !sys.env.contains("CI")
  }

  /** From Java 22 on there is a console even without a terminal, and a method that distinguishes them. */
  private def isInteractive(console: Console): Boolean =
    Try(classOf[Console].getMethod("isTerminal").invoke(console)).toOption.forall(_ == true)

  /** Width of the terminal in characters: the variable COLUMNS, else 80. */
  def terminalWidth: Int = sys.env.get("COLUMNS").flatMap(_.trim.toIntOption).filter(_ > 1).getOrElse(80)
}
