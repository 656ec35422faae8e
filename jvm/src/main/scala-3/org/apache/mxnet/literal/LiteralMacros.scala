package org.apache.mxnet.literal

import scala.quoted.*

import org.apache.mxnet.codegen.OneOfMessage

/** Checks literals in Scala 3. */
private[mxnet] object LiteralMacros {

  /** Reports a compile error if `text` is a constant, or `Some` of one, that is not among the values `V`. A union of
    * literal types must have no other values.
    */
  inline def check[V <: String & Singleton](inline text: Any): Unit = ${ checkConstant[V]('text) }

  private def checkConstant[V: Type](text: Expr[Any])(using Quotes): Expr[Unit] = {
    import quotes.reflect.*

    def constants(term: Term): Seq[String] = term match {
      case Inlined(_, Nil, inner)                                                              => constants(inner)
      case Typed(inner, _)                                                                     => constants(inner)
      case Literal(StringConstant(value))                                                      => Seq(value)
      case Apply(TypeApply(Select(companion, "apply"), _), List(inner)) if isOption(companion) => constants(inner)
      case Apply(TypeApply(Select(New(some), _), _), List(inner)) if isOption(some)            => constants(inner)
      case other => constantsOf(other.tpe.widenTermRefByName)
    }

    def isOption(tree: Tree): Boolean = {
      val companion = tree.symbol.companionModule
      Seq(tree.symbol, companion).exists(
        Seq(Symbol.requiredModule("scala.Some"), Symbol.requiredModule("scala.Option")).contains
      )
    }

    def constantsOf(kind: TypeRepr): Seq[String] = kind.dealias match {
      case ConstantType(StringConstant(value)) => Seq(value)
      case OrType(left, right)                 => constantsOf(left) ++ constantsOf(right)
      case _                                   => Nil
    }

    val allowed = constantsOf(TypeRepr.of[V]).headOption.getOrElse {
      report.errorAndAbort(
        s"OneOf needs a literal type such as OneOf[\"a|b\"], not OneOf[${TypeRepr.of[V].show}]",
        text
      )
    }
    val known = allowed.split('|').toSeq
    constants(text.asTerm)
      .find(!known.contains(_))
      .foreach(wrong => report.errorAndAbort(OneOfMessage(wrong, known), text))
    '{ () }
  }
}
