package org.apache.mxnet

import scala.collection.mutable

import org.apache.mxnet.internal.util.NullChecks.requireNonNull

/** A graph to which user-defined operators are added.
  *
  * {{{
  * val sd = SameDiff.create()
  * val sum = sd.doUdf(new TestAddUdf(sd, Array(sd.variable("x"), sd.variable("y"))))(0)
  * }}}
  *
  * Symbols do not need this object, because each is a graph itself. It names added nodes, finds variables by name, and
  * collects the outputs.
  */
final class SameDiff private () {
  private[mxnet] val names = new NameManager
  private val variables = mutable.LinkedHashMap.empty[String, Symbol]
  private val added = mutable.ArrayBuffer.empty[Symbol]

  /** The variable of a name, which is created by the first call. */
  def variable(name: String): Symbol = {
    requireNonNull("SameDiff.variable", "name" -> name)
    synchronized(variables.getOrElseUpdate(name, Symbol.Variable(name)))
  }

  /** Adds an operator, applied to the symbols passed to its constructor.
    *
    * @return its outputs
    */
  def doUdf(op: UserDefinedCustomOp): Array[Symbol] = {
    requireNonNull("SameDiff.doUdf", "op" -> op)
    if (op.sameDiff == null) op.sameDiff = this
    if (op.sameDiff ne this)
      throw new MXNetError(s"SameDiff.doUdf: the operator ${op.opName} was made for another graph; add it to that one")
    synchronized {
      val outputs = Symbol.doUdf(op)
      added ++= outputs
      outputs
    }
  }

  /** Adds an operator in Java, applied to the symbols passed to its constructor. */
  def doUdf(op: javaapi.UserDefinedCustomOp): Array[Symbol] = {
    requireNonNull("SameDiff.doUdf", "op" -> op)
    doUdf(op.asScala)
  }

  /** As [[doUdf]], for the only or first output. */
  def udf(op: UserDefinedCustomOp): Symbol = doUdf(op).head

  /** As [[doUdf]], for the only or first output. */
  def udf(op: javaapi.UserDefinedCustomOp): Symbol = doUdf(op).head

  /** The outputs of all added operators as one symbol, to bind or save. */
  def symbol: Symbol = synchronized {
    if (added.isEmpty) throw new MXNetError("SameDiff.symbol: the graph has no operators; add one with doUdf")
    Symbol.Group(added.toSeq: _*)
  }
}

object SameDiff {

  /** An empty graph. */
  def create(): SameDiff = new SameDiff

  /** The graph that an operator was created for. */
  private[mxnet] def of(op: UserDefinedCustomOp): Option[SameDiff] = Option(op.sameDiff)
}
