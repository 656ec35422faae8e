package org.apache.mxnet.util

import scala.language.implicitConversions

/** Lifts a value to an `Option`. Generated functions lift by themselves; this is for code that imports it. */
object OptionConversion {
  implicit def someWrapper[A](noSome: A): Option[A] = Some(noSome)
}
