package org.apache.mxnet.codegen

/** A Scala type as data, from which both source text and compiler trees are made. */
sealed trait ScalaType {

  /** The type as source text. */
  def text: String
}

/** A class, with its type arguments: `Array[org.apache.mxnet.Symbol]`. */
final case class ClassType(path: String, arguments: ScalaType*) extends ScalaType {
  def text: String = if (arguments.isEmpty) path else arguments.map(_.text).mkString(s"$path[", ", ", "]")
}

/** The type of one string: `"relu|tanh"`. */
final case class LiteralType(value: String) extends ScalaType {
  def text: String = "\"" + value.replace("\\", "\\\\").replace("\"", "\\\"") + "\""
}

object ScalaType {
  val Int: ScalaType = ClassType("scala.Int")
  val Long: ScalaType = ClassType("scala.Long")
  val Float: ScalaType = ClassType("org.apache.mxnet.Base.MXFloat")
  val Double: ScalaType = ClassType("scala.Double")
  val Boolean: ScalaType = ClassType("scala.Boolean")
  val Text: ScalaType = ClassType("java.lang.String")
  val Attributes: ScalaType = ClassType("scala.collection.immutable.Map", Text, Text)
  val Shape: ScalaType = ClassType("org.apache.mxnet.Shape")
  val Symbol: ScalaType = ClassType("org.apache.mxnet.Symbol")
  val NDArray: ScalaType = ClassType("org.apache.mxnet.NDArray")
  val NDArrayFuncReturn: ScalaType = ClassType("org.apache.mxnet.NDArrayFuncReturn")

  def array(element: ScalaType): ScalaType = ClassType("scala.Array", element)
  def opt(value: ScalaType): ScalaType = ClassType("org.apache.mxnet.Opt", value)
  def tupleOf(element: ScalaType): ScalaType = ClassType("org.apache.mxnet.TupleOf", element)
  def oneOf(values: Seq[String]): ScalaType =
    ClassType("org.apache.mxnet.literal.OneOf", LiteralType(values.mkString("|")))
}
