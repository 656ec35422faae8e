package org.apache.mxnet.literal

import scala.language.implicitConversions

import org.apache.mxnet.Opt

/** Conversions of strings. The compiler checks literals. The artifact for Scala 2 has its own version of this trait. */
private[mxnet] trait LiteralConversions extends TextConversions {

  /** Converts a string to one of the values `V`. */
  implicit inline def oneOf[V <: String & Singleton](inline text: String): OneOf[V] = {
    LiteralMacros.check[V](text)
    OneOf.text[V](text)
  }

  /** The same for an optional argument. */
  implicit inline def optOneOf[V <: String & Singleton](inline text: String): Opt[OneOf[V]] = {
    LiteralMacros.check[V](text)
    Opt.value(OneOf.text[V](text))
  }

  /** The same for `Some("literal")` and other options. */
  implicit inline def optionOneOf[V <: String & Singleton](inline text: Option[String]): Opt[OneOf[V]] = {
    LiteralMacros.check[V](text)
    OneOf.optionalText[V](text)
  }
}
