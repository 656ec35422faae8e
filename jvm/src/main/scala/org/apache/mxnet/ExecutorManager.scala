package org.apache.mxnet

import scala.collection.mutable

import org.apache.mxnet.internal.util.Logging
import org.apache.mxnet.module.DataParallelExecutorGroup
import org.slf4j.Logger

/** Helpers of [[DataParallelExecutorManager]]. */
private[mxnet] object ExecutorManager {

  /** Splits a batch among devices: the range of instances of each, end exclusive.
    *
    * @param workLoadList share of the batch that each device gets, in any unit
    */
  def splitInputSlice(batchSize: Int, workLoadList: Seq[Float]): Array[(Int, Int)] =
    DataParallelExecutorGroup.splitBatch(batchSize, workLoadList.toIndexedSeq).toArray

  /** Checks that the names in a network are distinct. */
  def checkArguments(symbol: Symbol): Unit = {
    FeedForward.requireDistinct("arguments", symbol.listArguments())
    FeedForward.requireDistinct("auxiliary states", symbol.listAuxiliaryStates())
  }
}

/** Executors of a network on several devices; with `symGen`, of the network of each bucket.
  *
  * @param symbol the network
  * @param ctx the devices
  * @param paramNames arguments that are parameters
  * @param argNames all arguments
  * @param auxNames auxiliary states
  * @param trainData provides the shapes of inputs and labels
  * @param workLoadList share of the batch that each device gets; null for equal ones
  * @param symGen returns the network of a bucket; null without buckets
  */
private[mxnet] class DataParallelExecutorManager(
    symbol: Symbol,
    ctx: Array[Context],
    paramNames: IndexedSeq[String],
    argNames: IndexedSeq[String],
    auxNames: IndexedSeq[String],
    trainData: DataIter,
    workLoadList: Seq[Float] = null,
    symGen: SymbolGenerator = null
) {
  private val shares = if (workLoadList == null) IndexedSeq.fill(ctx.length)(1f) else workLoadList.toIndexedSeq
  require(shares.length == ctx.length, s"${shares.length} work loads were given for ${ctx.length} devices")
  require(
    symbol.listArguments() == argNames && symbol.listAuxiliaryStates() == auxNames,
    s"the network has the arguments ${symbol.listArguments().mkString(", ")} and the states " +
      s"${symbol.listAuxiliaryStates().mkString(", ")}, but other names were given"
  )
  ExecutorManager.checkArguments(symbol)
  DataParallelExecutorManager.logger.debug(s"training on ${ctx.mkString(", ")}")

  private val groups = mutable.HashMap.empty[AnyRef, DataParallelExecutorGroup]
  private val first = bind(symbol, trainData.provideDataDesc, trainData.provideLabelDesc, None)
  private var current = first
  private var batch: DataBatch = null
  if (symGen != null) groups(trainData.defaultBucketKey) = first

  private def bind(
      network: Symbol,
      data: IndexedSeq[DataDesc],
      labels: IndexedSeq[DataDesc],
      shared: Option[DataParallelExecutorGroup]
  ): DataParallelExecutorGroup = {
    val group =
      new DataParallelExecutorGroup(
        network,
        ctx,
        shares,
        paramNames,
        forTraining = true,
        inputsNeedGrad = false,
        fixedParamNames = Set.empty,
        gradReq = "write"
      )
    group.bindExec(data, Some(labels), shared)
    group
  }

  /** For each parameter, its array on each device. */
  def paramArrays: IndexedSeq[Array[NDArray]] = first.paramArrays

  /** For each parameter, its gradient on each device. */
  def gradArrays: IndexedSeq[Array[NDArray]] = first.gradArrays

  /** For each auxiliary state, its array on each device. */
  def auxArrays: IndexedSeq[Array[NDArray]] = first.auxArrays

  /** Frees the executors. */
  def dispose(): Unit = (groups.values.toSet + first).foreach(_.dispose())

  /** Installs a monitor on the executors; not supported with buckets. */
  def installMonitor(monitor: Monitor): Unit = {
    require(symGen == null, "a monitor cannot watch executors of buckets; train without buckets to use one")
    first.installMonitor(monitor)
  }

  /** Sets parameters and auxiliary states on all devices. */
  def setParams(argParams: Map[String, NDArray], auxParams: Map[String, NDArray]): Unit =
    first.setParams(argParams, auxParams)

  /** Copies parameters and auxiliary states, averaged over the devices, to the given arrays. */
  def copyTo(argParams: Map[String, NDArray], auxParams: Map[String, NDArray]): Unit =
    first.getParams(argParams, auxParams)

  /** Loads the next batch. */
  def loadDataBatch(dataBatch: DataBatch): Unit = {
    if (symGen != null)
      current = groups.getOrElseUpdate(
        dataBatch.bucketKey,
        bind(
          symGen.generate(dataBatch.bucketKey),
          dataBatch.provideDataDesc,
          dataBatch.provideLabelDesc,
          Some(first)
        )
      )
    batch = dataBatch
  }

  /** Computes the outputs. */
  def forward(isTrain: Boolean = false): Unit = {
    require(batch != null, "there is no batch to run; call loadDataBatch first")
    current.forward(batch, Some(isTrain))
  }

  /** Computes the gradients. */
  def backward(): Unit = current.backward()

  /** Adds the outputs to a metric. */
  def updateMetric(metric: EvalMetric, labels: IndexedSeq[NDArray]): Unit = current.updateMetric(metric, labels)
}

private[mxnet] object DataParallelExecutorManager {
  val logger: Logger = Logging.of(classOf[DataParallelExecutorManager])
}
