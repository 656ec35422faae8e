package org.apache.mxnet

import java.nio.file.{Files, Paths}

import org.apache.mxnet.Callback.EpochRecord
import org.apache.mxnet.internal.util.AtomicFile
import org.apache.mxnet.module.internal.MetricChoice

/** Saves the parameters of the best epochs: `prefix-symbol.json`, and `prefix-NNNN.params` for each, where NNNN is the
  * number of trained epochs. `Module.loadCheckpoint` and MXNet read them.
  *
  * {{{
  * val best = new BestCheckpoints("model", k = 3)
  * module.fit(train, Some(test), 30, new FitParams().addCallback(best))
  * val module = Module.loadCheckpoint("model", best.kept.head.epoch + 1)
  * }}}
  *
  * @param prefix prefix of the files' names
  * @param k number of epochs to keep
  * @param metric the metric's name, such as `accuracy`, `validation-accuracy` or `train-accuracy`; by default the first
  *   metric, of the validation data if there are any
  * @param mode `max` if larger values are better, `min` if smaller ones are; `auto` knows the metrics of this library
  */
class BestCheckpoints(prefix: String, k: Int = 1, metric: String = "", mode: String = "auto") extends TrainingCallback {
  require(prefix != null, "prefix is null; give the prefix of the files' names")
  require(k >= 1, s"k is $k; it must be at least 1 epoch")

  private val choice = new MetricChoice(metric, mode)
  private var best = Vector.empty[EpochRecord]

  /** The epochs whose parameters are saved, the best one first. */
  def kept: IndexedSeq[EpochRecord] = best

  override def onTrainBegin(training: Training): Unit = {
    best = Vector.empty
    training.history.foreach(rank)
  }

  override def onEpochEnd(record: EpochRecord, training: Training): Unit = {
    val dropped = rank(record)
    if (best.exists(_ eq record)) {
      val (args, aux) = training.module.getParams
      AtomicFile.replace(Model.symbolFile(prefix))(file => training.module.getSymbol.save(file.toString))
      AtomicFile.replace(fileOf(record))(file => NDArray.save(file.toString, Model.withKinds(args, aux)))
    }
    dropped.filter(_ ne record).foreach(worse => Files.deleteIfExists(Paths.get(fileOf(worse))))
  }

  private def fileOf(record: EpochRecord): String = Model.paramsFile(prefix, record.epoch + 1)

  /** Inserts an epoch among the best, ordered from best to worst; returns the one that is dropped, if any. */
  private def rank(record: EpochRecord): Option[EpochRecord] = {
    val position = best.indexWhere(other => choice.isBetter(record, choice.in(other)._2))
    val ranked = if (position < 0) best :+ record else best.patch(position, Seq(record), 0)
    best = ranked.take(k)
    ranked.lift(k)
  }
}
