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
