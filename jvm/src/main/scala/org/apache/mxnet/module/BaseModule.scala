package org.apache.mxnet.module

import java.io.IOException

import org.apache.mxnet._
import org.apache.mxnet.internal.util.{Given, Logging}
import org.apache.mxnet.module.internal.{TrainingCheckpoint, TrainingLoop}
import org.apache.mxnet.optimizer.SGD

import scala.annotation.varargs
import scala.collection.mutable

/** A network that can be trained and run.
  *
  * A module is used in four steps: [[bind]] allocates it for the shapes of its inputs, [[initParams]] gives its
  * parameters values,
  * [[initOptimizer]] says how they are changed, and then batches go through [[forward]], [[backward]] and [[update]].
  * [[fit]], [[score]]
  * and [[predict]] do all this.
  *
  * Threads that share a module take turns, batch by batch, in [[fit]], [[score]] and [[predict]]; a program that calls
  * [[forward]] and then asks for outputs holds the module's lock (`module.synchronized`) over both. To serve many
  * threads at once use [[org.apache.mxnet.infer.Predictor]].
  */
abstract class BaseModule {
  private[module] var binded: Boolean = false
  private[module] var forTraining: Boolean = false
  private[module] var inputsNeedGrad: Boolean = false
  private[module] var paramsInitialized: Boolean = false
  private[module] var optimizerInitialized: Boolean = false
  private[module] var symbol: Symbol = null
  private[module] var argParams: Map[String, NDArray] = null
  private[module] var auxParams: Map[String, NDArray] = null

  /** The network; the current one if there are several. */
  def getSymbol: Symbol = symbol

  /** Names of the inputs. */
  def dataNames: IndexedSeq[String]

  /** Names of the outputs. */
  def outputNames: IndexedSeq[String]

  /** The inputs that are bound. */
  def dataShapes: IndexedSeq[DataDesc]

  /** The labels that are bound; null if the module is bound without. */
  def labelShapes: IndexedSeq[DataDesc]

  /** Names and shapes of the outputs. */
  def outputShapes: IndexedSeq[(String, Shape)]

  /** Parameters and auxiliary states by name, as they are now, on the CPU. */
  def getParams: (Map[String, NDArray], Map[String, NDArray])

  private[module] def requireBound(): Unit = require(binded, "the module is not bound; call bind first")

  private[module] def requireReady(): Unit =
    require(binded && paramsInitialized, "the module is not ready; call bind and then initParams first")

  private[module] def requireTrainable(): Unit = {
    requireReady()
    require(optimizerInitialized, "the module has no optimizer; call initOptimizer first")
  }

  /** Runs [[forward]] in training mode and [[backward]]. */
  def forwardBackward(dataBatch: DataBatch): Unit = synchronized {
    forward(dataBatch, Some(true))
    backward()
  }

  /** Measures the predictions for labelled data.
    *
    * @param evalData the data
    * @param evalMetric the measure, which is reset before
    * @param numBatch at most so many batches are used
    * @param batchEndCallback called after each batch
    * @param scoreEndCallback called at the end, with the number of batches
    * @param reset whether `evalData` is reset before
    * @param epoch what the callbacks are told as epoch
    * @return `evalMetric`
    */
  def score(
      evalData: DataIter,
      evalMetric: EvalMetric,
      numBatch: Int = Integer.MAX_VALUE,
      batchEndCallback: Option[BatchEndCallback] = None,
      scoreEndCallback: Option[BatchEndCallback] = None,
      reset: Boolean = true,
      epoch: Int = 0
  ): EvalMetric = {
    require(evalData != null, "evalData is null")
    require(evalMetric != null, "evalMetric is null")
    val batchEnd = Option(batchEndCallback).flatten.filter(_ != null)
    val scoreEnd = Option(scoreEndCallback).flatten.filter(_ != null)
    requireReady()
    if (reset) evalData.reset()
    evalMetric.reset()
    var nBatch = 0
    while (nBatch < numBatch && evalData.hasNext) {
      val batch = evalData.next()
      synchronized {
        forward(batch, Some(false))
        updateUnpadded(evalMetric, batch)
      }
      batchEnd.foreach(_.invoke(epoch, nBatch, evalMetric))
      batch.release()
      nBatch += 1
    }
    scoreEnd.foreach(_.invoke(epoch, nBatch, evalMetric))
    evalMetric
  }

  /** Adds a batch to a metric without the instances that only fill it. */
  private def updateUnpadded(evalMetric: EvalMetric, batch: DataBatch): Unit =
    if (batch.pad == 0) updateMetric(evalMetric, batch.label)
    else {
      val outputs = getOutputsMerged()
      val preds = outputs.map(BaseModule.withoutPadding(_, batch.pad))
      val labels = batch.label.map(BaseModule.withoutPadding(_, batch.pad))
      evalMetric.update(labels, preds)
      (labels ++ preds).foreach(_.dispose())
    }

  /** The outputs for each batch, without padding; the arrays are copies that the caller disposes of.
    *
    * @param evalData the data
    * @param numBatch at most so many batches are used; all if -1
    * @param reset whether `evalData` is reset before
    */
  def predictEveryBatch(
      evalData: DataIter,
      numBatch: Int = -1,
      reset: Boolean = true
  ): IndexedSeq[IndexedSeq[NDArray]] = {
    Given("Module.predictEveryBatch", "evalData" -> evalData)
    requireReady()
    if (reset) evalData.reset()
    val outputs = mutable.ArrayBuffer.empty[IndexedSeq[NDArray]]
    while (outputs.length != numBatch && evalData.hasNext) {
      val batch = evalData.next()
      outputs += predict(batch)
      batch.release()
    }
    outputs.toIndexedSeq
  }

  /** The outputs for one batch, without padding; the arrays are copies that the caller disposes of. */
  def predict(batch: DataBatch): IndexedSeq[NDArray] = synchronized {
    Given("Module.predict", "batch" -> batch)
    requireReady()
    forward(batch, Some(false))
    getOutputsMerged().map { output =>
      val kept = BaseModule.withoutPadding(output, batch.pad)
      val copy = kept.copy()
      kept.dispose()
      copy
    }
  }

  /** The outputs for all data, each joined over the batches, without padding.
    *
    * @param evalData the data
    * @param numBatch at most so many batches are used; all if -1
    * @param reset whether `evalData` is reset before
    */
  def predict(evalData: DataIter, numBatch: Int = -1, reset: Boolean = true): IndexedSeq[NDArray] = {
    val batches = predictEveryBatch(evalData, numBatch, reset)
    require(batches.nonEmpty, "there is no batch to predict: the data are empty or at their end; reset them")
    val counts = batches.map(_.length).distinct
    require(
      counts.length == 1,
      s"the batches have different numbers of outputs (${counts.mkString(", ")}), so they cannot be joined; " +
        "use predictEveryBatch"
    )
    val joined = batches.head.indices.map(i => NDArray.concatenate(batches.map(_(i)), axis = 0, alwaysCopy = true))
    batches.foreach(_.foreach(_.dispose()))
    joined
  }

  /** Gives the parameters values.
    *
    * @param initializer fills those for which no value is given
    * @param argParams values by name; they must cover all parameters unless `allowMissing`
    * @param auxParams auxiliary states by name
    * @param allowMissing whether the initializer fills what the given values miss
    * @param forceInit whether parameters that have values get new ones
    * @param allowExtra whether to be silent about values that the network does not need, which are ignored; otherwise a
    *                   warning names them
    */
  def initParams(
      initializer: Initializer = new Uniform(0.01f),
      argParams: Map[String, NDArray] = null,
      auxParams: Map[String, NDArray] = null,
      allowMissing: Boolean = false,
      forceInit: Boolean = false,
      allowExtra: Boolean = false
  ): Unit

  /** Sets the parameters.
    *
    * @param argParams values by name
    * @param auxParams auxiliary states by name
    * @param allowMissing whether parameters without a given value keep theirs; otherwise that is an error
    * @param forceInit whether parameters that have values get new ones
    * @param allowExtra as for [[initParams]], but with `allowMissing` values that the network does not need are an error
    */
  def setParams(
      argParams: Map[String, NDArray],
      auxParams: Map[String, NDArray],
      allowMissing: Boolean = false,
      forceInit: Boolean = true,
      allowExtra: Boolean = false
  ): Unit = initParams(null, argParams, auxParams, allowMissing, forceInit, allowExtra)

  /** Writes parameters (`arg:name`) and auxiliary states (`aux:name`) to a file in MXNet's format. */
  def saveParams(fname: String): Unit = {
    Given("Module.saveParams", "fname" -> fname)
    val (args, aux) = getParams
    NDArray.save(fname, Model.withKinds(args, aux))
  }

  /** Reads parameters and auxiliary states from a file that [[saveParams]] or MXNet wrote.
    *
    * @throws IOException if the file holds something else than parameters
    */
  @throws(classOf[IOException])
  def loadParams(fname: String): Unit = {
    val (args, aux) = Model.loadParams(fname)
    setParams(args, aux)
    (args.values ++ aux.values).foreach(_.dispose())
  }

  /** Trains the parameters.
    *
    * @param trainData the training data
    * @param evalData data on which the network is measured after each epoch
    * @param numEpoch number of the last epoch: so many epochs are run, less those before `beginEpoch`
    * @param fitParams everything else
    */
  def fit(
      trainData: DataIter,
      evalData: Option[DataIter] = None,
      numEpoch: Int = 1,
      fitParams: FitParams = new FitParams
  ): Unit = {
    require(fitParams != null, "fitParams is null")
    fit(trainData, evalData, numEpoch, fitParams, fitParams.resume)
  }

  /** Trains the parameters, from the start or from where another process stopped.
    *
    * Training that is resumed gives the same bits as training that nobody interrupted: the checkpoint holds the parameters,
    * the states of the optimizer and of its schedule, those of the random numbers and of the data, and the metrics of all
    * epochs. The program says everything as at the first start; it is started again with the same line.
    *
    * {{{
    * module.fit(train, Some(test), 30, new FitParams().setCheckpoint("training.checkpoint"), resume = true)
    * }}}
    *
    * @param trainData the training data
    * @param evalData data on which the network is measured after each epoch
    * @param numEpoch number of the last epoch
    * @param fitParams everything else; it names the file with `setCheckpoint`
    * @param resume whether training goes on after the last epoch in the checkpoint; if there is no such file it starts anew
    */
  def fit(
      trainData: DataIter,
      evalData: Option[DataIter],
      numEpoch: Int,
      fitParams: FitParams,
      resume: Boolean
  ): Unit = {
    require(trainData != null, "trainData is null")
    require(evalData != null && !evalData.contains(null), "evalData is null; give None for no validation data")
    require(fitParams != null, "fitParams is null")
    require(numEpoch > 0, s"numEpoch is $numEpoch; it must be at least 1")
    bind(
      trainData.provideDataDesc,
      Option(trainData.provideLabelDesc),
      forTraining = true,
      forceRebind = fitParams.forceRebind
    )
    fitParams.monitor.foreach(installMonitor)
    initParams(
      fitParams.initializer,
      Option(fitParams.argParams).getOrElse(argParams),
      Option(fitParams.auxParams).getOrElse(auxParams),
      fitParams.allowMissing,
      fitParams.forceInit
    )
    val saved = TrainingCheckpoint.toResume(fitParams, resume)
    saved.foreach(_.restoreParams(this))
    fitParams.store match {
      case Some(store) if saved.isDefined || !optimizerInitialized =>
        installOptimizer(Model.createKVStore(store), fitParams.optimizer, resetOptimizer = true)
      case Some(_) => BaseModule.logger.debug("the module has an optimizer: the KVStore of FitParams is not used")
      case None    => initOptimizer(fitParams.kvstore, fitParams.optimizer, forceInit = saved.isDefined)
    }
    new TrainingLoop(this, trainData, evalData, numEpoch, epochSize = -1, fitParams).run(saved)
  }

  /** States of the optimizer for all parameters. */
  private[module] def saveOptimizerState(): Array[Byte] = throw new UnsupportedOperationException(
    s"${getClass.getName} cannot give the states of its optimizer, so that its training cannot be saved"
  )

  /** Takes what [[saveOptimizerState]] gave. */
  private[module] def restoreOptimizerState(bytes: Array[Byte]): Unit = throw new UnsupportedOperationException(
    s"${getClass.getName} cannot take states of its optimizer, so that its training cannot resume"
  )

  /** Sets how parameters are changed, with a store that exists.
    *
    * @param store the store, if one is used, and whether it changes the parameters itself
    */
  private[mxnet] def installOptimizer(
      store: (Option[KVStore], Boolean),
      optimizer: Optimizer,
      resetOptimizer: Boolean
  ): Unit

  /** Lets a monitor watch the executors. */
  def installMonitor(monitor: Monitor): Unit

  /** Runs the network on a batch.
    *
    * @param isTrain whether it runs in training mode; as bound if None
    */
  def forward(dataBatch: DataBatch, isTrain: Option[Boolean] = None): Unit

  /** Runs the network on a batch, in training mode or not. */
  def forward(dataBatch: DataBatch, isTrain: Boolean): Unit = forward(dataBatch, Some(isTrain))

  /** Computes the gradients of the parameters for the last batch.
    *
    * @param outGrads gradients of the outputs; none are needed if the outputs are losses
    */
  def backward(outGrads: Array[NDArray] = Array.empty): Unit

  /** The outputs of the last run, each joined over the devices. With one device they are overwritten by the next run.
    */
  def getOutputsMerged(): IndexedSeq[NDArray]

  /** For each output of the last run, its part on each device. */
  def getOutputs(): IndexedSeq[IndexedSeq[NDArray]]

  /** The gradients of the inputs, each joined over the devices. */
  def getInputGradsMerged(): IndexedSeq[NDArray]

  /** For each input, its gradient on each device. */
  def getInputGrads(): IndexedSeq[IndexedSeq[NDArray]]

  /** Changes the parameters along the gradients. */
  def update(): Unit

  /** Adds the outputs of the last run to a metric.
    *
    * @param labels labels of the batch
    */
  def updateMetric(evalMetric: EvalMetric, labels: IndexedSeq[NDArray]): Unit

  /** Allocates the module.
    *
    * @param dataShapes the inputs, usually `provideDataDesc` of the data
    * @param labelShapes the labels, usually `provideLabelDesc` of the data
    * @param forTraining whether gradients will be computed
    * @param inputsNeedGrad whether gradients of the inputs will be computed
    * @param forceRebind whether a module that is bound is bound again; otherwise nothing is done then
    * @param sharedModule a module whose parameters this one uses
    * @param gradReq `write` replaces gradients, `add` adds to them, `null` computes none
    */
  def bind(
      dataShapes: IndexedSeq[DataDesc],
      labelShapes: Option[IndexedSeq[DataDesc]] = None,
      forTraining: Boolean = true,
      inputsNeedGrad: Boolean = false,
      forceRebind: Boolean = false,
      sharedModule: Option[BaseModule] = None,
      gradReq: String = "write"
  ): Unit

  /** Allocates a module that has no labels. */
  @varargs def bind(forTraining: Boolean, inputsNeedGrad: Boolean, forceRebind: Boolean, dataShape: DataDesc*): Unit = {
    Given("Module.bind", "dataShape" -> dataShape)
    bind(dataShape.toIndexedSeq, None, forTraining, inputsNeedGrad, forceRebind, None)
  }

  /** Sets how parameters are changed.
    *
    * @param kvstore type of the KVStore that joins several devices
    * @param optimizer the rule
    * @param resetOptimizer whether the optimizer is told the batch size and the names of the parameters
    * @param forceInit whether an optimizer that is there is replaced; otherwise nothing is done then
    */
  def initOptimizer(
      kvstore: String = "local",
      optimizer: Optimizer = new SGD(),
      resetOptimizer: Boolean = true,
      forceInit: Boolean = false
  ): Unit
}

/** What modules have in common. */
object BaseModule {
  private[module] val logger = Logging.of(classOf[BaseModule])

  /** Warns of values that a network does not need. As in MXNet they are no error: programs give part of a network the
    * parameters of the whole.
    */
  private[module] def reportExtra(what: String, values: Map[String, NDArray], known: Iterable[String]): Unit =
    if (values != null) {
      val extra = (values.keySet -- known).toSeq.sorted
      if (extra.nonEmpty)
        logger.warn(s"$what contains ${extra.mkString(", ")}, which the network does not have: they are ignored")
    }

  /** Checks that a network has variables of these names. */
  private[module] def checkInputNames(symbol: Symbol, names: IndexedSeq[String], kind: String): Unit = {
    val arguments = symbol.listArguments()
    names.find(name => !arguments.contains(name)).foreach { missing =>
      val candidates = arguments.filterNot(Model.looksLikeParameter)
      throw new IllegalArgumentException(
        s"$kind contains $missing but the network has no argument of that name; " +
          s"its inputs are ${candidates.mkString(", ")}"
      )
    }
  }

  /** A view of an array without its last `pad` instances. */
  private def withoutPadding(array: NDArray, pad: Int): NDArray = array.slice(0, array.shape(0) - pad)
}
