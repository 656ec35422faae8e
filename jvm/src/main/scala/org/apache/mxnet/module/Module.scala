package org.apache.mxnet.module

import java.nio.file.{Files, Paths}

import org.apache.mxnet._
import org.apache.mxnet.internal.util.AtomicFile
import org.apache.mxnet.internal.util.NullChecks.requireNonNull
import org.apache.mxnet.internal.visualization.NetworkGraph
import org.apache.mxnet.optimizer.SGD

import scala.annotation.varargs

/** A module for one network.
  *
  * {{{
  * val module = new Module(network)
  * module.fit(train, Some(test), numEpoch = 30, new FitParams().setOptimizer(new SGD(0.05f, momentum = 0.9f)))
  * module.saveCheckpoint("model", 30)
  * }}}
  *
  * @param symbolVar the network
  * @param dataNames names of its inputs; the shapes given to [[bind]] may name further ones, such as initial states
  * @param labelNames names of its labels; unknown ones are ignored
  * @param contexts the devices; each batch is split among them
  * @param workLoadList fraction of the batch for each device, in any unit; None for equal fractions
  * @param fixedParamNames parameters that are not trained
  */
class Module(
    symbolVar: Symbol,
    val dataNames: IndexedSeq[String] = IndexedSeq("data"),
    labelNames: IndexedSeq[String] = IndexedSeq("softmax_label"),
    contexts: Array[Context] = Array(Context.cpu()),
    workLoadList: Option[IndexedSeq[Float]] = None,
    fixedParamNames: Option[Set[String]] = None
) extends BaseModule {
  require(symbolVar != null, "the network is null")
  requireNonNull("Module", "dataNames" -> dataNames, "contexts" -> contexts)
  require(contexts.nonEmpty, "a module needs at least one context; Context.cpu() is the default")
  symbol = symbolVar
  BaseModule.checkInputNames(symbolVar, dataNames, "dataNames")
  fixedParamNames.foreach(names => BaseModule.checkInputNames(symbolVar, names.toIndexedSeq, "fixedParamNames"))

  private val workLoads = workLoadList.getOrElse(IndexedSeq.fill(contexts.length)(1f))
  require(
    workLoads.length == contexts.length,
    s"workLoadList has ${workLoads.length} shares but there are ${contexts.length} contexts"
  )

  private val labels = Option(labelNames).getOrElse(IndexedSeq.empty)
  private val arguments = symbolVar.listArguments()

  /** Arguments that are neither inputs nor labels. */
  private[module] var paramNames: IndexedSeq[String] =
    arguments.filterNot(name => dataNames.contains(name) || labels.contains(name))
  private val auxNames = symbolVar.listAuxiliaryStates()

  override val outputNames: IndexedSeq[String] = symbolVar.listOutputs()

  private var group: DataParallelExecutorGroup = null

  /** Whether the devices have newer parameters than `argParams` and `auxParams`. */
  private var paramsDirty = false

  private var kvstore: Option[KVStore] = None
  private var updateOnKVStore = false
  private var updater: Option[MXKVStoreUpdater] = None
  private var savedStates: Option[String] = None

  /** Whether the log says that labels are not used. */
  private var warnedOfLabels = false

  /** The file that the parameters came from, until they are bound. */
  private var checkpoint: Option[String] = None

  /** Index of the first parameter; modules that share an optimizer have disjoint indices. */
  private[module] var firstParamIndex = 0

  override private[mxnet] def heldResources: Iterator[Any] =
    super.heldResources ++ Option(group).iterator.flatMap(_.resources) ++ kvstore ++ updater

  override def dataShapes: IndexedSeq[DataDesc] = {
    requireBound()
    group.dataShapes
  }

  override def labelShapes: IndexedSeq[DataDesc] = {
    requireBound()
    group.labelShapes.orNull
  }

  override def outputShapes: IndexedSeq[(String, Shape)] = {
    requireBound()
    group.getOutputShapes
  }

  override def getParams: (Map[String, NDArray], Map[String, NDArray]) = {
    requireReady()
    if (paramsDirty) {
      owning(allocateParams())
      group.getParams(argParams, auxParams)
      paramsDirty = false
    }
    (argParams, auxParams)
  }

  private def allocateParams(): Unit = {
    if (argParams == null)
      argParams = paramNames.lazyZip(group.paramArrays).map((n, a) => n -> Module.cpuArrayLike(a(0))).toMap
    if (auxParams == null)
      auxParams = auxNames.lazyZip(group.auxArrays).map((n, a) => n -> Module.cpuArrayLike(a(0))).toMap
  }

  override def initParams(
      initializer: Initializer = new Uniform(0.01f),
      argParams: Map[String, NDArray] = null,
      auxParams: Map[String, NDArray] = null,
      allowMissing: Boolean = false,
      forceInit: Boolean = false,
      allowExtra: Boolean = false
  ): Unit =
    if (!paramsInitialized || forceInit) {
      require(binded, "the module is not bound; call bind before initParams")
      if (!allowExtra) {
        BaseModule.warnOfExtra("argParams", argParams, paramNames)
        BaseModule.warnOfExtra("auxParams", auxParams, auxNames)
      }
      owning(allocateParams())
      // Initialize in the order of names, so that a seed always gives the same parameters.
      paramNames.foreach(name => initOne(name, this.argParams(name), argParams, initializer, allowMissing))
      auxNames.foreach { name =>
        try initOne(name, this.auxParams(name), auxParams, initializer, allowMissing)
        catch { case _: NoInitializationRule if userStates.contains(name) => this.auxParams(name).set(0f) }
      }
      paramsInitialized = true
      paramsDirty = false
      group.setParams(this.argParams, this.auxParams)
    }

  /** The auxiliary states of user-defined operators, which are zero if the initializer has no rule for their names. */
  private lazy val userStates: Set[String] = {
    val nodes = NetworkGraph(symbolVar, null).nodes
    val inputs = nodes.filter(_.op == "Custom").flatMap(_.inputs).map { case (input, _) => nodes(input) }
    inputs.filter(_.isVariable).map(_.name).toSet.intersect(auxNames.toSet)
  }

  private def initOne(
      name: String,
      target: NDArray,
      values: Map[String, NDArray],
      initializer: Initializer,
      allowMissing: Boolean
  ): Unit =
    if (values == null) { if (initializer != null) initializer(name, target) }
    else
      values.get(name) match {
        case Some(value) =>
          require(value != null, s"the value given for parameter $name is null; omit it or give an array")
          require(
            value.shape == target.shape,
            s"the value given for parameter $name has the shape ${value.shape} but the network needs ${target.shape}"
          )
          if (value ne target) value.copyTo(target)
        case None =>
          require(
            allowMissing,
            s"no value is given for parameter $name; set allowMissing to have the initializer fill it"
          )
          if (initializer != null) initializer(name, target)
      }

  override def setParams(
      argParams: Map[String, NDArray],
      auxParams: Map[String, NDArray],
      allowMissing: Boolean = false,
      forceInit: Boolean = true,
      allowExtra: Boolean = false
  ): Unit =
    if (!allowMissing) initParams(null, argParams, auxParams, allowMissing, forceInit, allowExtra)
    else if (paramsInitialized && !forceInit) {
      BaseModule.logger.warn("the parameters have values and forceInit is false: setParams changes nothing")
    } else {
      require(binded, "the module is not bound; call bind before setParams")
      Seq("argParams" -> argParams, "auxParams" -> auxParams)
        .filter(_._2 != null)
        .foreach(requireNonNull("Module.setParams", _))
      group.setParams(argParams, auxParams, allowExtra)
      paramsDirty = true
      paramsInitialized = true
    }

  override def bind(
      dataShapes: IndexedSeq[DataDesc],
      labelShapes: Option[IndexedSeq[DataDesc]] = None,
      forTraining: Boolean = true,
      inputsNeedGrad: Boolean = false,
      forceRebind: Boolean = false,
      sharedModule: Option[BaseModule] = None,
      gradReq: String = "write"
  ): Unit =
    if (binded && !forceRebind) BaseModule.logger.debug("the module is bound: bind does nothing without forceRebind")
    else {
      require(
        forTraining || !inputsNeedGrad,
        "inputsNeedGrad needs forTraining: gradients are only computed for training"
      )
      requireDataNames(dataShapes, arguments)
      val usedLabels = labelsToBind(labelShapes, arguments)
      if (binded && paramsInitialized) getParams
      val inputs = (dataShapes ++ usedLabels.getOrElse(IndexedSeq.empty)).map(_.name) ++ dataNames ++ labels
      paramNames = arguments.filterNot(inputs.contains)
      requireLoadedParams()
      this.forTraining = forTraining
      this.inputsNeedGrad = inputsNeedGrad
      val old = group
      group = new DataParallelExecutorGroup(
        symbol,
        contexts,
        workLoads,
        paramNames,
        forTraining,
        inputsNeedGrad,
        fixedParamNames.getOrElse(Set.empty),
        gradReq
      )
      owning(group.bindExec(dataShapes, usedLabels, sharedModule.map(groupOf)))
      if (old != null) old.dispose()
      binded = true
      sharedModule match {
        case Some(shared) => shareWith(shared)
        case None         =>
          if (paramsInitialized)
            group.setParams(argParams.filter { case (name, _) => paramNames.contains(name) }, auxParams)
      }
    }

  private def requireLoadedParams(): Unit = checkpoint.foreach { file =>
    val missing = paramNames.filterNot(argParams.contains)
    require(missing.isEmpty, s"the checkpoint $file has no values for ${missing.mkString(", ")}")
    checkpoint = None
  }

  private def groupOf(module: BaseModule): DataParallelExecutorGroup = module match {
    case shared: Module =>
      shared.requireReady()
      shared.group
    case other =>
      throw new IllegalArgumentException(s"sharedModule must be a Module, not a ${other.getClass.getSimpleName}")
  }

  private def shareWith(other: BaseModule): Unit = other match {
    case shared: Module =>
      argParams = shared.argParams
      auxParams = shared.auxParams
      paramsInitialized = true
      if (shared.optimizerInitialized) borrowOptimizer(shared)
    case _ => ()
  }

  /** Checks the names of the inputs. They may include further arguments of the network, such as initial states.
    *
    * @param others arguments that the shapes may name besides `dataNames`
    */
  private def requireDataNames(shapes: IndexedSeq[DataDesc], others: IndexedSeq[String]): Unit = {
    requireNonNull("Module.bind", "dataShapes" -> shapes)
    val names = shapes.map(_.name)
    require(
      dataNames.forall(names.contains) && names.forall(name => dataNames.contains(name) || others.contains(name)),
      s"the data are named ${names.mkString(", ")} but the module expects ${dataNames.mkString(", ")}: " +
        "use the same names in the iterator and in dataNames"
    )
  }

  /** The labels that the network uses; None if it uses none or none are given.
    *
    * @param others arguments that the shapes may name besides `labelNames`
    */
  private def labelsToBind(
      shapes: Option[IndexedSeq[DataDesc]],
      others: IndexedSeq[String]
  ): Option[IndexedSeq[DataDesc]] =
    Option(shapes).flatten
      .filter(descs => descs != null && (descs.map(_.name) ++ labels).exists(arguments.contains))
      .filter(_.nonEmpty)
      .map { descs =>
        val names = descs.map(_.name)
        val used = labels.filter(arguments.contains)
        require(
          used.forall(names.contains) && names.forall(name => labels.contains(name) || others.contains(name)),
          s"the labels are named ${names.mkString(", ")} but the module expects ${labels.mkString(", ")}: " +
            "use the same names in the iterator (labelName, label_name) and in labelNames"
        )
        descs
      }

  /** Binds for other shapes of the inputs, keeping parameters and optimizer.
    *
    * @param dataShapes the inputs
    * @param labelShapes the labels
    */
  def reshape(dataShapes: IndexedSeq[DataDesc], labelShapes: Option[IndexedSeq[DataDesc]] = None): Unit = {
    requireBound()
    val bound = arguments.filterNot(paramNames.contains)
    requireDataNames(dataShapes, bound)
    val usedLabels = labelsToBind(labelShapes, bound)
    owning(group.reshape(dataShapes, usedLabels))
  }

  override def initOptimizer(
      kvstore: String = "local",
      optimizer: Optimizer = new SGD(),
      resetOptimizer: Boolean = true,
      forceInit: Boolean = false
  ): Unit = {
    require(optimizer != null, "optimizer is null; new SGD() is the default")
    requireReady()
    if (optimizerInitialized && !forceInit)
      BaseModule.logger.debug("the module has an optimizer: initOptimizer changes nothing")
    else installOptimizer(owning(Model.createKVStore(kvstore, contexts.length, argParams)), optimizer, resetOptimizer)
  }

  override private[mxnet] def installOptimizer(
      store: (Option[KVStore], Boolean),
      optimizer: Optimizer,
      resetOptimizer: Boolean
  ): Unit = {
    kvstore = store._1
    updateOnKVStore = store._2
    if (resetOptimizer) {
      optimizer.setIdx2Name(indexedNames)
      optimizer.setSymbol(symbol)
      optimizer.setRescaleGrad(1f / (group.getBatchSize * kvstore.fold(1)(_.numWorkers)))
    }
    kvstore.foreach { kv =>
      paramNames.indices.foreach { i =>
        kv.init(paramNames(i), getParams._1(paramNames(i)))
        if (updateOnKVStore) kv.pull(paramNames(i), group.paramArrays(i))
      }
    }
    updater = None
    if (updateOnKVStore) kvstore.foreach(_.setOptimizer(optimizer))
    else updater = Some(owning(Optimizer.getUpdater(optimizer)))
    optimizerInitialized = true
    savedStates.foreach(loadOptimizerStates)
    savedStates = None
  }

  /** Names of the parameters by their indices in the optimizer. */
  private[module] def indexedNames: Map[Int, String] =
    if (updateOnKVStore) paramNames.indices.map(i => i -> paramNames(i)).toMap
    else
      (for (i <- paramNames.indices; device <- contexts.indices) yield paramIndex(i, device) -> paramNames(i)).toMap

  private def paramIndex(param: Int, device: Int): Int = firstParamIndex + param * contexts.length + device

  /** Number of indices of this module's parameters in the optimizer. */
  private[module] def numParamIndices: Int = paramNames.length * contexts.length

  /** Uses the optimizer of another module, with its states. */
  def borrowOptimizer(sharedModule: Module): Unit = {
    requireNonNull("Module.borrowOptimizer", "sharedModule" -> sharedModule)
    require(
      sharedModule.optimizerInitialized,
      "the module whose optimizer is borrowed has none; call its initOptimizer first"
    )
    kvstore = sharedModule.kvstore
    updateOnKVStore = sharedModule.updateOnKVStore
    updater = sharedModule.updater
    firstParamIndex = sharedModule.firstParamIndex
    optimizerInitialized = true
  }

  /** Runs the network on a batch. If its shapes differ from the bound ones, binds for them first.
    *
    * @param isTrain whether it runs in training mode; as bound if None
    */
  override def forward(dataBatch: DataBatch, isTrain: Option[Boolean] = None): Unit = {
    requireNonNull("Module.forward", "dataBatch" -> dataBatch, "isTrain" -> isTrain)
    requireNonNull("Module.forward", "data of the batch" -> dataBatch.data)
    requireReady()
    if (!group.fits(dataBatch)) {
      reshape(
        Module.descsOf(dataBatch.data, dataBatch.provideDataDesc, group.dataShapes, "data"),
        group.labelShapes.map { bound =>
          if (dataBatch.label == null || dataBatch.label.isEmpty) Module.withBatchSize(bound, dataBatch)
          else Module.descsOf(dataBatch.label, dataBatch.provideLabelDesc, bound, "label")
        }
      )
    }
    if (isTrain.getOrElse(forTraining)) warnOfUnusedLabels(dataBatch)
    group.run(dataBatch, isTrain)
  }

  private def warnOfUnusedLabels(batch: DataBatch): Unit =
    if (group.labelShapes.isEmpty && !warnedOfLabels && batch.label != null && batch.label.nonEmpty) {
      val unused = labels.filter(arguments.contains)
      if (unused.nonEmpty)
        BaseModule.logger.warn(
          s"the labels of the batches are not used, because the module is bound without labels: ${unused.mkString(", ")} " +
            "is zero; give labelShapes to bind"
        )
      warnedOfLabels = true
    }

  override def backward(outGrads: Array[NDArray] = Array.empty): Unit = {
    requireNonNull("Module.backward", "outGrads" -> outGrads)
    requireReady()
    group.backward(outGrads)
  }

  override def update(): Unit = {
    requireTrainable()
    // Push all gradients before any is pulled, because distributed stores sum them in the background.
    kvstore.foreach(kv => trainedIndices.foreach(i => kv.push(paramNames(i), group.gradArrays(i))))
    updateByPushed()
  }

  /** Pushes gradients to a distributed store while the last device computes others. A subclass may have its own passes
    * or update.
    */
  override private[mxnet] def trainOn(dataBatch: DataBatch): Unit = kvstore match {
    case Some(kv) if kv.isDistributed && getClass == classOf[Module] =>
      requireTrainable()
      forward(dataBatch, isTrain = Some(true))
      val pushed = trainedIndices.flatMap(i => group.gradArrays(i).map(paramNames(i) -> _))
      group.backwardAndPush(kv, pushed.map(_._1).toArray, pushed.map(_._2).toArray)
      updateByPushed()
    case _ => super.trainOn(dataBatch)
  }

  private def trainedIndices: IndexedSeq[Int] = paramNames.indices.filter(hasGradient)

  /** Updates the parameters after the gradients were pushed. */
  private def updateByPushed(): Unit = {
    paramsDirty = true
    if (updateOnKVStore)
      kvstore.foreach(kv => trainedIndices.foreach(i => kv.pull(paramNames(i), group.paramArrays(i))))
    else updateOnDevices()
  }

  private def updateOnDevices(): Unit = {
    val apply = updater.get
    var i = 0
    while (i < paramNames.length) {
      if (hasGradient(i)) {
        kvstore.foreach(_.pull(paramNames(i), group.gradArrays(i)))
        val params = group.paramArrays(i)
        val grads = group.gradArrays(i)
        var device = 0
        while (device < params.length) {
          apply.update(paramIndex(i, device), grads(device), params(device))
          device += 1
        }
      }
      i += 1
    }
  }

  private def hasGradient(param: Int): Boolean = group.gradArrays(param)(0) != null

  override def getOutputs(): IndexedSeq[IndexedSeq[NDArray]] = {
    requireReady()
    group.getOutputs()
  }

  override def getOutputsMerged(): IndexedSeq[NDArray] = {
    requireReady()
    group.getOutputsMerged()
  }

  override def getInputGrads(): IndexedSeq[IndexedSeq[NDArray]] = {
    requireReady()
    group.getInputGrads()
  }

  override def getInputGradsMerged(): IndexedSeq[NDArray] = {
    requireReady()
    group.getInputGradsMerged()
  }

  override def updateMetric(evalMetric: EvalMetric, labels: IndexedSeq[NDArray]): Unit = {
    requireNonNull("Module.updateMetric", "evalMetric" -> evalMetric, "labels" -> labels)
    requireReady()
    group.updateMetric(evalMetric, labels)
  }

  override def installMonitor(monitor: Monitor): Unit = {
    requireNonNull("Module.installMonitor", "monitor" -> monitor)
    requireBound()
    group.installMonitor(monitor)
  }

  /** Writes the states of the optimizer, such as momentum, to a file. */
  def saveOptimizerStates(fname: String): Unit = {
    requireNonNull("Module.saveOptimizerStates", "fname" -> fname)
    require(optimizerInitialized, "the module has no optimizer whose states could be saved; call initOptimizer first")
    if (updateOnKVStore) kvstore.foreach(_.saveOptimizerStates(fname))
    else {
      val states = cachedStates.serializeState()
      AtomicFile.write(fname)(_.write(states))
    }
  }

  /** Reads the states of the optimizer from a file that [[saveOptimizerStates]] wrote. */
  def loadOptimizerStates(fname: String): Unit = {
    requireNonNull("Module.loadOptimizerStates", "fname" -> fname)
    require(optimizerInitialized, "the module has no optimizer whose states could be loaded; call initOptimizer first")
    if (updateOnKVStore) kvstore.foreach(_.loadOptimizerStates(fname))
    else {
      Model.requireFile(fname)
      cachedStates.deserializeState(Files.readAllBytes(Paths.get(fname)))
    }
  }

  override private[module] def saveOptimizerState(): Array[Byte] = trainedStates.serializeState()

  override private[module] def restoreOptimizerState(bytes: Array[Byte]): Unit = trainedStates.deserializeState(bytes)

  private def trainedStates: MXKVStoreCachedStates =
    kvstore.filter(_ => updateOnKVStore).fold(cachedStates)(_.cachedStates)

  private def cachedStates: MXKVStoreCachedStates = updater match {
    case Some(states: MXKVStoreCachedStates) => states
    case _ => throw new IllegalStateException("the updater of this module keeps no states")
  }

  /** Writes the network to `prefix-symbol.json` and the parameters to `prefix-NNNN.params`.
    *
    * @param epoch the number NNNN
    * @param saveOptStates whether to write the states of the optimizer to `prefix-NNNN.states`
    */
  def saveCheckpoint(prefix: String, epoch: Int, saveOptStates: Boolean = false): Unit = {
    requireNonNull("Module.saveCheckpoint", "prefix" -> prefix)
    symbol.save(Model.symbolFile(prefix))
    saveParams(Model.paramsFile(prefix, epoch))
    if (saveOptStates) saveOptimizerStates(Model.statesFile(prefix, epoch))
  }
}

/** Loads and builds modules. */
object Module {

  /** A module from the files that [[Module.saveCheckpoint]] or MXNet wrote. Binding it sets its parameters.
    *
    * @param prefix the files' prefix
    * @param epoch number of the parameters' file
    * @param loadOptimizerStates whether `initOptimizer` restores the states from `prefix-NNNN.states`
    */
  def loadCheckpoint(
      prefix: String,
      epoch: Int,
      loadOptimizerStates: Boolean = false,
      dataNames: IndexedSeq[String] = IndexedSeq("data"),
      labelNames: IndexedSeq[String] = IndexedSeq("softmax_label"),
      contexts: Array[Context] = Array(Context.cpu()),
      workLoadList: Option[IndexedSeq[Float]] = None,
      fixedParamNames: Option[Set[String]] = None
  ): Module = {
    val (symbol, args, aux) = Model.loadCheckpoint(prefix, epoch)
    val module = new Module(symbol, dataNames, labelNames, contexts, workLoadList, fixedParamNames)
    val file = Model.paramsFile(prefix, epoch)
    val extra = (args.keySet -- module.paramNames).toSeq.sorted
    require(
      extra.isEmpty,
      s"the checkpoint $file has values for ${extra.mkString(", ")}, which the network does not have"
    )
    module.checkpoint = Some(file)
    module.argParams = args
    module.auxParams = aux
    module.paramsInitialized = true
    if (loadOptimizerStates) module.savedStates = Some(Model.statesFile(prefix, epoch))
    module
  }

  private def cpuArrayLike(array: NDArray): NDArray = NDArray.zeros(array.shape, Context.cpu(), array.dtype)

  private def descsOf(
      arrays: IndexedSeq[NDArray],
      provided: IndexedSeq[DataDesc],
      bound: IndexedSeq[DataDesc],
      what: String
  ): IndexedSeq[DataDesc] =
    if (provided != null && provided.map(_.name) == bound.map(_.name)) provided
    else {
      require(
        arrays.length == bound.length,
        s"the batch has ${arrays.length} $what arrays but the module is bound for ${bound.length}: " +
          bound.map(_.name).mkString(", ")
      )
      arrays.lazyZip(bound).map((array, desc) => desc.copy(shape = array.shape))
    }

  /** The bound labels, for a batch without labels, with its batch size. */
  private def withBatchSize(bound: IndexedSeq[DataDesc], batch: DataBatch): IndexedSeq[DataDesc] = {
    val size = batch.data.head.shape(0)
    bound.map { desc =>
      val dims = desc.shape.toArray
      dims(DataDesc.getBatchAxis(Option(desc.layout))) = size
      desc.copy(shape = Shape(dims.toIndexedSeq))
    }
  }

  /** Builds a module step by step.
    *
    * @param modelDef the network
    */
  class Builder(private val modelDef: Symbol) {
    private var contexts: Array[Context] = Array(Context.cpu())
    private var workLoadList: IndexedSeq[Float] = null
    private var dataNames: IndexedSeq[String] = IndexedSeq("data")
    private var labelNames: IndexedSeq[String] = IndexedSeq("softmax_label")
    private var fixedParamNames: Set[String] = null

    /** Sets the devices. */
    @varargs def setContext(ctx: Context*): Builder = {
      contexts = ctx.toArray
      this
    }

    /** Sets the names of the inputs. */
    @varargs def setDataNames(name: String*): Builder = {
      dataNames = name.toIndexedSeq
      this
    }

    /** Sets the names of the labels. */
    @varargs def setLabelNames(name: String*): Builder = {
      labelNames = name.toIndexedSeq
      this
    }

    /** Sets the fraction of a batch for each device. */
    @varargs def setWorkLoadList(workloads: Float*): Builder = {
      workLoadList = workloads.toIndexedSeq
      this
    }

    /** Sets the parameters that are not trained. */
    @varargs def setFixedParamNames(name: String*): Builder = {
      fixedParamNames = name.toSet
      this
    }

    /** The module. */
    def build(): Module =
      new Module(modelDef, dataNames, labelNames, contexts, Option(workLoadList), Option(fixedParamNames))
  }
}
