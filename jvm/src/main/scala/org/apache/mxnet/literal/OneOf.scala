package org.apache.mxnet.literal

import scala.language.implicitConversions

import org.apache.mxnet.Opt
import org.apache.mxnet.codegen.OneOfMessage

/** A string that is one of an operator argument's values. The type lists the values, separated by bars: `act_type:
  * OneOf["relu|sigmoid|tanh"]`.
  *
  * Strings convert to it without an import. The compiler (Scala 2 and 3) rejects a literal that is not among the
  * values. Other strings are checked at run time: an invalid one throws an `IllegalArgumentException` that lists the
  * values.
  */
final class OneOf[V <: String with Singleton] private (val value: String) {

  /** The text that operators parse. */
  override def toString: String = value

  override def equals(other: Any): Boolean = other match {
    case that: OneOf[_] => value == that.value
    case _              => false
  }

  override def hashCode: Int = value.hashCode
}

object OneOf extends LiteralConversions {

  /** `text` as one of the values `V`.
    *
    * @throws java.lang.IllegalArgumentException
    *   if it is not among them
    */
  def checked[V <: String with Singleton](text: CharSequence)(implicit values: ValueOf[V]): OneOf[V] =
    if (text == null) null
    else {
      val actual = text.toString
      if (!contains(values.value, actual))
        throw new IllegalArgumentException(OneOfMessage(actual, values.value.split('|').toSeq))
      new OneOf[V](actual)
    }

  /** Whether `text` is one of `values`, which are separated by bars. Allocates nothing, because every call runs it. */
  private def contains(values: String, text: String): Boolean = {
    var start = 0
    var isFound = false
    while (!isFound && start <= values.length) {
      val bar = values.indexOf('|'.toInt, start)
      val end = if (bar < 0) values.length else bar
      isFound = end - start == text.length && values.startsWith(text, start)
      start = end + 1
    }
    isFound
  }

  /** Like `checked`, for an optional string. */
  def checkedOption[V <: String with Singleton](
      text: Option[CharSequence]
  )(implicit values: ValueOf[V]): Opt[OneOf[V]] =
    text match {
      case Some(present) => Opt.value(checked[V](present))
      case _             => Opt.absent
    }
}

/** Converts other character sequences; [[LiteralConversions]] converts `String`. */
private[mxnet] trait TextConversions {
  implicit def fromText[V <: String with Singleton](text: CharSequence)(implicit values: ValueOf[V]): OneOf[V] =
    OneOf.checked[V](text)
}
