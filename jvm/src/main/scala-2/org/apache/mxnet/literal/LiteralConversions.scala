package org.apache.mxnet.literal

import scala.language.experimental.macros
import scala.language.implicitConversions

import org.apache.mxnet.Opt
import org.apache.mxnet.codegen.LiteralMacros

/** Conversions of strings. The compiler checks literals. The artifact for Scala 3 has its own version of this trait. */
private[mxnet] trait LiteralConversions extends TextConversions {

  /** Converts a string to one of the values `V`. */
  implicit def oneOf[V <: String with Singleton](text: String): OneOf[V] = macro LiteralMacros.oneOf[V]

  /** The same for an optional argument. */
  implicit def optOneOf[V <: String with Singleton](text: String): Opt[OneOf[V]] = macro LiteralMacros.optOneOf[V]

  /** The same for `Some("literal")` and other options. */
  implicit def optionOneOf[V <: String with Singleton](text: Option[String]): Opt[OneOf[V]] =
    macro LiteralMacros.optionOneOf[V]
}
