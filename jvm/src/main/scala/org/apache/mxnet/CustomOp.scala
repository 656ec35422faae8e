package org.apache.mxnet

import org.apache.mxnet.DType.DType

/** The computation of an operator that was registered by [[Operator.register]]; one for each node in each executor.
  *
  * A request is `write`, `inplace` (as write), `add` or `null`.
  */
abstract class CustomOp {

  /** Computes the outputs.
    *
    * @param req what to do with each output
    * @param inData the inputs, read-only
    * @param outData the outputs
    * @param aux the auxiliary states
    */
  def forward(
      isTrain: Boolean,
      req: Array[String],
      inData: Array[NDArray],
      outData: Array[NDArray],
      aux: Array[NDArray]
  ): Unit

  /** Computes the gradients of the inputs.
    *
    * @param req what to do with each gradient
    * @param outGrad the gradients of the outputs; empty for a loss
    * @param inData the inputs of the forward call
    * @param outData the outputs of the forward call
    * @param inGrad the gradients of the inputs
    * @param aux the auxiliary states
    */
  def backward(
      req: Array[String],
      outGrad: Array[NDArray],
      inData: Array[NDArray],
      outData: Array[NDArray],
      inGrad: Array[NDArray],
      aux: Array[NDArray]
  ): Unit

  /** Puts `src` into `dst` as a request says. */
  def assign(dst: NDArray, req: String, src: NDArray): Unit = req match {
    case "write" | "inplace" => dst.set(src)
    case "add"               => dst += src
    case "null"              =>
    case other               =>
      throw new MXNetError(s"CustomOp.assign: '$other' is no request; it is one of write, inplace, add, null")
  }
}

/** What an operator that was registered by [[Operator.register]] is like: the names and shapes of its arrays, and what
  * computes. Every node has one of its own, a copy of the registered one with the node's parameters.
  *
  * @param needTopGrad whether the gradient reads the gradients of the outputs; that of a loss does not
  */
abstract class CustomOpProp(needTopGrad: Boolean = false) extends Cloneable {

  /** The node's parameters. */
  protected var kwargs: Map[String, String] = Map.empty

  /** Takes over the node's parameters. */
  private[mxnet] def init(kwargs: Map[String, String]): Unit = this.kwargs = kwargs

  private[mxnet] def forNode(kwargs: Map[String, String]): CustomOpProp = {
    val copy = super.clone().asInstanceOf[CustomOpProp]
    copy.init(kwargs)
    copy
  }

  /** The shapes of inputs, outputs and auxiliary states from what is known of the inputs' shapes; by default one output
    * of the first input's shape, and no states.
    */
  def inferShape(inShape: Array[Shape]): (Array[Shape], Array[Shape], Array[Shape]) =
    (inShape, inShape.take(1), null)

  /** The types of inputs, outputs and auxiliary states; by default all that of the first input. */
  def inferType(inType: Array[DType]): (Array[DType], Array[DType], Array[DType]) = {
    val first = inType.headOption.getOrElse(DType.Float32)
    (inType, listOutputs().map(_ => first), Option(listAuxiliaryStates()).map(_.map(_ => first)).orNull)
  }

  /** The names of the outputs. */
  def listOutputs(): Array[String] = Array("output")

  /** The names of the inputs. */
  def listArguments(): Array[String] = Array("data")

  /** The names of the auxiliary states; null for none. */
  def listAuxiliaryStates(): Array[String] = null

  /** Which of the numbered arrays the gradient reads. */
  def declareBackwardDependency(outGrad: Array[Int], inData: Array[Int], outData: Array[Int]): Array[Int] =
    (if (needTopGrad) outGrad else Array.empty[Int]) ++ inData ++ outData

  /** What computes, for inputs of these shapes and type codes. */
  def createOperator(ctx: String, inShapes: Array[Array[Int]], inDtypes: Array[Int]): CustomOp
}

/** Registration of user-defined operators. */
object Operator {

  /** Registers an operator for `Symbol.Custom` and `NDArray.Custom` with this `op_type`. A later one takes its place for
    * nodes that are made from then on.
    */
  def register(regName: String, opProp: CustomOpProp): Unit = {
    if (regName == null || opProp == null)
      throw new MXNetError("Operator.register: name and properties must not be null")
    UserOperators.replace(regName, new CustomDefinition(opProp))
  }

  /** Registers the operator of a class, so that graphs which name it load; an annotated class is found without. */
  def register(opClass: Class[_ <: UserDefinedCustomOp]): Unit = {
    val definition = UdfClass(opClass)
    UserOperators.register(definition.name, definition)
  }
}

private[mxnet] final class CustomDefinition(prop: CustomOpProp) extends OperatorDefinition {
  def described: String = prop.getClass.getName
  def isSameAs(other: OperatorDefinition): Boolean = false
  def operator(name: String, attributes: Map[String, String]): HostOperator =
    new CustomOperator(name, prop.forNode(attributes))
}

/** A node whose operator is a [[CustomOpProp]]. */
private[mxnet] final class CustomOperator(name: String, prop: CustomOpProp) extends HostOperator {
  private val inputs = orEmpty(prop.listArguments())
  private val outputs = orEmpty(prop.listOutputs())
  private val states = orEmpty(prop.listAuxiliaryStates())
  private val readsOutputGradients = {
    val (outs, ins) = (outputs.length, inputs.length)
    val read = prop.declareBackwardDependency(
      Array.range(0, outs),
      Array.range(outs, outs + ins),
      Array.range(outs + ins, 2 * outs + ins)
    )
    read.exists(_ < outs)
  }

  private def orEmpty(names: Array[String]): Array[String] = if (names == null) Array.empty else names

  override def names(kind: Int): Array[String] = Array(inputs, outputs, states).apply(kind)

  override def flags(): Int = if (readsOutputGradients) 1 else 0

  /** The parts of an answer, one after the other. */
  private def all[T <: AnyRef, R: reflect.ClassTag](
      what: String,
      answer: (Array[T], Array[T], Array[T])
  )(f: T => R): Array[R] = {
    val (ins, outs, aux) = answer
    val parts = Seq(ins, outs, aux).map(part => if (part == null) Seq.empty[T] else part.toSeq)
    val expected = Seq(inputs.length, outputs.length, states.length)
    if (parts.map(_.length) != expected || parts.flatten.exists(_ == null))
      throw new MXNetError(
        s"operator $name: $what returned ${parts.map(_.length).mkString(", ")} for ${expected.mkString(", ")} inputs, " +
          "outputs and auxiliary states, or a null among them"
      )
    parts.flatten.map(f).toArray
  }

  override def inferShapes(ins: Array[Array[Long]], outs: Array[Array[Long]]): Array[Array[Long]] = prop.synchronized {
    all("inferShape", prop.inferShape(ins.map(Shape.fromLongs)))(_.toLongs)
  }

  override def inferTypes(ins: Array[Int], outs: Array[Int]): Array[Int] = prop.synchronized {
    val first = ins.find(_ != DType.Unknown.id).getOrElse(DType.Unknown.id)
    val known = ins.map(id => DType.fromId(if (id == DType.Unknown.id) first else id))
    all[DType, Int]("inferType", prop.inferType(known))(_.id)
  }

  override def gradient(ins: Array[Long], outs: Array[Long], outputGradients: Array[Long]): Array[Long] =
    throw new MXNetError(s"operator $name computes its gradient itself")

  override def create(context: String, shapes: Array[Array[Long]], dtypes: Array[Int]): HostInstance = {
    val op = prop.synchronized(prop.createOperator(context, shapes.map(_.map(_.toInt)), dtypes))
    if (op == null) throw new MXNetError(s"operator $name: createOperator returned null")
    new CustomInstance(op, inputs.length, outputs.length, if (readsOutputGradients) outputs.length else 0)
  }
}

/** A [[CustomOp]] at work. */
private[mxnet] final class CustomInstance(op: CustomOp, inputs: Int, outputs: Int, outputGradients: Int)
    extends HostInstance {
  private val forwardArrays = new LentLists(Seq(inputs -> false, outputs -> true))
  private val backwardArrays =
    new LentLists(Seq(outputGradients -> false, inputs -> false, outputs -> false, inputs -> true))

  override def forward(isTrain: Boolean, handles: Array[Long], reqs: Array[Int]): Unit = {
    val Seq(ins, outs, aux) = forwardArrays.lists(handles, reqs): @unchecked
    op.forward(isTrain, forwardArrays.requests, ins, outs, aux)
  }

  override def backward(isTrain: Boolean, handles: Array[Long], reqs: Array[Int]): Unit = {
    val Seq(outGrad, ins, outs, inGrad, aux) = backwardArrays.lists(handles, reqs): @unchecked
    op.backward(backwardArrays.requests, outGrad, ins, outs, inGrad, aux)
  }
}

/** The arrays of a call in lists, the last of which has the auxiliary states.
  *
  * @param lengths the lengths of the other lists, each with whether its arrays may be written
  */
private final class LentLists(lengths: Seq[(Int, Boolean)]) {
  private var current: Seq[Array[NDArray]] = Nil

  /** The requests of the call. */
  var requests: Array[String] = Array.empty

  def lists(handles: Array[Long], reqs: Array[Int]): Seq[Array[NDArray]] = {
    if (handles != null) {
      requests = reqs.map(LentLists.requestNames)
      var rest = handles
      val fixed = lengths.map { case (length, writable) =>
        val arrays = rest.take(length).map(handle => new LentNDArray(handle, writable): NDArray)
        rest = rest.drop(length)
        arrays
      }
      current = fixed :+ rest.map(handle => new LentNDArray(handle, writable = true): NDArray)
    }
    current
  }
}

private object LentLists {
  private val requestNames = Array("null", "write", "inplace", "add")
}
