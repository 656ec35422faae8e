package org.apache.mxnet

import org.apache.mxnet.internal.userop.{OpFields, UdfClass, UserOperators}

/** Adjusts or replaces the mapping of some nodes of a model that is imported. Any method may be overridden; by default
  * none has an effect. [[ImportOptions]] attaches a hook to nodes; a class marked with [[ImportHookRule]] is found on
  * the class path.
  *
  * {{{
  * val squash = new ImportHook {
  *   override def before(node: ModelNode): Array[Symbol] = Array(Symbol.api.tanh(node.input(0)))
  * }
  * val model = Onnx.importModel("model.onnx", ImportOptions().onOperator("org.example.Squash", squash))
  * }}}
  *
  * A hook composes symbols of the node's inputs ([[ModelNode.input]]), of constants ([[ModelNode.constant]]), and in
  * `after` of the node's outputs. Any other variable becomes an input of the network. An exception of a hook ends the
  * import with an [[MXNetError]] that names node and operator and has the exception as its cause.
  */
abstract class ImportHook {

  /** Rewrites the node before any node is mapped, for example to a newer version of its operator. Of its inputs only
    * constants are known.
    */
  def prepare(node: ModelNode): ModelNode = node

  /** The outputs that replace the mapping of a node; null passes the node to the next hook or the mapping process. */
  def before(node: ModelNode): Array[Symbol] = null

  /** The outputs that replace those of the mapping. */
  def after(node: ModelNode, outputs: Array[Symbol]): Array[Symbol] = outputs
}

/** Common hooks. */
object ImportHook {

  /** Computes the output of a node. */
  def replace(make: ModelNode => Symbol): ImportHook = new ImportHook {
    override def before(node: ModelNode): Array[Symbol] = Array(make(node))
  }

  /** Skips a node: its outputs are its first inputs. */
  val skip: ImportHook = new ImportHook {
    override def before(node: ModelNode): Array[Symbol] = node.outputs.indices.map(node.input).toArray
  }

  /** Rewrites a node before any node is mapped. */
  def prepare(rewrite: ModelNode => ModelNode): ImportHook = new ImportHook {
    override def prepare(node: ModelNode): ModelNode = rewrite(node)
  }

  /** Maps a node to a user-defined operator on its inputs. */
  def user(make: ModelNode => UserDefinedCustomOp): ImportHook = new ImportHook {
    override def before(node: ModelNode): Array[Symbol] = {
      val op = make(node)
      UserOperators.compose(op, node.name, node.symbols)
      op.outputs
    }
  }

  /** Maps a node to a user-defined operator: attributes of the node set the fields of the same names. */
  def user(cls: Class[_ <: UserOperator]): ImportHook = ofClass(cls)

  /** As [[user]], for a class of operators in Scala or Java. */
  private[mxnet] def ofClass(cls: Class[_]): ImportHook = {
    val definition = UdfClass(cls)
    user { node =>
      val op = definition.instance()
      val texts = node.attributes.map { case (name, value) => name -> text(node, name, value) }
      val fields = OpFields.parse(op, texts)
      val unknown = texts.keySet -- fields.keySet
      if (unknown.nonEmpty)
        node.fail(s"${cls.getName} has no field for its attributes ${unknown.toSeq.sorted.mkString(", ")}")
      if (fields.nonEmpty) op.setPropertiesForFunction(fields)
      op
    }
  }

  /** An attribute as the text of an operator parameter. */
  private def text(node: ModelNode, name: String, value: Any): String = value match {
    case items: IndexedSeq[_] => items.mkString("(", ", ", if (items.length == 1) ",)" else ")")
    case _: NDArray => node.fail(s"its attribute '$name' is a tensor, which cannot be stored in a field of an operator")
    case other      => other.toString
  }
}
