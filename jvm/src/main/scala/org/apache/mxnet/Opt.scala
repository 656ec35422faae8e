package org.apache.mxnet

import scala.language.implicitConversions

/** An optional argument: a value, an `Option`, or `null`, which convert without an import:
  * {{{
  * Symbol.api.Activation(data = x, act_type = "relu")
  * Symbol.api.Activation(data = Some(x), act_type = "relu", name = None)
  * }}}
  */
final class Opt[T] private (val toOption: Option[T]) {
  def isEmpty: Boolean = toOption.isEmpty
  def nonEmpty: Boolean = toOption.nonEmpty

  /** The value; throws if there is none. */
  def get: T = toOption.get
  def getOrElse(default: => T): T = toOption.getOrElse(default)
  def foreach(use: T => Unit): Unit = toOption.foreach(use)
  override def toString: String = toOption.fold("Opt.absent")(value => s"Opt($value)")
}

object Opt extends WideningConversions {
  private val nothing = new Opt[Nothing](None)
  private val none = new Opt[Nothing](None)

  /** No value: the operator uses its default. */
  def absent[T]: Opt[T] = nothing.asInstanceOf[Opt[T]]

  /** An explicit `None`, which some operator arguments accept as a value, such as the axis of `topk`. */
  private[mxnet] def isNone(value: Opt[_]): Boolean = value eq none

  /** Wraps a value; `null` is absent. */
  implicit def value[T](value: T): Opt[T] = if (value == null) absent else new Opt(Some(value))

  /** Converts an option; `null` is absent. `None` is absent too, unless the operator argument has a value None that is
    * not its default.
    */
  implicit def option[T](option: Option[T]): Opt[T] =
    if (option == null) absent else if (option.isEmpty) none.asInstanceOf[Opt[T]] else value(option.get)

  /** Converts `Map()`, whose key and value types are inferred as `Nothing`. */
  implicit def emptyMap[K, V](empty: Map[Nothing, Nothing]): Opt[Map[K, V]] = value(Map.empty[K, V])
}

/** Conversions of lower priority, for arguments that are neither `T` nor `Option[T]`. */
private[mxnet] trait WideningConversions {
  implicit def widened[A, T](value: A)(implicit widening: Widening[A, T]): Opt[T] =
    if (value == null) Opt.absent else Opt.value(widening(value))

  implicit def widenedOption[A, T](option: Option[A])(implicit widening: Widening[A, T]): Opt[T] =
    if (option == null || option.isEmpty) Opt.absent else Opt.value(widening(option.get))
}

/** A conversion of an argument of type `A` to `T`: between types of numbers, of one axis to a shape, or by an implicit
  * view.
  */
final class Widening[A, T] private (convert: A => T) {
  private[mxnet] def apply(value: A): T = convert(value)
}

object Widening extends ViewWidening {
  implicit val intToLong: Widening[Int, Long] = of(_.toLong)
  implicit val intToFloat: Widening[Int, Float] = of(_.toFloat)
  implicit val intToDouble: Widening[Int, Double] = of(_.toDouble)
  implicit val longToFloat: Widening[Long, Float] = of(_.toFloat)
  implicit val longToDouble: Widening[Long, Double] = of(_.toDouble)
  implicit val floatToDouble: Widening[Float, Double] = of(_.toDouble)
  implicit val doubleToFloat: Widening[Double, Float] = of(_.toFloat)

  /** `axis = 1` for `axis = Shape(1)`. */
  implicit val intToShape: Widening[Int, Shape] = of(Shape(_))

  private[mxnet] def of[A, T](convert: A => T): Widening[A, T] = new Widening(convert)
}

private[mxnet] trait ViewWidening {
  implicit def viewed[A, T](implicit view: A => T): Widening[A, T] = Widening.of(view)
}
