package org.apache.mxnet.spark.internal

import org.apache.mxnet.{Shape, Symbol}
import org.json4s.jackson.JsonMethods.parse
import org.json4s.{DefaultFormats, Formats, JArray, JValue}

/** A label whose elements are classes, because a layer `SoftmaxOutput` takes it. The layer accepts any number, and trains
  * without a target if there is no such class.
  *
  * @param input the name of the label
  * @param layer the name of the layer
  * @param ignored the value of elements without a class, if the layer ignores one
  */
private[mxnet] final case class ClassLabel(input: String, layer: String, numClasses: Int, ignored: Option[Float]) {

  /** Rejects a number that is not a class. The layer truncates numbers. */
  def check(value: Float, column: String): Unit =
    // NaN is not in the range either.
    if (!(value > -1f && value < numClasses.toFloat) && !ignored.contains(value))
      throw new IllegalArgumentException(
        s"column '$column' has the value $value, but the layer '$layer' (SoftmaxOutput) has $numClasses classes; give labels " +
          s"from 0 to ${numClasses - 1}${ignored.fold("")(other => s", or $other for no class")}"
      )
}

private[mxnet] object ClassLabel {
  private implicit val formats: Formats = DefaultFormats

  private val Layers = Set("SoftmaxOutput", "Softmax")

  /** The labels of a network among its inputs.
    *
    * @param inputs the shapes of the inputs with the batch axis
    */
  def of(network: Symbol, inputs: Map[String, Shape]): Seq[ClassLabel] = {
    val nodes = (parse(network.toJson) \ "nodes").extract[IndexedSeq[JValue]]
    val internals = network.getInternals()
    lazy val (_, shapes, _) = internals.inferShape(inputs)
    lazy val outputs = internals.listOutputs()
    nodes.filter(node => Layers((node \ "op").extract[String])).flatMap { node =>
      val layer = (node \ "name").extract[String]
      val JArray(operands) = node \ "inputs": @unchecked
      val label = (nodes(operands(1)(0).extract[Int]) \ "name").extract[String]
      val settings = (node \ "attrs").extractOrElse(Map.empty[String, String])
      def isSet(setting: String) = settings.get(setting).exists(value => value == "1" || value.equalsIgnoreCase("true"))
      for {
        labelShape <- inputs.get(label)
        data = shapes(outputs.indexOf(s"${layer}_output"))
        // A label of the shape of the data has probabilities.
        if labelShape != data
      } yield {
        val numClasses =
          if (isSet("preserve_shape")) data(data.length - 1)
          else if (isSet("multi_output")) data(1)
          else data.product / data(0)
        val ignored = Option.when(isSet("use_ignore"))(settings.get("ignore_label").fold(-1f)(_.toFloat))
        ClassLabel(label, layer, numClasses, ignored)
      }
    }
  }
}
