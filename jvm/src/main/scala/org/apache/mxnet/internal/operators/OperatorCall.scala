package org.apache.mxnet
package internal.operators

import scala.collection.mutable

import org.apache.mxnet.literal.OneOf

/** The arguments of one call of a generated function, in the order of its parameters. */
private[mxnet] class OperatorCall(val operator: String) {
  private val positional = mutable.ListBuffer.empty[Any]
  private var arguments = Map.empty[String, Any]

  /** Adds positional inputs: one, those in an array, or none if the value is absent. */
  def input(value: Any): Unit = value match {
    case null              => ()
    case several: Array[_] =>
      several.indices.foreach { i =>
        if (several(i) == null)
          throw new IllegalArgumentException(
            s"$operator: input $i of ${several.length} is null; omit it or give an array"
          )
        input(several(i))
      }
    case optional: Opt[_] => optional.foreach(input)
    case one              => positional += one
  }

  /** Adds an optional argument if it is present. */
  def optional(name: String, value: Opt[_]): Unit =
    if (value != null && value.nonEmpty) arguments = arguments.updated(name, plain(value.get))
    else if (Opt.isNone(value) && NativeOp(operator).acceptsNonDefaultNone(name))
      arguments = arguments.updated(name, "None")

  /** Adds a required argument. */
  def required(name: String, value: Any): Unit = {
    if (value == null) throw new IllegalArgumentException(s"$operator: argument '$name' is required and was null")
    arguments = arguments.updated(name, plain(value))
  }

  /** Adds the number of inputs: `value`, or by default the number of inputs added so far. */
  def inputCount(name: String, value: Opt[Int]): Unit =
    arguments = arguments.updated(name, if (value == null || value.isEmpty) positional.size else value.get)

  /** The inputs added by position. */
  def inputs: Seq[Any] = positional.toList

  /** The symbols added by position. */
  def symbols: Seq[Symbol] = positional.iterator.map(_.asInstanceOf[Symbol]).toList

  /** The arguments added by name. */
  def toMap: Map[String, Any] = arguments

  private def plain(value: Any): Any = value match {
    case enumerated: OneOf[_] => enumerated.value
    case other                => other
  }
}

private[mxnet] object OperatorCall {

  /** The name of the symbol to create; if empty, the name manager chooses one. */
  def name(value: Opt[String]): String = if (value == null) "" else value.getOrElse("")

  /** The attributes of the symbol to create. */
  def attributes(value: Opt[Map[String, String]]): Map[String, String] =
    if (value == null) Map.empty else value.getOrElse(Map.empty)
}

/** The call of a random function: `scalar` draws from one distribution whose parameters are numbers, `array` from one
  * distribution per element of its inputs. Either may be null.
  */
private[mxnet] final class RandomCall(scalar: String, array: String, isScalar: Boolean)
    extends OperatorCall(if (array == null || isScalar && scalar != null) scalar else array) {

  /** Adds a parameter of the distribution: a number under the scalar operator's name for it, an array by position. */
  def distribution(scalarName: String, value: Any): Unit = toOption(value).foreach {
    case number @ (_: Int | _: Long | _: Float | _: Double) => required(scalarName, number)
    case array                                              => input(array)
  }

  /** Adds a parameter of the distribution: a number under the scalar operator's name for it, a symbol under `name`. */
  def named(scalarName: String, name: String, value: Any): Unit = toOption(value).foreach {
    case number @ (_: Int | _: Long | _: Float | _: Double) => required(scalarName, number)
    case symbol                                             => required(name, symbol)
  }

  private def toOption(value: Any): Option[Any] = value match {
    case optional: Opt[_] => optional.toOption
    case other            => Option(other)
  }
}
