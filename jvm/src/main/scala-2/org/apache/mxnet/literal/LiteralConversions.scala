package org.apache.mxnet.literal

import scala.language.experimental.macros
import scala.language.implicitConversions

import org.apache.mxnet.Opt
import org.apache.mxnet.codegen.LiteralMacros

/** Conversions of strings that the compiler checks where they are literals. The artifact for Scala 3 has another
  * trait of this name.
  */
private[mxnet] trait LiteralConversions extends TextConversions {

  /** A text as one of the values `V`. */
  implicit def oneOf[V <: String with Singleton](text: String): OneOf[V] = macro LiteralMacros.oneOf[V]

  /** The same for an argument that may be left out. */
  implicit def optOneOf[V <: String with Singleton](text: String): Opt[OneOf[V]] = macro LiteralMacros.optOneOf[V]

  /** The same for `Some("literal")` and other options. */
  implicit def optionOneOf[V <: String with Singleton](text: Option[String]): Opt[OneOf[V]] =
    macro LiteralMacros.optionOneOf[V]
}
