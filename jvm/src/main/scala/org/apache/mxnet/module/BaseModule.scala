package org.apache.mxnet.module

import java.io.IOException

import org.apache.mxnet._
import org.apache.mxnet.internal.memory.ResourceHolder
import org.apache.mxnet.internal.util.Logging
import org.apache.mxnet.internal.util.NullChecks.requireNonNull
import org.apache.mxnet.module.internal.{TrainingCheckpoint, TrainingLoop}
import org.apache.mxnet.optimizer.SGD

import scala.annotation.varargs
import scala.collection.mutable

/** A network that can be trained and run.
  *
  * A module is used in four steps: [[bind]] allocates arrays for the shapes of its inputs, [[initParams]] initializes
  * its parameters, [[initOptimizer]] sets the optimizer, and [[forward]], [[backward]] and [[update]] process batches.
  * [[fit]], [[score]] and [[predict]] include all of these.
  *
  * Threads that share a module alternate, batch by batch, in [[fit]], [[score]] and [[predict]]. A program that calls
  * [[forward]] and reads the outputs must hold the module's lock (`module.synchronized`) around both. To serve many
  * threads use [[org.apache.mxnet.infer.Predictor]].
  */
abstract class BaseModule extends ResourceHolder {
  private[module] var binded: Boolean = false
  private[module] var forTraining: Boolean = false
  private[module] var inputsNeedGrad: Boolean = false
  private[module] var paramsInitialized: Boolean = false
  private[module] var optimizerInitialized: Boolean = false
  private[module] var symbol: Symbol = null
  private[module] var argParams: Map[String, NDArray] = null
  private[module] var auxParams: Map[String, NDArray] = null

  private val scope = ResourceScope.getCurrentScope()

  /** Runs `body`, whose arrays belong to the scope in which this module was created, because scopes of a step end before the
    * module does.
    */
  private[module] def owning[A](body: => A): A = ResourceScope.ownedIn(scope)(body)

  override private[mxnet] def heldResources: Iterator[Any] = Iterator(symbol, argParams, auxParams)

  /** The network; of several networks, the current one. */
  def getSymbol: Symbol = symbol

  /** Names of the inputs. */
  def dataNames: IndexedSeq[String]

  /** Names of the outputs. */
  def outputNames: IndexedSeq[String]

  /** The bound inputs. */
  def dataShapes: IndexedSeq[DataDesc]

  /** The bound labels; null if the module is bound without labels. */
  def labelShapes: IndexedSeq[DataDesc]

  /** Names and shapes of the outputs. */
  def outputShapes: IndexedSeq[(String, Shape)]

  /** The current parameters and auxiliary states by name, on the CPU. */
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

  /** Trains on a batch in `fit`. */
  private[mxnet] def trainOn(dataBatch: DataBatch): Unit = {
    forwardBackward(dataBatch)
    update()
  }

  /** Evaluates the network on labeled data.
    *
    * @param evalData the data
    * @param evalMetric the metric, which is reset first
    * @param numBatch maximum number of batches
    * @param batchEndCallback called after each batch
    * @param scoreEndCallback called at the end, with the number of batches
    * @param reset whether to reset `evalData` first
    * @param epoch the epoch that is passed to the callbacks
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

  /** Adds a batch to a metric, without its padding. */
  private def updateUnpadded(evalMetric: EvalMetric, batch: DataBatch): Unit =
    if (batch.pad == 0) updateMetric(evalMetric, batch.label)
    else {
      val outputs = getOutputsMerged()
      val preds = outputs.map(BaseModule.withoutPadding(_, batch.pad))
      val labels = batch.label.map(BaseModule.withoutPadding(_, batch.pad))
      evalMetric.update(labels, preds)
      (labels ++ preds).foreach(_.dispose())
    }

  /** The outputs for each batch, without padding: copies that the caller disposes.
    *
    * @param evalData the data
    * @param numBatch maximum number of batches; -1 for all
    * @param reset whether to reset `evalData` first
    */
  def predictEveryBatch(
      evalData: DataIter,
      numBatch: Int = -1,
      reset: Boolean = true
  ): IndexedSeq[IndexedSeq[NDArray]] = {
    requireNonNull("Module.predictEveryBatch", "evalData" -> evalData)
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

  /** The outputs for one batch, without padding: copies that the caller disposes. */
  def predict(batch: DataBatch): IndexedSeq[NDArray] = synchronized {
    requireNonNull("Module.predict", "batch" -> batch)
    requireReady()
    forward(batch, Some(false))
    getOutputsMerged().map { output =>
      val kept = BaseModule.withoutPadding(output, batch.pad)
      val copy = kept.copy()
      kept.dispose()
      copy
    }
  }

  /** The outputs for all data, each concatenated over the batches, without padding.
    *
    * @param evalData the data
    * @param numBatch maximum number of batches; -1 for all
    * @param reset whether to reset `evalData` first
    */
  def predict(evalData: DataIter, numBatch: Int = -1, reset: Boolean = true): IndexedSeq[NDArray] = {
    val batches = predictEveryBatch(evalData, numBatch, reset)
    require(batches.nonEmpty, "there is no batch to predict: the iterator has no data or is at its end; call reset()")
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

  /** Initializes the parameters.
    *
    * @param initializer initializes parameters without a given value
    * @param argParams values by name: of all parameters, unless `allowMissing` is set
    * @param auxParams auxiliary states by name
    * @param allowMissing whether the initializer fills parameters without a given value
    * @param forceInit whether to replace existing values
    * @param allowExtra whether to ignore values that the network does not need without a warning
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
    * @param allowMissing whether parameters without a given value keep their values, which is otherwise an error
    * @param forceInit whether to replace existing values
    * @param allowExtra as for [[initParams]]; with `allowMissing`, values that the network does not need are an error
    *                   otherwise
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
    requireNonNull("Module.saveParams", "fname" -> fname)
    val (args, aux) = getParams
    NDArray.save(fname, Model.withKinds(args, aux))
  }

  /** Reads parameters and auxiliary states from a file that [[saveParams]] or MXNet wrote.
    *
    * @throws IOException if the file does not contain parameters
    */
  @throws(classOf[IOException])
  def loadParams(fname: String): Unit = {
    val params = Model.loadParams(fname)
    try setParams(params.args, params.aux)
    finally params.dispose()
  }

  /** Trains the parameters.
    *
    * @param trainData the training data
    * @param evalData validation data, evaluated after each epoch
    * @param numEpoch the epoch at which training ends, exclusive; it starts at `beginEpoch` of `fitParams`
    * @param fitParams further parameters
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

  /** Trains the parameters, from the start or from the checkpoint of another process.
    *
    * Resumed training gives the same bits as uninterrupted training: the checkpoint has the parameters, the states of
    * the optimizer, its schedule, the random number generators and the data iterators, and the metrics of all epochs.
    * To resume, start the same program again:
    *
    * {{{
    * module.fit(train, Some(test), 30, new FitParams().setCheckpoint("training.checkpoint"), resume = true)
    * }}}
    *
    * @param trainData the training data
    * @param evalData validation data, evaluated after each epoch
    * @param numEpoch the epoch at which training ends, exclusive
    * @param fitParams further parameters; `setCheckpoint` sets the file
    * @param resume whether to continue after the last epoch in the checkpoint; without a checkpoint, training starts
    *   from the beginning
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
        installOptimizer(owning(Model.createKVStore(store)), fitParams.optimizer, resetOptimizer = true)
      case Some(_) => BaseModule.logger.debug("the module has an optimizer: the KVStore of FitParams is not used")
      case None    => initOptimizer(fitParams.kvstore, fitParams.optimizer, forceInit = saved.isDefined)
    }
    new TrainingLoop(this, trainData, evalData, numEpoch, epochSize = -1, fitParams).run(saved)
  }

  /** The states of the optimizer for all parameters. */
  private[module] def saveOptimizerState(): Array[Byte] = throw new UnsupportedOperationException(
    s"${getClass.getName} cannot save the states of its optimizer, so its training has no checkpoints"
  )

  /** Restores the result of [[saveOptimizerState]]. */
  private[module] def restoreOptimizerState(bytes: Array[Byte]): Unit = throw new UnsupportedOperationException(
    s"${getClass.getName} cannot restore the states of its optimizer, so its training cannot resume"
  )

  /** Sets the optimizer and an existing store.
    *
    * @param store the store, if there is one, and whether it updates the parameters itself
    */
  private[mxnet] def installOptimizer(
      store: (Option[KVStore], Boolean),
      optimizer: Optimizer,
      resetOptimizer: Boolean
  ): Unit

  /** Installs a monitor on the executors. */
  def installMonitor(monitor: Monitor): Unit

  /** Runs the network on a batch.
    *
    * @param isTrain whether to run in training mode; by default as bound
    */
  def forward(dataBatch: DataBatch, isTrain: Option[Boolean] = None): Unit

  /** Runs the network on a batch, in training mode or not. */
  def forward(dataBatch: DataBatch, isTrain: Boolean): Unit = forward(dataBatch, Some(isTrain))

  /** Computes the gradients of the parameters for the last batch.
    *
    * @param outGrads gradients of the outputs; none are needed if the outputs are losses
    */
  def backward(outGrads: Array[NDArray] = Array.empty): Unit

  /** The outputs of the last run, each concatenated over the devices. With one device, the next run overwrites them. */
  def getOutputsMerged(): IndexedSeq[NDArray]

  /** For each output of the last run, the arrays of the devices. */
  def getOutputs(): IndexedSeq[IndexedSeq[NDArray]]

  /** The gradients of the inputs, each concatenated over the devices. */
  def getInputGradsMerged(): IndexedSeq[NDArray]

  /** For each input, its gradient on each device. */
  def getInputGrads(): IndexedSeq[IndexedSeq[NDArray]]

  /** Updates the parameters by the gradients. */
  def update(): Unit

  /** Adds the outputs of the last run to a metric.
    *
    * @param labels labels of the batch
    */
  def updateMetric(evalMetric: EvalMetric, labels: IndexedSeq[NDArray]): Unit

  /** Allocates the module's arrays.
    *
    * @param dataShapes the inputs, usually `provideDataDesc` of the data
    * @param labelShapes the labels, usually `provideLabelDesc` of the data
    * @param forTraining whether to compute gradients
    * @param inputsNeedGrad whether to compute gradients of the inputs
    * @param forceRebind whether to bind a bound module again, which is otherwise ignored
    * @param sharedModule a module to share parameters with
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

  /** Allocates the arrays of a module without labels. */
  @varargs def bind(forTraining: Boolean, inputsNeedGrad: Boolean, forceRebind: Boolean, dataShape: DataDesc*): Unit = {
    requireNonNull("Module.bind", "dataShape" -> dataShape)
    bind(dataShape.toIndexedSeq, None, forTraining, inputsNeedGrad, forceRebind, None)
  }

  /** Sets the optimizer.
    *
    * @param kvstore type of the KVStore that combines several devices
    * @param optimizer the optimizer
    * @param resetOptimizer whether to pass the batch size and the names of the parameters to the optimizer
    * @param forceInit whether to replace an existing optimizer, which is otherwise kept
    */
  def initOptimizer(
      kvstore: String = "local",
      optimizer: Optimizer = new SGD(),
      resetOptimizer: Boolean = true,
      forceInit: Boolean = false
  ): Unit
}

/** Functions that several modules use. */
object BaseModule {
  private[module] val logger = Logging.of(classOf[BaseModule])

  /** Warns of values that a network does not need. As in MXNet they are not an error: programs pass the parameters of a
    * whole network to a part of it.
    */
  private[module] def warnOfExtra(what: String, values: Map[String, NDArray], known: Iterable[String]): Unit =
    if (values != null) {
      val extra = (values.keySet -- known).toSeq.sorted
      if (extra.nonEmpty)
        logger.warn(s"$what contains ${extra.mkString(", ")}, which the network does not have: they are ignored")
    }

  /** Checks that a network has arguments of these names. */
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
