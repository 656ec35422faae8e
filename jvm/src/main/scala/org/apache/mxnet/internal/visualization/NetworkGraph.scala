package org.apache.mxnet
package internal.visualization

import scala.util.Try

import org.apache.mxnet.internal.util.Json
import org.apache.mxnet.{MXNetError, Model, Shape, Symbol}

/** A node of a network.
  *
  * @param name its name
  * @param op its operator; `null` for a variable, as MXNet writes it
  * @param attrs the operator's parameters
  * @param inputs the nodes whose outputs it reads, each with the index of the output
  */
private[mxnet] final case class GraphNode(
    name: String,
    op: String,
    attrs: Map[String, String],
    inputs: IndexedSeq[(Int, Int)]
) {
  def isVariable: Boolean = op == "null"

  /** The displayed name of the operator: for a user-defined one, its registered name. */
  def title: String = if (op == "Custom") attrs.getOrElse("op_type", op) else op

  /** Whether it is a variable that is a parameter rather than data. */
  def isParameter: Boolean = isVariable && Model.looksLikeParameter(name)

  /** The numbers in a parameter such as `(3, 3)`. */
  private def numbers(key: String): List[String] = attrs.get(key).fold(List.empty[String])(GraphNode.numbersIn)

  /** The operator and its most important parameters. */
  def caption: Seq[String] = op match {
    case "null"                          => Seq(name)
    case "Convolution" | "Deconvolution" => Seq(op, s"${window("kernel")}, ${attrs.getOrElse("num_filter", "?")}")
    case "FullyConnected"                => Seq(op, attrs.getOrElse("num_hidden", "?"))
    case "Activation" | "LeakyReLU"      => Seq(op, attrs.getOrElse("act_type", "leaky"))
    case "Pooling"                       =>
      val kind = attrs.getOrElse("pool_type", "max")
      Seq(op, if (attrs.get("global_pool").contains("True")) s"global $kind" else s"$kind, ${window("kernel")}")
    case _ => Seq(title)
  }

  private def window(key: String): String = {
    val stride = numbers("stride")
    numbers(key).mkString("x") + "/" + (if (stride.isEmpty) "1" else stride.mkString("x"))
  }
}

private[mxnet] object GraphNode {
  def numbersIn(text: String): List[String] = """\d+""".r.findAllIn(text).toList
}

/** A network as nodes in topological order.
  *
  * @param nodes the nodes
  * @param shapes shapes of outputs (node, index), as far as they were inferred
  */
private[mxnet] final class NetworkGraph(val nodes: IndexedSeq[GraphNode], shapes: Map[String, Shape]) {

  /** The shape of an output of a node. */
  def shapeOf(node: Int, output: Int): Option[Shape] = {
    val name = nodes(node).name
    if (nodes(node).isVariable) shapes.get(name)
    else shapes.get(s"${name}_output$output").orElse(if (output == 0) shapes.get(s"${name}_output") else None)
  }
}

private[mxnet] object NetworkGraph {

  /** Reads a network.
    *
    * @param shape shapes of its inputs; without them shapes are not inferred
    */
  def apply(symbol: Symbol, shape: Map[String, Shape]): NetworkGraph =
    parse(symbol.toJson, if (shape == null) Map.empty else inferShapes(symbol, shape))

  /** Reads a network in MXNet's JSON form.
    *
    * @param shapes shapes of outputs and variables by name
    */
  def parse(json: String, shapes: Map[String, Shape]): NetworkGraph = {
    val nodes = fields(Json.parse(json)).get("nodes").map(items(_).map(node)).getOrElse(malformed("nodes"))
    new NetworkGraph(nodes, shapes)
  }

  private def inferShapes(symbol: Symbol, shape: Map[String, Shape]): Map[String, Shape] = {
    val internals = symbol.getInternals()
    try {
      // If a user-defined operator is missing, only some shapes can be inferred.
      val complete = Try(symbol.checkReady()).isSuccess
      val (argShapes, outShapes, auxShapes) =
        if (complete) internals.inferShape(shape) else internals.inferShapePartial(shape)
      require(
        outShapes != null,
        s"the shapes of the network cannot be inferred from ${shape.mkString(", ")}; give the shapes of all its inputs"
      )
      (internals.listOutputs().zip(outShapes) ++
        internals.listArguments().zip(argShapes) ++
        internals.listAuxiliaryStates().zip(auxShapes)).filter(complete || _._2.length > 0).toMap
    } finally internals.dispose()
  }

  private def malformed(what: String): Nothing = throw new MXNetError(
    s"invalid JSON of a network: $what expected"
  )

  private def fields(value: Any): Map[String, Any] = value match {
    case map: Map[_, _] => map.iterator.map { case (key, content) => key.toString -> content }.toMap
    case _              => malformed("object")
  }

  private def items(value: Any): IndexedSeq[Any] = value match {
    case list: IndexedSeq[_] => list
    case _                   => malformed("array")
  }

  private def node(value: Any): GraphNode = {
    val entry = fields(value)
    val attrs = entry.get("attrs").orElse(entry.get("param")).map(fields).getOrElse(Map.empty)
    val inputs = entry.get("inputs").map(items).getOrElse(IndexedSeq.empty).map { input =>
      items(input) match {
        case IndexedSeq(id: Double, output: Double, _*) => (id.toInt, output.toInt)
        case _                                          => malformed("input")
      }
    }
    GraphNode(
      entry.getOrElse("name", malformed("name")).toString,
      entry.getOrElse("op", malformed("op")).toString,
      attrs.map { case (key, content) => key -> content.toString },
      inputs
    )
  }
}
