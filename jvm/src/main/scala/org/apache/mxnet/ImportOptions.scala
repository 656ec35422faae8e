package org.apache.mxnet

import scala.annotation.varargs

/** How a model is imported.
  *
  * Hooks come first by the name of the node, then by its operator, and what no hook makes is made by a mapping process.
  * Of several hooks for one name the one that was added first comes first; those of the class path come last.
  *
  * @param shapes shapes of inputs by name, where they are to be fixed; a dimension of -1 stays open
  * @param externalData whether tensors may lie in other files of the model's directory; off, since a model may come from
  *                     anywhere
  * @param nodeHooks hooks by the names of nodes
  * @param operatorHooks hooks by operators: `Gelu`, or with the domain `org.example.Swirl`
  * @param annotatedHooks whether the classes of the class path that are marked by [[ImportHookRule]] take part
  * @param mappings the rules and processes that nodes are mapped by, where they are not only the built-in ones
  */
final case class ImportOptions(
    shapes: Map[String, Shape] = Map.empty,
    externalData: Boolean = false,
    nodeHooks: IndexedSeq[(String, ImportHook)] = IndexedSeq.empty,
    operatorHooks: IndexedSeq[(String, ImportHook)] = IndexedSeq.empty,
    annotatedHooks: Boolean = true,
    mappings: Option[Mappings] = None
) {

  /** Without anything, for Java. */
  def this() = this(Map.empty)

  /** Fixes the shape of an input. */
  def withShape(input: String, shape: Shape): ImportOptions = copy(shapes = shapes + (input -> shape))

  /** Lets tensors lie in other files of the model's directory. */
  def withExternalData(): ImportOptions = copy(externalData = true)

  /** Leaves out what [[ImportHookRule]] marks. */
  def withoutAnnotatedHooks(): ImportOptions = copy(annotatedHooks = false)

  /** Maps nodes by these rules and processes, those that were added to the built-in ones first. */
  def withMappings(mappings: Mappings): ImportOptions = copy(mappings = Some(mappings))

  /** Adds a hook for a node. The model must have it. */
  def onNode(name: String, hook: ImportHook): ImportOptions = copy(nodeHooks = nodeHooks :+ (name -> hook))

  /** Adds a hook for an operator. */
  def onOperator(operator: String, hook: ImportHook): ImportOptions =
    copy(operatorHooks = operatorHooks :+ (operator -> hook))

  /** Leaves out the nodes of operators: their outputs are their first inputs. */
  @varargs def skip(operators: String*): ImportOptions = operators.foldLeft(this)(_.onOperator(_, ImportHook.skip))

  /** Leaves out nodes: their outputs are their first inputs. */
  @varargs def skipNodes(names: String*): ImportOptions = names.foldLeft(this)(_.onNode(_, ImportHook.skip))

  /** Maps an operator to a user-defined one; attributes become fields of the same names. */
  def userOperator(operator: String, cls: Class[_ <: UserDefinedCustomOp]): ImportOptions =
    onOperator(operator, ImportHook.user(cls))
}
