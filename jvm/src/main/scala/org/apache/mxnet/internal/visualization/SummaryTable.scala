package org.apache.mxnet
package internal.visualization

/** Lists a network's layers with their output shapes and numbers of parameters. */
private[mxnet] object SummaryTable {

  /** The table as text.
    *
    * @param graph the network, with shapes
    * @param inputs names of the variables that are not parameters
    */
  def text(graph: NetworkGraph, inputs: Set[String]): String = {
    val counts = graph.nodes.indices.map(i => parameters(graph, i, inputs))
    val rows = graph.nodes.indices.collect {
      case i if !graph.nodes(i).isVariable || inputs.contains(graph.nodes(i).name) =>
        val node = graph.nodes(i)
        val layer = if (node.isVariable) s"${node.name} (input)" else s"${node.name} (${node.title})"
        val previous =
          node.inputs.map { case (from, _) => graph.nodes(from) }.filter(n => !n.isVariable || inputs.contains(n.name))
        Seq(layer, graph.shapeOf(i, 0).fold("")(_.toString), f"${counts(i)}%,d", previous.map(_.name).mkString(", "))
    }
    val header = Seq("Layer (type)", "Output shape", "Parameters", "Previous layers")
    val widths = header.indices.map(column => (header +: rows).map(_(column).length).max)
    def line(cells: Seq[String]): String =
      cells.indices
        .map { i => if (i == 2) " " * (widths(i) - cells(i).length) + cells(i) else cells(i).padTo(widths(i), ' ') }
        .mkString("  ")
        .stripTrailing()
    val rule = "-" * (widths.sum + 2 * (widths.length - 1))
    ((Seq(rule, line(header), rule) ++ rows.map(line)) ++ Seq(rule, f"Total parameters: ${counts.sum}%,d", rule))
      .mkString("", "\n", "\n")
  }

  /** Number of elements of the parameters whose first reader is the node, so that a shared parameter counts once. */
  private def parameters(graph: NetworkGraph, index: Int, inputs: Set[String]): Long = {
    def isCounted(variable: Int): Boolean = {
      val node = graph.nodes(variable)
      node.isVariable && !inputs.contains(node.name) && firstReader(graph, variable) == index
    }
    val variables = graph.nodes(index).inputs.map(_._1).distinct.filter(isCounted)
    variables.map(graph.shapeOf(_, 0).fold(0L)(_.toArray.map(_.toLong).product)).sum
  }

  private def firstReader(graph: NetworkGraph, variable: Int): Int =
    graph.nodes.indexWhere(_.inputs.exists(_._1 == variable))
}
