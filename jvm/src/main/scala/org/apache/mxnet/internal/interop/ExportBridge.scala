package org.apache.mxnet
package internal.interop

import scala.collection.mutable

import org.apache.mxnet.internal.userop.OpProperties

/** The hooks of an export: `before` calls those that compose operators, `prepare` those that write nodes.
  */
private[mxnet] final class ExportBridge(options: ExportOptions) extends HookBridge {
  private val met = mutable.Set.empty[String]
  private val byNode = options.nodeHooks.groupBy(_._1)
  private val byOperator = options.operatorHooks.groupBy(_._1)

  /** Whether there are no hooks. */
  def isEmpty: Boolean = byNode.isEmpty && byOperator.isEmpty

  /** Checks that the network has all nodes with hooks. */
  def checkMet(): Unit = byNode.keys.find(!met.contains(_)).foreach { name =>
    throw new MXNetError(
      s"ExportOptions.onNode: the network has no node '$name' that is written: see the names in it, or remove the hook"
    )
  }

  def concerns(domain: String, operator: String, name: String): Boolean = {
    met += name
    byNode.contains(name) || byOperator.contains(operator)
  }

  private def hooks(node: ModelNode): Iterator[ExportHook] =
    (byNode.getOrElse(node.name, Nil) ++ byOperator.getOrElse(node.operator, Nil)).iterator.map(_._2)

  /** The node with the properties of a user-defined operator as attributes. */
  private def shown(raw: RawNode): ModelNode = {
    val node = ImportBridge.node(raw)
    node.attributes.get("properties") match {
      case Some(json: String) => node.withProperties(OpProperties.fromJson(node.operator, json))
      case _                  => node
    }
  }

  def before(raw: RawNode): RawMade = ImportBridge.isolated {
    val node = shown(raw)
    val made = hooks(node).map(hook => hook -> hook.compose(node)).find(_._2 != null)
    made.map { case (hook, symbols) => ImportBridge.made(node, symbols, s"${hook.getClass.getName}.compose") }.orNull
  }

  def prepare(raw: RawNode): RawNode = ImportBridge.isolated {
    val node = shown(raw)
    hooks(node).map(_.write(node)).find(_ != null).map(ImportBridge.raw(_, raw)).orNull
  }
}
