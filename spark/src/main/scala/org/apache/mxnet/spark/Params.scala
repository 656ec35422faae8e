package org.apache.mxnet.spark

import scala.jdk.CollectionConverters._

import org.apache.spark.ml.param.{Param, ParamPair, Params}
import org.json4s.{DefaultFormats, Formats}
import org.json4s.jackson.Serialization

/** A parameter that maps names to texts. */
class StringMapParam(parent: Params, name: String, doc: String, isValid: Map[String, String] => Boolean = _ => true)
    extends Param[Map[String, String]](parent.uid, name, doc, isValid) {
  private implicit def formats: Formats = DefaultFormats

  /** A pair with this parameter, for Java and Python. */
  def w(value: java.util.Map[String, String]): ParamPair[Map[String, String]] = super.w(value.asScala.toMap)

  override def jsonEncode(value: Map[String, String]): String = Serialization.write(value)

  override def jsonDecode(json: String): Map[String, String] = Serialization.read[Map[String, String]](json)
}
