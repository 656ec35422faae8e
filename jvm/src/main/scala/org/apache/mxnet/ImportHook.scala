package org.apache.mxnet

import org.apache.mxnet.internal.userop.{OpFields, UdfClass, UserOperators}

/** What a program does about nodes of a model while it is imported. Each method may be overridden; by default none of
  * them does anything. A hook is attached to nodes by [[ImportOptions]], or by [[ImportHookRule]] to be found on the class
  * path.
  *
  * {{{
  * val squash = new ImportHook {
  *   override def before(node: ModelNode): Array[Symbol] = Array(Symbol.api.tanh(node.input(0)))
  * }
  * val model = Onnx.importModel("model.onnx", ImportOptions().onOperator("org.example.Squash", squash))
  * }}}
  *
  * Symbols that a hook makes are composed of the node's inputs ([[ModelNode.input]]), of constants
  * ([[ModelNode.constant]]), and, after the node was mapped, of its outputs. A variable that is none of these becomes an
  * input of the network. What a hook throws ends the import as an [[MXNetError]] that names node and operator, with the
  * exception as its cause.
  */
abstract class ImportHook {

  /** The node in another form, before anything is mapped, for example in that of a newer version of its operator. Of its
    * inputs only constants are known.
    */
  def prepare(node: ModelNode): ModelNode = node

  /** The outputs of a node in place of what it is mapped to; null to let the next hook or the mapping process do it. */
  def before(node: ModelNode): Array[Symbol] = null

  /** The outputs of a node, from those that were made. */
  def after(node: ModelNode, outputs: Array[Symbol]): Array[Symbol] = outputs
}

/** Common hooks. */
object ImportHook {

  /** Makes the output of a node. */
  def replace(make: ModelNode => Symbol): ImportHook = new ImportHook {
    override def before(node: ModelNode): Array[Symbol] = Array(make(node))
  }

  /** Leaves a node out: its outputs are its first inputs. */
  val skip: ImportHook = new ImportHook {
    override def before(node: ModelNode): Array[Symbol] = node.outputs.indices.map(node.input).toArray
  }

  /** Rewrites a node before anything is mapped. */
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

  /** Maps a node to a user-defined operator: attributes of the node become the fields of the same names. */
  def user(cls: Class[_ <: UserDefinedCustomOp]): ImportHook = ofClass(cls)

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

  /** An attribute as parameters of operators are written. */
  private def text(node: ModelNode, name: String, value: Any): String = value match {
    case items: IndexedSeq[_] => items.mkString("(", ", ", if (items.length == 1) ",)" else ")")
    case _: NDArray           => node.fail(s"its attribute '$name' is a tensor, which no field of an operator holds")
    case other                => other.toString
  }
}
