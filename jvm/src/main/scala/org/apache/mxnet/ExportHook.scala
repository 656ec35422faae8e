package org.apache.mxnet

/** Replaces the mapping processes for some nodes of a network that is exported. [[ExportOptions]] attaches a hook to
  * nodes. A hook overrides one of the two methods.
  *
  * The node that a hook gets has the operator's name (`opName` for a user-defined operator), its parameters or
  * properties as attributes, and its inputs with their known shapes and types. An exception of a hook ends the export
  * with an [[MXNetError]] that names node and operator and has the exception as its cause.
  */
abstract class ExportHook {

  /** The node's outputs, composed of other MXNet operators on the node's inputs ([[ModelNode.input]]) and constants
    * ([[ModelNode.constant]]). These operators are then mapped. Null passes the node to [[write]].
    */
  def compose(node: ModelNode): Array[Symbol] = null

  /** The ONNX node to write: the given one with another operator ([[ModelNode.withOperator(domain:* of any domain]]),
    * attributes and inputs. Null passes the node to the next hook, or to the mapping processes.
    */
  def write(node: ModelNode): ModelNode = null
}

/** Common hooks. */
object ExportHook {

  /** Replaces a node with one output by other MXNet operators. */
  def compose(make: ModelNode => Symbol): ExportHook = new ExportHook {
    override def compose(node: ModelNode): Array[Symbol] = Array(make(node))
  }

  /** Writes a node of the model's operator sets. */
  def write(make: ModelNode => ModelNode): ExportHook = new ExportHook {
    override def write(node: ModelNode): ModelNode = make(node)
  }

  /** Writes a user-defined operator as an operator of a custom domain: properties become attributes of the same names.
    *
    * @param operator the operator with its domain: `org.example.Swirl`
    */
  def user(operator: String): ExportHook = {
    val (domain, name) = operator.splitAt(operator.lastIndexOf('.'))
    if (domain.isEmpty || name.length < 2)
      throw new MXNetError(s"'$operator' has no domain: write it as org.example.Swirl")
    write(_.withOperator(domain, name.drop(1)))
  }
}
