package org.apache.mxnet.javaapi.internal

import java.lang.{Iterable => JIterable}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.mxnet.javaapi.NDArray
import org.apache.mxnet.{MXNetError, NDArray => CoreArray}

/** The arguments of one call of a generated function of the Java API; `null` is absent. */
private[mxnet] final class JavaCall(operator: String) {
  private val inputs = mutable.ListBuffer.empty[CoreArray]
  private var arguments = Map.empty[String, Any]

  /** Fails without the object that holds the parameters. */
  def requireParameters(po: AnyRef, className: String): Unit =
    if (po == null) throw new MXNetError(s"$operator: the object with the parameters is null; give a $className")

  /** Adds an input: an array, several arrays, or none for `null`. */
  def input(value: Any): Unit = value match {
    case null              => ()
    case array: NDArray    => inputs += array.nd
    case several: Array[_] =>
      several.indices.foreach { i =>
        if (several(i) == null)
          throw new MXNetError(s"$operator: input $i of ${several.length} is null; omit it or give an array")
        input(several(i))
      }
    case other =>
      throw new IllegalArgumentException(s"$operator: an input must be an NDArray, not ${other.getClass.getName}")
  }

  /** Adds a parameter unless it is `null`; the operator then uses its default, or reports that the parameter is
    * required.
    */
  def setting(name: String, value: Any): Unit = if (value != null) arguments = arguments.updated(name, inScala(value))

  /** Runs the operator. The outputs are written to `out` if it is not `null`. */
  def invoke(out: NDArray): Array[NDArray] = {
    val all = if (out == null) arguments else arguments.updated("out", out.nd)
    val result = CoreArray.genericNDArrayFunctionInvoke(operator, inputs.toSeq, all)
    if (out == null) result.arr.map(new NDArray(_)) else Array(out)
  }

  private def inScala(value: Any): Any = value match {
    case items: JIterable[_] => items.asScala.map(inScala).toSeq
    case other               => other
  }
}
