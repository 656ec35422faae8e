package org.apache.mxnet
package internal.interop

import org.apache.mxnet.internal.memory.Handles

/** The hooks of an import or an export, as the engine calls them. A null result leaves the node to its mapping. */
private[mxnet] trait HookBridge {

  /** Whether there are hooks for a node. */
  def appliesTo(domain: String, operator: String, name: String): Boolean

  /** The node that is mapped instead of `raw`. */
  def prepare(raw: RawNode): RawNode

  /** Outputs of the node, which is then not mapped. */
  def before(raw: RawNode): RawOutputs

  /** Outputs that replace those of the mapping. */
  def after(raw: RawNode): RawOutputs = null
}

/** Constants that a hook added to the model. */
private[mxnet] trait RawConstants {
  private[mxnet] def constants: Map[String, NDArray]

  def constantNames: Array[String] = constants.keys.toArray

  /** Handles of the constants, in the order of their names; they belong to the receiver. */
  def constantHandles: Array[Long] = Handles.ofArrays(constants.values)
}

/** A node of a model, passed between the engine and the hooks. `texts` are domain, operator and name. `symbols`,
  * `arrays`, `shapes` and `dtypes` describe the inputs and, after the mapping, the outputs. Handles belong to the
  * receiver; 0 is none. `kinds` has a letter for each attribute: `i`, `f` and `s` for an integer, a float and a string,
  * a capital letter for a list of these, `t` for a tensor, `g` for a graph, which is not passed.
  */
private[mxnet] final class RawNode(
    val texts: Array[String],
    val version: Long,
    val inputNames: Array[String],
    val outputNames: Array[String],
    val keys: Array[String],
    val kinds: String,
    val values: Array[AnyRef],
    val symbols: Array[Long],
    val arrays: Array[Long],
    val shapes: Array[Array[Long]],
    val dtypes: Array[Int]
) extends RawConstants {
  private[mxnet] var constants: Map[String, NDArray] = Map.empty
}

/** The outputs that a hook created, and constants that they use; handles belong to the receiver. */
private[mxnet] final class RawOutputs(val symbols: Array[Long], private[mxnet] val constants: Map[String, NDArray])
    extends RawConstants
