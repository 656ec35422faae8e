package org.apache.mxnet.spark

import org.apache.mxnet._
import org.apache.mxnet.internal.util.NullChecks.requireNonNull
import org.apache.mxnet.optimizer.SGD
import org.apache.spark.mllib.regression.LabeledPoint
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.ferromx.Sessions
import org.slf4j.LoggerFactory

/** Trains a network on labeled points, with the interface of MXNet's package for Spark; [[MXNetEstimator]] does the work.
  *
  * {{{
  * val model = new MXNet()
  *   .setBatchSize(128)
  *   .setDimension(Shape(784))
  *   .setNetwork(network)
  *   .setLabelName("softmax_label")
  *   .setNumWorker(4)
  *   .fit(points)
  * }}}
  *
  * The optimizer is SGD with momentum, and workers sum their gradients at every step. New programs that need other
  * optimizers, checkpoints or validation use the estimator.
  */
class MXNet extends Serializable {
  private var batchSize = 128
  private var numEpoch = 10
  private var dimension: Option[Shape] = None
  private var network: Option[String] = None
  private var numContexts = 1
  private var numWorker = 1
  private var dataName = "data"
  private var labelName = "label"
  private var timeout = 300

  /** Sets the number of rows of a batch of one worker. */
  def setBatchSize(batchSize: Int): this.type = {
    this.batchSize = batchSize
    this
  }

  def setNumEpoch(numEpoch: Int): this.type = {
    this.numEpoch = numEpoch
    this
  }

  /** Sets the shape of a point's features. */
  def setDimension(dimension: Shape): this.type = {
    requireNonNull("MXNet.setDimension", "dimension" -> dimension)
    this.dimension = Some(dimension)
    this
  }

  def setNetwork(network: Symbol): this.type = {
    requireNonNull("MXNet.setNetwork", "network" -> network)
    this.network = Some(network.toJson)
    this
  }

  /** Sets the devices of a worker; each gets an equal part of its batch. */
  def setContext(ctx: Array[Context]): this.type = {
    requireNonNull("MXNet.setContext", "ctx" -> ctx)
    require(ctx.nonEmpty, "setContext: the list of contexts is empty; give at least one")
    ctx.find(_.deviceType != "cpu").foreach { other =>
      throw new IllegalArgumentException(s"setContext: $other is not a device of this library; use Context.cpu()")
    }
    numContexts = ctx.length
    this
  }

  /** Sets the number of tasks that train concurrently. */
  def setNumWorker(numWorker: Int): this.type = {
    this.numWorker = numWorker
    this
  }

  /** Accepted for compatibility: workers exchange gradients without servers. */
  def setNumServer(numServer: Int): this.type = noProcess("setNumServer", numServer > 0, numServer.toString)

  def setDataName(name: String): this.type = {
    requireNonNull("MXNet.setDataName", "name" -> name)
    dataName = name
    this
  }

  def setLabelName(name: String): this.type = {
    requireNonNull("MXNet.setLabelName", "name" -> name)
    labelName = name
    this
  }

  /** Sets the maximum time in seconds that a worker waits for others. */
  def setTimeout(timeout: Int): this.type = {
    this.timeout = timeout
    this
  }

  /** Accepted for compatibility: workers are tasks of Spark, which has the jars of the job. */
  def setExecutorJars(jars: String): this.type = noProcess("setExecutorJars", jars != null, jars)

  /** Accepted for compatibility: no Java process is started. */
  def setJava(java: String): this.type = noProcess("setJava", java != null, java)

  private def noProcess(method: String, isValid: Boolean, value: String): this.type = {
    require(isValid, s"$method: $value is not a valid value")
    MXNet.logger.info(s"$method($value) has no effect: training runs in Spark's tasks and starts no processes")
    this
  }

  /** Trains on labeled points. */
  def fit(data: RDD[LabeledPoint]): MXNetModel = {
    requireNonNull("MXNet.fit", "data" -> data)
    val table = Sessions
      .of(data.sparkContext)
      .createDataFrame(data.map(point => (point.label, point.features.asML)))
      .toDF(MXNet.LabelColumn, MXNet.FeaturesColumn)
    val estimator = new MXNetEstimator()
      .setSymbol(network.getOrElse(throw new IllegalArgumentException("fit: no network is set; call setNetwork")))
      .setFeedDict(Map(dataName -> MXNet.FeaturesColumn))
      .setLabelCol(MXNet.LabelColumn)
      .setLabelName(labelName)
      .setOptimizer(rate => new SGD(rate, momentum = 0.9f, wd = 0.00001f))
      .setLearningRate(0.01f)
      .setInitializer(new Xavier(factorType = "in", magnitude = 2.34f))
      .setNumWorkers(numWorker)
      .setNumShards(Math.multiplyExact(numWorker, numContexts))
      .setBatchSize(Math.multiplyExact(batchSize, numWorker))
      .setNumEpoch(numEpoch)
      .setTimeout(timeout)
      .setPredictionCol("")
    dimension.foreach(shape => estimator.setInputShapes(Map(dataName -> shape)))
    estimator.fit(table).setBatchSize(batchSize)
  }
}

private object MXNet {
  val LabelColumn = "label"
  val FeaturesColumn = "features"
  val logger = LoggerFactory.getLogger(classOf[MXNet])
}
