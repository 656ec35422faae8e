package org.apache.mxnet

import scala.annotation.varargs

/** How a model is imported.
  *
  * Hooks by node name are tried first, then hooks by operator, then the mapping processes. Hooks for the same name are
  * tried in the order in which they were added, and those of the class path last.
  *
  * @param shapes fixed shapes of inputs by name; -1 is a dynamic dimension
  * @param externalData whether to read tensors from other files in the model's directory; by default not, because the
  *   model may not be trusted
  * @param nodeHooks hooks by the names of nodes
  * @param operatorHooks hooks by operators: `Gelu`, or with the domain `org.example.Swirl`
  * @param annotatedHooks whether to use the classes on the class path that are marked with [[ImportHookRule]]
  * @param mappings the rules and processes that map nodes; by default the built-in ones
  */
final case class ImportOptions(
    shapes: Map[String, Shape] = Map.empty,
    externalData: Boolean = false,
    nodeHooks: IndexedSeq[(String, ImportHook)] = IndexedSeq.empty,
    operatorHooks: IndexedSeq[(String, ImportHook)] = IndexedSeq.empty,
    annotatedHooks: Boolean = true,
    mappings: Option[Mappings] = None
) {

  /** The default options, for Java. */
  def this() = this(Map.empty)

  /** Sets the shape of an input. */
  def withShape(input: String, shape: Shape): ImportOptions = copy(shapes = shapes + (input -> shape))

  /** Reads tensors from other files in the model's directory. */
  def withExternalData(): ImportOptions = copy(externalData = true)

  /** Ignores the classes that are marked with [[ImportHookRule]]. */
  def withoutAnnotatedHooks(): ImportOptions = copy(annotatedHooks = false)

  /** Maps nodes by these rules and processes; added ones are tried before built-in ones. */
  def withMappings(mappings: Mappings): ImportOptions = copy(mappings = Some(mappings))

  /** Adds a hook for a node, which the model must have. */
  def onNode(name: String, hook: ImportHook): ImportOptions = copy(nodeHooks = nodeHooks :+ (name -> hook))

  /** Adds a hook for an operator. */
  def onOperator(operator: String, hook: ImportHook): ImportOptions =
    copy(operatorHooks = operatorHooks :+ (operator -> hook))

  /** Skips the nodes of these operators: their outputs are their first inputs. */
  @varargs def skip(operators: String*): ImportOptions = operators.foldLeft(this)(_.onOperator(_, ImportHook.skip))

  /** Skips nodes: their outputs are their first inputs. */
  @varargs def skipNodes(names: String*): ImportOptions = names.foldLeft(this)(_.onNode(_, ImportHook.skip))

  /** Maps an operator to a user-defined one in Scala or Java; attributes set the fields of the same names. */
  def userOperator(operator: String, cls: Class[_ <: UserOperator]): ImportOptions =
    onOperator(operator, ImportHook.user(cls))
}
