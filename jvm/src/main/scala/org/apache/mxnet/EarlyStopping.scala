package org.apache.mxnet

import org.apache.mxnet.Callback.EpochRecord
import org.apache.mxnet.internal.util.Blocks
import org.apache.mxnet.module.internal.MetricChoice

/** Ends training when a metric has not improved for some epochs.
  *
  * @param metric the metric's name, such as `accuracy`, `validation-accuracy` or `train-accuracy`; by default the first
  *   metric, of the validation data if there are any
  * @param mode `max` if larger values are better, `min` if smaller ones are; `auto` knows the metrics of this library
  * @param patience number of epochs without improvement after which training ends
  * @param minDelta smallest difference that counts as an improvement
  * @param restoreBest whether the module gets the parameters of the best epoch when training ends
  */
class EarlyStopping(
    metric: String = "",
    mode: String = "auto",
    patience: Int = 3,
    minDelta: Float = 0f,
    restoreBest: Boolean = false
) extends TrainingCallback {
  require(patience >= 1, s"patience is $patience; it must be at least 1 epoch")
  require(minDelta >= 0, s"minDelta is $minDelta; it must not be negative")

  private val choice = new MetricChoice(metric, mode)
  private var best: Option[EpochRecord] = None
  private var waited = 0
  private var bestParams: Option[Model.Params] = None

  /** The epoch with the best value so far; None before the first epoch. */
  def bestEpoch: Option[EpochRecord] = best

  override def onTrainBegin(training: Training): Unit = {
    best = None
    waited = 0
    training.history.foreach(observe)
    if (training.history.isEmpty) forget()
    stopIfDue(training)
  }

  override def onEpochEnd(record: EpochRecord, training: Training): Unit = {
    if (observe(record) && restoreBest) {
      forget()
      bestParams = Some(Model.Params.copyOf(training.module.getParams))
    }
    stopIfDue(training)
  }

  override def onTrainEnd(training: Training): Unit = bestParams.foreach { params =>
    training.module.setParams(params.args, params.aux)
    forget()
  }

  override def saveState(): Array[Byte] = Blocks.bytesOf(out => bestParams.foreach(_.write(out)))

  override def restoreState(state: Array[Byte]): Unit = {
    forget()
    if (state.nonEmpty && restoreBest) bestParams = Some(Blocks.parse(state, "the best parameters")(Model.Params.read))
  }

  /** Records an epoch; returns whether it is the best. */
  private def observe(record: EpochRecord): Boolean = {
    val isBest = best.forall(before => choice.isBetter(record, choice.in(before)._2, minDelta))
    if (isBest) {
      best = Some(record)
      waited = 0
    } else waited += 1
    isBest
  }

  private def stopIfDue(training: Training): Unit = best.filter(_ => waited >= patience).foreach { record =>
    val (name, value) = choice.in(record)
    training.stop(s"$name has not improved for $waited epochs; it was best in epoch ${record.epoch}, $value")
  }

  private def forget(): Unit = {
    bestParams.foreach(_.dispose())
    bestParams = None
  }
}
