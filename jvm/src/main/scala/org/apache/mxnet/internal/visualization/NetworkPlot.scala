package org.apache.mxnet
package internal.visualization

/** Draws a network: boxes colored by the kind of operator, from the inputs at the top to the outputs at the bottom. */
private[mxnet] object NetworkPlot {
  private val BoxHeight = 46.0
  private val LayerGap = 40.0
  private val BoxGap = 28.0
  private val Margin = 24.0
  private val TitleHeight = 34.0
  private val CaptionSize = 13
  private val DetailSize = 11

  /** An edge between two displayed nodes, by their indices. */
  private final case class Link(from: Int, to: Int, label: String)

  /** Color by kind of operator. */
  def colorOf(op: String): String = op match {
    case "null"                                                                                          => "#8dd3c7"
    case "Convolution" | "Deconvolution" | "FullyConnected" | "Embedding" | "RNN"                        => "#fb8072"
    case "Activation" | "LeakyReLU"                                                                      => "#ffffb3"
    case "BatchNorm" | "LayerNorm" | "InstanceNorm" | "GroupNorm"                                        => "#bebada"
    case "Pooling"                                                                                       => "#80b1d3"
    case "Concat" | "Flatten" | "Reshape" | "transpose" | "SliceChannel"                                 => "#fdb462"
    case "Softmax" | "SoftmaxOutput" | "softmax" | "LinearRegressionOutput" | "LogisticRegressionOutput" => "#b3de69"
    case _                                                                                               => "#fccde5"
  }

  /** The plot.
    *
    * @param hideWeights whether to omit variables that are parameters
    */
  def svg(graph: NetworkGraph, title: String, hideWeights: Boolean): String = {
    val shown = graph.nodes.indices.filterNot(i => hideWeights && graph.nodes(i).isParameter)
    val position = shown.zipWithIndex.toMap
    val links = for {
      to <- shown
      (from, output) <- graph.nodes(to).inputs if position.contains(from)
    } yield Link(position(from), position(to), label(graph, from, output))
    val widths = shown.map(i => boxWidth(graph.nodes(i)))
    val edgePairs = links.map(link => (link.from, link.to)).distinct
    val layout = new LayeredLayout(widths, edgePairs, BoxGap)
    val routes = edgePairs.zip(layout.routes).toMap

    def left(x: Double): Double = x + Margin
    def top(layer: Int): Double = Margin + TitleHeight + layer * (BoxHeight + LayerGap)
    val edges = links.flatMap { link =>
      edge(routes((link.from, link.to)).map(left), layout.layerOf(link.from), top, link.label)
    }
    val boxes = shown.indices.flatMap { i =>
      box(graph.nodes(shown(i)), left(layout.x(i)), top(layout.layerOf(i)), widths(i))
    }
    val width = math.max(layout.width, Svg.widthOf(title, 16)) + 2 * Margin + 50
    val height = top(layout.layerOf.maxOption.getOrElse(0)) + BoxHeight + Margin
    Svg.document(
      width,
      height,
      title,
      arrowHead +: Svg.text(Margin, Margin + 8, title, 16, "start") +: (edges ++ boxes)
    )
  }

  /** The shape of an output, without the batch axis unless it is a parameter. */
  private def label(graph: NetworkGraph, node: Int, output: Int): String =
    graph.shapeOf(node, output).fold("")(_.toArray.drop(if (graph.nodes(node).isParameter) 0 else 1).mkString("×"))

  private val arrowHead: String =
    """<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" """ +
      """orient="auto-start-reverse">""" +
      """<path d="M 0 1 L 10 5 L 0 9 z" fill="#666666"/></marker></defs>"""

  private def boxWidth(node: GraphNode): Double = {
    val lines = lineSizes(node)
    math.max(96, lines.map { case (text, size) => Svg.widthOf(text, size) }.max + 24)
  }

  /** The lines of a box, operator and name, each with its font size. */
  private def lineSizes(node: GraphNode): Seq[(String, Int)] =
    if (node.isVariable) Seq(node.name -> CaptionSize)
    else Seq(node.caption.mkString(" ") -> CaptionSize, node.name -> DetailSize)

  private def box(node: GraphNode, x: Double, y: Double, width: Double): Seq[String] = {
    val radius = if (node.isVariable) BoxHeight / 2 else 6.0
    val rect =
      s"""<rect x="${Svg.number(x - width / 2)}" y="${Svg.number(y)}" width="${Svg.number(width)}" height="${Svg.number(
          BoxHeight
        )}" """ +
        s"""rx="${Svg.number(radius)}" fill="${colorOf(node.op)}" stroke="#666666"/>"""
    val lines = lineSizes(node) match {
      case Seq((caption, size))                    => Seq(Svg.text(x, y + BoxHeight / 2 + 5, caption, size))
      case Seq((caption, size), (name, small), _*) =>
        Seq(Svg.text(x, y + 19, caption, size), Svg.text(x, y + 36, name, small, fill = "#666666"))
      case _ => Seq.empty
    }
    rect +: lines
  }

  private def edge(xs: IndexedSeq[Double], layer: Int, top: Int => Double, label: String): Seq[String] = {
    val path = new StringBuilder(s"M ${Svg.number(xs.head)} ${Svg.number(top(layer) + BoxHeight)}")
    for (i <- 1 until xs.length) {
      val fromY = top(layer + i - 1) + BoxHeight
      val toY = top(layer + i)
      val middle = Svg.number((fromY + toY) / 2)
      path ++= s" C ${Svg.number(xs(i - 1))} $middle ${Svg.number(xs(i))} $middle ${Svg.number(xs(i))} ${Svg.number(toY)}"
      if (i < xs.length - 1) path ++= s" L ${Svg.number(xs(i))} ${Svg.number(toY + BoxHeight)}"
    }
    val line = s"""<path d="$path" fill="none" stroke="#666666" stroke-width="1.2" marker-end="url(#arrow)"/>"""
    val caption =
      if (label.isEmpty) Seq.empty
      else
        Seq(
          Svg.text(
            (xs(0) + xs(1)) / 2 + 6,
            top(layer) + BoxHeight + LayerGap / 2 + 4,
            label,
            DetailSize,
            "start",
            "#666666"
          )
        )
    line +: caption
  }
}
