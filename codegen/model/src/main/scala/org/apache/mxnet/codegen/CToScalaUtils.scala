package org.apache.mxnet.codegen

/** Conversions of operator types to Scala types. */
object CToScalaUtils {

  /** The Scala type of a C++ type name without whitespace.
    *
    * @throws java.lang.IllegalArgumentException
    *   for an unknown name
    */
  def typeConversion(in: String, argType: String = "", family: ScalaType = ScalaType.Symbol): String =
    text(ArgumentType.named(in, argType), family)

  /** The Scala type of a type string, and whether the argument is optional. */
  def argumentCleaner(argType: String, family: ScalaType = ScalaType.Symbol): (String, Boolean) = {
    val parsed = ParsedType(argType)
    (text(parsed.argumentType, family), parsed.optional)
  }

  private def text(argumentType: ArgumentType, family: ScalaType): String = argumentType match {
    case ArgumentType.Tensor         => family.text
    case ArgumentType.Tensors        => s"Array[${family.text}]"
    case ArgumentType.Plain(scala)   => scala.text.stripPrefix("scala.").stripPrefix("java.lang.")
    case ArgumentType.Enumeration(_) => "String"
    case ArgumentType.Opaque         => "Any"
  }
}
