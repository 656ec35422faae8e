package org.apache.mxnet

import org.apache.mxnet.Callback.EpochRecord
import org.apache.mxnet.internal.util.AtomicFile
import org.apache.mxnet.internal.util.NullChecks.requireNonNull

/** Records the metrics of every epoch, and writes them to a CSV file after each.
  *
  * The columns are `epoch`, counted from 0, then `train-` and `validation-` with the names of the metrics.
  *
  * @param csv the file; null for none
  * @param timing whether to add the columns `samples_per_second` and `seconds`
  */
class MetricHistory(csv: String = null, timing: Boolean = false) extends TrainingCallback {
  private var epochs = IndexedSeq.empty[EpochRecord]

  /** The epochs so far, including those before training resumed. */
  def records: IndexedSeq[EpochRecord] = epochs

  override def onTrainBegin(training: Training): Unit = update(training)

  override def onEpochEnd(record: EpochRecord, training: Training): Unit = update(training)

  private def update(training: Training): Unit = {
    epochs = training.history
    if (csv != null) AtomicFile.writeText(csv, MetricHistory.toCsv(epochs, timing))
  }
}

/** Metrics as text. */
object MetricHistory {

  /** Epochs as CSV: a header, then a line for each epoch.
    *
    * @param timing whether to add the columns `samples_per_second` and `seconds`
    */
  def toCsv(records: Seq[EpochRecord], timing: Boolean = false): String = {
    requireNonNull("MetricHistory.toCsv", "records" -> records)
    val rows = records.map(cells(_, timing))
    val names = rows.flatMap(_.map(_._1)).distinct
    val header = "epoch" +: names.map(quoted)
    val lines = records.zip(rows).map { case (record, row) =>
      val values = row.toMap
      record.epoch.toString +: names.map(name => values.getOrElse(name, ""))
    }
    (header +: lines).map(_.mkString("", ",", "\n")).mkString
  }

  private def cells(record: EpochRecord, timing: Boolean): Seq[(String, String)] =
    record.train.map { case (name, value) => s"train-$name" -> value.toString } ++
      record.validation.map { case (name, value) => s"validation-$name" -> value.toString } ++
      (if (timing)
         Seq("samples_per_second" -> record.samplesPerSecond.toString, "seconds" -> record.seconds.toString)
       else Nil)

  private def quoted(name: String): String =
    if (name.exists(",\"\r\n".contains(_))) "\"" + name.replace("\"", "\"\"") + "\"" else name
}
