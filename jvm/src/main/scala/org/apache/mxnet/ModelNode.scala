package org.apache.mxnet

import scala.annotation.varargs
import scala.jdk.CollectionConverters._
import scala.jdk.OptionConverters._

import org.apache.mxnet.DType.DType
import org.apache.mxnet.internal.userop.{OpProperties, UdfOperator}

/** An input or output of a node of a model that is imported, or of a network that is exported.
  *
  * @param name its name in the model
  * @param symbol the symbol that represents it in a hook
  * @param shape its dimensions, -1 for unknown ones; `None` if the rank is unknown
  * @param dtype its element type, or [[DType.Unknown]]
  * @param value its elements if it is a constant, such as a weight; read-only
  */
final class ModelTensor private[mxnet] (
    val name: String,
    val symbol: Symbol,
    val shape: Option[IndexedSeq[Int]],
    val dtype: DType,
    val value: Option[NDArray]
)

/** A node of a model that is imported, or of a network that is exported.
  *
  * @param name its name, which may be empty
  * @param operator its operator; for a user-defined operator in a network, the operator's own name
  * @param domain the domain of the operator; empty for the default domain of ONNX, and for MXNet operators
  * @param opset the version of the node's operator set
  * @param inputs its inputs, `None` for absent optional ones
  * @param outputs the names of its outputs
  * @param attributes its attributes by name: `Long`, `Double`, `String`, `IndexedSeq` of these, or [[NDArray]]; graph
  *   attributes are not included
  */
final class ModelNode private[mxnet] (
    val name: String,
    val operator: String,
    val domain: String,
    val opset: Int,
    val inputs: IndexedSeq[Option[ModelTensor]],
    val outputs: IndexedSeq[String],
    val attributes: Map[String, Any],
    private[mxnet] val inputNames: IndexedSeq[String],
    private[mxnet] val constants: Map[String, NDArray]
) {
  private val added = scala.collection.mutable.LinkedHashMap.empty[String, NDArray]

  /** The node in messages: `Gelu 'gelu_1'`. */
  def label: String = {
    val shown = if (name.nonEmpty) name else outputs.find(_.nonEmpty).getOrElse("")
    s"${ModelNode.qualified(domain, operator)} '$shown'"
  }

  private[mxnet] def fail(message: String): Nothing = throw new MXNetError(s"$label: $message")

  /** An input as a symbol. */
  def input(index: Int): Symbol = tensor(index).symbol

  /** An input. */
  def tensor(index: Int): ModelTensor = inputs
    .lift(index)
    .flatten
    .getOrElse(fail(s"it has no input $index; it has ${inputs.count(_.isDefined)}"))

  /** True if the input at this index is present. */
  def hasInput(index: Int): Boolean = inputs.lift(index).exists(_.isDefined)

  /** All present inputs as symbols. */
  def symbols: Array[Symbol] = inputs.flatten.map(_.symbol).toArray

  private def attribute[T](name: String, kind: String)(as: PartialFunction[Any, T]): T = {
    val found = attributes.getOrElse(
      name,
      fail(s"it has no attribute '$name'; it has ${attributes.keys.toSeq.sorted.mkString(", ")}")
    )
    as.applyOrElse(found, (other: Any) => fail(s"its attribute '$name' is $other, not $kind"))
  }

  /** An integer attribute. */
  def integer(name: String): Long = attribute(name, "an integer") { case value: Long => value }

  /** An integer attribute, or a default. */
  def integer(name: String, otherwise: Long): Long = if (attributes.contains(name)) integer(name) else otherwise

  /** A floating-point attribute. */
  def number(name: String): Double = attribute(name, "a number") {
    case value: Double => value
    case value: Long   => value.toDouble
  }

  /** A floating-point attribute, or a default. */
  def number(name: String, otherwise: Double): Double = if (attributes.contains(name)) number(name) else otherwise

  /** A string attribute. */
  def text(name: String): String = attribute(name, "text") { case value: String => value }

  /** A string attribute, or a default. */
  def text(name: String, otherwise: String): String = if (attributes.contains(name)) text(name) else otherwise

  /** An attribute with a list of integers. */
  def integers(name: String): Array[Long] = attribute(name, "a list of integers") {
    case items: IndexedSeq[_] if items.forall(_.isInstanceOf[Long]) =>
      items.map { case i: Long => i; case _ => 0L }.toArray
  }

  /** A tensor attribute. */
  def array(name: String): NDArray = attribute(name, "a tensor") { case value: NDArray => value }

  /** A new constant for a hook's symbols, which becomes a parameter of the network. */
  def constant(value: NDArray): Symbol = {
    val name = s"${outputs.find(_.nonEmpty).getOrElse(this.name)}/constant${added.size}"
    added.put(name, value)
    Symbol.Variable(name)
  }

  /** The arrays of [[constant]], by the names of their variables. */
  private[mxnet] def addedConstants: Map[String, NDArray] = added.toMap

  private def copy(
      operator: String = operator,
      domain: String = domain,
      opset: Int = opset,
      attributes: Map[String, Any] = attributes,
      inputNames: IndexedSeq[String] = inputNames,
      constants: Map[String, NDArray] = constants
  ): ModelNode =
    new ModelNode(name, operator, domain, opset, inputs, outputs, attributes, inputNames, constants)

  /** The node with another operator of ONNX. */
  def withOperator(operator: String): ModelNode = withOperator("", operator)

  /** The node with an operator of another domain, in the version of that domain's operator set that the model uses. */
  def withOperator(domain: String, operator: String): ModelNode =
    copy(operator = operator, domain = domain, opset = if (domain == this.domain) opset else ModelNode.OpsetOfModel)

  /** The node in another version of the operator set. */
  def withOpset(opset: Int): ModelNode = copy(opset = opset)

  /** The node with an attribute: an integer, a floating-point number, a string, a list of these (a Scala collection or
    * an array), or an [[NDArray]].
    */
  def withAttribute(name: String, value: Any): ModelNode = {
    val plain = ModelNode.plain(value).getOrElse(fail(s"'$name' cannot be $value: attributes do not support this type"))
    copy(attributes = attributes + (name -> plain))
  }

  /** The node of a user-defined operator with its properties as attributes. */
  private[mxnet] def withProperties(properties: Map[String, Any]): ModelNode = {
    val plain = properties.toSeq.flatMap {
      case (_, null | None)                     => None
      case (name, Some(value))                  => Some(name -> value)
      case (name, value: java.util.Optional[_]) => value.toScala.map(name -> _)
      case other                                => Some(other)
    }
    // A hook may read or remove what attributes do not support, so that only writing it is an error.
    val attributes = plain.map { case (name, value) => name -> ModelNode.plain(value).getOrElse(value) }
    copy(attributes = this.attributes -- ModelNode.ownKeys ++ attributes)
  }

  /** The node without an attribute. */
  def withoutAttribute(name: String): ModelNode = copy(attributes = attributes - name)

  /** The node with inputs of these names: values of the model, or "" for an absent one. */
  @varargs def withInputs(names: String*): ModelNode = copy(inputNames = names.toIndexedSeq)

  /** The node with a constant as one of its inputs. Missing inputs before it are absent. */
  def withInput(index: Int, value: NDArray): ModelNode = {
    if (index < 0) fail(s"the input index $index is negative")
    val name = s"${outputs.find(_.nonEmpty).getOrElse(this.name)}/input$index"
    copy(inputNames = inputNames.padTo(index + 1, "").updated(index, name), constants = constants + (name -> value))
  }
}

private[mxnet] object ModelNode {

  /** Attributes that describe how to create a user-defined operator. */
  val ownKeys: Set[String] = Set("properties", UdfOperator.InputsKey, UdfOperator.OutputsKey)

  /** The version of an operator set that the model uses. */
  val OpsetOfModel = 0

  /** An operator with its domain. */
  def qualified(domain: String, operator: String): String = if (domain.isEmpty) operator else s"$domain.$operator"

  /** Converts a value to the type of attributes. */
  def plain(value: Any): Option[Any] = value match {
    case value @ (_: Long | _: Double | _: String | _: NDArray) => Some(value)
    case value: Int                                             => Some(value.toLong)
    case value: Float                                           => Some(value.toDouble)
    case value: Boolean                                         => Some(if (value) 1L else 0L)
    case value: Shape                                           => Some(value.toVector.map(_.toLong))
    case value: DType.Value                                     => Some(value.toString)
    case value: Short                                           => Some(value.toLong)
    case value: Byte                                            => Some(value.toLong)
    case items: Array[_]                                        => plain(items.toIndexedSeq)
    case items: java.util.Collection[_]                         => plain(items.asScala)
    case tuple: Product if OpProperties.isTuple(tuple)          => plain(tuple.productIterator.toIndexedSeq)
    case items: Iterable[_]                                     =>
      val all = items.toIndexedSeq.flatMap(plain)
      val single = all.forall(_.isInstanceOf[Long]) || all.forall(_.isInstanceOf[String])
      val numbers = all.map { case i: Long => i.toDouble; case other => other }
      if (all.length != items.size) None
      else if (single) Some(all)
      else if (numbers.forall(_.isInstanceOf[Double])) Some(numbers)
      else None
    case _ => None
  }
}
