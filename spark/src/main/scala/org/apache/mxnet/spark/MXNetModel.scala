package org.apache.mxnet.spark

import java.io.{ObjectInputStream, ObjectOutputStream}

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.mxnet.internal.util.NullChecks.requireNonNull
import org.apache.mxnet.spark.internal._
import org.apache.mxnet.{FeedForward, NDArray, Symbol}
import org.apache.spark.SparkContext
import org.apache.spark.ml.Model
import org.apache.spark.ml.param._
import org.apache.spark.ml.util._
import org.apache.spark.mllib.linalg.Vector
import org.apache.spark.sql.ferromx.{AppendColumns, SavedFiles, Sessions}
import org.apache.spark.sql.types.{DataType, DoubleType, StructType}
import org.apache.spark.sql.{DataFrame, Dataset, SparkSession}

/** Parameters of [[MXNetModel]]. */
trait MXNetModelParams extends NetworkParams {

  /** The path of the model. */
  final val modelPath: Param[String] = new Param(
    this,
    "modelPath",
    "path of the model: an ONNX file, a directory with one ONNX file and its external data, or the prefix of " +
      "PREFIX-symbol.json and PREFIX-NNNN.params; on any file system that Hadoop knows"
  )

  /** The number in the name of the `.params` file. */
  final val epoch: IntParam = wholeNumber("epoch", "number NNNN of the file PREFIX-NNNN.params", 0)

  /** The outputs of the new columns. */
  final val fetchDict: StringMapParam = new StringMapParam(
    this,
    "fetchDict",
    "output of the model for each new column, by the name of the column; outputs of inner nodes are allowed"
  )

  /** The number of rows per batch. */
  final override val batchSize: IntParam =
    wholeNumber("batchSize", "number of rows that the model is run on at once", 1)

  /** The order of the dimensions of images. */
  final val imageLayout: Param[String] = new Param(
    this,
    "imageLayout",
    "order of dimensions of inputs that take images: NCHW or NHWC",
    checked[String]("imageLayout")(layout =>
      require(layout == "NCHW" || layout == "NHWC", s"'$layout' is neither NCHW nor NHWC")
    )
  )

  /** The mean of images. */
  final val imageMean: DoubleArrayParam = new DoubleArrayParam(
    this,
    "imageMean",
    "mean of the pixels (0 to 255) of images, which is subtracted: one number, or one for each channel"
  )

  /** The standard deviation of images. */
  final val imageStd: DoubleArrayParam = new DoubleArrayParam(
    this,
    "imageStd",
    "divisor of the pixels of images, after imageMean is subtracted: one number, or one for each channel (not 0)",
    checked[Array[Double]]("imageStd")(values =>
      require(!values.contains(0.0), "it contains 0, by which pixels are divided")
    )
  )

  setDefault(
    epoch -> 0,
    batchSize -> 64,
    imageLayout -> "NCHW",
    imageMean -> Array.empty[Double],
    imageStd -> Array.empty[Double],
    predictionCol -> ""
  )

  def getModelPath: String = $(modelPath)
  def getEpoch: Int = $(epoch)
  def getFetchDict: Map[String, String] = mapOf(fetchDict)
  def getImageLayout: String = $(imageLayout)
  def getImageMean: Array[Double] = $(imageMean)
  def getImageStd: Array[Double] = $(imageStd)
}

/** Runs a trained network on the rows of a table and adds its outputs as columns.
  *
  * {{{
  * val model = new MXNetModel()
  *   .setModelPath("hdfs:///models/lenet")
  *   .setFeedDict(Map("data" -> "pixels"))
  *   .setInputShapes(Map("data" -> Shape(1, 28, 28)))
  *   .setFetchDict(Map("probabilities" -> "softmax_output"))
  * model.transform(images)
  * }}}
  *
  * Each executor loads a model once, and all of its tasks share the parameters. A new column has the output's elements
  * of the row as an array: of float for 16-bit and 32-bit floating-point outputs, of double, of long, and of int for
  * all others. Results do not depend on the batch size or on how the rows are partitioned.
  */
class MXNetModel(override val uid: String) extends Model[MXNetModel] with MXNetModelParams with DefaultParamsWritable {
  def this() = this(Identifiable.randomUID("mxnet"))

  /** A model that was set by its content instead of a path. Java serialization includes it. */
  @transient private var payload: Option[ModelFiles] = None

  /** The files of the model with their path and epoch, cached for [[predict]] and [[innerModel]]. */
  @transient private var cached: Option[((String, Int), ModelFiles)] = None

  /** The files of a saved stage with their path and epoch. A loaded stage keeps them, so that it can be saved to its own
    * path, and survives its directory, as other stages do.
    */
  @transient private var kept: Option[((String, Int), ModelFiles)] = None

  def setModelPath(value: String): this.type = {
    payload = None
    set(modelPath, value)
  }
  def setEpoch(value: Int): this.type = set(epoch, value)
  def setFetchDict(value: Map[String, String]): this.type = setMap(fetchDict, value)
  def setFetchDict(value: java.util.Map[String, String]): this.type = setMap(fetchDict, value)
  def setImageLayout(value: String): this.type = set(imageLayout, value)
  def setImageMean(value: Array[Double]): this.type = set(imageMean, value)
  def setImageStd(value: Array[Double]): this.type = set(imageStd, value)

  /** Sets the model to the content of an ONNX file, instead of `modelPath`. */
  def setPayload(onnx: Array[Byte]): this.type = {
    requireNonNull("MXNetModel.setPayload", "onnx" -> onnx)
    setFiles(ModelFiles.ofOnnx(onnx))
  }

  /** Sets the model to a network with its parameters, instead of `modelPath`. */
  def setNetwork(
      symbol: Symbol,
      argParams: Map[String, NDArray],
      auxParams: Map[String, NDArray] = Map.empty
  ): this.type =
    setFiles(ModelFiles.ofNetwork(symbol, argParams, auxParams))

  private[spark] def withFiles(files: ModelFiles): this.type = setFiles(files)

  private def setFiles(files: ModelFiles): this.type = {
    payload = Some(files)
    clear(modelPath)
  }

  /** The model of `modelPath`. Without a path, the content that was set last. */
  private[spark] def files: ModelFiles = get(modelPath) match {
    case Some(path) =>
      kept.filter(_._1 == ((path, $(epoch)))).fold(ModelFiles.of(path, $(epoch), MXNetModel.hadoopConf))(_._2)
    case None =>
      payload.getOrElse {
        throw new IllegalArgumentException(s"$uid has no model; set modelPath, or call setPayload or setNetwork")
      }
  }

  /** Sets the path of a saved stage's files, and keeps them. */
  private def setSavedFiles(path: String, number: Int, conf: Configuration): this.type = {
    kept = Some((path, number) -> ModelFiles.of(path, number, conf).keep())
    setModelPath(path).setEpoch(number)
  }

  override def transformSchema(schema: StructType): StructType = checkedSchema(schema, files)

  private def checkedSchema(schema: StructType, model: ModelFiles): StructType = {
    require(isSet(feedDict) && getFeedDict.nonEmpty, s"$uid: set feedDict, the column of each input of the model")
    require(isSet(fetchDict) && getFetchDict.nonEmpty, s"$uid: set fetchDict, the output for each new column")
    feeds(schema)
    val outputs = outputColumns(model)
    checkShapes(getFeedDict.keys.toSeq.sorted)
    val prediction = Option.when($(predictionCol).nonEmpty)($(predictionCol) -> DoubleType)
    append(schema, outputs ++ prediction)
  }

  /** The new columns with their types. */
  private def outputColumns(model: ModelFiles) = {
    val types = MXNetModel.outputTypes(model, getFeedDict.keys.toSeq.sorted, fetches.map(_._2))
    fetches.map(_._1).zip(types)
  }

  /** Columns and outputs, sorted by column name so that the order is the same after loading a saved model. */
  private def fetches: Seq[(String, String)] = getFetchDict.toSeq.sorted

  private def feeds(schema: StructType): Seq[Feed] = getFeedDict.toSeq.sorted.map { case (input, column) =>
    Feed(input, column, findInput(schema, column, s"the input '$input'").dataType, shapeOf(input))
  }

  override def transform(dataset: Dataset[_]): DataFrame = {
    val model = files
    val schema = checkedSchema(dataset.schema, model)
    val inputs = feeds(dataset.schema)
    val valid = if ($(handleInvalid) == "skip") withoutNull(dataset.toDF(), inputs.map(_.column)) else dataset.toDF()
    val function = ModelFunction(
      model.ship(dataset.sparkSession.sparkContext),
      inputs,
      fetches.map(_._2),
      outputColumns(model).map(_._2),
      $(predictionCol).nonEmpty,
      $(batchSize),
      $(handleInvalid),
      ImageFormat($(imageLayout) == "NCHW", $(imageMean).toSeq, $(imageStd).toSeq)
    )
    AppendColumns(valid, inputs.map(_.column), StructType(schema.drop(dataset.schema.length)), function)
  }

  /** All outputs of the network for some rows, each concatenated over the rows, as in MXNet's package for Spark. A
    * program that distributes the rows itself calls this in its tasks; [[transform]] does it for tables.
    *
    * @param dataset the elements of the only input of the network, row by row
    * @return the outputs; none if there are no rows, as in an empty partition
    */
  def predict(dataset: Iterator[Vector]): Array[MXNDArray] = {
    val model = cachedFiles
    require(
      getFeedDict.size == 1,
      s"$uid: predict needs a network with one input, but this one has ${getFeedDict.keys.toSeq.sorted.mkString(", ")}"
    )
    if (dataset.isEmpty) Array.empty
    else
      Using.resource(ModelSession.acquire(model.hash, () => ModelSession.load(model))) { lease =>
        new VectorPrediction(lease.session, getFeedDict.head._1, shapeOf, $(batchSize)).run(dataset).map(MXNDArray(_))
      }
  }

  /** The outputs for one row. */
  def predict(data: Vector): Array[MXNDArray] = predict(Iterator.single(data))

  /** The network with its parameters, to use without Spark. */
  def innerModel: FeedForward = {
    val (symbol, params) = cachedFiles.load()
    new FeedForward(
      symbol,
      argParams = params.args,
      auxParams = params.aux,
      batchSize = $(batchSize),
      allowExtraParams = true
    )
  }

  /** [[innerModel]] as bytes, which `FeedForward.deserialize` reads. */
  def serializedModel: Array[Byte] = {
    val model = innerModel
    try model.serialize()
    finally model.dispose()
  }

  /** Saves the model; [[MXNetModel.load(sc* MXNetModel.load]] reads it. */
  def save(sc: SparkContext, path: String): Unit =
    write.session(Sessions.of(sc)).save(path)

  private def cachedFiles: ModelFiles = synchronized {
    get(modelPath).fold(files) { path =>
      val key = (path, $(epoch))
      val entry = Option(cached).flatten.filter(_._1 == key).getOrElse(key -> files)
      cached = Some(entry)
      entry._2
    }
  }

  private def writeObject(out: ObjectOutputStream): Unit = {
    out.defaultWriteObject()
    out.writeBoolean(payload.nonEmpty)
    payload.foreach(_.write(out))
  }

  private def readObject(in: ObjectInputStream): Unit = {
    in.defaultReadObject()
    payload = Option.when(in.readBoolean())(ModelFiles.read(in))
    cached = None
    kept = None
  }

  override def copy(extra: ParamMap): MXNetModel = {
    val that = new MXNetModel(uid)
    that.payload = payload
    that.kept = kept
    copyValues(that, extra).setParent(parent)
  }

  /** Saves the parameters and the files of the model. */
  override def write: MLWriter = new MXNetModel.Writer(this, super.write)

  override def toString: String = s"MXNetModel: uid=$uid" + get(modelPath).fold("")(path => s", modelPath=$path")
}

/** Loads saved models. */
object MXNetModel extends MLReadable[MXNetModel] {
  private val ModelDirectory = "model"

  override def read: MLReader[MXNetModel] = new Reader

  override def load(path: String): MXNetModel = super.load(path)

  /** Loads a saved model. */
  def load(sc: SparkContext, path: String): MXNetModel =
    read.session(Sessions.of(sc)).load(path)

  private def hadoopConf: Configuration =
    SparkSession.getActiveSession.orElse(SparkSession.getDefaultSession).fold(new Configuration) { session =>
      session.sparkContext.hadoopConfiguration
    }

  /** The types of the columns for the requested outputs of a model; cached, because the driver needs them often. */
  private def outputTypes(model: ModelFiles, feeds: Seq[String], fetches: Seq[String]) =
    types.computeIfAbsent(
      (model.hash, feeds, fetches),
      _ =>
        Using.resource(ModelSession.acquire(model.hash, () => ModelSession.load(model))) { lease =>
          val names = lease.session.inputNames
          feeds.find(!names.contains(_)).foreach { unknown =>
            throw new IllegalArgumentException(
              s"feedDict has a column for '$unknown', but the model has no such input; it has ${names.mkString(", ")}"
            )
          }
          lease.session.types(feeds, fetches)._2.map(OutputColumn.typeOf)
        }
    )

  private val types =
    new java.util.concurrent.ConcurrentHashMap[(String, Seq[String], Seq[String]), Seq[DataType]]

  private object ParamsReader extends DefaultParamsReadable[MXNetModel]

  private final class Writer(model: MXNetModel, params: MLWriter) extends MLWriter {
    override protected def saveImpl(path: String): Unit = {
      params.session(sparkSession).save(path)
      model.files.copyTo(SavedFiles.path(path, ModelDirectory), sc.hadoopConfiguration)
    }
  }

  private final class Reader extends MLReader[MXNetModel] {
    override def load(path: String): MXNetModel = {
      val model = ParamsReader.read.session(sparkSession).load(path)
      val (modelPath, epoch) = ModelFiles.pathIn(SavedFiles.path(path, ModelDirectory), sc.hadoopConfiguration)
      model.setSavedFiles(modelPath, epoch, sc.hadoopConfiguration)
    }
  }
}
