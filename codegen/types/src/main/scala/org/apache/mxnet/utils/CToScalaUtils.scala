package org.apache.mxnet.utils

import org.apache.mxnet.codegen.{ArgumentType, ParsedType, ScalaType}

/** The type conversions of the released package, for programs in its packages that call them. */
private[mxnet] object CToScalaUtils {

  /** The Scala or Java type of a C++ type name.
    *
    * @param in the C++ type, without whitespace
    * @param argType the whole type string, for the message
    * @param argName name of the argument, for the message
    * @param returnType the class of symbols or arrays
    * @param isJava whether numbers are objects
    */
  def typeConversion(in: String, argType: String = "", argName: String, returnType: String, isJava: Boolean): String =
    text(ArgumentType.named(in, s"$argName: $argType"), returnType, isJava)

  /** The type of an argument, and whether it is optional; see [[typeConversion]]. */
  def argumentCleaner(argName: String, argType: String, returnType: String, isJava: Boolean): (String, Boolean) = {
    val parsed =
      try ParsedType(argType)
      catch { case e: IllegalArgumentException => throw new IllegalArgumentException(s"$argName: ${e.getMessage}", e) }
    val mayBeVariable = returnType.endsWith(".Symbol") || returnType == "Symbol"
    val isOptional = parsed.default.isDefined || parsed.argumentType == ArgumentType.Tensor && mayBeVariable
    (text(parsed.argumentType, returnType, isJava), isOptional)
  }

  private def text(argumentType: ArgumentType, returnType: String, isJava: Boolean): String = argumentType match {
    case ArgumentType.Tensor                 => returnType
    case ArgumentType.Tensors                => s"Array[$returnType]"
    case ArgumentType.Enumeration(_)         => "String"
    case ArgumentType.Plain(ScalaType.Shape) => (returnType.split('.').init :+ "Shape").mkString(".")
    case ArgumentType.Plain(ScalaType.Text)  => "String"
    case ArgumentType.Plain(scala)           =>
      val (plain, boxed) = scala match {
        case ScalaType.Int     => ("Int", "java.lang.Integer")
        case ScalaType.Long    => ("Long", "java.lang.Long")
        case ScalaType.Float   => ("org.apache.mxnet.Base.MXFloat", "java.lang.Float")
        case ScalaType.Double  => ("Double", "java.lang.Double")
        case ScalaType.Boolean => ("Boolean", "java.lang.Boolean")
        case _                 => ("Any", "Any")
      }
      if (isJava) boxed else plain
    case ArgumentType.Opaque => "Any"
  }
}
