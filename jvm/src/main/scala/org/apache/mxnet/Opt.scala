package org.apache.mxnet

import scala.language.implicitConversions

/** An argument that may be left out. Write the value itself, an `Option`, or `null`; none of them needs an import:
  * {{{
  * Symbol.api.Activation(data = x, act_type = "relu")
  * Symbol.api.Activation(data = Some(x), act_type = "relu", name = None)
  * }}}
  */
final class Opt[T] private (val toOption: Option[T]) {
  def isEmpty: Boolean = toOption.isEmpty
  def nonEmpty: Boolean = toOption.nonEmpty

  /** The value; an exception where there is none. */
  def get: T = toOption.get
  def getOrElse(default: => T): T = toOption.getOrElse(default)
  def foreach(use: T => Unit): Unit = toOption.foreach(use)
  override def toString: String = toOption.fold("Opt.absent")(value => s"Opt($value)")
}

object Opt extends WideningConversions {
  private val nothing = new Opt[Nothing](None)
  private val none = new Opt[Nothing](None)

  /** No value: the operator takes its default. */
  def absent[T]: Opt[T] = nothing.asInstanceOf[Opt[T]]

  /** An explicit `None`: a value of its own where the operator's argument has one, such as the axis of `topk`. */
  private[mxnet] def isNone(value: Opt[_]): Boolean = value eq none

  /** `value` itself; a `null` counts as absent. */
  implicit def value[T](value: T): Opt[T] = if (value == null) absent else new Opt(Some(value))

  /** An option as it is; a `null` counts as absent. `None` is absent too, unless the operator's argument has a value None
    * that is not its default.
    */
  implicit def option[T](option: Option[T]): Opt[T] =
    if (option == null) absent else if (option.isEmpty) none.asInstanceOf[Opt[T]] else value(option.get)

  /** `Map()` has no key type of its own. */
  implicit def emptyMap[K, V](empty: Map[Nothing, Nothing]): Opt[Map[K, V]] = value(Map.empty[K, V])
}

/** What applies where neither `T` nor `Option[T]` fits; `Opt` inherits it so that exact fits win. */
private[mxnet] trait WideningConversions {
  implicit def widened[A, T](value: A)(implicit widening: Widening[A, T]): Opt[T] =
    if (value == null) Opt.absent else Opt.value(widening(value))

  implicit def widenedOption[A, T](option: Option[A])(implicit widening: Widening[A, T]): Opt[T] =
    if (option == null || option.isEmpty) Opt.absent else Opt.value(widening(option.get))
}

/** How an argument of type `A` becomes one of type `T`: a number of another kind, or any implicit view. */
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

  private[mxnet] def of[A, T](convert: A => T): Widening[A, T] = new Widening(convert)
}

private[mxnet] trait ViewWidening {
  implicit def viewed[A, T](implicit view: A => T): Widening[A, T] = Widening.of(view)
}
