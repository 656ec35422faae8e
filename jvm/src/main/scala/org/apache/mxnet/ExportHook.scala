package org.apache.mxnet

/** What a program writes for nodes of a network while it is exported, in place of the mapping processes. A hook is attached
  * to nodes by [[ExportOptions]] and overrides one of the two methods.
  *
  * The node that a hook sees has the operator's name (that of a user-defined operator its `opName`), its parameters or
  * properties as attributes, and its inputs with the shapes and types that are known. What a hook throws ends the export as
  * an [[MXNetError]] that names node and operator, with the exception as its cause.
  */
abstract class ExportHook {

  /** The node's outputs by other operators of ours, which are then mapped. They are composed of the node's inputs
    * ([[ModelNode.input]]) and of constants ([[ModelNode.constant]]). Null leaves the node to [[write]].
    */
  def compose(node: ModelNode): Array[Symbol] = null

  /** The node of a model that is written for it: the given one with another operator ([[ModelNode.withOperator(domain:* of
    * any domain]]), attributes and inputs. Null leaves the node to the next hook, or to the mapping processes.
    */
  def write(node: ModelNode): ModelNode = null
}

/** Common hooks. */
object ExportHook {

  /** Writes other operators of ours for a node with one output. */
  def compose(make: ModelNode => Symbol): ExportHook = new ExportHook {
    override def compose(node: ModelNode): Array[Symbol] = Array(make(node))
  }

  /** Writes a node of the model's operator sets. */
  def write(make: ModelNode => ModelNode): ExportHook = new ExportHook {
    override def write(node: ModelNode): ModelNode = make(node)
  }

  /** Writes a user-defined operator as one of a domain of its own: properties become attributes of the same names.
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
