package org.apache.mxnet

import scala.collection.immutable
import scala.language.implicitConversions

/** An operator argument with several numbers or shapes. Sequences, arrays, tuples, single values and strings such as
  * `"(0.1, 0.2)"` convert to it without an import.
  */
final class TupleOf[T] private (val values: immutable.Seq[T]) {

  /** The text that operators parse: `(0.1,0.2)`. */
  override def toString: String = values.mkString("(", ",", ")")

  override def equals(other: Any): Boolean = other match {
    case that: TupleOf[_] => values == that.values
    case _                => false
  }

  override def hashCode: Int = values.hashCode
}

object TupleOf extends TupleOfConversions {
  def apply[T](values: T*): TupleOf[T] = new TupleOf(values.toVector)

  implicit def fromSeq[A, T](values: scala.collection.Seq[A])(implicit widening: Widening[A, T]): TupleOf[T] =
    apply(values.map(widening(_)).toSeq: _*)

  implicit def fromArray[A, T](values: Array[A])(implicit widening: Widening[A, T]): TupleOf[T] =
    apply(values.toSeq.map(widening(_)): _*)

  implicit def fromTuple2[A, B, T](t: (A, B))(implicit a: Widening[A, T], b: Widening[B, T]): TupleOf[T] =
    apply(a(t._1), b(t._2))

  implicit def fromTuple3[A, B, C, T](
      t: (A, B, C)
  )(implicit a: Widening[A, T], b: Widening[B, T], c: Widening[C, T]): TupleOf[T] =
    apply(a(t._1), b(t._2), c(t._3))

  implicit def fromTuple4[A, B, C, D, T](
      t: (A, B, C, D)
  )(implicit a: Widening[A, T], b: Widening[B, T], c: Widening[C, T], d: Widening[D, T]): TupleOf[T] =
    apply(a(t._1), b(t._2), c(t._3), d(t._4))

  /** `(0.1, 0.2)`, with parentheses, square brackets or neither.
    *
    * @throws MXNetError
    *   if an element is not a number
    */
  implicit def fromText[T](text: String)(implicit parser: TupleOfText[T]): TupleOf[T] = {
    val inner = text.trim.stripPrefix("(").stripPrefix("[").stripSuffix(")").stripSuffix("]")
    apply(inner.split(',').toSeq.map(_.trim).filter(_.nonEmpty).map(parser(text, _)): _*)
  }
}

private[mxnet] trait TupleOfConversions {
  implicit def fromValue[A, T](value: A)(implicit widening: Widening[A, T]): TupleOf[T] = TupleOf(widening(value))
}

/** Parses one value of a `TupleOf[T]`. */
sealed abstract class TupleOfText[T](kind: String, parse: String => T) {
  private[mxnet] def apply(whole: String, part: String): T =
    try parse(part)
    catch {
      case _: NumberFormatException =>
        throw new MXNetError(s"'$whole' is not a tuple of $kind, such as (1,2): '$part' is not a $kind")
    }
}

object TupleOfText {
  implicit object Floats extends TupleOfText[Float]("float", _.toFloat)
  implicit object Doubles extends TupleOfText[Double]("double", _.toDouble)
  implicit object Longs extends TupleOfText[Long]("long", _.toLong)
}
