package org.apache.mxnet.spark

import scala.collection.immutable.SortedMap
import scala.jdk.CollectionConverters._

import org.apache.spark.ml.param.{Param, ParamPair, Params}
import org.json4s.jackson.JsonMethods.parse
import org.json4s.jackson.Serialization
import org.json4s.{DefaultFormats, Formats, JObject, JString}

/** A parameter that maps names to strings. Its value is the JSON text of the map, because clients of Spark Connect and
  * readers of saved stages do not support maps. The methods here and the setters of the stages accept both.
  */
class StringMapParam(parent: Params, name: String, doc: String, isValid: Map[String, String] => Boolean = _ => true)
    extends Param[String](
      parent.uid,
      name,
      doc,
      (json: String) => isValid(StringMapParam.parseJson(json)),
      classOf[String]
    ) {

  /** A pair with this parameter. */
  def ->(value: Map[String, String]): ParamPair[String] = super.->(StringMapParam.toJson(value))

  /** A pair with this parameter, for Java and Python. */
  def w(value: java.util.Map[String, String]): ParamPair[String] = this -> value.asScala.toMap

  override def jsonEncode(value: String): String = value

  override def jsonDecode(json: String): String = StringMapParam.toJson(StringMapParam.parseJson(json))
}

object StringMapParam {
  private implicit val formats: Formats = DefaultFormats

  /** The value of a parameter for a map. */
  def toJson(value: Map[String, String]): String = Serialization.write(SortedMap.from(value))

  /** The map of a parameter's value. */
  def parseJson(json: String): Map[String, String] =
    try
      parse(json) match {
        case JObject(fields) if fields.forall(_._2.isInstanceOf[JString]) =>
          fields.collect { case (name, JString(text)) => name -> text }.toMap
        case _ => throw new IllegalArgumentException(StringMapParam.expected(json))
      }
    catch {
      case error: com.fasterxml.jackson.core.JacksonException =>
        throw new IllegalArgumentException(expected(json), error)
    }

  private def expected(json: String) = s"$json is not a JSON object of strings, such as {\"data\":\"pixels\"}"
}
