package org.apache.mxnet

import scala.language.experimental.macros
import scala.language.implicitConversions

import org.apache.mxnet.codegen.DefaultMacros

/** Lets the generated classes write an engine's default as a value, which ScalaDoc shows: `no_bias: Opt[Boolean] = false`.
  * What is compiled is `Opt.absent`.
  */
private[mxnet] object EngineDefault {
  implicit def absent[A, T](value: A): Opt[T] = macro DefaultMacros.absent[A, T]

  /** The same where the type must be said. */
  def default[T](value: Any): Opt[T] = macro DefaultMacros.default[T]
}
