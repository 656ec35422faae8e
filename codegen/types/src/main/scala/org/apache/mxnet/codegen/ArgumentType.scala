package org.apache.mxnet.codegen

/** The type of an operator argument, parsed from its type string `<C++ type>, <required|optional>, default=<value>`. */
sealed trait ArgumentType

object ArgumentType {

  /** One symbol or array. */
  case object Tensor extends ArgumentType

  /** Any number of symbols or arrays. */
  case object Tensors extends ArgumentType

  /** A value of a plain Scala type. */
  final case class Plain(scala: ScalaType) extends ArgumentType

  /** An enumeration of strings. */
  final case class Enumeration(values: Seq[String]) extends ArgumentType

  /** A type that the metadata does not describe; no public function has an argument of it. */
  case object Opaque extends ArgumentType

  private val plain: Map[String, ArgumentType] = Map(
    "Shape(tuple)" -> ScalaType.Shape,
    "ShapeorNone" -> ScalaType.Shape,
    "float" -> ScalaType.Float,
    "real_t" -> ScalaType.Float,
    "floatorNone" -> ScalaType.Float,
    "int" -> ScalaType.Int,
    "intorNone" -> ScalaType.Int,
    "int(non-negative)" -> ScalaType.Int,
    "long" -> ScalaType.Long,
    "longorNone" -> ScalaType.Long,
    "long(non-negative)" -> ScalaType.Long,
    "double" -> ScalaType.Double,
    "doubleorNone" -> ScalaType.Double,
    "string" -> ScalaType.Text,
    "boolean" -> ScalaType.Boolean,
    "booleanorNone" -> ScalaType.Boolean
  ).map { case (text, scala) => text -> Plain(scala) }

  private val TupleOf = "tupleof<(.*)>".r

  /** The type with the C++ name `cpp`, which has no whitespace.
    *
    * @param typeText
    *   the whole type string, for the message
    * @throws java.lang.IllegalArgumentException
    *   if there is no such type
    */
  def named(cpp: String, typeText: String): ArgumentType = cpp match {
    case "Symbol" | "NDArray" | "NDArray-or-Symbol"                            => Tensor
    case "Symbol[]" | "NDArray[]" | "NDArray-or-Symbol[]" | "SymbolorSymbol[]" => Tensors
    case "ptr" | ""                                                            => Opaque
    case TupleOf(element)                                                      =>
      named(element, typeText) match {
        case Plain(scala) => Plain(ScalaType.tupleOf(scala))
        case _            => throw unknown(cpp, typeText)
      }
    case _ => plain.getOrElse(cpp, throw unknown(cpp, typeText))
  }

  private def unknown(cpp: String, typeText: String) =
    new IllegalArgumentException(s"Invalid type for args: $cpp, $typeText")
}

/** A parsed type string: the type, whether the argument is optional, and the default as written by the operator. */
final case class ParsedType(argumentType: ArgumentType, optional: Boolean, default: Option[String])

object ParsedType {
  private val Values = """(?s)\s*\{(.*?)\}(.*)""".r
  private val Default = """(?s).*?default\s*=\s*(.*)""".r

  /** Parses a type string. One or two fields describe a required argument, three or more an `optional` one with a
    * `default=`. A single tensor is always optional, because the graph creates a variable for an omitted one.
    *
    * @throws java.lang.IllegalArgumentException
    *   if the string has another form
    */
  def apply(typeText: String): ParsedType = {
    val (enumeration, rest) = typeText match {
      case Values(values, rest) => (Some(values.split(',').toSeq.map(value => unquoted(value.trim))), "string" + rest)
      case _                    => (None, typeText)
    }
    val fields = rest.replaceAll("\\s+", "").split(",").toSeq
    def unrecognized = new IllegalArgumentException(s"Unrecognized arg field: $typeText, ${fields.size}")
    if (fields.isEmpty) throw unrecognized
    val named = ArgumentType.named(fields.head, typeText)
    val argumentType = enumeration.fold(named)(ArgumentType.Enumeration(_))
    if (fields.size < 3) ParsedType(argumentType, argumentType == ArgumentType.Tensor, None)
    else {
      if (fields(1) != "optional" || !fields(2).startsWith("default=")) throw unrecognized
      val default = rest match { case Default(text) => Some(unquoted(text.trim)); case _ => None }
      ParsedType(argumentType, optional = true, default)
    }
  }

  private def unquoted(text: String): String =
    if (text.length >= 2 && text.startsWith("'") && text.endsWith("'")) text.substring(1, text.length - 1) else text
}
