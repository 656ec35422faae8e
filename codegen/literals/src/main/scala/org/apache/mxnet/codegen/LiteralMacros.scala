package org.apache.mxnet.codegen

import scala.reflect.macros.blackbox

/** Implementations of the implicit conversions from `String` to `OneOf`: a literal (or a constant) is checked at
  * compile time, anything else by the operator.
  */
final class LiteralMacros(val c: blackbox.Context) {
  import c.universe._

  /** `text` as a `OneOf[V]`. */
  def oneOf[V: WeakTypeTag](text: Tree): Tree = {
    val values = weakTypeOf[V]
    constant(text).foreach(check(values, _))
    q"_root_.org.apache.mxnet.literal.OneOf.text[$values]($text)"
  }

  /** `text` as an `Opt[OneOf[V]]`. */
  def optOneOf[V: WeakTypeTag](text: Tree): Tree =
    q"_root_.org.apache.mxnet.Opt.value(${oneOf[V](text)})"

  /** `text`, an option, as an `Opt[OneOf[V]]`; the literal inside `Some("…")` is checked like a bare one. */
  def optionOneOf[V: WeakTypeTag](text: Tree): Tree = {
    val values = weakTypeOf[V]
    text match {
      case q"$_[..$_](${Literal(Constant(literal: String))})" => check(values, literal)
      case _                                                  =>
    }
    q"_root_.org.apache.mxnet.literal.OneOf.optionalText[$values]($text)"
  }

  private def constant(text: Tree): Option[String] =
    (text, text.tpe) match {
      case (Literal(Constant(literal: String)), _)      => Some(literal)
      case (_, ConstantType(Constant(literal: String))) => Some(literal)
      case _                                            => None
    }

  private def check(values: Type, literal: String): Unit =
    values.dealias match {
      case ConstantType(Constant(allowed: String)) =>
        val known = allowed.split('|')
        if (!known.contains(literal)) c.abort(c.enclosingPosition, OneOfMessage(literal, known.toSeq))
      case other =>
        c.abort(c.enclosingPosition, s"OneOf needs a literal type such as OneOf[\"a|b\"], not OneOf[$other]")
    }
}
