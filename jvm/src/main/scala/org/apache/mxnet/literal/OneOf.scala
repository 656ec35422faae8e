package org.apache.mxnet.literal

import scala.language.implicitConversions

import org.apache.mxnet.Opt

/** A string that is one of an operator argument's values. The type lists the values, separated by bars: `act_type:
  * OneOf["relu|sigmoid|tanh"]`.
  *
  * Strings convert to it without an import. The compiler (Scala 2 and 3) rejects a literal that is not among the
  * values. The operator checks other strings: an invalid one throws an `MXNetError` that names the operator and the
  * argument and lists the values.
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

  /** `text` as a value of an argument, or null for null. */
  def text[V <: String with Singleton](text: CharSequence): OneOf[V] =
    if (text == null) null else new OneOf[V](text.toString)

  /** Like `text`, for an optional string. */
  def optionalText[V <: String with Singleton](text: Option[CharSequence]): Opt[OneOf[V]] = text match {
    case Some(present) => Opt.value(OneOf.text[V](present))
    case _             => Opt.absent
  }
}

/** Converts other character sequences; [[LiteralConversions]] converts `String`. */
private[mxnet] trait TextConversions {
  implicit def fromText[V <: String with Singleton](text: CharSequence): OneOf[V] = OneOf.text[V](text)
}
