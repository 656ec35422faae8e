package org.apache.mxnet

import scala.language.experimental.macros
import scala.language.implicitConversions

import org.apache.mxnet.codegen.LiteralMacros

/** Texts that are checked while a program is compiled. Nothing here needs an import: Scala 2 finds these conversions
  * through the package of `OneOf`. Scala 3 does not look here, and uses the ones of the companion object.
  */
package object literal {

  /** A text as one of the values `V`; a literal is checked by the compiler. */
  implicit def oneOf[V <: String with Singleton](text: String): OneOf[V] = macro LiteralMacros.oneOf[V]

  /** The same for an argument that may be left out. */
  implicit def optOneOf[V <: String with Singleton](text: String): Opt[OneOf[V]] = macro LiteralMacros.optOneOf[V]

  /** The same for `Some("literal")` and other options. */
  implicit def optionOneOf[V <: String with Singleton](text: Option[String]): Opt[OneOf[V]] =
    macro LiteralMacros.optionOneOf[V]
}
