package org.apache.mxnet.util

import scala.language.implicitConversions

/** Converts a value to an `Option`. Generated functions convert themselves; this is for code that imports it. */
object OptionConversion {
  implicit def someWrapper[A](noSome: A): Option[A] = Some(noSome)
}
