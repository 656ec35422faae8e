package org.apache.mxnet.module

import org.apache.mxnet._
import org.apache.mxnet.internal.util.NullChecks.requireNonNull
import org.apache.mxnet.optimizer.SGD
import org.slf4j.Logger

import scala.annotation.varargs

/** Further parameters of [[BaseModule.fit]]. Each setter returns this object. */
class FitParams extends Cloneable {
  private[mxnet] var evalMetric: EvalMetric = new Accuracy()
  private[mxnet] var epochEndCallback: Option[EpochEndCallback] = None
  private[mxnet] var batchEndCallback: Option[BatchEndCallback] = None
  private[mxnet] var kvstore: String = "local"
  private[mxnet] var store: Option[KVStore] = None
  private[mxnet] var optimizer: Optimizer = new SGD()
  private[mxnet] var evalEndCallback: Option[BatchEndCallback] = None
  private[mxnet] var evalBatchEndCallback: Option[BatchEndCallback] = None
  private[mxnet] var initializer: Initializer = new Uniform(0.01f)
  private[mxnet] var argParams: Map[String, NDArray] = null
  private[mxnet] var auxParams: Map[String, NDArray] = null
  private[mxnet] var allowMissing: Boolean = false
  private[mxnet] var forceRebind: Boolean = false
  private[mxnet] var forceInit: Boolean = false
  private[mxnet] var beginEpoch: Int = 0
  private[mxnet] var validationMetric: Option[EvalMetric] = None
  private[mxnet] var monitor: Option[Monitor] = None
  private[mxnet] var callbacks: IndexedSeq[TrainingCallback] = IndexedSeq.empty
  private[mxnet] var checkpoint: Option[String] = None
  private[mxnet] var resume: Boolean = false
  private[mxnet] var logger: Logger = BaseModule.logger

  private[mxnet] def copy(): FitParams = clone().asInstanceOf[FitParams]

  /** Sets the metric of the training data; accuracy by default. */
  def setEvalMetric(evalMetric: EvalMetric): FitParams = {
    require(evalMetric != null, "evalMetric is null")
    this.evalMetric = evalMetric
    this
  }

  /** Sets the callback that gets the parameters after each epoch. */
  def setEpochEndCallback(epochEndCallback: EpochEndCallback): FitParams = {
    this.epochEndCallback = Option(epochEndCallback)
    this
  }

  /** Sets the callback after each training batch. */
  def setBatchEndCallback(batchEndCallback: BatchEndCallback): FitParams = {
    this.batchEndCallback = Option(batchEndCallback)
    this
  }

  /** Sets the type of the KVStore that combines several devices; `local` by default. */
  def setKVStore(kvStore: String): FitParams = {
    require(kvStore != null, "kvStore is null; local is the default")
    this.kvstore = kvStore
    this.store = None
    this
  }

  /** Sets an existing KVStore, such as one of a [[DistributedJob]]. */
  def setKVStore(kvStore: KVStore): FitParams = {
    require(kvStore != null, "kvStore is null; give its type instead to have none")
    this.store = Some(kvStore)
    this
  }

  /** Sets the optimizer; SGD by default. */
  def setOptimizer(optimizer: Optimizer): FitParams = {
    require(optimizer != null, "optimizer is null")
    this.optimizer = optimizer
    this
  }

  /** Sets the callback after each pass over the validation data. */
  def setEvalEndCallback(evalEndCallback: BatchEndCallback): FitParams = {
    this.evalEndCallback = Option(evalEndCallback)
    this
  }

  /** Sets the callback after each validation batch. */
  def setEvalBatchEndCallback(evalBatchEndCallback: BatchEndCallback): FitParams = {
    this.evalBatchEndCallback = Option(evalBatchEndCallback)
    this
  }

  /** Sets the initializer of parameters without values; `Uniform(0.01f)` by default. */
  def setInitializer(initializer: Initializer): FitParams = {
    require(initializer != null, "initializer is null")
    this.initializer = initializer
    this
  }

  /** Sets initial parameters, which take precedence over the initializer and over loaded values. */
  def setArgParams(argParams: Map[String, NDArray]): FitParams = {
    this.argParams = argParams
    this
  }

  /** Sets initial auxiliary states. */
  def setAuxParams(auxParams: Map[String, NDArray]): FitParams = {
    this.auxParams = auxParams
    this
  }

  /** Sets whether the initializer fills values that `argParams` and `auxParams` lack, which are otherwise an error. */
  def setAllowMissing(allowMissing: Boolean): FitParams = {
    this.allowMissing = allowMissing
    this
  }

  /** Sets whether to bind a bound module again. */
  def setForceRebind(forceRebind: Boolean): FitParams = {
    this.forceRebind = forceRebind
    this
  }

  /** Sets whether to replace existing parameter values. */
  def setForceInit(forceInit: Boolean): FitParams = {
    this.forceInit = forceInit
    this
  }

  /** Sets the number of the first epoch, which is that of the checkpoint when training is resumed. */
  def setBeginEpoch(beginEpoch: Int): FitParams = {
    require(beginEpoch >= 0, s"beginEpoch is $beginEpoch; it must not be negative")
    this.beginEpoch = beginEpoch
    this
  }

  /** Sets the metric of the validation data; that of the training data by default. */
  def setValidationMetric(metric: EvalMetric): FitParams = {
    this.validationMetric = Option(metric)
    this
  }

  /** Sets a monitor of the executors. */
  def setMonitor(monitor: Monitor): FitParams = {
    this.monitor = Option(monitor)
    this
  }

  /** Adds training callbacks, in the order of their calls. */
  @varargs def addCallback(callbacks: TrainingCallback*): FitParams = {
    requireNonNull("FitParams.addCallback", "callbacks" -> callbacks)
    require(!callbacks.contains(null), "a callback is null")
    this.callbacks ++= callbacks
    this
  }

  /** Sets the checkpoint file, which is written after each epoch; null for none, the default. It is replaced
    * atomically, so that it is readable whenever the process ends.
    */
  def setCheckpoint(file: String): FitParams = {
    this.checkpoint = Option(file)
    this
  }

  /** Sets whether to continue after the last epoch in the checkpoint, if there is one; false by default. */
  def setResume(resume: Boolean): FitParams = {
    this.resume = resume
    this
  }
}
