package org.apache.mxnet
package internal.userop

import scala.util.control.NonFatal

import org.apache.mxnet.Base._LIB
import org.apache.mxnet.DType.DType
import org.apache.mxnet.internal.memory.Handles

/** A node with a [[UserDefinedCustomOp]].
  *
  * @param make creates an instance without properties
  */
private[mxnet] final class UdfOperator(name: String, attributes: Map[String, String], make: () => UserDefinedCustomOp)
    extends BridgedOperator {
  private val inputCount: Int = number(UdfOperator.InputsKey).getOrElse(UdfOperator.defaultInputs(make()))

  /** The node's properties, if they are immutable. */
  private val constant: Option[Map[String, Any]] =
    attributes
      .get("properties")
      .map(OpProperties.fromJson(name, _))
      .filter(_.values.forall(OpProperties.isImmutable))

  /** The instance for shape and type inference. */
  private val prototype = newInstance()
  private val inputs = checkedNames("inputNames", prototype.inputNames(inputCount), inputCount)
  private val outputCount = prototype.getNumOutputs
  private val states = checkedNames("stateNames", prototype.stateNames, -1)
  checkCounts()

  private def number(key: String): Option[Int] = attributes.get(key).map { text =>
    text.toIntOption
      .filter(_ >= 0)
      .getOrElse(
        throw new MXNetError(s"operator $name: the attribute $key is '$text', which is not a number of arrays")
      )
  }

  /** A new instance with the node's properties. */
  private def newInstance(): UserDefinedCustomOp = {
    val op = make()
    op.inputCount = inputCount
    attributes.get("properties") match {
      // Mutable properties are parsed again for each instance, so that nothing is shared.
      case Some(text) => op.setPropertiesForFunction(constant.getOrElse(OpProperties.fromJson(name, text)))
      case None       =>
        val found = OpFields.parse(op, attributes)
        val unknown = attributes.keySet -- UdfOperator.ownKeys -- found.keySet
        if (unknown.nonEmpty)
          fail(
            s"${op.userObject.getClass.getName} has no field for the attributes ${unknown.toSeq.sorted.mkString(", ")}; " +
              s"it has ${OpFields.names(op).mkString(", ")}"
          )
        if (found.nonEmpty) op.setPropertiesForFunction(found)
    }
    try op.configureFromArguments()
    catch {
      case NonFatal(e) => throw new MXNetError(s"operator $name: configureFromArguments failed: ${e.getMessage}", e)
    }
    op
  }

  private def fail(message: String): Nothing = throw new MXNetError(s"operator $name: $message")

  private def checkCounts(): Unit = {
    if (outputCount < 1) fail(s"getNumOutputs is $outputCount, but an operator has at least one output")
    if (prototype.getNumInputs >= 0 && prototype.getNumInputs != inputCount)
      fail(s"it takes ${prototype.getNumInputs} inputs, but has $inputCount here")
    if (prototype.isInplaceCall && outputCount > inputCount)
      fail(s"it works in place, so its $outputCount outputs must be inputs too, but it has $inputCount inputs")
    number(UdfOperator.OutputsKey).filter(_ != outputCount).foreach { saved =>
      fail(s"it has $outputCount outputs, but the node has $saved: it was saved with another version of the class")
    }
  }

  private def checkedNames(what: String, names: Array[String], expected: Int): Array[String] = {
    if (names == null || names.contains(null)) fail(s"$what returned null: return a name for each array")
    if (expected >= 0 && names.length != expected)
      fail(s"$what returned ${names.length} names (${names.mkString(", ")}) for $expected inputs")
    names
  }

  /** Checks that user code returned a value for each of `expected` arrays. */
  private def checked[T <: AnyRef](what: String, result: Array[T], expected: Int): Array[T] = {
    if (result == null) fail(s"$what returned null: return an array of $expected")
    if (result.length != expected) fail(s"$what returned ${result.length} values for $expected arrays")
    result.indices.find(result(_) == null).foreach(i => fail(s"$what returned null for array $i"))
    result
  }

  override def names(kind: Int): Array[String] = kind match {
    case 0 => inputs
    case 1 => if (outputCount == 1) Array("output") else Array.tabulate(outputCount)(i => s"output$i")
    case _ => states
  }

  override def flags(): Int =
    BridgedOperator.ReadsOutputGradients | BridgedOperator.ComposesGradient | BridgedOperator.IsShareable

  private def isKnown(dims: Array[Long]): Boolean =
    dims != null && (if (_LIB.isNumpyShape()) dims.forall(_ >= 0) else dims.nonEmpty && dims.forall(_ > 0))

  /** The shapes of the inputs; the operator infers unknown ones from the others and from the outputs. */
  private def completedShapes(ins: Array[Array[Long]], outs: Array[Array[Long]]): Array[Array[Long]] =
    if (ins.forall(isKnown)) ins
    else {
      def shapes(all: Array[Array[Long]]): Array[Shape] =
        all.map(dims => if (isKnown(dims)) Shape.fromLongs(dims) else null)
      val inferred = prototype.inferInputShapes(shapes(ins), shapes(outs))
      if (inferred == null || inferred.length != inputCount)
        fail(s"inferInputShapes must return a shape, or null, for each of $inputCount inputs")
      ins.lazyZip(inferred).map((dims, shape) => if (isKnown(dims) || shape == null) dims else shape.toLongs)
    }

  override def inferShapes(known: Array[Array[Long]], outs: Array[Array[Long]]): Array[Array[Long]] =
    prototype.synchronized {
      val ins = completedShapes(known, outs)
      if (!ins.forall(isKnown)) ins ++ new Array[Array[Long]](outputCount + states.length)
      else {
        val shapes = ins.map(Shape.fromLongs)
        val context = new OpContext(shapes.toIndexedSeq, shapes.map(new ShapeOnlyNDArray(_)), null, null)
        prototype.context = context
        try {
          val outputs =
            if (prototype.isInplaceCall) shapes.take(outputCount)
            else checked("calculateOutputShape", prototype.calculateOutputShape(context), outputCount)
          val stateShapes = checked("calculateStateShapes", prototype.calculateStateShapes(), states.length)
          ins ++ outputs.map(_.toLongs) ++ stateShapes.map(_.toLongs)
        } finally prototype.context = null
      }
    }

  /** Inputs of unknown type get the type of the others, or of the outputs. */
  override def inferTypes(ins: Array[Int], outs: Array[Int]): Array[Int] = prototype.synchronized {
    val first = (ins ++ outs).find(_ != DType.Unknown.id)
    val known = ins.map(id => if (id == DType.Unknown.id) first.getOrElse(id) else id)
    if (known.contains(DType.Unknown.id)) known ++ Array.fill(outputCount + states.length)(DType.Unknown.id)
    else {
      val outputs =
        if (prototype.isInplaceCall) known.take(outputCount)
        else {
          val types = prototype.calculateOutputDataTypes(known.map(DType.fromId))
          checked[DType]("calculateOutputDataTypes", types, outputCount).map(_.id)
        }
      known ++ outputs ++ states.map(_ => first.getOrElse(DType.Float32.id))
    }
  }

  override def gradient(
      inputHandles: Array[Long],
      outputHandles: Array[Long],
      outputGradients: Array[Long]
  ): Array[Long] = {
    val op = newInstance()
    op.argumentSymbols = inputHandles.map(new Symbol(_))
    op.outputSymbols = outputHandles.map(new Symbol(_))
    // Outside of the program's name and attribute scopes, so that the gradient does not depend on where it is composed.
    val gradients = new NameManager().withScope(AttrScope().withScope(op.doDiff(outputGradients.map(new Symbol(_)))))
    if (gradients == null) fail("doDiff returned null: return one gradient for each input")
    if (gradients.length != inputCount) fail(s"doDiff returned ${gradients.length} gradients for $inputCount inputs")
    Handles.ofSymbols(gradients)
  }

  override def create(context: String, shapes: Array[Array[Long]], dtypes: Array[Int]): BridgedInstance =
    new UdfInstance(name, newInstance(), shapes.map(Shape.fromLongs).toIndexedSeq, outputCount)
}

private[mxnet] object UdfOperator {

  /** The attribute with the number of inputs. */
  val InputsKey = "num_inputs"

  /** The attribute with the number of outputs. */
  val OutputsKey = "num_outputs"

  /** The attributes that describe the node itself. */
  val ownKeys: Set[String] = Set("op_type", InputsKey, OutputsKey)

  /** The number of inputs without the attribute, as in nodes of other programs. */
  def defaultInputs(op: UserDefinedCustomOp): Int = if (op.getNumInputs < 0) 1 else op.getNumInputs
}

/** An instance of a [[UserDefinedCustomOp]] in an executor or a recorded call.
  *
  * @param shapes the shapes of the inputs
  */
private[mxnet] final class UdfInstance(
    name: String,
    op: UserDefinedCustomOp,
    shapes: IndexedSeq[Shape],
    outputCount: Int
) extends BridgedInstance {
  private val isInPlace = op.isInplaceCall
  private var context: OpContext = _
  private var inputs: Array[NDArray] = _

  /** The engine's output arrays. */
  private var engineOutputs: Array[NDArray] = _

  /** The same arrays, which user code may replace. */
  private var outputs: Array[NDArray] = _

  private def take(handles: Array[Long]): Unit = {
    val (ins, rest) = handles.splitAt(shapes.length)
    val (outs, states) = rest.splitAt(outputCount)
    inputs = ins.map(new BorrowedNDArray(_, writable = false))
    engineOutputs = outs.map(new BorrowedNDArray(_, writable = true))
    outputs = engineOutputs.clone()
    val execInputs = if (isInPlace) engineOutputs ++ inputs.drop(outputCount) else inputs
    context = new OpContext(shapes, execInputs, outputs, states.map(new BorrowedNDArray(_, writable = true)))
    op.context = context
  }

  override def forward(isTrain: Boolean, handles: Array[Long], reqs: Array[Int]): Unit = {
    if (handles != null) take(handles)
    context.startRun(isTrain)
    if (isInPlace) engineOutputs.indices.foreach(i => inputs(i).copyTo(engineOutputs(i)))
    op.exec(context)
    var i = 0
    while (i < outputCount) {
      if (outputs(i) ne engineOutputs(i)) copyReplacement(i)
      i += 1
    }
  }

  /** Copies an array with which user code replaced output `i` to the engine's array. */
  private def copyReplacement(i: Int): Unit = {
    val (replacement, output) = (outputs(i), engineOutputs(i))
    outputs(i) = output
    if (replacement == null)
      throw new MXNetError(s"operator $name: exec set output $i to null: write into it, or set an array")
    if (replacement.shape != output.shape || replacement.dtype != output.dtype)
      throw new MXNetError(
        s"operator $name: exec set output $i to an array of shape ${replacement.shape} and type ${replacement.dtype}, but " +
          s"calculateOutputShape and calculateOutputDataTypes returned ${output.shape} and ${output.dtype}"
      )
    replacement.copyTo(output)
  }

  override def backward(isTrain: Boolean, handles: Array[Long], reqs: Array[Int]): Unit =
    throw new MXNetError(s"operator $name: its gradient is composed of operators and never runs by itself")
}
