package org.apache.mxnet.internal.visualization

import java.io.ByteArrayInputStream
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Paths}
import javax.xml.parsers.DocumentBuilderFactory

import org.apache.mxnet.Shape
import org.w3c.dom.Document

/** Plots and tables of networks in MXNet's JSON, which do not need the native library. */
class VisualizationSuite extends munit.FunSuite {
  private val shapes = Map(
    "data" -> Shape(32, 1, 8, 8),
    "conv1_weight" -> Shape(20, 1, 3, 3),
    "conv1_bias" -> Shape(20),
    "conv1_output" -> Shape(32, 20, 8, 8),
    "fc1_weight" -> Shape(128, 200),
    "fc1_bias" -> Shape(128),
    "fc1_output" -> Shape(32, 128)
  )

  private lazy val lenet = NetworkGraph.parse(
    new String(Files.readAllBytes(Paths.get("tests/oracle/fixtures/lenet-symbol.json")), UTF_8),
    shapes
  )

  private def xml(text: String): Document =
    DocumentBuilderFactory.newInstance().newDocumentBuilder().parse(new ByteArrayInputStream(text.getBytes(UTF_8)))

  private def texts(document: Document): Seq[String] = {
    val nodes = document.getElementsByTagName("text")
    (0 until nodes.getLength).map(nodes.item(_).getTextContent)
  }

  private def count(document: Document, tag: String): Int = document.getElementsByTagName(tag).getLength

  test("a network is read from its JSON") {
    assertEquals(lenet.nodes.head.name, "data")
    val conv = lenet.nodes.indexWhere(_.name == "conv1")
    assertEquals(lenet.nodes(conv).op, "Convolution")
    assertEquals(
      lenet.nodes(conv).inputs.map { case (id, _) => lenet.nodes(id).name },
      IndexedSeq("data", "conv1_weight", "conv1_bias")
    )
    assertEquals(lenet.nodes(conv).caption, Seq("Convolution", "3x3/1, 20"))
    assertEquals(lenet.shapeOf(conv, 0), Some(Shape(32, 20, 8, 8)))
    assertEquals(lenet.shapeOf(lenet.nodes.indexWhere(_.name == "pool1"), 0), None)
  }

  test("the plot of a network is XML with a box for each operator and input, and shapes on the edges") {
    val document = xml(NetworkPlot.svg(lenet, "LeNet <5> & more", hideWeights = true))
    val shown = texts(document)
    assert(shown.contains("LeNet <5> & more"), shown)
    Seq("Convolution 3x3/1, 20", "conv1", "Pooling max, 2x2/2x2", "FullyConnected 128", "softmax_label").foreach {
      text =>
        assert(shown.contains(text), s"$text is missing in $shown")
    }
    assert(!shown.exists(_.contains("weight")), shown)
    assert(shown.contains("20×8×8"), shown)
    val visible = lenet.nodes.count(!_.isParameter)
    assertEquals(count(document, "rect"), visible + 1) // and the background
    assertEquals(count(document, "path"), visible) // an edge for each but the first, the label's, and the arrow head
  }

  test("weights are shown if they are asked for") {
    val shown = texts(xml(NetworkPlot.svg(lenet, "LeNet", hideWeights = false)))
    assert(shown.contains("conv1_weight") && shown.contains("fc2_bias"), shown)
  }

  test("edges point down, boxes of a layer do not overlap, and a long edge passes beside them") {
    // Edges 0 -> 1 -> 2 -> 3 and 0 -> 3, and the separate node 4.
    val widths = IndexedSeq(100.0, 120.0, 80.0, 100.0, 90.0)
    val edges = IndexedSeq((0, 1), (1, 2), (2, 3), (0, 3), (4, 3))
    val layout = new LayeredLayout(widths, edges, gap = 20)
    edges.foreach { case (from, to) => assert(layout.layerOf(from) < layout.layerOf(to), s"$from -> $to") }
    for (a <- widths.indices; b <- widths.indices if a < b && layout.layerOf(a) == layout.layerOf(b)) {
      assert(math.abs(layout.x(a) - layout.x(b)) >= (widths(a) + widths(b)) / 2 + 20 - 1e-6, s"$a and $b overlap")
    }
    val long = layout.routes(3)
    assertEquals(long.length, layout.layerOf(3) - layout.layerOf(0) + 1)
    assert(math.abs(long(1) - layout.x(1)) > widths(1) / 2, "the long edge runs through a box")
    assert(
      widths.indices.forall(i =>
        layout.x(i) - widths(i) / 2 >= -1e-6 && layout.x(i) + widths(i) / 2 <= layout.width + 1e-6
      )
    )
  }

  test("curves are XML with a line for each series; points that are not finite are left out") {
    val series =
      Seq("training" -> Seq(1.0 -> 0.5, 2.0 -> 0.75, 3.0 -> Double.NaN), "test & more" -> Seq(1.0 -> 0.4, 2.0 -> 0.6))
    val document = xml(CurvePlot.svg("accuracy", "epoch", "share", series))
    assertEquals(count(document, "polyline"), 2)
    assertEquals(count(document, "circle"), 4)
    val shown = texts(document)
    Seq("accuracy", "epoch", "share", "training", "test & more").foreach(text => assert(shown.contains(text), text))
  }

  test("nothing to plot is an error") {
    val error = intercept[IllegalArgumentException](CurvePlot.svg("empty", "x", "y", Seq("a" -> Seq.empty)))
    assert(error.getMessage.contains("no curve has a finite point"), error.getMessage)
  }

  test("ticks are round numbers around the values") {
    def rounded(min: Double, max: Double): Seq[Double] =
      CurvePlot.ticks(min, max).map(tick => math.round(tick * 1e6) / 1e6)
    assertEquals(rounded(0.13, 0.98), Seq(0.0, 0.2, 0.4, 0.6, 0.8, 1.0))
    assertEquals(rounded(1, 30), Seq(0.0, 10.0, 20.0, 30.0))
    assertEquals(rounded(5, 5).head, 5.0)
  }

  test("the summary lists layers, shapes and numbers of parameters") {
    val lines = SummaryTable.text(lenet, Set("data", "softmax_label")).linesIterator.toSeq
    def cells(layer: String): Seq[String] =
      lines.find(_.startsWith(layer + " ")).getOrElse(fail(s"no line for $layer")).split(" {2,}").map(_.trim).toSeq
    assertEquals(cells("data"), Seq("data (input)", "(32,1,8,8)", "0"))
    assertEquals(cells("conv1"), Seq("conv1 (Convolution)", "(32,20,8,8)", "200", "data"))
    assertEquals(cells("fc1"), Seq("fc1 (FullyConnected)", "(32,128)", "25,728", "flatten"))
    assert(lines.contains("Total parameters: 25,928"), lines.mkString("\n"))
  }

  test("JSON that is not a network is an error that says what is missing") {
    assert(intercept[RuntimeException](NetworkGraph.parse("{}", Map.empty)).getMessage.contains("nodes"))
    assert(intercept[RuntimeException](NetworkGraph.parse("{\"nodes\": [{}]}", Map.empty)).getMessage.contains("name"))
    assert(
      intercept[RuntimeException](NetworkGraph.parse("{\"nodes\": [", Map.empty)).getMessage.contains("invalid JSON")
    )
  }
}
