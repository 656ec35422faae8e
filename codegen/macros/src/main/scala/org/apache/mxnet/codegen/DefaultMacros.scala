package org.apache.mxnet.codegen

import scala.reflect.macros.blackbox

/** Implementation of the implicit conversion that wraps default arguments of the generated classes. */
final class DefaultMacros(val c: blackbox.Context) {
  import c.universe._

  /** An absent argument: the engine supplies the default, and saved networks contain only explicit arguments. */
  def absent[A: WeakTypeTag, T: WeakTypeTag](value: Tree): Tree = default[T](value)

  def default[T: WeakTypeTag](value: Tree): Tree =
    q"_root_.org.apache.mxnet.Opt.absent[${weakTypeOf[T]}]"
}
