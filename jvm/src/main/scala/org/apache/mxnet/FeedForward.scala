package org.apache.mxnet

import org.apache.mxnet.Base.CPtrAddress
import org.apache.mxnet.internal.util.{Blocks, Logging}
import org.apache.mxnet.internal.util.NullChecks.requireNonNull
import org.apache.mxnet.module._
import org.apache.mxnet.module.internal.{TrainingCheckpoint, TrainingLoop}
import org.apache.mxnet.optimizer.SGD
import org.slf4j.Logger

import scala.annotation.varargs
import scala.collection.mutable

/** A network with everything needed to train it; `Module` is the newer interface.
  *
  * @param symbol the network; null if `symGen` returns it
  * @param symGen returns the network of a bucket; null without buckets
  * @param ctx the devices
  * @param numEpoch the epoch at which training ends, exclusive; it must be set before training
  * @param epochSize number of batches in an epoch, at least one; one pass over the data if -1
  * @param optimizer updates the parameters
  * @param initializer initializes parameters that have no values
  * @param batchSize batch size, for data that are not batches yet
  * @param argParams parameters by name; may be null or incomplete before training
  * @param auxParams auxiliary states by name
  * @param allowExtraParams whether to ignore parameters that the network does not have, which are otherwise an error
  * @param beginEpoch number of the first epoch
  */
class FeedForward private (
    private var symbol: Symbol,
    symGen: SymbolGenerator,
    ctx: Array[Context],
    numEpoch: Int,
    val epochSize: Int,
    optimizer: Optimizer,
    initializer: Initializer,
    batchSize: Int,
    argParams: Map[String, NDArray],
    auxParams: Map[String, NDArray],
    allowExtraParams: Boolean,
    val beginEpoch: Int
) extends NativeResource {
  requireNonNull("FeedForward", "ctx" -> ctx)
  Seq("argParams" -> argParams, "auxParams" -> auxParams).filter(_._2 != null).foreach(requireNonNull("FeedForward", _))
  require(ctx.nonEmpty, "FeedForward needs at least one context; Context.cpu() is the default")
  require(batchSize > 0, s"batchSize is $batchSize; it must be at least 1")

  def this(
      symbol: Symbol,
      ctx: Array[Context] = Array(Context.cpu()),
      numEpoch: Int = -1,
      epochSize: Int = -1,
      optimizer: Optimizer = new SGD(),
      initializer: Initializer = new Uniform(0.01f),
      batchSize: Int = 128,
      argParams: Map[String, NDArray] = null,
      auxParams: Map[String, NDArray] = null,
      allowExtraParams: Boolean = false,
      beginEpoch: Int = 0
  ) = this(
    symbol,
    null,
    ctx,
    numEpoch,
    epochSize,
    optimizer,
    initializer,
    batchSize,
    argParams,
    auxParams,
    allowExtraParams,
    beginEpoch
  )

  def this(
      symbol: SymbolGenerator,
      ctx: Array[Context],
      numEpoch: Int,
      epochSize: Int,
      optimizer: Optimizer,
      initializer: Initializer,
      batchSize: Int,
      argParams: Map[String, NDArray],
      auxParams: Map[String, NDArray],
      allowExtraParams: Boolean,
      beginEpoch: Int
  ) = this(
    null,
    symbol,
    ctx,
    numEpoch,
    epochSize,
    optimizer,
    initializer,
    batchSize,
    argParams,
    auxParams,
    allowExtraParams,
    beginEpoch
  )

  /** Logs the progress of training. */
  val logger: Logger = FeedForward.logger

  // The model owns no native memory itself. As a NativeResource it can be disposed by a ResourceScope, with its
  // parameters.
  override def nativeAddress: CPtrAddress = System.identityHashCode(this).toLong
  override def nativeDeAllocator: CPtrAddress => Int = _ => 0
  override val ref: NativeResourceRef = register()
  override val bytesAllocated: Long = 0L

  private var currentArgs = argParams
  private var currentAux = auxParams
  private var argumentsChecked = false
  private var monitor: Option[Monitor] = None

  // Settings of a builder for which MXNet's overloads of `fit` have no parameters.
  private var callbacks = IndexedSeq.empty[TrainingCallback]
  private var checkpoint: Option[String] = None
  private var resumes = false

  /** The executor of the last prediction. */
  var predExec: Executor = null

  if (symGen == null) checkArguments()

  /** Parameters by name. */
  def getArgParams: Map[String, NDArray] = currentArgs

  /** Auxiliary states by name. */
  def getAuxParams: Map[String, NDArray] = currentAux

  /** Checks that the names in the network are distinct, and drops unknown parameters if they are allowed. */
  def checkArguments(): Unit = if (!argumentsChecked) {
    require(symbol != null, "the network is null")
    FeedForward.requireDistinct("arguments", symbol.listArguments())
    FeedForward.requireDistinct("auxiliary states", symbol.listAuxiliaryStates())
    if (allowExtraParams) {
      val arguments = symbol.listArguments().toSet
      val states = symbol.listAuxiliaryStates().toSet
      if (currentArgs != null) currentArgs = currentArgs.filter { case (name, _) => arguments.contains(name) }
      if (currentAux != null) currentAux = currentAux.filter { case (name, _) => states.contains(name) }
    }
    argumentsChecked = true
  }

  /** Sets a monitor of the executors that train. */
  def setMonitor(m: Monitor): Unit = monitor = Option(m)

  /** Removes the monitor. */
  def unsetMonitor(): Unit = monitor = None

  /** Runs the network on data, on the first device.
    *
    * @param data the data, which are reset first
    * @param numBatch maximum number of batches; -1 for all
    * @return each output, concatenated over the batches, without padding
    */
  def predict(data: DataIter, numBatch: Int = -1): Array[NDArray] = {
    data.reset()
    val inputs = data.provideDataDesc
    preparePredictor(inputs)
    val outputs = predExec.outputs.map(_ => mutable.ArrayBuffer.empty[NDArray])
    var count = 0
    while (count != numBatch && data.hasNext) {
      val batch = data.next()
      inputs.lazyZip(batch.data).foreach((desc, array) => array.copyTo(predExec.argDict(desc.name)))
      predExec.forward(isTrain = false)
      outputs.lazyZip(predExec.outputs).foreach { (parts, output) =>
        val kept = output.slice(0, output.shape(0) - batch.pad)
        parts += kept.copy()
        kept.dispose()
      }
      batch.release()
      count += 1
    }
    require(count > 0, "there is no batch to predict: the iterator has no data")
    val joined = outputs.map(parts => NDArray.concatenate(parts.toSeq, axis = 0, alwaysCopy = true))
    outputs.foreach(_.foreach(_.dispose()))
    joined
  }

  /** Runs `body`, whose resources live as long as this model. */
  private def owning[A](body: => A): A = ResourceScope.ownedIn(scope)(body)

  private def preparePredictor(inputs: IndexedSeq[DataDesc]): Unit = {
    require(
      symbol != null,
      "the model has no network yet: the symbol generator creates it when the model is trained"
    )
    require(currentArgs != null, "the model has no parameters; train it, load it, or give argParams")
    val shapes = inputs.map(desc => desc.name -> desc.shape).toMap
    val isBound = predExec != null && !predExec.isDisposed &&
      shapes.forall { case (name, shape) => predExec.argDict.get(name).exists(_.shape == shape) }
    if (!isBound) {
      if (predExec != null) predExec.dispose()
      predExec = owning(symbol.simpleBind(ctx(0), "null", shapes))
    }
    predExec.copyParamsFrom(currentArgs, currentAux, allowExtraParams)
  }

  /** Trains the parameters.
    *
    * @param trainData the training data
    * @param evalData validation data, evaluated after each epoch; null for none
    * @param evalMetric the metric
    * @param kvStoreType type of the KVStore that combines several devices
    * @param epochEndCallback called after each epoch; null for none
    * @param batchEndCallback called after each batch; null for none
    * @param logger logger of the progress
    * @param workLoadList fraction of the batch for each device, in any unit; null for equal fractions
    */
  def fit(
      trainData: DataIter,
      evalData: DataIter,
      evalMetric: EvalMetric,
      kvStoreType: String,
      epochEndCallback: EpochEndCallback,
      batchEndCallback: BatchEndCallback,
      logger: Logger,
      workLoadList: Seq[Float]
  ): Unit = train(
    trainData,
    evalData,
    args => Model.createKVStore(kvStoreType, ctx.length, args),
    fitParamsOf(evalMetric, epochEndCallback, batchEndCallback, logger),
    workLoadList,
    resumes
  )

  /** As above, with the default logger and equal fractions of the batch. */
  def fit(
      trainData: DataIter,
      evalData: DataIter,
      evalMetric: EvalMetric,
      kvStoreType: String,
      epochEndCallback: EpochEndCallback,
      batchEndCallback: BatchEndCallback
  ): Unit = fit(trainData, evalData, evalMetric, kvStoreType, epochEndCallback, batchEndCallback, logger, null)

  /** As above, without callbacks. */
  def fit(trainData: DataIter, evalData: DataIter, evalMetric: EvalMetric, kvStoreType: String): Unit =
    fit(trainData, evalData, evalMetric, kvStoreType, null, null)

  /** As above, with the key-value store `local`. */
  def fit(trainData: DataIter, evalData: DataIter, evalMetric: EvalMetric): Unit =
    fit(trainData, evalData, evalMetric, "local")

  /** As above, with the metric [[Accuracy]]. */
  def fit(trainData: DataIter, evalData: DataIter): Unit = fit(trainData, evalData, new Accuracy())

  /** As above, with an existing key-value store instead of its type. */
  def fit(
      trainData: DataIter,
      evalData: DataIter,
      evalMetric: EvalMetric,
      kv: KVStore,
      epochEndCallback: EpochEndCallback,
      batchEndCallback: BatchEndCallback,
      logger: Logger,
      workLoadList: Seq[Float]
  ): Unit = train(
    trainData,
    evalData,
    _ => Model.createKVStore(kv),
    fitParamsOf(evalMetric, epochEndCallback, batchEndCallback, logger),
    workLoadList,
    resumes
  )

  /** As above, with an existing key-value store, the default logger and equal fractions of the batch. */
  def fit(
      trainData: DataIter,
      evalData: DataIter,
      evalMetric: EvalMetric,
      kvStore: KVStore,
      epochEndCallback: EpochEndCallback,
      batchEndCallback: BatchEndCallback
  ): Unit = fit(trainData, evalData, evalMetric, kvStore, epochEndCallback, batchEndCallback, logger, null)

  /** As above, with a given key-value store and without callbacks. */
  def fit(trainData: DataIter, evalData: DataIter, evalMetric: EvalMetric, kvStore: KVStore): Unit =
    fit(trainData, evalData, evalMetric, kvStore, null, null)

  /** As above, with a given key-value store and the metric [[Accuracy]]. */
  def fit(trainData: DataIter, evalData: DataIter, kvStore: KVStore): Unit =
    fit(trainData, evalData, new Accuracy(), kvStore)

  /** Trains the parameters as `Module.fit` does.
    *
    * @param trainData the training data
    * @param evalData validation data, evaluated after each epoch; null for none
    * @param fitParams metrics, callbacks, type of the KVStore, monitor and checkpoint; optimizer, initializer, parameters to
    *   start from and the first epoch are those of the model
    */
  def fit(trainData: DataIter, evalData: DataIter, fitParams: FitParams): Unit = {
    require(fitParams != null, "fitParams is null")
    fit(trainData, evalData, fitParams, fitParams.resume)
  }

  /** Trains the parameters, from the start or from the checkpoint of another process; see `Module.fit`.
    *
    * @param resume whether to continue after the last epoch in the checkpoint; without a checkpoint, training starts
    *   from the beginning
    */
  def fit(trainData: DataIter, evalData: DataIter, fitParams: FitParams, resume: Boolean): Unit = {
    require(fitParams != null, "fitParams is null")
    val params = fitParams.copy()
    train(
      trainData,
      evalData,
      args => params.store.fold(Model.createKVStore(params.kvstore, ctx.length, args))(Model.createKVStore),
      params,
      null,
      resume
    )
  }

  private def fitParamsOf(
      evalMetric: EvalMetric,
      epochEndCallback: EpochEndCallback,
      batchEndCallback: BatchEndCallback,
      logger: Logger
  ): FitParams = {
    val params = new FitParams()
      .setEvalMetric(evalMetric)
      .setEpochEndCallback(epochEndCallback)
      .setBatchEndCallback(batchEndCallback)
      .addCallback(callbacks: _*)
      .setCheckpoint(checkpoint.orNull)
      .setResume(resumes)
    params.logger = logger
    params
  }

  private def train(
      trainData: DataIter,
      evalData: DataIter,
      store: Map[String, NDArray] => (Option[KVStore], Boolean),
      params: FitParams,
      workLoadList: Seq[Float],
      resume: Boolean
  ): Unit = {
    require(
      numEpoch > beginEpoch,
      s"numEpoch is $numEpoch and beginEpoch $beginEpoch, so there is no epoch to train; set numEpoch"
    )
    if (symGen != null) {
      symbol = owning(symGen.generate(trainData.defaultBucketKey))
      checkArguments()
    }
    params.setOptimizer(optimizer).setBeginEpoch(beginEpoch)
    monitor.foreach(params.setMonitor)
    val module = owning(newModule(trainData, Option(workLoadList).map(_.toIndexedSeq)))
    module.bind(trainData.provideDataDesc, Option(trainData.provideLabelDesc), forTraining = true)
    params.monitor.foreach(module.installMonitor)
    module.initParams(initializer, currentArgs, currentAux, allowMissing = true, allowExtra = allowExtraParams)
    val saved = TrainingCheckpoint.toResume(params, resume)
    saved.foreach(_.restoreParams(module))
    module.installOptimizer(owning(store(module.getParams._1)), optimizer, resetOptimizer = true)
    // Programs divide the number of instances by the batch size, which is 0 for little data.
    val batchesPerEpoch = if (epochSize == 0) 1 else epochSize
    new TrainingLoop(module, trainData, Option(evalData), numEpoch, batchesPerEpoch, params).run(saved)
    val (args, aux) = module.getParams
    currentArgs = args
    currentAux = aux
  }

  private def newModule(data: DataIter, workLoads: Option[IndexedSeq[Float]]): BaseModule = {
    val dataNames = data.provideDataDesc.map(_.name)
    val labelNames = data.provideLabelDesc.map(_.name)
    if (symGen == null) new Module(symbol, dataNames, labelNames, ctx, workLoads)
    else {
      def network(key: AnyRef): Symbol = if (key == data.defaultBucketKey) symbol else symGen.generate(key)
      new BucketingModule(key => (network(key), dataNames, labelNames), data.defaultBucketKey, ctx, workLoads)
    }
  }

  /** Writes the network to `prefix-symbol.json` and the parameters to `prefix-NNNN.params`.
    *
    * @param epoch the number NNNN; -1 for `numEpoch`
    */
  def save(prefix: String, epoch: Int = -1): Unit = {
    val number = if (epoch < 0) numEpoch else epoch
    require(number >= 0, "the epoch number is unknown; pass it to save")
    Model.saveCheckpoint(prefix, number, symbol, withValues(currentArgs), Option(currentAux).getOrElse(Map.empty))
  }

  private def withValues(args: Map[String, NDArray]): Map[String, NDArray] = {
    require(args != null, "the model has no parameters; train it, load it, or give argParams")
    args
  }

  /** The network and its parameters as bytes, for [[FeedForward.deserialize]]. */
  def serialize(): Array[Byte] = {
    def bytesOf(arrays: Map[String, NDArray]): Map[String, Array[Byte]] = arrays.map { case (name, array) =>
      name -> array.serialize()
    }
    FeedForward.write(
      new Model.SerializedModel(
        symbol.toJson,
        bytesOf(withValues(currentArgs)),
        bytesOf(Option(currentAux).getOrElse(Map.empty))
      )
    )
  }

  override private[mxnet] def companions: Iterator[NativeResource] = ownResources ++ Option(symbol)

  /** What is freed with this model. The network may belong to others. */
  private def ownResources: Iterator[NativeResource] =
    Iterator(currentArgs, currentAux).filter(_ != null).flatMap(_.valuesIterator) ++ Option(predExec)

  override private[mxnet] def dispose(removeFromScope: Boolean): Unit = {
    if (!isDisposed) ownResources.toArray.foreach(_.dispose())
    super.dispose(removeFromScope)
  }
}

/** Loads and builds models. */
object FeedForward {
  private val logger: Logger = Logging.of(classOf[FeedForward])

  private[mxnet] def requireDistinct(kind: String, names: IndexedSeq[String]): Unit = {
    val repeated = names.diff(names.distinct)
    require(
      repeated.isEmpty,
      s"the network has several $kind named ${repeated.distinct.mkString(", ")}; the names must be different"
    )
  }

  /** A model from the files that [[FeedForward.save]] or MXNet wrote.
    *
    * @param prefix the files' prefix
    * @param epoch number of the parameter file, and of the first epoch if training continues
    */
  def load(
      prefix: String,
      epoch: Int,
      ctx: Array[Context] = Array(Context.cpu()),
      numEpoch: Int = -1,
      epochSize: Int = -1,
      optimizer: Optimizer = new SGD(),
      initializer: Initializer = new Uniform(0.01f),
      batchSize: Int = 128,
      allowExtraParams: Boolean = false
  ): FeedForward = {
    val (symbol, args, aux) = Model.loadCheckpoint(prefix, epoch)
    new FeedForward(
      symbol,
      ctx,
      numEpoch,
      epochSize,
      optimizer,
      initializer,
      batchSize,
      args,
      aux,
      allowExtraParams,
      epoch
    )
  }

  /** A model from the bytes that [[FeedForward.serialize]] made.
    *
    * @param epoch number of the first epoch if training continues
    */
  def deserialize(
      bytes: Array[Byte],
      epoch: Int = 0,
      ctx: Array[Context] = Array(Context.cpu()),
      numEpoch: Int = -1,
      epochSize: Int = -1,
      optimizer: Optimizer = new SGD(),
      initializer: Initializer = new Uniform(0.01f),
      batchSize: Int = 128,
      allowExtraParams: Boolean = false
  ): FeedForward = {
    val model = read(bytes)
    def arrays(content: Map[String, Array[Byte]]): Map[String, NDArray] =
      content.map { case (name, array) => name -> NDArray.deserialize(array) }
    new FeedForward(
      Symbol.loadJson(model.symbol),
      ctx,
      numEpoch,
      epochSize,
      optimizer,
      initializer,
      batchSize,
      arrays(model.argParams),
      arrays(model.auxParams),
      allowExtraParams,
      epoch
    )
  }

  /** First four bytes of a serialized model: "FMFF". */
  private val Magic = 0x464d4646

  private def write(model: Model.SerializedModel): Array[Byte] = Blocks.bytesOf { out =>
    out.writeInt(Magic)
    Blocks.writeText(out, model.symbol)
    Seq(model.argParams, model.auxParams).foreach { params =>
      Blocks.writeAll(out, params.toSeq.sortBy(_._1)) { case (name, content) =>
        Blocks.writeText(out, name)
        Blocks.write(out, content)
      }
    }
  }

  private def read(bytes: Array[Byte]): Model.SerializedModel = {
    requireNonNull("FeedForward.deserialize", "bytes" -> bytes)
    Blocks.parse(bytes, "the serialized model") { in =>
      def params() = Blocks.readAll(in)(Blocks.readText(in) -> Blocks.read(in)).toMap
      if (in.readInt() != Magic) throw new MXNetError("these bytes were not written by FeedForward.serialize")
      new Model.SerializedModel(Blocks.readText(in), params(), params())
    }
  }

  /** A builder of a model for one network. */
  def newBuilder(modelDef: Symbol): Builder = {
    requireNonNull("FeedForward.newBuilder", "modelDef" -> modelDef)
    new Builder(modelDef, null)
  }

  /** A builder of a model with buckets. */
  def newBuilder(symGen: SymbolGenerator): Builder = {
    requireNonNull("FeedForward.newBuilder", "symGen" -> symGen)
    new Builder(null, symGen)
  }

  /** Builds a model step by step, and trains it. */
  class Builder private[FeedForward] (modelDef: Symbol, symGen: SymbolGenerator) {
    private var ctx: Array[Context] = Array(Context.cpu())
    private var numEpoch = -1
    private var epochSize = -1
    private var optimizer: Optimizer = new SGD()
    private var initializer: Initializer = new Uniform(0.01f)
    private var batchSize = 128
    private var argParams: Map[String, NDArray] = null
    private var auxParams: Map[String, NDArray] = null
    private var allowExtraParams = false
    private var beginEpoch = 0
    private var trainData: DataIter = null
    private var evalData: DataIter = null
    private var evalMetric: EvalMetric = new Accuracy()
    private var kvStore: Option[KVStore] = None
    private var kvStoreType = "local"
    private var epochEndCallback: EpochEndCallback = null
    private var batchEndCallback: BatchEndCallback = null
    private var fitLogger: Logger = FeedForward.logger
    private var workLoadList: Seq[Float] = null
    private var callbacks = IndexedSeq.empty[TrainingCallback]
    private var checkpoint: Option[String] = None
    private var resumes = false

    private def set(change: => Unit): Builder = {
      change
      this
    }

    /** Sets the devices. */
    def setContext(ctx: Array[Context]): Builder = set(this.ctx = ctx)

    /** Sets the epoch at which training ends, exclusive. */
    def setNumEpoch(numEpoch: Int): Builder = set(this.numEpoch = numEpoch)

    /** Sets the number of batches in an epoch. */
    def setEpochSize(epochSize: Int): Builder = set(this.epochSize = epochSize)

    /** Sets the optimizer. */
    def setOptimizer(opt: Optimizer): Builder = set(this.optimizer = opt)

    /** Sets the initializer of parameters without values. */
    def setInitializer(initializer: Initializer): Builder = set(this.initializer = initializer)

    /** Sets the batch size. */
    def setBatchSize(batchSize: Int): Builder = set(this.batchSize = batchSize)

    /** Sets initial parameters. */
    def setArgParams(argParams: Map[String, NDArray]): Builder = set(this.argParams = argParams)

    /** Sets initial auxiliary states. */
    def setAuxParams(auxParams: Map[String, NDArray]): Builder = set(this.auxParams = auxParams)

    /** Sets whether to ignore parameters that the network does not have. */
    def setAllowExtraParams(allowExtraParams: Boolean): Builder = set(this.allowExtraParams = allowExtraParams)

    /** Sets the number of the first epoch. */
    def setBeginEpoch(beginEpoch: Int): Builder = set(this.beginEpoch = beginEpoch)

    /** Sets the training data of [[build]]. */
    def setTrainData(trainData: DataIter): Builder = set(this.trainData = trainData)

    /** Sets the validation data. */
    def setEvalData(evalData: DataIter): Builder = set(this.evalData = evalData)

    /** Sets the metric. */
    def setEvalMetric(metric: EvalMetric): Builder = set(this.evalMetric = metric)

    /** Sets the store that combines several devices. */
    def setKVStore(kv: KVStore): Builder = set(this.kvStore = Option(kv))

    /** Sets the type of the store that combines several devices. */
    def setKVStore(kv: String): Builder = set { this.kvStoreType = kv; this.kvStore = None }

    /** Sets the callback after each epoch. */
    def setEpochEndCallback(epochEndCallback: EpochEndCallback): Builder = set(this.epochEndCallback = epochEndCallback)

    /** Sets the callback after each batch. */
    def setBatchEndCallback(batchEndCallback: BatchEndCallback): Builder = set(this.batchEndCallback = batchEndCallback)

    /** Sets the logger. */
    def setLogger(logger: Logger): Builder = set(this.fitLogger = logger)

    /** Sets the fraction of a batch for each device. */
    def setWorkLoadList(workLoadList: Seq[Float]): Builder = set(this.workLoadList = workLoadList)

    /** Adds training callbacks. */
    @varargs def addCallback(callbacks: TrainingCallback*): Builder = {
      requireNonNull("FeedForward.Builder.addCallback", "callbacks" -> callbacks)
      set(this.callbacks ++= callbacks)
    }

    /** Sets the checkpoint file, which is written after each epoch; null for none. */
    def setCheckpoint(file: String): Builder = set(this.checkpoint = Option(file))

    /** Sets whether to continue after the last epoch in the checkpoint, if there is one. */
    def setResume(resume: Boolean): Builder = set(this.resumes = resume)

    /** The trained model. */
    def build(): FeedForward = {
      require(
        trainData != null,
        "Training data missing: give them to setTrainData, or call setup() for a model that is not trained"
      )
      val model = setup()
      model.train(
        trainData,
        evalData,
        args => kvStore.fold(Model.createKVStore(kvStoreType, ctx.length, args))(Model.createKVStore),
        model.fitParamsOf(evalMetric, epochEndCallback, batchEndCallback, fitLogger),
        workLoadList,
        resumes
      )
      model
    }

    /** The model, not trained. */
    def setup(): FeedForward = {
      val model = new FeedForward(
        modelDef,
        symGen,
        ctx,
        numEpoch,
        epochSize,
        optimizer,
        initializer,
        batchSize,
        argParams,
        auxParams,
        allowExtraParams,
        beginEpoch
      )
      model.callbacks = callbacks
      model.checkpoint = checkpoint
      model.resumes = resumes
      model
    }
  }
}
