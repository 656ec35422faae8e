package org.apache.mxnet

import org.apache.mxnet.DType.DType
import org.apache.mxnet.internal.userop.UdfClass

/** How a network is exported.
  *
  * Hooks come first by the name of the node, then by its operator, and what no hook writes is written by a mapping process.
  * Of several hooks for one name the one that was added first comes first.
  *
  * @param opset the version of the operator set; 0 for version 21
  * @param inputs shapes of the arguments that are no parameters, by name, which types and the choice of operators may follow
  *               from; a dimension of -1 stays open
  * @param types their types where they are not float32
  * @param nodeHooks hooks by the names of nodes
  * @param operatorHooks hooks by operators of ours, and by the names of user-defined operators
  * @param mappings the rules and processes that nodes are mapped by, where they are not only the built-in ones
  */
final case class ExportOptions(
    opset: Int = 0,
    inputs: Map[String, Shape] = Map.empty,
    types: Map[String, DType] = Map.empty,
    nodeHooks: IndexedSeq[(String, ExportHook)] = IndexedSeq.empty,
    operatorHooks: IndexedSeq[(String, ExportHook)] = IndexedSeq.empty,
    mappings: Option[Mappings] = None
) {

  /** Without anything, for Java. */
  def this() = this(0)

  /** Writes this version of the operator set. */
  def withOpset(opset: Int): ExportOptions = copy(opset = opset)

  /** Gives the shape of an argument that is no parameter. */
  def withInput(name: String, shape: Shape): ExportOptions = copy(inputs = inputs + (name -> shape))

  /** Gives shape and type of an argument that is no parameter. */
  def withInput(name: String, shape: Shape, dtype: DType): ExportOptions =
    copy(inputs = inputs + (name -> shape), types = types + (name -> dtype))

  /** Maps nodes by these rules and processes, those that were added to the built-in ones first. */
  def withMappings(mappings: Mappings): ExportOptions = copy(mappings = Some(mappings))

  /** Adds a hook for a node. The network must have it. */
  def onNode(name: String, hook: ExportHook): ExportOptions = copy(nodeHooks = nodeHooks :+ (name -> hook))

  /** Adds a hook for an operator of ours, or for a user-defined one by its `opName`. */
  def onOperator(operator: String, hook: ExportHook): ExportOptions =
    copy(operatorHooks = operatorHooks :+ (operator -> hook))

  /** Writes the nodes of a user-defined operator as an operator of a domain of its own; properties become attributes of the
    * same names. [[ImportOptions.userOperator]] reads them again.
    *
    * @param operator the operator with its domain: `org.example.Swirl`
    */
  def userOperator(operator: String, cls: Class[_ <: UserDefinedCustomOp]): ExportOptions =
    onOperator(UdfClass(cls).name, ExportHook.user(operator))
}
