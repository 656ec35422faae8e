package org.apache.mxnet.spark.internal

import java.io.{File, IOException}
import java.nio.file.Files
import java.security.{MessageDigest, SecureRandom}
import java.time.Duration
import java.util.{Base64, Locale}

import scala.util.Using

import org.apache.hadoop.fs.{FileSystem, Path => HadoopPath}
import org.apache.mxnet.Callback.{EpochRecord, Progress}
import org.apache.mxnet._
import org.apache.mxnet.module.internal.{MetricChoice, OptimizerCheckpoint, TrainingCheckpoint}
import org.apache.mxnet.spark.TrainingProgress
import org.apache.spark.sql.ferromx.{DriverMessages, FileTransfer}
import org.apache.spark.util.SerializableConfiguration
import org.apache.spark.{BarrierTaskContext, Partitioner, TaskKilledException}

/** An input of a network.
  *
  * @param shape the shape of a row
  */
private[mxnet] final case class RowInput(name: String, shape: Shape)

/** A training run, as the driver sends it to the workers.
  *
  * @param start the network with the parameters to start from
  * @param inputs the inputs, the label last
  * @param numShards number of logical shards of a batch
  * @param rowsPerShard rows of a shard in a batch
  * @param settings the optimizer and its settings, and the metric, which distinguish checkpoints
  * @param checkpointKeep number of checkpoints to keep; 0 for all
  * @param patience number of epochs without a better metric after which training ends; 0 for never
  * @param metricMode `max`, `min` or `auto`: which metric is better
  * @param timeout seconds to wait for other workers
  * @param messages name of the driver's endpoint for progress
  */
private[mxnet] final case class TrainingPlan(
    uid: String,
    start: ShippedModel,
    inputs: IndexedSeq[RowInput],
    numShards: Int,
    rowsPerShard: Int,
    numEpoch: Int,
    seed: Long,
    optimizer: () => Optimizer,
    metric: () => EvalMetric,
    settings: String,
    checkpointDir: Option[String],
    checkpointInterval: Int,
    checkpointKeep: Int,
    patience: Int,
    metricMode: String,
    timeout: Int,
    messages: String,
    conf: SerializableConfiguration
)

/** A worker: one task of a barrier stage. It computes the gradients of its logical shards; the distributed store sums
  * over the shards in a fixed order, so that the result has the same bits for any number of workers.
  */
private[mxnet] final class TrainingTask(plan: TrainingPlan, context: BarrierTaskContext) {
  private val directory = FileTransfer.createDirectory()
  private val workers = context.getTaskInfos().length
  private val rank = context.partitionId()
  private val shardsPerWorker = plan.numShards / workers
  private val ownShards = (0 until shardsPerWorker).map(rank * shardsPerWorker + _)

  /** Trains; the worker of rank 0 returns the file of the trained parameters in chunks. */
  def run(rows: Iterator[(RowKey, Array[Byte])]): Iterator[Array[Byte]] =
    TrainingFailure.reported(plan.messages)(ResourceScope.outside(train(rows)))

  private def train(rows: Iterator[(RowKey, Array[Byte])]): Iterator[Array[Byte]] = {
    // A process may run many trainings.
    context.addTaskCompletionListener[Unit](_ => FileTransfer.delete(directory))
    val files = ShardFile.spool(rows, directory)
    val job = DistributedJob.listen()
    try {
      val workers = connect(job, files)
      val summaries =
        ShardSummaries(workers.flatMap(_.training).sortBy(_.shard), workers.flatMap(_.validation).sortBy(_.shard))
      summaries.training.find(_.rows == 0).foreach { empty =>
        throw new IllegalArgumentException(
          s"shard ${empty.shard} has no row to train on: the table has fewer rows than numShards = ${plan.numShards}, " +
            s"namely ${summaries.training.map(_.rows).sum} for training and ${summaries.validation.map(_.rows).sum} for " +
            "validation"
        )
      }
      val startFiles = plan.start.fetch(directory)
      val training = new ShardTraining(plan, startFiles, context, job, ownShards, files, summaries)
      context.addTaskCompletionListener[Unit](_ => training.close())
      training.run()
    } finally {
      job.close()
      files.values.foreach(_.close())
    }
  }

  /** Exchanges addresses and summaries of the shards with the other workers, and connects to them. */
  private def connect(job: DistributedJob, files: Map[Int, ShardFiles]): Seq[WorkerInfo] = {
    val secret = new Array[Byte](32)
    new SecureRandom().nextBytes(secret)
    val host = context.getTaskInfos()(rank).address.replaceAll(":[0-9]+$", "")
    def summaries(select: ShardFiles => ShardFile) = ownShards.map { shard =>
      val file = select(files.getOrElse(shard, ShardFiles()))
      ShardSummary(shard, file.numRows, file.checksum)
    }
    val own = WorkerInfo(s"$host:${job.port}", secret, summaries(_.training), summaries(_.validation))
    val all = context.allGather(own.toText).toIndexedSeq.map(WorkerInfo.parse)
    // All use the secret of rank 0. It is new in each attempt, so that workers of earlier attempts are rejected.
    job.join(rank, all.map(_.address), all.head.secret, Duration.ofSeconds(plan.timeout.toLong))
    all
  }
}

/** Number of rows and checksum of the file of a shard. */
private[mxnet] final case class ShardSummary(shard: Int, rows: Long, checksum: Long)

/** The summaries of all shards, in their order. */
private[mxnet] final case class ShardSummaries(training: Seq[ShardSummary], validation: Seq[ShardSummary])

/** What a worker sends to the others before training. */
private[mxnet] final case class WorkerInfo(
    address: String,
    secret: Array[Byte],
    training: Seq[ShardSummary],
    validation: Seq[ShardSummary]
) {
  def toText: String = {
    def text(shards: Seq[ShardSummary]) = shards.map(s => s"${s.shard}:${s.rows}:${s.checksum}").mkString(",")
    Seq(address, Base64.getEncoder.encodeToString(secret), text(training), text(validation)).mkString(" ")
  }
}

private[mxnet] object WorkerInfo {
  def parse(text: String): WorkerInfo = {
    val words = text.split(' ')
    def summaries(list: String) = list.split(',').toSeq.map { item =>
      val numbers = item.split(':')
      ShardSummary(numbers(0).toInt, numbers(1).toLong, numbers(2).toLong)
    }
    WorkerInfo(words(0), Base64.getDecoder.decode(words(1)), summaries(words(2)), summaries(words(3)))
  }
}

/** The network of one logical shard, bound to its own arrays. */
private[mxnet] final class ShardNetwork(
    symbol: Symbol,
    inputs: IndexedSeq[RowInput],
    rows: Int,
    val shard: Int,
    val files: ShardFiles
) {
  private val shapes = inputs.map(input => input.name -> (Shape(rows) ++ input.shape)).toMap
  private val sizes = inputs.map(_.shape.product)
  private val row = new Array[Float](sizes.sum)
  private val buffers = sizes.map(size => new Array[Float](size * rows))
  private val device = Context.cpu()

  private val (argShapes, _, auxShapes) = symbol.inferShape(shapes)
  require(argShapes != null, s"the shapes of the network cannot be inferred from the inputs ${shapes.mkString(", ")}")
  val args: Map[String, NDArray] =
    symbol.listArguments().zip(argShapes).map { case (name, shape) => name -> NDArray.zeros(shape, device) }.toMap
  val aux: Map[String, NDArray] =
    symbol.listAuxiliaryStates().zip(auxShapes).map { case (name, shape) => name -> NDArray.zeros(shape, device) }.toMap
  val grads: Map[String, NDArray] =
    args.removedAll(inputs.map(_.name)).map { case (name, array) => name -> NDArray.zeros(array.shape, device) }

  private val executor =
    symbol.bind(device, args, grads, grads.map { case (name, _) => name -> "write" }, aux, null, null)

  def label: NDArray = args(inputs.last.name)

  /** The first output. */
  def output: NDArray = executor.outputs.head

  /** Reads the next rows of a file into the inputs.
    *
    * @param count number of rows; the remaining rows of the inputs become 0
    */
  def load(file: ShardFile, count: Int): Unit = {
    var position = 0
    while (position < rows) {
      if (position < count) file.read(row) else java.util.Arrays.fill(row, 0f)
      var offset = 0
      inputs.indices.foreach { i =>
        System.arraycopy(row, offset, buffers(i), position * sizes(i), sizes(i))
        offset += sizes(i)
      }
      position += 1
    }
    inputs.indices.foreach(i => args(inputs(i).name).set(buffers(i)))
  }

  def forward(isTrain: Boolean): Unit = executor.forward(isTrain)

  def backward(): Unit = executor.backward()

  /** Computes the gradients and pushes arrays, each key as soon as this network's gradient among them is complete. */
  def backwardAndPush(store: KVStore, keys: Array[String], arrays: Array[NDArray]): Unit =
    executor.backwardAndPush(store, keys, arrays)

  def dispose(): Unit = {
    executor.dispose()
    (args.values ++ aux.values ++ grads.values).foreach(_.dispose())
  }
}

/** The training loop of a worker.
  *
  * @param startFiles the files of `plan.start`
  * @param files the files of this worker's shards that have rows
  */
private[mxnet] final class ShardTraining(
    plan: TrainingPlan,
    startFiles: ModelFiles,
    context: BarrierTaskContext,
    job: DistributedJob,
    ownShards: IndexedSeq[Int],
    files: Map[Int, ShardFiles],
    summaries: ShardSummaries
) extends AutoCloseable {
  private val rank = context.partitionId()
  private val symbol = Symbol.load(startFiles.main.toString)
  private val networks = ownShards.map { shard =>
    new ShardNetwork(symbol, plan.inputs, plan.rowsPerShard, shard, files.getOrElse(shard, ShardFiles()))
  }
  private val paramNames = symbol.listArguments().filter(networks.head.grads.contains)
  private val auxNames = symbol.listAuxiliaryStates()

  /** The arguments of the push of a step: for each parameter, the gradients of this worker's shards. */
  private val (pushedKeys, pushedGradients) =
    paramNames.flatMap(name => networks.map(network => name -> network.grads(name))).toArray.unzip
  private val numSteps = (summaries.training.map(_.rows).max + plan.rowsPerShard - 1) / plan.rowsPerShard
  private val hasValidation = summaries.validation.exists(_.rows > 0)

  private val optimizer = plan.optimizer()
  private val weights = job.createStore()
  private val sums = job.createStore()
  private val metrics = networks.map(_ => plan.metric())
  private val metricNames = Progress.valuesOf(plan.metric()).map(_._1)
  private var history = IndexedSeq.empty[EpochRecord]

  /** The numbers of the current epoch, and of the current step in it. */
  private var epoch = 0
  private var step = 0L

  def run(): Iterator[Array[Byte]] = {
    epoch = start()
    while (epoch < plan.numEpoch && !isStale) {
      trainEpoch()
      epoch += 1
      if (epoch % plan.checkpointInterval == 0 || epoch == plan.numEpoch || isStale) writeCheckpoint(epoch)
    }
    job.barrier()
    if (rank == 0) trainedFiles() else Iterator.empty
  }

  /** Sets parameters and optimizer to the start, or to the last checkpoint; returns the number of the next epoch. */
  private def start(): Int = {
    // Rank 0 decides, because the others may see another state of the directory.
    val latest = NDArray.array(Array(if (rank == 0) latestCheckpoint.toFloat else 0f), Shape(1))
    sums.init("checkpoint", latest)
    sums.pull("checkpoint", latest)
    val saved = Option.when(latest.toScalar > 0)(readCheckpoint(latest.toScalar.toInt))
    if (rank == 0) plan.checkpointDir.foreach(path => sendToDriver(startingPoint(saved, path)))
    val params = saved.fold(startFiles.loadParams())(_.params)
    optimizer.setIdx2Name(paramNames.indices.map(i => i -> paramNames(i)).toMap)
    optimizer.setSymbol(symbol)
    optimizer.setRescaleGrad(1f / (plan.rowsPerShard * plan.numShards))
    paramNames.foreach(name => weights.init(name, params.args(name)))
    weights.setUpdater(new SeededUpdater)
    saved.foreach { state =>
      weights.cachedStates.deserializeState(state.optimizer.states)
      state.optimizer.restoreCounters(optimizer)
      history = state.history
    }
    paramNames.foreach(name => weights.pull(name, networks.map(_.args(name)).toArray))
    auxNames.foreach { name =>
      val state = params.aux(name)
      initSum(name, state.shape)
      networks.foreach(network => state.copyTo(network.aux(name)))
    }
    params.dispose()
    latest.dispose()
    Seq("training", "validation").foreach(key => initSum(key, Shape(metricNames.length + 1), DType.Float64))
    saved.fold(0)(_.epoch)
  }

  private def initSum(key: String, shape: Shape, dtype: DType.DType = DType.Float32): Unit =
    Using.resource(NDArray.zeros(shape, Context.cpu(), dtype))(sums.init(key, _))

  private def startingPoint(saved: Option[TrainingCheckpoint], path: String): String = saved match {
    case Some(state) => s"resumes after epoch ${state.epoch} from a checkpoint in $path"
    case None        =>
      s"starts from the beginning: $path has no checkpoint of a training with this table, network, optimizer, metric, " +
        "seed, batchSize and numShards"
  }

  /** Sends a message to the driver's log, or the progress to its listeners. */
  private def sendToDriver(message: Any): Unit = DriverMessages.send(plan.messages, message)

  /** Ends a task that Spark has canceled: Spark itself checks this only where it reads rows. */
  private def checkCanceled(): Unit =
    if (context.isInterrupted()) throw new TaskKilledException("training is canceled")

  /** Updates the parameters, with random numbers that depend on the step and the parameter, because every worker updates
    * all parameters.
    */
  private final class SeededUpdater extends OptimizerUpdater(optimizer) {
    override def update(key: Int, gradient: NDArray, weight: NDArray): Unit =
      Random.withSeed(RandomStreams.ofUpdate(plan.seed, epoch, step, key))(super.update(key, gradient, weight))
  }

  private def trainEpoch(): Unit = {
    val begin = System.nanoTime()
    metrics.foreach(_.reset())
    networks.foreach(network => network.files.training.shuffle(RowKey.orderSeed(plan.seed, epoch, network.shard)))
    step = 0L
    while (step < numSteps) {
      checkCanceled()
      networks.indices.foreach { i =>
        val network = networks(i)
        network.load(network.files.training, plan.rowsPerShard)
        Random.withSeed(RandomStreams.ofShard(plan.seed, epoch, step, network.shard)) {
          network.forward(isTrain = true)
          // The gradients of all shards are complete only in the last pass, during which the store sends them.
          if (i < networks.length - 1) network.backward()
          else network.backwardAndPush(weights, pushedKeys, pushedGradients)
        }
        metrics(i).update(IndexedSeq(network.label), IndexedSeq(network.output))
      }
      paramNames.foreach(name => weights.pull(name, networks.map(_.args(name)).toArray))
      step += 1
    }
    averageStatistics()
    val train = meanOverShards("training", networks.map(_ => 1.0))
    val seconds = (System.nanoTime() - begin) / 1e9
    val speed = numSteps * plan.rowsPerShard * plan.numShards / seconds
    val record = EpochRecord(epoch, train, if (hasValidation) validate() else Nil, speed, seconds)
    history :+= record
    if (rank == 0)
      sendToDriver(TrainingProgress(plan.uid, epoch, plan.numEpoch, record.train.toMap, record.validation.toMap, speed))
  }

  /** Sets the auxiliary states of all shards, such as the moving statistics of normalization, to their mean. */
  private def averageStatistics(): Unit = {
    auxNames.foreach(name => sums.push(name, networks.map(_.aux(name)).toArray))
    auxNames.foreach { name =>
      val sum = NDArray.zeros(networks.head.aux(name).shape)
      sums.pull(name, sum)
      sum /= plan.numShards.toFloat
      networks.foreach(network => sum.copyTo(network.aux(name)))
      sum.dispose()
    }
  }

  private def validate(): Seq[(String, Float)] = {
    metrics.foreach(_.reset())
    networks.zip(metrics).foreach { case (network, metric) =>
      val file = network.files.validation
      file.rewind()
      var left = file.numRows
      // Networks may draw random numbers in inference, too. The steps of training are not negative.
      step = -1L
      while (left > 0) {
        checkCanceled()
        val count = math.min(left, plan.rowsPerShard.toLong).toInt
        network.load(file, count)
        Random.withSeed(RandomStreams.ofShard(plan.seed, epoch, step, network.shard))(network.forward(isTrain = false))
        step -= 1
        Using.resources(network.label.slice(0, count), network.output.slice(0, count)) { (label, output) =>
          metric.update(IndexedSeq(label), IndexedSeq(output))
        }
        left -= count
      }
    }
    meanOverShards("validation", networks.map(_.files.validation.numRows.toDouble))
  }

  /** The means of the metrics over all shards.
    *
    * @param ownWeights the weight of each shard of this worker
    */
  private def meanOverShards(key: String, ownWeights: IndexedSeq[Double]): Seq[(String, Float)] = {
    val weighted = networks.indices.map { i =>
      val weight = ownWeights(i)
      val values = if (weight == 0) metricNames.map(_ => 0.0) else metrics(i).get._2.toSeq.map(_ * weight)
      NDArray.array((values :+ weight).toArray, Shape(metricNames.length + 1), Context.cpu())
    }
    sums.push(key, weighted.toArray)
    val total = NDArray.zeros(Shape(metricNames.length + 1), null, DType.Float64)
    sums.pull(key, total)
    val values = total.toFloat64Array
    (total +: weighted).foreach(_.dispose())
    metricNames.zip(values.init.map(sum => (sum / values.last).toFloat))
  }

  /** Whether the metric has not improved for `patience` epochs. */
  private def isStale: Boolean = plan.patience > 0 && history.nonEmpty && {
    val choice = new MetricChoice("", plan.metricMode)
    val best = history.indices.reduceLeft((b, i) => if (choice.isBetter(history(i), choice.in(history(b))._2)) i else b)
    history.length - 1 - best >= plan.patience
  }

  /** Distinguishes the checkpoints of this training from others in the same directory: a hash of the network, the
    * settings and the data, but not of the number of workers.
    */
  private lazy val fingerprint: String = {
    val settings = Seq[Any](
      plan.start.hash,
      plan.numShards,
      plan.rowsPerShard,
      plan.seed,
      plan.settings,
      plan.inputs,
      summaries.training,
      summaries.validation
    )
    val digest = MessageDigest.getInstance("SHA-256").digest(settings.mkString(" ").getBytes("UTF-8"))
    digest.take(8).map(byte => f"$byte%02x").mkString
  }

  private def checkpointFile(epoch: Int): HadoopPath =
    new HadoopPath(
      plan.checkpointDir.get,
      String.format(Locale.ROOT, "%s-%06d.checkpoint", fingerprint, Int.box(epoch))
    )

  /** The numbers of epochs of this training's checkpoints. */
  private def checkpoints(path: String): Seq[Int] = {
    val directory = new HadoopPath(path)
    val fileSystem = directory.getFileSystem(plan.conf.value)
    val names = if (fileSystem.exists(directory)) fileSystem.listStatus(directory).toSeq.map(_.getPath.getName) else Nil
    names.filter(name => name.startsWith(s"$fingerprint-") && name.endsWith(".checkpoint")).flatMap { name =>
      name.stripPrefix(s"$fingerprint-").stripSuffix(".checkpoint").toIntOption
    }
  }

  /** The number of epochs of the last checkpoint; 0 if there is none. */
  private def latestCheckpoint: Int =
    plan.checkpointDir.fold(0)(checkpoints(_).filter(_ <= plan.numEpoch).maxOption.getOrElse(0))

  private def readCheckpoint(epoch: Int): TrainingCheckpoint = {
    val source = checkpointFile(epoch)
    val local = Files.createTempFile(startFiles.main.getParent, "read-", ".checkpoint")
    source.getFileSystem(plan.conf.value).copyToLocalFile(false, source, new HadoopPath(local.toUri), true)
    try TrainingCheckpoint.read(local.toString)
    catch {
      case error: MXNetError =>
        throw new IllegalArgumentException(
          s"the checkpoint $source cannot be read: ${error.getMessage}; delete it to resume from the one before",
          error
        )
    } finally Files.delete(local)
  }

  /** Writes a checkpoint under another name and renames it, so that a checkpoint file is always complete. */
  private def writeCheckpoint(epoch: Int): Unit = if (rank == 0 && plan.checkpointDir.nonEmpty) {
    val state = TrainingCheckpoint(
      epoch,
      params,
      OptimizerCheckpoint.of(optimizer, weights.cachedStates.serializeState()),
      Array.empty,
      Array.empty,
      None,
      history,
      IndexedSeq.empty
    )
    val local = new File(startFiles.main.getParent.toFile, "written.checkpoint")
    state.write(local.getPath)
    val target = checkpointFile(epoch)
    val fileSystem = target.getFileSystem(plan.conf.value)
    val partial = new HadoopPath(target.getParent, s".${target.getName}.partial")
    fileSystem.copyFromLocalFile(true, true, new HadoopPath(local.toURI), partial)
    fileSystem.delete(target, false)
    fileSystem.rename(partial, target)
    deleteOldCheckpoints(epoch, fileSystem)
  }

  /** Deletes the checkpoints before those that are kept. */
  private def deleteOldCheckpoints(epoch: Int, fileSystem: FileSystem): Unit =
    if (plan.checkpointKeep > 0)
      // Those of more epochs belong to a longer training that started from the same.
      checkpoints(plan.checkpointDir.get).filter(_ <= epoch).sorted.dropRight(plan.checkpointKeep).foreach { old =>
        try fileSystem.delete(checkpointFile(old), false)
        catch {
          case error: IOException =>
            sendToDriver(s"the checkpoint ${checkpointFile(old)} cannot be deleted: ${error.getMessage}")
        }
      }

  private def params: Model.Params =
    Model.Params(paramNames.map(name => name -> networks.head.args(name)).toMap, networks.head.aux)

  /** Frees the arrays of the training now, because the garbage collector does not know how large they are. */
  override def close(): Unit = {
    networks.foreach(_.dispose())
    Seq(weights, sums).foreach(_.dispose())
    symbol.dispose()
  }

  private def trainedFiles(): Iterator[Array[Byte]] = {
    val file = startFiles.main.resolveSibling("trained.params")
    NDArray.save(file.toString, Model.withKinds(params.args, params.aux))
    val in = Files.newInputStream(file)
    context.addTaskCompletionListener[Unit](_ => in.close())
    Iterator.continually(in.readNBytes(ChunkPartitioner.ChunkBytes)).takeWhile(_.nonEmpty)
  }
}

/** Groups the chunks of a file by their index, so that each partition is small enough for the result of a task.
  *
  * @param fileBytes the expected length of the file
  */
private[mxnet] final class ChunkPartitioner(fileBytes: Long) extends Partitioner {
  override val numPartitions: Int = (fileBytes / ChunkPartitioner.PartitionBytes).toInt + 1

  override def getPartition(key: Any): Int = key match {
    case index: Int =>
      math.min(index.toLong * ChunkPartitioner.ChunkBytes / ChunkPartitioner.PartitionBytes, numPartitions - 1L).toInt
    case other => throw new IllegalArgumentException(s"$other is not the index of a chunk")
  }
}

private[mxnet] object ChunkPartitioner {

  /** Size of the chunks in which the driver gets the parameters. */
  val ChunkBytes: Int = 4 << 20

  /** Total size of the chunks in a partition. */
  val PartitionBytes: Long = 64 << 20
}
