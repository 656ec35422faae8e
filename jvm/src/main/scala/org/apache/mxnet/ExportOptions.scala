package org.apache.mxnet

import org.apache.mxnet.DType.DType
import org.apache.mxnet.internal.userop.UdfClass

/** How a network is exported.
  *
  * Hooks by node name are tried first, then hooks by operator, then the mapping processes. Hooks for the same name are
  * tried in the order in which they were added.
  *
  * @param opset the version of the operator set; 0 for version 21
  * @param inputs shapes of the arguments that are not parameters, by name; -1 is a dynamic dimension. Types and the
  *   choice of operators may depend on them.
  * @param types their types, if they are not float32
  * @param nodeHooks hooks by the names of nodes
  * @param operatorHooks hooks by MXNet operator, and by the names of user-defined operators
  * @param mappings the rules and processes that map nodes; by default the built-in ones
  */
final case class ExportOptions(
    opset: Int = 0,
    inputs: Map[String, Shape] = Map.empty,
    types: Map[String, DType] = Map.empty,
    nodeHooks: IndexedSeq[(String, ExportHook)] = IndexedSeq.empty,
    operatorHooks: IndexedSeq[(String, ExportHook)] = IndexedSeq.empty,
    mappings: Option[Mappings] = None
) {

  /** The default options, for Java. */
  def this() = this(0)

  /** Writes this version of the operator set. */
  def withOpset(opset: Int): ExportOptions = copy(opset = opset)

  /** Sets the shape of an argument that is not a parameter. */
  def withInput(name: String, shape: Shape): ExportOptions = copy(inputs = inputs + (name -> shape))

  /** Sets shape and type of an argument that is not a parameter. */
  def withInput(name: String, shape: Shape, dtype: DType): ExportOptions =
    copy(inputs = inputs + (name -> shape), types = types + (name -> dtype))

  /** Maps nodes by these rules and processes; added ones are tried before built-in ones. */
  def withMappings(mappings: Mappings): ExportOptions = copy(mappings = Some(mappings))

  /** Adds a hook for a node, which the network must have. */
  def onNode(name: String, hook: ExportHook): ExportOptions = copy(nodeHooks = nodeHooks :+ (name -> hook))

  /** Adds a hook for an MXNet operator, or for a user-defined one by its `opName`. */
  def onOperator(operator: String, hook: ExportHook): ExportOptions =
    copy(operatorHooks = operatorHooks :+ (operator -> hook))

  /** Writes the nodes of a user-defined operator as an operator of a custom domain; properties become attributes of the
    * same names. [[ImportOptions.userOperator]] imports them.
    *
    * @param operator the operator with its domain: `org.example.Swirl`
    */
  def userOperator(operator: String, cls: Class[_ <: UserOperator]): ExportOptions =
    onOperator(UdfClass(cls).name, ExportHook.user(operator))
}
