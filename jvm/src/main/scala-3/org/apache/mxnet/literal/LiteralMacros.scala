package org.apache.mxnet.literal

import scala.quoted.*

import org.apache.mxnet.codegen.OneOfMessage

/** Checks literals in Scala 3. */
private[mxnet] object LiteralMacros {

  /** Reports a compile error if `text` is a constant, or `Some` of one, that is not among the values `V`. */
  inline def check[V <: String & Singleton](inline text: Any): Unit = ${ checkConstant[V]('text) }

  private def checkConstant[V: Type](text: Expr[Any])(using Quotes): Expr[Unit] = {
    import quotes.reflect.*

    def constant(term: Term): Option[String] = term match {
      case Inlined(_, Nil, inner)                                                              => constant(inner)
      case Typed(inner, _)                                                                     => constant(inner)
      case Literal(StringConstant(value))                                                      => Some(value)
      case Apply(TypeApply(Select(companion, "apply"), _), List(inner)) if isOption(companion) => constant(inner)
      case Apply(TypeApply(Select(New(some), _), _), List(inner)) if isOption(some)            => constant(inner)
      case other => constantOf(other.tpe.widenTermRefByName)
    }

    def isOption(tree: Tree): Boolean = {
      val companion = tree.symbol.companionModule
      Seq(tree.symbol, companion).exists(
        Seq(Symbol.requiredModule("scala.Some"), Symbol.requiredModule("scala.Option")).contains
      )
    }

    def constantOf(kind: TypeRepr): Option[String] = kind.dealias match {
      case ConstantType(StringConstant(value)) => Some(value)
      case _                                   => None
    }

    val allowed = constantOf(TypeRepr.of[V]).getOrElse {
      report.errorAndAbort(
        s"OneOf needs a literal type such as OneOf[\"a|b\"], not OneOf[${TypeRepr.of[V].show}]",
        text
      )
    }
    val known = allowed.split('|').toSeq
    constant(text.asTerm)
      .filterNot(known.contains)
      .foreach(wrong => report.errorAndAbort(OneOfMessage(wrong, known), text))
    '{ () }
  }
}
