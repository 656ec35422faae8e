package org.apache.mxnet

import scala.language.experimental.macros
import scala.language.implicitConversions

import org.apache.mxnet.codegen.DefaultMacros

/** Allows generated classes to write the engine's default as a value, for ScalaDoc: `no_bias: Opt[Boolean] = false`. It
  * compiles to `Opt.absent`.
  */
private[mxnet] object EngineDefault {
  implicit def absent[A, T](value: A): Opt[T] = macro DefaultMacros.absent[A, T]

  /** The same with an explicit type. */
  def default[T](value: Any): Opt[T] = macro DefaultMacros.default[T]
}
