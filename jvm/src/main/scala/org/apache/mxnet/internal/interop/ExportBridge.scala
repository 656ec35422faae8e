package org.apache.mxnet
package internal.interop

import scala.collection.mutable

import org.apache.mxnet.internal.userop.OpProperties

/** The hooks of an export: `before` calls [[ExportHook.compose]], `prepare` calls [[ExportHook.write]]. */
private[mxnet] final class ExportBridge(options: ExportOptions) extends HookBridge {
  private val visited = mutable.Set.empty[String]
  private val byNode = options.nodeHooks.groupBy(_._1)
  private val byOperator = options.operatorHooks.groupBy(_._1)

  /** Whether there are no hooks. */
  def isEmpty: Boolean = byNode.isEmpty && byOperator.isEmpty

  /** Checks that every node with a hook was exported. */
  def checkAllVisited(): Unit = byNode.keys.find(!visited.contains(_)).foreach { name =>
    throw new MXNetError(
      s"ExportOptions.onNode: no node '$name' was exported: use the name of a node of the network, or remove the hook"
    )
  }

  def appliesTo(domain: String, operator: String, name: String): Boolean = {
    visited += name
    byNode.contains(name) || byOperator.contains(operator)
  }

  private def hooks(node: ModelNode): Iterator[ExportHook] =
    (byNode.getOrElse(node.name, Nil) ++ byOperator.getOrElse(node.operator, Nil)).iterator.map(_._2)

  /** The node for hooks, with the properties of a user-defined operator as attributes. */
  private def modelNode(raw: RawNode): ModelNode = {
    val node = ImportBridge.node(raw)
    node.attributes.get("properties") match {
      case Some(json: String) => node.withProperties(OpProperties.fromJson(node.operator, json))
      case _                  => node
    }
  }

  def before(raw: RawNode): RawOutputs = ImportBridge.isolated {
    val node = modelNode(raw)
    val composed = hooks(node).map(hook => hook -> hook.compose(node)).find(_._2 != null)
    composed.map { case (hook, symbols) =>
      ImportBridge.rawOutputs(node, symbols, s"${hook.getClass.getName}.compose")
    }.orNull
  }

  def prepare(raw: RawNode): RawNode = ImportBridge.isolated {
    val node = modelNode(raw)
    hooks(node).map(_.write(node)).find(_ != null).map(ImportBridge.rawNode(_, raw)).orNull
  }
}
