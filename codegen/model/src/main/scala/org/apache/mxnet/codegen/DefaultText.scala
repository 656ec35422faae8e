package org.apache.mxnet.codegen

/** Defaults of the engine as Scala source. */
object DefaultText {

  /** `text`, the default of an argument of type `scala`, as an expression; `None` if the engine has no value, or one that
    * the type cannot express.
    */
  def apply(scala: ScalaType, text: String): Option[String] = scala match {
    case enumeration: ClassType if values(enumeration).contains(text) => Some(LiteralType(text).text)
    case _ if text == "None"                                          => None
    case ScalaType.Text                                               => Some(LiteralType(text).text)
    case ScalaType.Boolean                                            => boolean(text)
    case ScalaType.Shape                                              => elements(text, ScalaType.Int, "Shape")
    case tuple: ClassType if tuple.arguments.nonEmpty                 => elements(text, tuple.arguments.head, "Seq")
    case _                                                            => number(scala, text)
  }

  private def values(enumeration: ClassType): Seq[String] =
    enumeration.arguments.collect { case LiteralType(values) => values.split('|').toSeq }.flatten

  private def boolean(text: String): Option[String] = text match {
    case "1" | "True"  => Some("true")
    case "0" | "False" => Some("false")
    case _             => None
  }

  private def number(scala: ScalaType, text: String): Option[String] = scala match {
    case ScalaType.Int    => text.toIntOption.map(_.toString)
    case ScalaType.Long   => text.toLongOption.map(value => s"${value}L")
    case ScalaType.Float  => text.toFloatOption.filter(_.isFinite).map(value => s"${value}f")
    case ScalaType.Double => text.toDoubleOption.filter(_.isFinite).map(_.toString)
    case _                => None
  }

  /** A `constructor` of the elements of `[1,2]` or `(1, 2)`. */
  private def elements(text: String, element: ScalaType, constructor: String): Option[String] = {
    val inner = text.stripPrefix("[").stripPrefix("(").stripSuffix("]").stripSuffix(")")
    val shown = inner.split(',').toSeq.map(_.trim).filter(_.nonEmpty).map(number(element, _))
    if (shown.forall(_.isDefined)) Some(shown.flatten.mkString(s"$constructor(", ", ", ")")) else None
  }
}
