package org.apache.mxnet.module

import org.apache.mxnet._
import org.apache.mxnet.optimizer.SGD

import scala.collection.mutable

/** A module for a family of networks that share their parameters, such as a recurrent network unrolled for different
  * lengths. The bucket key of a batch selects the network, which is bound when it is first used.
  *
  * @param symGen returns the network of a bucket key, the names of its inputs and the names of its labels
  * @param defaultBucketKey key of the largest network, which is bound first
  * @param contexts the devices
  * @param workLoadList fraction of the batch for each device
  * @param fixedParamNames parameters that are not trained
  */
class BucketingModule(
    symGen: AnyRef => (Symbol, IndexedSeq[String], IndexedSeq[String]),
    defaultBucketKey: AnyRef,
    contexts: Array[Context] = Array(Context.cpu()),
    workLoadList: Option[IndexedSeq[Float]] = None,
    fixedParamNames: Option[Set[String]] = None
) extends BaseModule {
  require(symGen != null, "symGen is null; give a function that makes the network of a bucket")
  require(defaultBucketKey != null, "defaultBucketKey is null; give the key of the largest network")

  private val buckets = mutable.HashMap.empty[AnyRef, Module]
  private var currentKey: AnyRef = defaultBucketKey
  private var gradReq = "write"
  private lazy val defaultModule: Module = newModule(defaultBucketKey)
  private def current: Module = buckets.getOrElse(currentKey, defaultModule)

  /** The bucket that updated the parameters last, so that they are newer than `argParams`. */
  private var lastUpdated: Option[Module] = None

  private def newModule(key: AnyRef): Module = owning {
    val (network, dataNames, labelNames) = symGen(key)
    new Module(network, dataNames, labelNames, contexts, workLoadList, fixedParamNames)
  }

  override private[mxnet] def heldResources: Iterator[Any] = buckets.valuesIterator

  override def getSymbol: Symbol = current.getSymbol

  override def dataNames: IndexedSeq[String] = current.dataNames

  override def outputNames: IndexedSeq[String] = current.outputNames

  override def dataShapes: IndexedSeq[DataDesc] = current.dataShapes

  override def labelShapes: IndexedSeq[DataDesc] = current.labelShapes

  override def outputShapes: IndexedSeq[(String, Shape)] = current.outputShapes

  override def getParams: (Map[String, NDArray], Map[String, NDArray]) = {
    requireReady()
    lastUpdated.getOrElse(current).getParams
  }

  override def setParams(
      argParams: Map[String, NDArray],
      auxParams: Map[String, NDArray],
      allowMissing: Boolean = false,
      forceInit: Boolean = true,
      allowExtra: Boolean = false
  ): Unit = {
    require(binded, "the module is not bound; call bind before setParams")
    current.setParams(argParams, auxParams, allowMissing, forceInit, allowExtra)
    paramsInitialized = true
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
      current.initParams(initializer, argParams, auxParams, allowMissing, forceInit, allowExtra)
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
  ): Unit = {
    require(sharedModule.isEmpty, "a BucketingModule cannot share the parameters of another module")
    if (binded && !forceRebind) BaseModule.logger.debug("the module is bound: bind does nothing without forceRebind")
    else {
      val saved = if (binded && paramsInitialized) Some(getParams) else None
      this.forTraining = forTraining
      this.inputsNeedGrad = inputsNeedGrad
      this.gradReq = gradReq
      buckets.clear()
      currentKey = defaultBucketKey
      lastUpdated = None
      defaultModule.bind(dataShapes, labelShapes, forTraining, inputsNeedGrad, forceRebind, None, gradReq)
      buckets(defaultBucketKey) = defaultModule
      binded = true
      saved.foreach { case (args, aux) => defaultModule.setParams(args, aux) }
    }
  }

  /** Switches to another bucket; binds it if it is new.
    *
    * @param bucketKey the bucket
    * @param dataShapes its inputs
    * @param labelShapes its labels
    */
  def switchBucket(
      bucketKey: AnyRef,
      dataShapes: IndexedSeq[DataDesc],
      labelShapes: Option[IndexedSeq[DataDesc]] = None
  ): Unit = {
    require(binded, "the module is not bound; call bind before switchBucket")
    if (!buckets.contains(bucketKey)) {
      val module = newModule(bucketKey)
      module.bind(
        dataShapes,
        labelShapes,
        forTraining,
        inputsNeedGrad,
        forceRebind = false,
        Some(defaultModule),
        gradReq
      )
      buckets(bucketKey) = module
    }
    currentKey = bucketKey
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
      val store = owning(Model.createKVStore(kvstore, contexts.length, getParams._1))
      installOptimizer(store, optimizer, resetOptimizer)
    }
  }

  override private[mxnet] def installOptimizer(
      store: (Option[KVStore], Boolean),
      optimizer: Optimizer,
      resetOptimizer: Boolean
  ): Unit = {
    defaultModule.installOptimizer(store, optimizer, resetOptimizer)
    buckets.values.filter(_ ne defaultModule).foreach(_.borrowOptimizer(defaultModule))
    optimizerInitialized = true
  }

  override private[module] def saveOptimizerState(): Array[Byte] = defaultModule.saveOptimizerState()

  override private[module] def restoreOptimizerState(bytes: Array[Byte]): Unit =
    defaultModule.restoreOptimizerState(bytes)

  /** Binds the bucket of a batch if it is new, without switching to it. */
  def prepare(dataBatch: DataBatch): Unit = {
    requireReady()
    val key = currentKey
    switchTo(dataBatch)
    currentKey = key
  }

  private def switchTo(batch: DataBatch): Unit = {
    val key = if (batch.bucketKey == null) defaultBucketKey else batch.bucketKey
    if (key != currentKey) {
      require(
        buckets.contains(key) || batch.provideDataDesc != null,
        s"the batch of bucket $key does not describe its inputs; set provideData and provideLabel when it is built"
      )
      switchBucket(key, batch.provideDataDesc, Option(batch.provideLabelDesc))
    }
  }

  override def forward(dataBatch: DataBatch, isTrain: Option[Boolean] = None): Unit = {
    requireReady()
    switchTo(dataBatch)
    current.forward(dataBatch, isTrain)
  }

  override def backward(outGrads: Array[NDArray] = Array.empty): Unit = {
    requireReady()
    current.backward(outGrads)
  }

  override def update(): Unit = {
    requireTrainable()
    current.update()
    lastUpdated = Some(current)
  }

  override def getOutputs(): IndexedSeq[IndexedSeq[NDArray]] = current.getOutputs()

  override def getOutputsMerged(): IndexedSeq[NDArray] = current.getOutputsMerged()

  override def getInputGrads(): IndexedSeq[IndexedSeq[NDArray]] = current.getInputGrads()

  override def getInputGradsMerged(): IndexedSeq[NDArray] = current.getInputGradsMerged()

  override def updateMetric(evalMetric: EvalMetric, labels: IndexedSeq[NDArray]): Unit =
    current.updateMetric(evalMetric, labels)

  override def installMonitor(monitor: Monitor): Unit = {
    requireBound()
    buckets.values.foreach(_.installMonitor(monitor))
  }
}
