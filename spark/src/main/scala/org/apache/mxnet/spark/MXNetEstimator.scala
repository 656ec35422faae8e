package org.apache.mxnet.spark

import java.io.IOException
import java.nio.file.Files

import scala.util.Using

import org.apache.hadoop.fs.{Path => HadoopPath}
import org.apache.mxnet.Callback.{EpochRecord, Progress}
import org.apache.mxnet._
import org.apache.mxnet.internal.util.FieldState
import org.apache.mxnet.internal.util.NullChecks.requireNonNull
import org.apache.mxnet.module.internal.MetricChoice
import org.apache.mxnet.spark.internal._
import org.apache.spark.ml.Estimator
import org.apache.spark.ml.param._
import org.apache.spark.ml.param.shared._
import org.apache.spark.ml.util._
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.functions.{coalesce, lit}
import org.apache.spark.sql.ferromx.TaskSlots
import org.apache.spark.sql.types.{ArrayType, BooleanType, DataType, DoubleType, FloatType, StructType}
import org.apache.spark.sql.{Column, Dataset}
import org.apache.spark.util.SerializableConfiguration
import org.apache.spark.{BarrierTaskContext, SparkConf, SparkContext}
import org.slf4j.LoggerFactory

/** Parameters of [[MXNetEstimator]]. */
trait MXNetEstimatorParams
    extends NetworkParams
    with HasFeaturesCol
    with HasLabelCol
    with HasOutputCol
    with HasSeed
    with HasValidationIndicatorCol {

  /** The network. */
  final val symbol: Param[String] = new Param(this, "symbol", "the network as JSON, with a loss as its first output")

  /** The name of the label. */
  final val labelName: Param[String] = new Param(
    this,
    "labelName",
    "name of the network's argument that takes the label; it ends with 'label'",
    checked[String]("labelName") { name =>
      require(name != null && name.endsWith("label"), s"'$name' does not end with 'label', as names of labels do")
    }
  )

  /** The number of tasks that train. */
  final val numWorkers: IntParam = wholeNumber("numWorkers", "number of tasks that train at the same time", 1)

  /** The number of logical shards. */
  final val numShards: IntParam = wholeNumber(
    "numShards",
    "number of shards of a batch, whose gradients are computed separately; a multiple of numWorkers, by default " +
      "numWorkers. The same numShards gives the same parameters, bit for bit, with any numWorkers",
    1
  )

  /** The number of rows of a batch. */
  final override val batchSize: IntParam =
    wholeNumber("batchSize", "number of rows of a batch over all workers, a multiple of numShards", 1)

  /** The number of epochs. */
  final val numEpoch: IntParam = wholeNumber("numEpoch", "number of passes over the data", 1)

  /** The name of the optimizer. */
  final val optimizer: Param[String] = new Param(
    this,
    "optimizer",
    s"name of the optimizer: ${Registry.optimizers.mkString(", ")}; adadelta has no learning rate",
    checked("optimizer")(Registry.requireOptimizer)
  )

  /** The parameters of the optimizer. */
  final val optimizerParams: StringMapParam = new StringMapParam(
    this,
    "optimizerParams",
    "settings of the optimizer by their names in MXNet, such as momentum or wd; lr_step and lr_factor multiply the " +
      "learning rate by lr_factor after every lr_step batches"
  )

  /** The name of the metric. */
  final val metric: Param[String] = new Param(
    this,
    "metric",
    s"name of the metric of training and validation: ${Registry.metrics.mkString(", ")}",
    checked("metric")(Registry.requireMetric)
  )

  /** Whether a larger or a smaller metric is better. */
  final val metricMode: Param[String] = new Param(
    this,
    "metricMode",
    "whether a larger ('max') or a smaller ('min') metric is better, for earlyStopping; 'auto' knows this library's metrics",
    checked[String]("metricMode") { mode =>
      require(
        MXNetEstimator.MetricModes.contains(mode),
        s"'$mode' is not one of ${MXNetEstimator.MetricModes.mkString(", ")}"
      )
    }
  )

  /** The name of the initializer. */
  final val initializer: Param[String] = new Param(
    this,
    "initializer",
    s"name of the initializer of parameters without a value: ${Registry.initializers.mkString(", ")}",
    checked("initializer")(Registry.requireInitializer)
  )

  /** The parameters of the initializer. */
  final val initializerParams: StringMapParam = new StringMapParam(
    this,
    "initializerParams",
    "settings of the initializer by their names in MXNet, such as magnitude or scale"
  )

  /** The learning rate. */
  final val learningRate: FloatParam =
    new FloatParam(
      this,
      "learningRate",
      "learning rate that the optimizer is created with (> 0)",
      checked[Float]("learningRate")(rate =>
        require(rate > 0f && rate.isFinite, s"it is $rate; give a finite number above 0")
      )
    )

  /** The directory of checkpoints. */
  final val checkpointDir: Param[String] = new Param(
    this,
    "checkpointDir",
    "directory of checkpoints, on a file system that all workers share; failed training resumes from the last one"
  )

  /** The interval of checkpoints in epochs. */
  final val checkpointInterval: IntParam =
    wholeNumber("checkpointInterval", "number of epochs between two checkpoints", 1)

  /** The number of checkpoints that are kept. */
  final val checkpointKeep: IntParam =
    wholeNumber("checkpointKeep", "number of checkpoints of a training that are kept, the last ones; 0 keeps all", 0)

  /** The number of epochs without improvement after which training ends. */
  final val earlyStopping: IntParam = wholeNumber(
    "earlyStopping",
    "number of epochs without a better metric, of the validation rows if there are any, after which training ends; 0 " +
      "disables this",
    0
  )

  /** The maximum time that workers wait for each other. */
  final val timeout: IntParam = wholeNumber("timeout", "seconds that a worker waits for others before it fails", 1)

  setDefault(
    labelName -> "softmax_label",
    optimizer -> "sgd",
    optimizerParams -> Map.empty[String, String],
    metric -> "acc",
    metricMode -> "auto",
    initializer -> "xavier",
    initializerParams -> Map.empty[String, String],
    numWorkers -> 1,
    batchSize -> 128,
    numEpoch -> 10,
    learningRate -> 0.01f,
    checkpointInterval -> 1,
    checkpointKeep -> 2,
    earlyStopping -> 0,
    timeout -> 300,
    outputCol -> "output",
    seed -> 42L
  )

  def getSymbol: String = $(symbol)
  def getLabelName: String = $(labelName)
  def getNumWorkers: Int = $(numWorkers)
  def getNumShards: Int = if (isDefined(numShards)) $(numShards) else $(numWorkers)
  def getNumEpoch: Int = $(numEpoch)
  def getOptimizer: String = $(optimizer)
  def getOptimizerParams: Map[String, String] = mapOf(optimizerParams)
  def getMetric: String = $(metric)
  def getMetricMode: String = $(metricMode)
  def getInitializer: String = $(initializer)
  def getInitializerParams: Map[String, String] = mapOf(initializerParams)
  def getLearningRate: Float = $(learningRate)
  def getCheckpointDir: String = $(checkpointDir)
  def getCheckpointInterval: Int = $(checkpointInterval)
  def getCheckpointKeep: Int = $(checkpointKeep)
  def getEarlyStopping: Int = $(earlyStopping)
  def getTimeout: Int = $(timeout)
}

/** Trains a network on the rows of a table, with tasks that sum their gradients at every step.
  *
  * {{{
  * val model = new MXNetEstimator()
  *   .setSymbol(network)
  *   .setFeaturesCol("pixels")
  *   .setInputShapes(Map("data" -> Shape(1, 28, 28)))
  *   .setOptimizer(rate => new SGD(rate, momentum = 0.9f))
  *   .setNumWorkers(4)
  *   .fit(images)
  * }}}
  *
  * A batch is computed as `numShards` shards. Their gradients are added in a fixed order, so that the same `numShards`
  * gives the same parameters, bit for bit, with any number of workers. Operators that use statistics of the batch, such
  * as BatchNorm, use those of a shard; their moving statistics are averaged over the shards after each epoch. Random
  * numbers of an operator depend only on seed, epoch, step and shard.
  */
class MXNetEstimator(override val uid: String)
    extends Estimator[MXNetModel]
    with MXNetEstimatorParams
    with DefaultParamsWritable {
  def this() = this(Identifiable.randomUID("mxnetEstimator"))

  // Set by code instead of by name; code is not saved. A name that is set later, also in a ParamMap, replaces it.
  private var makeOptimizer: Option[Float => Optimizer] = None
  private var makeMetric: Option[() => EvalMetric] = None
  private var initializerObject: Option[Initializer] = None
  private var initialModel: Option[MXNetModel] = None

  def setSymbol(value: Symbol): this.type = {
    requireNonNull("MXNetEstimator.setSymbol", "value" -> value)
    set(symbol, value.toJson)
  }
  def setSymbol(json: String): this.type = set(symbol, json)
  def setFeaturesCol(value: String): this.type = set(featuresCol, value)
  def setLabelCol(value: String): this.type = set(labelCol, value)
  def setOutputCol(value: String): this.type = set(outputCol, value)
  def setLabelName(value: String): this.type = set(labelName, value)
  def setNumWorkers(value: Int): this.type = set(numWorkers, value)
  def setNumShards(value: Int): this.type = set(numShards, value)
  def setNumEpoch(value: Int): this.type = set(numEpoch, value)
  def setLearningRate(value: Float): this.type = set(learningRate, value)
  def setSeed(value: Long): this.type = set(seed, value)
  def setValidationIndicatorCol(value: String): this.type = set(validationIndicatorCol, value)
  def setCheckpointDir(value: String): this.type = set(checkpointDir, value)
  def setCheckpointInterval(value: Int): this.type = set(checkpointInterval, value)
  def setCheckpointKeep(value: Int): this.type = set(checkpointKeep, value)
  def setEarlyStopping(value: Int): this.type = set(earlyStopping, value)
  def setTimeout(value: Int): this.type = set(timeout, value)

  /** Sets the optimizer by its name, such as `sgd` or `adam`. */
  def setOptimizer(name: String): this.type = set(optimizer, name)
  def setOptimizerParams(value: Map[String, String]): this.type = setMap(optimizerParams, value)
  def setOptimizerParams(value: java.util.Map[String, String]): this.type = setMap(optimizerParams, value)

  /** Sets a function that creates the optimizer of each worker from the learning rate, optionally with a schedule; it
    * replaces `optimizer`. Spark sends it to the workers like any function; it is not saved.
    */
  def setOptimizer(make: Float => Optimizer): this.type = {
    requireNonNull("MXNetEstimator.setOptimizer", "make" -> make)
    makeOptimizer = Some(make)
    clear(optimizer)
  }

  /** Sets the metric by its name, such as `acc` or `rmse`. */
  def setMetric(name: String): this.type = set(metric, name)

  /** Sets a function that creates the metric of each shard; it replaces `metric` and is not saved. The value of an
    * epoch is the mean over the shards, for validation weighted by their rows. A metric compares the label with the
    * first output of the network.
    */
  def setMetric(make: () => EvalMetric): this.type = {
    requireNonNull("MXNetEstimator.setMetric", "make" -> make)
    makeMetric = Some(make)
    clear(metric)
  }

  /** Sets whether a larger (`max`) or a smaller (`min`) metric is better. */
  def setMetricMode(value: String): this.type = set(metricMode, value)

  /** Sets the initializer by its name, such as `xavier` or `normal`. */
  def setInitializer(name: String): this.type = set(initializer, name)
  def setInitializerParams(value: Map[String, String]): this.type = setMap(initializerParams, value)
  def setInitializerParams(value: java.util.Map[String, String]): this.type = setMap(initializerParams, value)

  /** Sets the initializer of parameters without values; it replaces `initializer` and is not saved. */
  def setInitializer(value: Initializer): this.type = {
    requireNonNull("MXNetEstimator.setInitializer", "value" -> value)
    initializerObject = Some(value)
    clear(initializer)
  }

  /** Sets a model with initial parameters. Parameters that it does not have are initialized; those that the network
    * does not have are ignored. If no symbol is set, the network of this model is trained.
    */
  def setInitialModel(model: MXNetModel): this.type = {
    requireNonNull("MXNetEstimator.setInitialModel", "model" -> model)
    initialModel = Some(model)
    this
  }

  private def columns: Seq[(String, String)] =
    (if (isSet(feedDict)) getFeedDict else Map("data" -> $(featuresCol))).toSeq.sorted

  /** The columns of the inputs, the label last. */
  private def inputColumnNames: Seq[String] = columns.map(_._2) :+ $(labelCol)
  private def inputColumns: Seq[Column] = inputColumnNames.map(columnOf)

  private def optimizerCode: Option[Float => Optimizer] = makeOptimizer.filterNot(_ => isSet(optimizer))
  private def metricCode: Option[() => EvalMetric] = makeMetric.filterNot(_ => isSet(metric))
  private def initializerCode: Option[Initializer] = initializerObject.filterNot(_ => isSet(initializer))

  /** Rejects settings that code does not see. */
  private def requireNoSettings(kind: String, settings: StringMapParam): Unit =
    require(
      mapOf(settings).isEmpty,
      s"$uid: ${settings.name} has no effect on $kind that is set as code; clear it, or set the name of $kind"
    )

  override def transformSchema(schema: StructType): StructType = {
    optimizerMaker
    if (initializerCode.isEmpty) Registry.initializer($(initializer), getInitializerParams)
    else requireNoSettings("an initializer", initializerParams)
    checkShapes(columns.map(_._1) :+ $(labelName))
    require(columns.nonEmpty, s"$uid: feedDict is empty; give the column of each input, or clear it to use featuresCol")
    columns.foreach { case (input, name) => findInput(schema, name, s"the input '$input'") }
    findInput(schema, $(labelCol), s"the label '${$(labelName)}'")
    get(validationIndicatorCol).foreach { name =>
      val field = findColumn(schema, name, "validationIndicatorCol")
      if (field.dataType != BooleanType) throw wrongType(field, "validationIndicatorCol", "BOOLEAN")
    }
    val added = Seq[(String, DataType)](
      $(outputCol) -> ArrayType(FloatType, containsNull = false),
      $(predictionCol) -> DoubleType
    )
    require($(outputCol).nonEmpty, s"$uid: outputCol is empty; set the name of the column for the network's output")
    append(schema, added.filter(_._1.nonEmpty))
  }

  /** What checkpoints of the same training have in common: the optimizer with its numbers, and the metric. */
  private def settingsOf(optimizer: Optimizer, metricNames: Seq[String]): String = {
    val owners = Seq[AnyRef](optimizer) ++ FieldState.referenced(optimizer, classOf[LRScheduler])
    val numbers = owners.map(owner => owner.getClass.getName -> FieldState.readAll(owner).toSeq.sortBy(_._1))
    (numbers ++ metricNames).mkString(" ")
  }

  /** The names of the metric's values. */
  private def checkedMetric(): Seq[String] = {
    val names = Progress.valuesOf(requireCreated("metric", metricMaker())).map(_._1)
    if ($(earlyStopping) > 0)
      try {
        new MetricChoice("", $(metricMode)).isBetter(EpochRecord(0, names.map(_ -> 0f), Nil, 0.0, 0.0), 0f)
        ()
      } catch {
        case _: MXNetError =>
          throw new IllegalArgumentException(
            s"$uid: earlyStopping needs to know whether the metric '${names.head}' should grow or shrink; set metricMode to " +
              "'max' or 'min'"
          )
      }
    names
  }

  /** The result of code that the program has set, unless it is null. */
  private def requireCreated[A](kind: String, result: A): A = {
    require(result != null, s"$uid: the function of the $kind returns null; return a new object of it")
    result
  }

  /** The directory of checkpoints with its file system, because a relative path is another one in each process. */
  private def checkpointPath(context: SparkContext): Option[String] = get(checkpointDir).map { name =>
    try {
      val directory = new HadoopPath(name)
      val fileSystem = directory.getFileSystem(context.hadoopConfiguration)
      if (!fileSystem.mkdirs(directory)) throw new IOException(s"the directory $directory cannot be created")
      // Otherwise the workers would find out after an epoch.
      val file = new HadoopPath(directory, s".ferromx-${java.util.UUID.randomUUID()}")
      fileSystem.create(file).close()
      fileSystem.delete(file, false)
      fileSystem.makeQualified(directory).toString
    } catch {
      case error @ (_: IOException | _: IllegalArgumentException) =>
        throw new IllegalArgumentException(
          s"$uid: checkpointDir is '$name', which cannot be used: ${error.getMessage}; give a directory on a file system that " +
            "all machines share",
          error
        )
    }
  }

  /** Creates the optimizer of a worker. */
  private def optimizerMaker: () => Optimizer = {
    val rate = $(learningRate)
    optimizerCode match {
      case Some(make) =>
        requireNoSettings("an optimizer", optimizerParams)
        () => make(rate)
      case None =>
        val (name, settings) = ($(optimizer), getOptimizerParams)
        Registry.optimizer(name, rate, settings)
        () => Registry.optimizer(name, rate, settings)
    }
  }

  private def metricMaker: () => EvalMetric = metricCode.getOrElse {
    val name = $(metric)
    () => Registry.metric(name)
  }

  override def fit(dataset: Dataset[_]): MXNetModel = {
    transformSchema(dataset.schema)
    val context = dataset.sparkSession.sparkContext
    MXNetEstimator.requireSupported(context.getConf)
    requireSlots(context)
    val shards = getNumShards
    require(
      shards % $(numWorkers) == 0,
      s"$uid: numShards is $shards, which ${$(numWorkers)} workers (numWorkers) cannot share; give a multiple of it"
    )
    require(
      $(batchSize) % shards == 0,
      s"$uid: batchSize is ${$(batchSize)}, which $shards shards (numShards) cannot share; give a multiple of it"
    )
    val inputs = findInputs(dataset)
    val trained = ResourceScope.using() {
      val network = loadNetwork()
      val params = startParams(network, inputs)
      val start = ModelFiles.ofNetwork(network, params.args, params.aux)
      val jobs = new TrainingJobs(context, uid, MXNetEstimator.logger)
      val plan = planOf(inputs, start, jobs.messages, context)
      jobs.run(train(records(dataset, inputs, classLabels(network, inputs), jobs.messages), plan, start))
    }
    modelOf(trained, inputs).setParent(this)
  }

  /** A local master never gets more slots, but Spark waits for them for ten minutes. */
  private def requireSlots(context: SparkContext): Unit = if (context.isLocal) {
    val slots = TaskSlots.of(context)
    require(
      $(numWorkers) <= slots,
      s"$uid: numWorkers is ${$(numWorkers)}, but the master ${context.master} runs $slots tasks at the same time; " +
        s"start Spark with local[${$(numWorkers)}] or set numWorkers to $slots"
    )
  }

  private def loadNetwork(): Symbol =
    if (isDefined(symbol))
      try Symbol.loadJson($(symbol))
      catch {
        case error: MXNetError =>
          throw new IllegalArgumentException(s"$uid: the parameter symbol is not a network: ${error.getMessage}", error)
      }
    else
      initialModel.filterNot(_.files.isOnnx).map(_.files.loadSymbol()).getOrElse {
        throw new IllegalArgumentException(
          s"$uid has no network; set the parameter symbol, or an initial model that is not an ONNX file"
        )
      }

  /** The inputs with the shapes of their rows, the label last. */
  private def findInputs(dataset: Dataset[_]): IndexedSeq[RowInput] = {
    val names = (columns.map(_._1) :+ $(labelName)).toIndexedSeq
    val known = names.flatMap(name => shapeOf(name).map(name -> _)).toMap
    if (names.forall(known.contains)) names.map(name => RowInput(name, Shape(known(name))))
    else {
      val frame = withoutNull(dataset.toDF(), inputColumnNames).select(inputColumns: _*)
      val types = frame.schema.map(_.dataType)
      val found = frame.limit(1).queryExecution.toRdd.map { row =>
        types.indices.map(i => InputColumn.sizeOf(types(i), row, i).map(_.toVector: Seq[Int]))
      }
      val first = found.collect().headOption.getOrElse {
        throw new IllegalArgumentException(s"$uid: the table has no row without null to train on")
      }
      names.indices.map { i =>
        val dims = known.get(names(i)).orElse(first(i)).getOrElse {
          throw new IllegalArgumentException(
            s"$uid: the shape of '${names(i)}' cannot be inferred from column '${inputColumnNames(i)}'; set inputShapes"
          )
        }
        RowInput(names(i), Shape(dims))
      }
    }
  }

  /** The shapes of the inputs for the rows of a shard. */
  private def shardShapes(inputs: IndexedSeq[RowInput]): Map[String, Shape] = {
    val rows = $(batchSize) / getNumShards
    inputs.map(input => input.name -> (Shape(rows) ++ input.shape)).toMap
  }

  /** The inputs whose elements are classes, by index. */
  private def classLabels(network: Symbol, inputs: IndexedSeq[RowInput]): Map[Int, ClassLabel] =
    ClassLabel.of(network, shardShapes(inputs)).map(label => inputs.indexWhere(_.name == label.input) -> label).toMap

  /** The parameters and auxiliary states to start from: those of the initial model, else initialized ones. */
  private def startParams(network: Symbol, inputs: IndexedSeq[RowInput]): Model.Params = {
    val arguments = network.listArguments()
    inputs.map(_.name).find(!arguments.contains(_)).foreach { name =>
      throw new IllegalArgumentException(
        s"$uid: the network has no argument '$name'; it has ${arguments.mkString(", ")} (see labelName and feedDict)"
      )
    }
    def wrongShapes(reason: String, cause: Throwable = null) = new IllegalArgumentException(
      s"$uid: the network cannot take rows of shape ${inputs.map(input => s"${input.name} ${input.shape}").mkString(", ")}" +
        s"$reason; check inputShapes, labelCol, and that feedDict has all inputs",
      cause
    )
    val (argShapes, _, auxShapes) =
      try network.inferShape(shardShapes(inputs))
      catch { case error: MXNetError => throw wrongShapes(s": ${error.getMessage}", error) }
    if (argShapes == null) throw wrongShapes("")
    val initial = initialModel.fold(Model.Params(Map.empty, Map.empty))(_.files.loadParams())
    val paramShapes = arguments.zip(argShapes).filterNot { case (name, _) => inputs.exists(_.name == name) }
    Model.Params(filled(paramShapes, initial.args), filled(network.listAuxiliaryStates().zip(auxShapes), initial.aux))
  }

  /** Arrays of these shapes: the known ones, and others that are initialized in a fixed order from the seed. */
  private def filled(shapes: Seq[(String, Shape)], known: Map[String, NDArray]): Map[String, NDArray] = {
    val initialize = initializerCode.getOrElse(Registry.initializer($(initializer), getInitializerParams))
    Random.withSeed($(seed)) {
      shapes.map { case (name, shape) =>
        known.get(name) match {
          case Some(array) if array.shape == shape => name -> array
          case Some(array)                         =>
            throw new IllegalArgumentException(
              s"$uid: parameter '$name' has the shape ${array.shape} in the initial model, the network needs $shape"
            )
          case None =>
            val array = NDArray.zeros(shape)
            initialize(name, array)
            name -> array
        }
      }.toMap
    }
  }

  private def planOf(
      inputs: IndexedSeq[RowInput],
      start: ModelFiles,
      messages: String,
      context: SparkContext
  ): TrainingPlan = TrainingPlan(
    uid,
    start.ship(context),
    inputs,
    getNumShards,
    $(batchSize) / getNumShards,
    $(numEpoch),
    $(seed),
    optimizerMaker,
    metricMaker,
    settingsOf(requireCreated("optimizer", optimizerMaker()), checkedMetric()),
    checkpointPath(context),
    $(checkpointInterval),
    $(checkpointKeep),
    $(earlyStopping),
    $(metricMode),
    $(timeout),
    messages,
    new SerializableConfiguration(context.hadoopConfiguration)
  )

  /** Trains in a barrier stage. */
  private def train(rows: RDD[(RowKey, Array[Byte])], plan: TrainingPlan, start: ModelFiles): ModelFiles = {
    val shards = rows.repartitionAndSortWithinPartitions(new ShardPartitioner($(numWorkers), getNumShards))
    val trained = shards.barrier().mapPartitions { partition =>
      new TrainingTask(plan, BarrierTaskContext.get()).run(partition).zipWithIndex.map(_.swap)
    }
    // Spark repeats a failed barrier stage only if a shuffle follows it. The driver fetches the file of the parameters,
    // which is as long as that of the initial ones, by one job per partition, because the size of a job's results is
    // limited.
    val chunks = new ChunkPartitioner(Files.size(start.others.head))
    ModelFiles.ofTrained(start, trained.repartitionAndSortWithinPartitions(chunks).values.toLocalIterator)
  }

  /** The rows as records, with their shards. Spark computes the table once.
    *
    * @param labels the inputs whose elements are classes, by index
    * @param messages the endpoint for errors of rows
    */
  private def records(
      dataset: Dataset[_],
      inputs: IndexedSeq[RowInput],
      labels: Map[Int, ClassLabel],
      messages: String
  ): RDD[(RowKey, Array[Byte])] = {
    val (seedOfOrder, shards) = ($(seed), getNumShards)
    // A metric of the program may know what NaN means; those of the library do not.
    val invalid = InvalidRows($(handleInvalid), labelsMayBeNaN = metricCode.nonEmpty)
    val indicator = get(validationIndicatorCol).fold(lit(false))(name => coalesce(columnOf(name), lit(false)))
    val selected = dataset.select(inputColumns :+ indicator: _*)
    val (types, names) = (selected.schema.map(_.dataType).toIndexedSeq, selected.columns.toIndexedSeq)
    val encoded = selected.queryExecution.toRdd.mapPartitions { rows: Iterator[InternalRow] =>
      val shapes = inputs.map(_.shape)
      val readers = shapes.indices.map(i => InputColumn.of(names(i), types(i), shapes(i), 1, ImageFormat.Plain))
      val encoder = new RowEncoder(readers, inputs, labels, invalid)
      rows.flatMap { row =>
        TrainingFailure.reported(messages)(encoder.encode(row)).map { record =>
          ContentKey(row.getBoolean(shapes.length), RowKey.hash(record, seedOfOrder)) -> record
        }
      }
    }
    // The order depends only on the rows' contents, so that it is the same if Spark computes lost rows again.
    val partitioner = new ContentPartitioner(encoded.getNumPartitions.max(1), isSet(validationIndicatorCol))
    encoded.repartitionAndSortWithinPartitions(partitioner).zipWithIndex().map { case ((key, record), index) =>
      RowKey.of(key.validation, index, shards) -> record
    }
  }

  private def modelOf(files: ModelFiles, inputs: IndexedSeq[RowInput]): MXNetModel = {
    val output = Using.resource(Symbol.load(files.main.toString))(_.listOutputs().head)
    // Labels of further losses are inputs for training only.
    def isUsed(input: String) = !input.endsWith("label")
    new MXNetModel(uid)
      .withFiles(files)
      .setFeedDict(columns.filter(column => isUsed(column._1)).toMap)
      .setInputShapes(inputs.collect { case RowInput(name, shape) if isUsed(name) => name -> shape }.toMap)
      .setFetchDict(Map($(outputCol) -> output))
      .setPredictionCol($(predictionCol))
      .setHandleInvalid($(handleInvalid))
  }

  override def copy(extra: ParamMap): MXNetEstimator = {
    val that = new MXNetEstimator(uid)
    that.makeOptimizer = makeOptimizer
    that.makeMetric = makeMetric
    that.initializerObject = initializerObject
    that.initialModel = initialModel
    copyValues(that, extra)
  }

  /** Saves the parameters, and the initial model with its files. Code cannot be saved. */
  override def write: MLWriter = new MXNetEstimator.Writer(this, super.write)
}

/** Loads saved estimators. */
object MXNetEstimator extends MLReadable[MXNetEstimator] {
  private[spark] val MetricModes = Seq("auto", "max", "min")

  private val InitialModelDirectory = "initialModel"

  override def read: MLReader[MXNetEstimator] = new Reader

  override def load(path: String): MXNetEstimator = super.load(path)

  private object ParamsReader extends DefaultParamsReadable[MXNetEstimator]

  private final class Writer(estimator: MXNetEstimator, params: MLWriter) extends MLWriter {
    override protected def saveImpl(path: String): Unit = {
      Seq(
        "optimizer" -> estimator.optimizerCode,
        "metric" -> estimator.metricCode,
        "initializer" -> estimator.initializerCode
      ).collectFirst { case (name, Some(_)) =>
        throw new UnsupportedOperationException(
          s"${estimator.uid} has code for the $name, which cannot be saved; set the parameter $name to a name instead"
        )
      }
      params.session(sparkSession).save(path)
      estimator.initialModel.foreach { model =>
        model.write.session(sparkSession).save(new HadoopPath(path, InitialModelDirectory).toString)
      }
    }
  }

  private final class Reader extends MLReader[MXNetEstimator] {
    override def load(path: String): MXNetEstimator = {
      val estimator = ParamsReader.read.session(sparkSession).load(path)
      val initial = new HadoopPath(path, InitialModelDirectory)
      if (initial.getFileSystem(sc.hadoopConfiguration).exists(initial))
        estimator.setInitialModel(MXNetModel.read.session(sparkSession).load(initial.toString))
      estimator
    }
  }

  private[spark] val logger = LoggerFactory.getLogger(classOf[MXNetEstimator])

  /** Rejects settings that training does not support. */
  private[spark] def requireSupported(conf: SparkConf): Unit = {
    def isOn(key: String) = conf.getBoolean(key, defaultValue = false)
    if (isOn("spark.dynamicAllocation.enabled"))
      throw new IllegalArgumentException(
        "training needs all of its workers at the same time, which spark.dynamicAllocation.enabled does not guarantee; " +
          "set it to false, and spark.executor.instances to what numWorkers needs"
      )
    Seq(
      "spark.network.crypto.enabled",
      "spark.authenticate.enableSaslEncryption",
      "spark.ssl.enabled",
      "spark.ssl.rpc.enabled",
      "spark.io.encryption.enabled"
    ).find(isOn).foreach { key =>
      throw new IllegalArgumentException(
        s"$key is true, but gradients are sent between the workers, and rows stored in their local files, without encryption; " +
          "train on a network that you trust with this set to false"
      )
    }
  }
}
