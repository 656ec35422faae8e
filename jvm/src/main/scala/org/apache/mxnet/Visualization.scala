package org.apache.mxnet

import java.io.{IOException, PrintStream}
import java.nio.charset.StandardCharsets
import java.nio.file.{Files, Path, Paths}

import org.apache.mxnet.internal.util.NullChecks.requireNonNull
import org.apache.mxnet.internal.visualization.{CurvePlot, GraphNode, NetworkGraph, NetworkPlot, SummaryTable}

import scala.collection.mutable

/** Plots and tables of networks and training. */
object Visualization {

  /** A graph in the language of Graphviz.
    *
    * @param name its name
    */
  class Dot(name: String) {
    private val body = mutable.ArrayBuffer.empty[String]

    /** Adds a node.
      *
      * @param name its identifier
      * @param label its caption; the identifier if null
      * @param attrs its attributes
      */
    def node(name: String, label: String = null, attrs: Map[String, String]): Unit =
      body += s"\t${Dot.quote(name)} ${Dot.attributes(label, attrs)}"

    /** Adds an edge.
      *
      * @param tailName identifier of its start
      * @param headName identifier of its end
      * @param label its caption; none if null
      * @param attrs its attributes
      */
    def edge(tailName: String, headName: String, label: String = null, attrs: Map[String, String]): Unit =
      body += s"\t\t${Dot.quote(tailName)} -> ${Dot.quote(headName)} ${Dot.attributes(label, attrs)}"

    /** The graph as text. */
    def source: String = (s"digraph ${Dot.quote(name)} {" +: body :+ "}").mkString("", "\n", "\n")

    override def toString: String = source

    /** Writes the graph to a file and renders it with Graphviz, which must be installed. [[Visualization.toSvg]] needs
      * no Graphviz.
      *
      * @param engine the layout program: `dot`, `neato`, `circo` and so on
      * @param format file format of the plot, such as `pdf`, `png` or `svg`
      * @param fileName name of the file with the graph
      * @param path its directory
      */
    def render(engine: String = "dot", format: String = "pdf", fileName: String, path: String): Unit = {
      require(Dot.Engines.contains(engine), s"unknown engine $engine; there are ${Dot.Engines.mkString(", ")}")
      require(format.matches("[a-z0-9.-]+"), s"format $format is not a Graphviz format, such as pdf or png")
      val file = Paths.get(path, fileName)
      write(file, source)
      val command = Seq(engine, s"-T$format", "-O", file.toString)
      val status =
        try new ProcessBuilder(command: _*).inheritIO().start().waitFor()
        catch {
          case error: IOException =>
            throw new RuntimeException(
              s"cannot run $engine: install Graphviz and put it on the PATH, or use Visualization.toSvg",
              error
            )
        }
      if (status != 0)
        throw new RuntimeException(s"${command.mkString(" ")} failed with status $status; its message is above")
    }
  }

  private object Dot {
    val Engines: Seq[String] = Seq("dot", "neato", "twopi", "circo", "fdp", "sfdp", "patchwork", "osage")

    def quote(text: String): String =
      "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n") + "\""

    def attributes(label: String, attrs: Map[String, String]): String =
      (Option(label).map("label" -> _) ++ attrs.toSeq.sorted)
        .map { case (key, value) => s"$key=${quote(value)}" }
        .mkString("[", " ", "]")
  }

  private def write(file: Path, text: String): Unit = {
    Option(file.toAbsolutePath.getParent).foreach(Files.createDirectories(_))
    Files.write(file, text.getBytes(StandardCharsets.UTF_8))
    ()
  }

  /** The numbers in a shape's text, such as `(3, 3)`. */
  def str2Tuple(str: String): List[String] = {
    requireNonNull("Visualization.str2Tuple", "str" -> str)
    GraphNode.numbersIn(str)
  }

  /** A network as a graph for Graphviz.
    *
    * @param symbol the network
    * @param title name of the graph
    * @param shape shapes of the inputs; if given, edges are labeled with the shapes of their arrays, without the batch
    * @param nodeAttrs attributes of all nodes, for example `Map("shape" -> "oval", "fixedsize" -> "false")`
    * @param hideWeights whether to omit variables that are parameters
    */
  def plotNetwork(
      symbol: Symbol,
      title: String = "plot",
      shape: Map[String, Shape] = null,
      nodeAttrs: Map[String, String] = Map.empty,
      hideWeights: Boolean = true
  ): Dot = {
    requireNonNull("Visualization.plotNetwork", "symbol" -> symbol, "title" -> title, "nodeAttrs" -> nodeAttrs)
    val graph = NetworkGraph(symbol, shape)
    val dot = new Dot(title)
    val shown = graph.nodes.indices.filterNot(i => hideWeights && graph.nodes(i).isParameter)
    shown.foreach { i =>
      val node = graph.nodes(i)
      val form = if (node.isVariable) Map("shape" -> "oval") else Map.empty
      val attrs = DefaultNodeAttrs ++ nodeAttrs ++ form + ("fillcolor" -> NetworkPlot.colorOf(node.op))
      dot.node(node.name, node.caption.mkString("\n"), attrs)
    }
    val isShown = shown.toSet
    for (i <- shown; (from, output) <- graph.nodes(i).inputs if isShown(from)) {
      val label = graph.shapeOf(from, output).map(_.toArray.drop(1).mkString("x")).orNull
      dot.edge(graph.nodes(i).name, graph.nodes(from).name, label, Map("dir" -> "back", "arrowtail" -> "open"))
    }
    dot
  }

  private val DefaultNodeAttrs =
    Map("shape" -> "box", "fixedsize" -> "true", "width" -> "1.3", "height" -> "0.8034", "style" -> "filled")

  /** Draws a network as SVG, without Graphviz.
    *
    * @param symbol the network
    * @param title the title
    * @param shape shapes of the inputs; if given, edges are labeled with the shapes of their arrays, without the batch
    * @param hideWeights whether to omit variables that are parameters
    */
  def toSvg(
      symbol: Symbol,
      title: String = "plot",
      shape: Map[String, Shape] = null,
      hideWeights: Boolean = true
  ): String = {
    requireNonNull("Visualization.toSvg", "symbol" -> symbol, "title" -> title)
    NetworkPlot.svg(NetworkGraph(symbol, shape), title, hideWeights)
  }

  /** Writes [[toSvg]] to a file. */
  def saveSvg(
      symbol: Symbol,
      fileName: String,
      title: String = "plot",
      shape: Map[String, Shape] = null,
      hideWeights: Boolean = true
  ): Unit = {
    requireNonNull("Visualization.saveSvg", "symbol" -> symbol, "fileName" -> fileName, "title" -> title)
    write(Paths.get(fileName), toSvg(symbol, title, shape, hideWeights))
  }

  /** Curves as an SVG plot.
    *
    * @param title the title
    * @param xLabel label of the horizontal axis
    * @param yLabel label of the vertical axis
    * @param series name and points (x, y) of each curve
    */
  def curvesSvg(title: String, xLabel: String, yLabel: String, series: Seq[(String, Seq[(Double, Double)])]): String = {
    requireNonNull(
      "Visualization.curvesSvg",
      "title" -> title,
      "xLabel" -> xLabel,
      "yLabel" -> yLabel,
      "series" -> series
    )
    CurvePlot.svg(title, xLabel, yLabel, series)
  }

  /** Writes the learning curve of a training run to a file: each metric of training and validation over the epochs.
    *
    * @param history the epochs, as `Callback.Progress` keeps them
    */
  def saveLearningCurve(
      history: Seq[Callback.EpochRecord],
      fileName: String,
      title: String = "learning curve"
  ): Unit = {
    requireNonNull("Visualization.saveLearningCurve", "history" -> history, "fileName" -> fileName, "title" -> title)
    def curves(
        kind: String,
        metrics: Callback.EpochRecord => Seq[(String, Float)]
    ): Seq[(String, Seq[(Double, Double)])] =
      history.flatMap(metrics(_).map(_._1)).distinct.map { name =>
        s"$kind $name" -> history.flatMap { record =>
          metrics(record).collect { case (`name`, value) => (record.epoch + 1.0, value.toDouble) }
        }
      }
    val series = curves("training", _.train) ++ curves("validation", _.validation)
    write(Paths.get(fileName), curvesSvg(title, "epoch", "metric", series))
  }

  /** A table of a network's layers with their output shapes and numbers of parameters, and the total.
    *
    * @param symbol the network
    * @param shape shapes of its inputs
    */
  def summary(symbol: Symbol, shape: Map[String, Shape]): String = {
    requireNonNull("Visualization.summary", "symbol" -> symbol)
    require(shape != null && shape.nonEmpty, "the summary needs the shapes of the inputs")
    val inputs = symbol.listArguments().filterNot(Model.looksLikeParameter).toSet ++ shape.keys
    SummaryTable.text(NetworkGraph(symbol, shape), inputs)
  }

  /** Prints [[summary]]. */
  def printSummary(symbol: Symbol, shape: Map[String, Shape], out: PrintStream = System.out): Unit = {
    requireNonNull("Visualization.printSummary", "symbol" -> symbol, "out" -> out)
    out.print(summary(symbol, shape))
  }
}
