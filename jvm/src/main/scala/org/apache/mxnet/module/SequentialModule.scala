package org.apache.mxnet.module

import org.apache.mxnet._
import org.apache.mxnet.internal.util.Blocks
import org.apache.mxnet.internal.util.NullChecks.requireNonNull
import org.apache.mxnet.optimizer.SGD

import scala.collection.mutable

/** A sequence of modules: the outputs of one are the inputs of the next.
  *
  * {{{
  * val net = new SequentialModule().add(features).add(classifier, "take_labels" -> true, "auto_wiring" -> true)
  * }}}
  */
class SequentialModule extends BaseModule {
  private val layers = mutable.ArrayBuffer.empty[SequentialModule.Layer]
  private var boundLabels: Option[IndexedSeq[DataDesc]] = None

  /** Appends a module. The sequence must then be bound again.
    *
    * @param module the module
    * @param kwargs `take_labels`: the module gets the labels of the batch; `auto_wiring`: its inputs are the outputs of
    *   the previous module by position, whatever their names
    */
  def add(module: BaseModule, kwargs: (String, Boolean)*): SequentialModule = {
    requireNonNull("SequentialModule.add", "module" -> module, "kwargs" -> kwargs)
    kwargs.find { case (key, _) => !SequentialModule.Options.contains(key) }.foreach { case (key, _) =>
      throw new IllegalArgumentException(
        s"$key is not an option of a layer; there are ${SequentialModule.Options.mkString(" and ")}"
      )
    }
    val options = kwargs.toMap
    layers += new SequentialModule.Layer(
      module,
      options.getOrElse(SequentialModule.TakeLabels, false),
      options.getOrElse(SequentialModule.AutoWiring, false)
    )
    binded = false
    paramsInitialized = false
    optimizerInitialized = false
    this
  }

  private def modules: Iterator[BaseModule] = layers.iterator.map(_.module)

  private def first: BaseModule = {
    require(layers.nonEmpty, "the SequentialModule is empty; add a module first")
    layers.head.module
  }

  private def last: BaseModule = {
    require(layers.nonEmpty, "the SequentialModule is empty; add a module first")
    layers.last.module
  }

  override private[mxnet] def heldResources: Iterator[Any] = modules

  /** The network of the last module. */
  override def getSymbol: Symbol = last.getSymbol

  override def dataNames: IndexedSeq[String] = if (layers.isEmpty) IndexedSeq.empty else first.dataNames

  override def outputNames: IndexedSeq[String] = if (layers.isEmpty) IndexedSeq.empty else last.outputNames

  override def dataShapes: IndexedSeq[DataDesc] = {
    requireBound()
    first.dataShapes
  }

  override def labelShapes: IndexedSeq[DataDesc] = {
    requireBound()
    boundLabels.orNull
  }

  /** The outputs of the last module. */
  def outputDesc: IndexedSeq[DataDesc] = {
    requireBound()
    last.outputShapes.map { case (name, shape) => DataDesc(name, shape) }
  }

  override def outputShapes: IndexedSeq[(String, Shape)] = {
    requireBound()
    last.outputShapes
  }

  override def getParams: (Map[String, NDArray], Map[String, NDArray]) = {
    requireReady()
    val all = modules.map(_.getParams).toIndexedSeq
    (all.flatMap(_._1).toMap, all.flatMap(_._2).toMap)
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
      // A value that one module does not need may belong to another, so extra values are checked for all together.
      modules.foreach(_.initParams(initializer, argParams, auxParams, allowMissing, forceInit, allowExtra = true))
      requireDistinctNames()
      if (!allowExtra) warnOfExtra(argParams, auxParams)
      paramsInitialized = true
    }

  private def requireDistinctNames(): Unit = {
    val owners = mutable.HashMap.empty[String, Int]
    for (
      (layer, i) <- layers.iterator.zipWithIndex; (args, aux) = layer.module.getParams;
      name <- args.keysIterator ++ aux.keysIterator
    ) {
      owners.get(name).foreach { other =>
        throw new IllegalArgumentException(
          s"parameter $name is in module $other and in module $i; the names must be different"
        )
      }
      owners(name) = i
    }
  }

  private def warnOfExtra(argParams: Map[String, NDArray], auxParams: Map[String, NDArray]): Unit = {
    val params = modules.map(_.getParams).toSeq
    BaseModule.warnOfExtra("argParams", argParams, params.flatMap(_._1.keys))
    BaseModule.warnOfExtra("auxParams", auxParams, params.flatMap(_._2.keys))
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
        sharedModule == null || sharedModule.isEmpty,
        "a SequentialModule cannot share the parameters of another module"
      )
      require(layers.nonEmpty, "the SequentialModule is empty; add a module first")
      this.forTraining = forTraining
      this.inputsNeedGrad = inputsNeedGrad
      boundLabels = if (layers.exists(_.takeLabels)) labelShapes else None
      var inputs = dataShapes
      layers.zipWithIndex.foreach { case (layer, i) =>
        val module = layer.module
        module.bind(
          if (layer.autoWiring) wire(module, inputs) else inputs,
          if (layer.takeLabels) labelShapes else None,
          forTraining,
          inputsNeedGrad || (forTraining && i > 0),
          forceRebind,
          None,
          gradReq
        )
        inputs = module.outputShapes.map { case (name, shape) => DataDesc(name, shape) }
      }
      binded = true
    }

  private def wire(module: BaseModule, inputs: IndexedSeq[DataDesc]): IndexedSeq[DataDesc] = {
    val names = module.dataNames
    require(
      names.length == inputs.length,
      s"auto_wiring: the module takes ${names.length} inputs (${names.mkString(", ")}) " +
        s"but the previous one has ${inputs.length} outputs"
    )
    names.lazyZip(inputs).map((name, desc) => desc.copy(name = name))
  }

  override def initOptimizer(
      kvstore: String = "local",
      optimizer: Optimizer = new SGD(),
      resetOptimizer: Boolean = true,
      forceInit: Boolean = false
  ): Unit = {
    require(optimizer != null, "optimizer is null; new SGD() is the default")
    requireReady()
    if (!optimizerInitialized || forceInit) {
      install(optimizer, resetOptimizer)(_.initOptimizer(kvstore, optimizer, resetOptimizer, forceInit))
    }
  }

  override private[mxnet] def installOptimizer(
      store: (Option[KVStore], Boolean),
      optimizer: Optimizer,
      resetOptimizer: Boolean
  ): Unit = install(optimizer, resetOptimizer)(_.installOptimizer(store, optimizer, resetOptimizer))

  /** Sets the optimizer of each module, with disjoint indices. */
  private def install(optimizer: Optimizer, resetOptimizer: Boolean)(installIn: BaseModule => Unit): Unit = {
    var names = Map.empty[Int, String]
    var nextIndex = 0
    modules.foreach {
      case single: Module =>
        single.firstParamIndex = nextIndex
        installIn(single)
        names ++= single.indexedNames
        nextIndex += single.numParamIndices
      case other => installIn(other)
    }
    if (resetOptimizer) optimizer.setIdx2Name(names)
    optimizerInitialized = true
  }

  override private[module] def saveOptimizerState(): Array[Byte] =
    Blocks.bytesOf(out => modules.foreach(module => Blocks.write(out, module.saveOptimizerState())))

  override private[module] def restoreOptimizerState(bytes: Array[Byte]): Unit =
    Blocks.parse(bytes, "the states of the optimizer") { in =>
      modules.foreach(_.restoreOptimizerState(Blocks.read(in)))
    }

  override def forward(dataBatch: DataBatch, isTrain: Option[Boolean] = None): Unit = {
    requireReady()
    var batch = dataBatch
    layers.zipWithIndex.foreach { case (layer, i) =>
      layer.module.forward(batch, isTrain)
      if (i < layers.length - 1) {
        val outputs = layer.module.getOutputsMerged()
        batch = new DataBatch(outputs, dataBatch.label, dataBatch.index, dataBatch.pad, dataBatch.bucketKey)
      }
    }
  }

  override def backward(outGrads: Array[NDArray] = Array.empty): Unit = {
    requireReady()
    var grads = outGrads
    layers.zipWithIndex.reverseIterator.foreach { case (layer, i) =>
      layer.module.backward(grads)
      if (i > 0) grads = layer.module.getInputGradsMerged().toArray
    }
  }

  override def update(): Unit = {
    requireTrainable()
    modules.foreach(_.update())
  }

  override def getOutputs(): IndexedSeq[IndexedSeq[NDArray]] = {
    requireReady()
    last.getOutputs()
  }

  override def getOutputsMerged(): IndexedSeq[NDArray] = {
    requireReady()
    last.getOutputsMerged()
  }

  override def getInputGrads(): IndexedSeq[IndexedSeq[NDArray]] = {
    requireReady()
    first.getInputGrads()
  }

  override def getInputGradsMerged(): IndexedSeq[NDArray] = {
    requireReady()
    first.getInputGradsMerged()
  }

  override def updateMetric(evalMetric: EvalMetric, labels: IndexedSeq[NDArray]): Unit = {
    requireReady()
    layers.filter(_.takeLabels).foreach(_.module.updateMetric(evalMetric, labels))
  }

  override def installMonitor(monitor: Monitor): Unit = {
    requireBound()
    modules.foreach(_.installMonitor(monitor))
  }
}

private object SequentialModule {
  val TakeLabels = "take_labels"
  val AutoWiring = "auto_wiring"
  val Options = Seq(TakeLabels, AutoWiring)

  final class Layer(val module: BaseModule, val takeLabels: Boolean, val autoWiring: Boolean)
}
