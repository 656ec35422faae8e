package org.apache.mxnet.spark

import scala.jdk.CollectionConverters._

import org.apache.mxnet.Shape
import org.apache.mxnet.spark.internal.InputColumn
import org.apache.spark.ml.param._
import org.apache.spark.ml.param.shared.{HasHandleInvalid, HasPredictionCol}
import org.apache.spark.sql.{Column, DataFrame}
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{DataType, StructField, StructType}

/** Parameters of the stages that run a network on columns: [[MXNetModel]] and [[MXNetEstimator]]. */
trait NetworkParams extends Params with HasPredictionCol with HasHandleInvalid {

  /** The columns of the inputs. */
  final val feedDict: StringMapParam = new StringMapParam(
    this,
    "feedDict",
    "column of each input of the network, by the name of the input; an estimator without it reads 'data' from featuresCol"
  )

  /** The shapes of the inputs. */
  final val inputShapes: StringMapParam = new StringMapParam(
    this,
    "inputShapes",
    "shape of a row of an input, without the batch axis, by the name of the input, such as '1,28,28'; needed if it is " +
      "neither in the network nor that of the column's first value",
    checked[Map[String, String]]("inputShapes")(_.foreach { case (input, shape) =>
      require(
        NetworkParams.parseShape(shape).nonEmpty,
        s"the shape of '$input' is '$shape'; give the dimensions of a row, such as '1,28,28'"
      )
    })
  )

  /** The number of rows of a batch. */
  val batchSize: IntParam

  /** How rows with null or NaN are handled. */
  final override val handleInvalid: Param[String] = new Param(
    this,
    "handleInvalid",
    "how to handle rows whose inputs have null or NaN: 'error' (throw an error), 'skip' (leave out the rows), or 'keep' " +
      "(give NaN to the network; null remains an error). Infinite inputs are invalid in training, too",
    checked[String]("handleInvalid")(value =>
      require(
        NetworkParams.InvalidOptions.contains(value),
        s"'$value' is not one of ${NetworkParams.InvalidOptions.mkString(", ")}"
      )
    )
  )

  setDefault(inputShapes -> Map.empty[String, String], handleInvalid -> "error")

  /** A validator of a parameter. Spark's own message for an invalid value does not say which values are valid. */
  private[spark] def checked[A](name: String)(check: A => Unit): A => Boolean = value =>
    try {
      check(value)
      true
    } catch {
      case error: IllegalArgumentException =>
        val reason = error.getMessage.stripPrefix("requirement failed: ")
        throw new IllegalArgumentException(s"$uid: the parameter $name is invalid: $reason", error)
    }

  /** A parameter with a whole number of at least `least`. */
  private[spark] def wholeNumber(name: String, doc: String, least: Int): IntParam =
    new IntParam(
      this,
      name,
      s"$doc (>= $least)",
      checked[Int](name)(value => require(value >= least, s"it is $value; give a whole number of at least $least"))
    )

  /** The value of a parameter as a map. */
  private[spark] def mapOf(param: StringMapParam): Map[String, String] = StringMapParam.parseJson($(param))

  def getFeedDict: Map[String, String] = mapOf(feedDict)
  def getInputShapes: Map[String, String] = mapOf(inputShapes)
  def getBatchSize: Int = $(batchSize)

  def setFeedDict(value: Map[String, String]): this.type = setMap(feedDict, value)
  def setFeedDict(value: java.util.Map[String, String]): this.type = setMap(feedDict, value)
  def setInputShapes(value: Map[String, Shape]): this.type = {
    requireMap(inputShapes, value)
    set(inputShapes -> value.map { case (name, shape) => name -> shape.toVector.mkString(",") })
  }
  def setInputShapes(value: java.util.Map[String, String]): this.type = setMap(inputShapes, value)
  def setBatchSize(value: Int): this.type = set(batchSize, value)
  def setHandleInvalid(value: String): this.type = set(handleInvalid, value)

  /** Sets the name of the column with the index of the largest element of the network's first output, or with the
    * element itself if there is only one. The empty name adds no column.
    */
  def setPredictionCol(value: String): this.type = set(predictionCol, value)

  private[spark] def setMap(param: StringMapParam, value: Map[String, String]): this.type = {
    requireMap(param, value)
    set(param -> value)
  }

  private[spark] def setMap(param: StringMapParam, value: java.util.Map[String, String]): this.type = {
    requireMap(param, value)
    set(param -> value.asScala.toMap)
  }

  private def requireMap(param: StringMapParam, value: AnyRef): Unit =
    require(value != null, s"$uid: the parameter ${param.name} is invalid: it is null; give a map")

  /** The dimensions of a row of an input that `inputShapes` has. */
  private[spark] def shapeOf(input: String): Option[Seq[Int]] =
    getInputShapes.get(input).flatMap(NetworkParams.parseShape)

  /** Rejects shapes of inputs that the stage does not have. */
  private[spark] def checkShapes(inputs: Seq[String]): Unit =
    getInputShapes.keys.toSeq.sorted.find(!inputs.contains(_)).foreach { unknown =>
      throw new IllegalArgumentException(
        s"$uid: inputShapes has a shape for '$unknown', which is not an input; the inputs are ${inputs.mkString(", ")}"
      )
    }

  /** The column of this name.
    *
    * @param use the use of the column in messages, such as "the input 'data'"
    */
  private[spark] def findColumn(schema: StructType, name: String, use: String): StructField =
    NetworkParams.columnsNamed(schema, name) match {
      case Seq(field) => field
      case Seq()      =>
        throw new IllegalArgumentException(
          s"$uid: there is no column '$name' for $use; the columns are ${schema.fieldNames.mkString(", ")}"
        )
      case several =>
        throw new IllegalArgumentException(
          s"$uid: there are ${several.length} columns '$name' for $use; rename those that are not meant"
        )
    }

  /** The column of this name, whose values an input of a network can take. */
  private[spark] def findInput(schema: StructType, name: String, use: String): StructField = {
    val field = findColumn(schema, name, use)
    if (!InputColumn.accepts(field.dataType)) throw wrongType(field, use, InputColumn.Accepted)
    field
  }

  private[spark] def wrongType(field: StructField, use: String, expected: String): IllegalArgumentException =
    new IllegalArgumentException(
      s"$uid: column '${field.name}' has the type ${field.dataType.sql}; $use takes $expected"
    )

  /** The column of this name, which may contain dots. */
  private[spark] def columnOf(name: String): Column = col("`" + name.replace("`", "``") + "`")

  /** The rows without null in any of these columns. */
  private[spark] def withoutNull(frame: DataFrame, columns: Seq[String]): DataFrame =
    frame.where(columns.map(columnOf(_).isNotNull).reduce(_ && _))

  /** A schema with new columns. */
  private[spark] def append(schema: StructType, columns: Seq[(String, DataType)]): StructType =
    columns.foldLeft(schema) { case (all, (name, dataType)) =>
      NetworkParams.columnsNamed(all, name).foreach { existing =>
        throw new IllegalArgumentException(
          s"$uid: the new column '$name' exists already, with the type ${existing.dataType.sql}; choose another name"
        )
      }
      all.add(name, dataType, nullable = false)
    }
}

private[spark] object NetworkParams {
  val InvalidOptions: Seq[String] = Seq("error", "skip", "keep")

  /** The columns of this name, as Spark SQL compares names. */
  def columnsNamed(schema: StructType, name: String): Seq[StructField] =
    schema.filter(field => SQLConf.get.resolver(field.name, name))

  /** The dimensions of a shape such as `1,28,28` or `(1, 28, 28)`. */
  def parseShape(text: String): Option[Seq[Int]] = {
    val inner = text.trim.stripPrefix("(").stripSuffix(")").trim
    val dims = if (inner.isEmpty) Nil else inner.stripSuffix(",").split(',').toSeq.map(_.trim.toIntOption.filter(_ > 0))
    Option.unless(dims.contains(None))(dims.flatten)
  }
}
