package org.apache.mxnet

import org.apache.mxnet.Callback.EpochRecord
import org.apache.mxnet.module.BaseModule

/** A callback of training, which may also end it. Methods do nothing unless overridden.
  *
  * {{{
  * val params = new FitParams()
  *   .addCallback(new ProgressBar, new MetricHistory(csv = "history.csv"), new EarlyStopping(patience = 5))
  *   .setCheckpoint("training.checkpoint")
  * module.fit(train, Some(test), 100, params, resume = true)
  * }}}
  *
  * A callback that depends on the metrics alone needs no state in the checkpoint: when training resumes,
  * `training.history` in [[onTrainBegin]] has all previous epochs.
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

  /** Called after each epoch and its validation, before the checkpoint is written. If the process crashes in this call,
    * the epoch is trained again, so replace files instead of appending to them.
    *
    * @param record the metrics of the epoch, which are also in `training.history`
    */
  def onEpochEnd(record: EpochRecord, training: Training): Unit = ()

  /** Called after the last epoch. */
  def onTrainEnd(training: Training): Unit = ()

  /** The state of this callback for the checkpoint. */
  def saveState(): Array[Byte] = Array.emptyByteArray

  /** Restores a state of [[saveState]], before [[onTrainBegin]]. */
  def restoreState(state: Array[Byte]): Unit = ()
}

/** The state of training, for callbacks.
  *
  * @param module the module
  * @param numEpoch the epoch at which training ends, exclusive, as passed to `fit`
  * @param batchSize number of instances in a batch
  */
final class Training private[mxnet] (val module: BaseModule, val numEpoch: Int, val batchSize: Int) {
  private var records = Vector.empty[EpochRecord]
  private var reason: Option[String] = None

  /** The epochs so far, including those before training resumed. */
  def history: IndexedSeq[EpochRecord] = records

  /** Ends training after this epoch.
    *
    * @param reason why, for the log
    */
  def stop(reason: String): Unit = this.reason = Some(reason)

  /** The reason to end before the last epoch; None if there is none. */
  def stopReason: Option[String] = reason

  private[mxnet] def add(record: EpochRecord): Unit = records :+= record

  private[mxnet] def restore(history: IndexedSeq[EpochRecord]): Unit = records = history.toVector
}
