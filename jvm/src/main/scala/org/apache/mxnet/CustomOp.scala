package org.apache.mxnet

import org.apache.mxnet.DType.DType
import org.apache.mxnet.internal.userop.{CustomDefinition, UdfClass, UserOperators}

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

  /** Writes `src` to `dst` as the request specifies. */
  def assign(dst: NDArray, req: String, src: NDArray): Unit = req match {
    case "write" | "inplace" => dst.set(src)
    case "add"               => dst += src
    case "null"              =>
    case other               =>
      throw new MXNetError(s"CustomOp.assign: '$other' is not a request; use one of write, inplace, add, null")
  }
}

/** The properties of an operator registered by [[Operator.register]]: the names, shapes and types of its arrays, and
  * its computation. Each node has its own copy, with the node's parameters.
  *
  * @param needTopGrad whether the gradient reads the gradients of the outputs; that of a loss does not
  */
abstract class CustomOpProp(needTopGrad: Boolean = false) extends Cloneable {

  /** The node's parameters. */
  protected var kwargs: Map[String, String] = Map.empty

  /** Sets the node's parameters. */
  private[mxnet] def init(kwargs: Map[String, String]): Unit = this.kwargs = kwargs

  private[mxnet] def forNode(kwargs: Map[String, String]): CustomOpProp = {
    val copy = super.clone().asInstanceOf[CustomOpProp]
    copy.init(kwargs)
    copy
  }

  /** Infers the shapes of inputs, outputs and auxiliary states from those of the inputs. By default there is one output
    * with the shape of the first input, and no states.
    */
  def inferShape(inShape: Array[Shape]): (Array[Shape], Array[Shape], Array[Shape]) =
    (inShape, inShape.take(1), null)

  /** Infers the types of inputs, outputs and auxiliary states; by default all are that of the first input. */
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

  /** Selects the arrays that the gradient reads, by their indices. */
  def declareBackwardDependency(outGrad: Array[Int], inData: Array[Int], outData: Array[Int]): Array[Int] =
    (if (needTopGrad) outGrad else Array.empty[Int]) ++ inData ++ outData

  /** Creates the computation for inputs of these shapes and type codes. */
  def createOperator(ctx: String, inShapes: Array[Array[Int]], inDtypes: Array[Int]): CustomOp
}

/** Registration of user-defined operators. */
object Operator {

  /** Registers an operator for `Symbol.Custom` and `NDArray.Custom` with this `op_type`. A later registration replaces
    * it for nodes that are created afterwards.
    */
  def register(regName: String, opProp: CustomOpProp): Unit = {
    if (regName == null || opProp == null)
      throw new MXNetError("Operator.register: name and properties must not be null")
    UserOperators.replace(regName, new CustomDefinition(opProp))
  }

  /** Registers the operator of a class, so that graphs that name it load. Annotated classes need no registration. */
  def register(opClass: Class[_ <: UserOperator]): Unit = {
    if (opClass == null) throw new MXNetError("Operator.register: opClass is null; give the class of an operator")
    val definition = UdfClass(opClass)
    UserOperators.register(definition.name, definition)
  }
}
