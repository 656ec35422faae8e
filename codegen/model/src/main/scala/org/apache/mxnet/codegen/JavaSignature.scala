package org.apache.mxnet.codegen

/** A generated function of the Java API. An absent argument is `null`.
  *
  * @param parameters
  *   the operator's arguments, in the order of the metadata, without `out`
  */
final case class JavaSignature(operator: Operator, parameters: Seq[Parameter]) {
  def name: String = operator.name

  /** True if the function takes one object with all arguments, because it has several optional ones. */
  def hasParamObject: Boolean = parameters.count(_.optional) >= 2

  /** Required inputs that the operator has only with some settings. */
  def conditional: Set[String] =
    parameters
      .filter(parameter => !parameter.optional && Signature.isConditional(operator, parameter.argument))
      .map(_.name)
      .toSet

  /** The class of that object. */
  def paramClass: ScalaType = ClassType(s"${JavaSignature.javaapi}.${name}Param")

  /** The parameters as (name, type). */
  def declared: Seq[(String, ScalaType)] =
    if (hasParamObject) Seq("po" -> paramClass)
    else parameters.map(parameter => parameter.name -> parameter.scala) :+ ("out" -> JavaSignature.ndarray)
}

object JavaSignature {
  private val javaapi = "org.apache.mxnet.javaapi"

  val ndarray: ScalaType = ClassType(s"$javaapi.NDArray")

  /** The result type of every function. */
  val result: ScalaType = ScalaType.array(ndarray)

  def apply(operator: Operator): JavaSignature =
    JavaSignature(operator, operator.arguments.map(parameter(operator, _)))

  private def parameter(operator: Operator, argument: Argument): Parameter = {
    val parsed = ParsedType(argument.typeText)
    val inScala = Signature.parameter(operator, argument, ScalaType.NDArray)
    val isTensor = parsed.argumentType == ArgumentType.Tensor
    inScala.copy(
      scala = javaType(parsed.argumentType),
      optional = parsed.optional && (!isTensor || argument.typeText.contains("optional"))
    )
  }

  private def javaType(argumentType: ArgumentType): ScalaType = argumentType match {
    case ArgumentType.Tensor                         => ndarray
    case ArgumentType.Tensors                        => ScalaType.array(ndarray)
    case ArgumentType.Enumeration(_)                 => ScalaType.Text
    case ArgumentType.Plain(ScalaType.Shape)         => ClassType(s"$javaapi.Shape")
    case ArgumentType.Plain(ScalaType.Int)           => ClassType("java.lang.Integer")
    case ArgumentType.Plain(ScalaType.Long)          => ClassType("java.lang.Long")
    case ArgumentType.Plain(ScalaType.Float)         => ClassType("java.lang.Float")
    case ArgumentType.Plain(ScalaType.Double)        => ClassType("java.lang.Double")
    case ArgumentType.Plain(ScalaType.Boolean)       => ClassType("java.lang.Boolean")
    case ArgumentType.Plain(ScalaType.Text)          => ScalaType.Text
    case ArgumentType.Plain(_) | ArgumentType.Opaque => ClassType("scala.Any")
  }
}
