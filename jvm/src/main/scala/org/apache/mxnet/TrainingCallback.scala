package org.apache.mxnet

import org.apache.mxnet.Callback.EpochRecord
import org.apache.mxnet.module.BaseModule

/** Follows training, and may end it. Every method does nothing unless it is overridden.
  *
  * {{{
  * val params = new FitParams()
  *   .addCallback(new ProgressBar, new MetricHistory(csv = "history.csv"), new EarlyStopping(patience = 5))
  *   .setCheckpoint("training.checkpoint")
  * module.fit(train, Some(test), 100, params, resume = true)
  * }}}
  *
  * A callback that learns from the metrics alone needs no state in the checkpoint: when training resumes, the history of
  * [[onTrainBegin]] holds the epochs of the processes before.
  */
trait TrainingCallback {

  /** Called before the first epoch. */
  def onTrainBegin(training: Training): Unit = ()

  /** Called before each epoch. */
  def onEpochBegin(epoch: Int, training: Training): Unit = ()

  /** Called after each training batch.
    *
    * @param epoch number of the epoch, from 0
    * @param nBatch number of the batch, from 0
    * @param evalMetric the metric over the batches of this epoch so far
    */
  def onBatchEnd(epoch: Int, nBatch: Int, evalMetric: EvalMetric, training: Training): Unit = ()

  /** Called after each epoch and its validation, before the checkpoint is written. An epoch that ended in this call, by a
    * crash, is trained again: files should be replaced, not appended to.
    *
    * @param record the metrics of the epoch, which `training.history` holds too
    */
  def onEpochEnd(record: EpochRecord, training: Training): Unit = ()

  /** Called after the last epoch. */
  def onTrainEnd(training: Training): Unit = ()

  /** What the checkpoint keeps for this callback. */
  def saveState(): Array[Byte] = Array.emptyByteArray

  /** Takes what [[saveState]] gave, before [[onTrainBegin]]. */
  def restoreState(state: Array[Byte]): Unit = ()
}

/** Training as its callbacks see it.
  *
  * @param module what is trained
  * @param numEpoch number of the last epoch, as `fit` is told
  * @param batchSize number of instances in a batch
  */
final class Training private[mxnet] (val module: BaseModule, val numEpoch: Int, val batchSize: Int) {
  private var records = Vector.empty[EpochRecord]
  private var reason: Option[String] = None

  /** The epochs so far, also those before training resumed. */
  def history: IndexedSeq[EpochRecord] = records

  /** Ends training after this epoch.
    *
    * @param reason why, for the log
    */
  def stop(reason: String): Unit = this.reason = Some(reason)

  /** Why training ends before its last epoch; None if it does not. */
  def stopReason: Option[String] = reason

  private[mxnet] def add(record: EpochRecord): Unit = records :+= record

  private[mxnet] def restore(history: IndexedSeq[EpochRecord]): Unit = records = history.toVector
}

/** Which metric of an epoch decides, and which of its values are better.
  *
  * @param metric a metric's name, with `validation-` or `train-` before it if it must be that of these data; empty for the
  *   first metric; of the validation data if there are any
  * @param mode `max`, `min`, or `auto` for what is known of the metrics of this library
  */
private[mxnet] final class MetricChoice(metric: String, mode: String) {
  require(metric != null, "metric is null; leave it out for the first metric")
  require(Seq("auto", "max", "min").contains(mode), s"mode is $mode; it must be auto, max or min")

  /** Name and value in an epoch. */
  def in(record: EpochRecord): (String, Float) = {
    val named = record.validation.map { case (name, value) => (s"validation-$name", name, value) } ++
      record.train.map { case (name, value) => (s"train-$name", name, value) }
    val found =
      if (metric.isEmpty) named.headOption
      else named.find { case (full, short, _) => full == metric || short == metric }
    found.map { case (_, name, value) => (name, value) }.getOrElse {
      throw new MXNetError(s"there is no metric '$metric'; the metrics are ${named.map(_._1).mkString(", ")}")
    }
  }

  /** Whether the value of an epoch is better than a value; NaN is never better. */
  def isBetter(record: EpochRecord, than: Float, minDelta: Float = 0f): Boolean = {
    val (name, value) = in(record)
    val gain = if (isMaximized(name)) value - than else than - value
    !value.isNaN && (than.isNaN || gain > minDelta)
  }

  private def isMaximized(name: String): Boolean = mode match {
    case "max" => true
    case "min" => false
    case _     =>
      if (MetricChoice.Maximized.exists(known => name.startsWith(known))) true
      else if (MetricChoice.Minimized.contains(name)) false
      else throw new MXNetError(s"it is not known which values of the metric '$name' are better: say mode = max or min")
  }
}

private object MetricChoice {
  val Maximized: Seq[String] = Seq("accuracy", "top_k_accuracy", "f1")
  val Minimized: Set[String] = Set("Perplexity", "cross-entropy", "mae", "mse", "rmse")
}
