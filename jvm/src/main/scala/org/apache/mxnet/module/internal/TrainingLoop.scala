package org.apache.mxnet.module
package internal

import org.apache.mxnet.Callback.{EpochRecord, Progress}
import org.apache.mxnet._

/** Runs the epochs of a module that is bound and has parameters and an optimizer.
  *
  * @param epochSize number of batches in an epoch, regardless of the length of `trainData`; -1 for one pass
  * @param params further parameters; its optimizer is that of the module
  */
private[mxnet] final class TrainingLoop(
    module: BaseModule,
    trainData: DataIter,
    evalData: Option[DataIter],
    numEpoch: Int,
    epochSize: Int,
    params: FitParams
) {
  import params.logger

  private val training = new Training(module, numEpoch, trainData.batchSize)
  private val train = new TrackedIter(trainData)
  private val validation = evalData.map(data => new TrackedIter(data))
  private val validationMetric = params.validationMetric.getOrElse(params.evalMetric)

  /** Runs the remaining epochs.
    *
    * @param saved the checkpoint to resume from, whose parameters are already set in the module
    */
  def run(saved: Option[TrainingCheckpoint]): Unit = {
    saved.foreach(restore)
    params.callbacks.foreach(_.onTrainBegin(training))
    var epoch = math.max(params.beginEpoch, saved.fold(0)(_.epoch))
    while (epoch < numEpoch && training.stopReason.isEmpty) {
      runEpoch(epoch)
      epoch += 1
      params.checkpoint.foreach(file => currentState(epoch).write(file))
    }
    training.stopReason.foreach(reason => logger.info("Epoch[{}] Training stops: {}", epoch - 1, reason))
    params.callbacks.foreach(_.onTrainEnd(training))
  }

  private def runEpoch(epoch: Int): Unit = {
    val start = System.nanoTime()
    params.callbacks.foreach(_.onEpochBegin(epoch, training))
    params.evalMetric.reset()
    val numBatches = trainBatches(epoch)
    val trainMetrics = Progress.valuesOf(params.evalMetric)
    logMetrics(epoch, "Train", trainMetrics)
    val trainSeconds = (System.nanoTime() - start) / 1e9
    logger.info("Epoch[{}] Time cost={}", epoch, (trainSeconds * 1000).toLong)

    // Auxiliary states differ between devices, which process different data: continue with their mean.
    val (args, aux) = module.getParams
    module.setParams(args, aux)
    params.epochEndCallback.foreach(_.invoke(epoch, module.getSymbol, args, aux))

    val validationMetrics = validation.fold(Seq.empty[(String, Float)])(validate(epoch, _))
    if (epochSize < 0) train.reset()
    val speed = numBatches.toDouble * training.batchSize / trainSeconds
    val record = EpochRecord(epoch, trainMetrics, validationMetrics, speed, (System.nanoTime() - start) / 1e9)
    training.add(record)
    params.callbacks.foreach(_.onEpochEnd(record, training))
  }

  /** Trains on the batches of an epoch; returns their number. */
  private def trainBatches(epoch: Int): Int = {
    var nBatch = 0
    while (if (epochSize < 0) train.hasNext else nBatch < epochSize) {
      if (!train.hasNext) {
        train.reset()
        require(train.hasNext, "the training data have no batches")
      }
      val batch = train.next()
      params.monitor.foreach(_.tic())
      module.synchronized {
        module.trainOn(batch)
        module.updateMetric(params.evalMetric, batch.label)
      }
      params.monitor.foreach(_.tocPrint())
      params.batchEndCallback.foreach(_.invoke(epoch, nBatch, params.evalMetric))
      params.callbacks.foreach(_.onBatchEnd(epoch, nBatch, params.evalMetric, training))
      batch.release()
      nBatch += 1
    }
    nBatch
  }

  private def validate(epoch: Int, data: TrackedIter): Seq[(String, Float)] = {
    module.score(
      data,
      validationMetric,
      batchEndCallback = params.evalBatchEndCallback,
      scoreEndCallback = params.evalEndCallback,
      epoch = epoch
    )
    val metrics = Progress.valuesOf(validationMetric)
    logMetrics(epoch, "Validation", metrics)
    metrics
  }

  private def logMetrics(epoch: Int, data: String, metrics: Seq[(String, Float)]): Unit =
    metrics.foreach { case (name, value) => logger.info("Epoch[{}] {}-{}={}", epoch, data, name, value) }

  private def currentState(epoch: Int): TrainingCheckpoint = {
    val (args, aux) = module.getParams
    TrainingCheckpoint(
      epoch,
      Model.Params(args, aux),
      OptimizerCheckpoint.of(params.optimizer, module.saveOptimizerState()),
      Random.getState(),
      train.saveState(),
      validation.map(_.saveState()),
      training.history,
      params.callbacks.map(callback => callback.getClass.getName -> callback.saveState())
    )
  }

  private def restore(saved: TrainingCheckpoint): Unit = {
    module.restoreOptimizerState(saved.optimizer.states)
    saved.optimizer.restoreCounters(params.optimizer)
    train.restoreState(saved.trainData)
    validation.lazyZip(saved.evalData).foreach((data, state) => data.restoreState(state))
    training.restore(saved.history)
    restoreCallbacks(saved)
    saved.params.dispose()
    // Last, because restoring the data may shuffle, which draws random numbers.
    Random.setState(saved.random)
  }

  /** Callbacks are identified by their class and, within a class, by their order. */
  private def restoreCallbacks(saved: TrainingCheckpoint): Unit =
    params.callbacks.groupBy(_.getClass.getName).foreach { case (name, callbacks) =>
      callbacks.zip(saved.callbacks.filter(_._1 == name)).foreach { case (callback, (_, state)) =>
        callback.restoreState(state)
      }
    }
}
