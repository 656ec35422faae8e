package org.apache.mxnet

import org.apache.mxnet.DType.DType
import org.apache.mxnet.internal.userop.UdfOperator

/** A tensor at a node of a model that is imported, or of a network that is exported.
  *
  * @param name its name in the model
  * @param symbol stands for it in what a hook makes
  * @param shape its dimensions, -1 where they are not known; `None` if not even their number is known
  * @param dtype the type of its elements, [[DType.Unknown]] if it is not known
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
  * @param operator its operator; of a network's node that is a user-defined operator, the name of that
  * @param domain the domain of the operator; empty for ONNX itself, and for our operators
  * @param opset the version of the operator set that the node is written in
  * @param inputs its inputs, `None` where an optional one is absent
  * @param outputs the names of its outputs
  * @param attributes its attributes by name: `Long`, `Double`, `String`, `IndexedSeq` of these, or [[NDArray]]; what has
  *                   graphs inside is not shown
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

  /** What to call the node in messages: `Gelu 'gelu_1'`. */
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

  /** True if the input with this index is present; optional ones may be absent. */
  def hasInput(index: Int): Boolean = inputs.lift(index).exists(_.isDefined)

  /** All inputs that are there, as symbols. */
  def symbols: Array[Symbol] = inputs.flatten.map(_.symbol).toArray

  private def attribute[T](name: String, kind: String)(as: PartialFunction[Any, T]): T = {
    val found = attributes.getOrElse(
      name,
      fail(s"it has no attribute '$name'; it has ${attributes.keys.toSeq.sorted.mkString(", ")}")
    )
    as.applyOrElse(found, (other: Any) => fail(s"its attribute '$name' is $other, not $kind"))
  }

  /** An attribute that is an integer. */
  def integer(name: String): Long = attribute(name, "an integer") { case value: Long => value }

  /** An attribute that is an integer, or what holds without it. */
  def integer(name: String, otherwise: Long): Long = if (attributes.contains(name)) integer(name) else otherwise

  /** An attribute that is a number. */
  def number(name: String): Double = attribute(name, "a number") {
    case value: Double => value
    case value: Long   => value.toDouble
  }

  /** An attribute that is a number, or what holds without it. */
  def number(name: String, otherwise: Double): Double = if (attributes.contains(name)) number(name) else otherwise

  /** An attribute that is text. */
  def text(name: String): String = attribute(name, "text") { case value: String => value }

  /** An attribute that is text, or what holds without it. */
  def text(name: String, otherwise: String): String = if (attributes.contains(name)) text(name) else otherwise

  /** An attribute that is a list of integers. */
  def integers(name: String): Array[Long] = attribute(name, "a list of integers") {
    case items: IndexedSeq[_] if items.forall(_.isInstanceOf[Long]) =>
      items.map { case i: Long => i; case _ => 0L }.toArray
  }

  /** An attribute that is a tensor. */
  def array(name: String): NDArray = attribute(name, "a tensor") { case value: NDArray => value }

  /** A new constant, for what a hook makes of the node: a parameter of the network. */
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

  /** The node with another operator of a domain, in the version of that domain's operator set which the model uses. */
  def withOperator(domain: String, operator: String): ModelNode =
    copy(operator = operator, domain = domain, opset = if (domain == this.domain) opset else ModelNode.OpsetOfModel)

  /** The node as one of another version of the operator set. */
  def withOpset(opset: Int): ModelNode = copy(opset = opset)

  /** The node with an attribute: an integer, a number, text, a list of these (a Scala collection or an array), or an
    * [[NDArray]].
    */
  def withAttribute(name: String, value: Any): ModelNode = {
    val plain = ModelNode.plain(value).getOrElse(fail(s"'$name' cannot be $value: it is no value of an attribute"))
    copy(attributes = attributes + (name -> plain))
  }

  /** The node of a user-defined operator with its properties as attributes. */
  private[mxnet] def withProperties(properties: Map[String, Any]): ModelNode = {
    val plain = properties.toSeq.flatMap {
      case (_, null | None)    => None
      case (name, Some(value)) => Some(name -> value)
      case other               => Some(other)
    }
    plain.foldLeft(copy(attributes = attributes -- ModelNode.ownKeys)) { case (node, (name, value)) =>
      val text = ModelNode.plain(value).getOrElse {
        fail(
          s"its property '$name' is a ${value.getClass.getSimpleName}, which no attribute of ONNX holds: mark the field " +
            "@transient, or write the node by a hook of your own"
        )
      }
      node.copy(attributes = node.attributes + (name -> text))
    }
  }

  /** The node without an attribute. */
  def withoutAttribute(name: String): ModelNode = copy(attributes = attributes - name)

  /** The node with inputs of these names: values of the model, or "" where one is absent. */
  def withInputs(names: String*): ModelNode = copy(inputNames = names.toIndexedSeq)

  /** The node with a constant as one of its inputs; inputs before it that it does not have are absent. */
  def withInput(index: Int, value: NDArray): ModelNode = {
    if (index < 0) fail(s"there is no input $index")
    val name = s"${outputs.find(_.nonEmpty).getOrElse(this.name)}/input$index"
    copy(inputNames = inputNames.padTo(index + 1, "").updated(index, name), constants = constants + (name -> value))
  }
}

private[mxnet] object ModelNode {

  /** Attributes that say how a user-defined operator is made again. */
  val ownKeys: Set[String] = Set("properties", UdfOperator.InputsKey, UdfOperator.OutputsKey)

  /** The version that the model uses of an operator set. */
  val OpsetOfModel = 0

  /** An operator with its domain. */
  def qualified(domain: String, operator: String): String = if (domain.isEmpty) operator else s"$domain.$operator"

  /** A value as attributes hold it. */
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
