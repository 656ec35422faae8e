package org.apache.mxnet
package internal.userop

import org.apache.mxnet.DType.DType

private[mxnet] final class CustomDefinition(prop: CustomOpProp) extends OperatorDefinition {
  def described: String = prop.getClass.getName
  def isSameAs(other: OperatorDefinition): Boolean = false
  def operator(name: String, attributes: Map[String, String]): BridgedOperator =
    new CustomOperator(name, prop.forNode(attributes))
}

/** A node whose operator is a [[CustomOpProp]]. */
private[mxnet] final class CustomOperator(name: String, prop: CustomOpProp) extends BridgedOperator {
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

  override def flags(): Int = if (readsOutputGradients) BridgedOperator.ReadsOutputGradients else 0

  /** Concatenates the lists of an inference result. */
  private def concatenated[T <: AnyRef, R: reflect.ClassTag](
      what: String,
      result: (Array[T], Array[T], Array[T])
  )(f: T => R): Array[R] = {
    if (result == null)
      throw new MXNetError(s"operator $name: $what returned null; return those of inputs, outputs and auxiliary states")
    val (ins, outs, aux) = result
    val lists = Seq(ins, outs, aux).map(list => if (list == null) Seq.empty[T] else list.toSeq)
    val expected = Seq(inputs.length, outputs.length, states.length)
    if (lists.map(_.length) != expected || lists.flatten.exists(_ == null))
      throw new MXNetError(
        s"operator $name: $what returned ${lists.map(_.length).mkString(", ")} values for ${expected.mkString(", ")} inputs, " +
          "outputs and auxiliary states, or a null among them"
      )
    lists.flatten.map(f).toArray
  }

  override def inferShapes(ins: Array[Array[Long]], outs: Array[Array[Long]]): Array[Array[Long]] = prop.synchronized {
    concatenated("inferShape", prop.inferShape(ins.map(Shape.fromLongs)))(_.toLongs)
  }

  override def inferTypes(ins: Array[Int], outs: Array[Int]): Array[Int] = prop.synchronized {
    val first = ins.find(_ != DType.Unknown.id).getOrElse(DType.Unknown.id)
    val known = ins.map(id => DType.fromId(if (id == DType.Unknown.id) first else id))
    concatenated[DType, Int]("inferType", prop.inferType(known))(_.id)
  }

  override def gradient(ins: Array[Long], outs: Array[Long], outputGradients: Array[Long]): Array[Long] =
    throw new MXNetError(s"operator $name computes its gradient itself")

  override def create(context: String, shapes: Array[Array[Long]], dtypes: Array[Int]): BridgedInstance = {
    val op = prop.synchronized(prop.createOperator(context, shapes.map(_.map(_.toInt)), dtypes))
    if (op == null) throw new MXNetError(s"operator $name: createOperator returned null")
    new CustomInstance(op, inputs.length, outputs.length, if (readsOutputGradients) outputs.length else 0)
  }
}

/** An instance of a [[CustomOp]]. */
private[mxnet] final class CustomInstance(op: CustomOp, inputs: Int, outputs: Int, outputGradients: Int)
    extends BridgedInstance {
  import BorrowedLists.{ReadOnly, Writable}

  private val forwardArrays = new BorrowedLists(Seq(ReadOnly(inputs), Writable(outputs)))
  private val backwardArrays =
    new BorrowedLists(Seq(ReadOnly(outputGradients), ReadOnly(inputs), ReadOnly(outputs), Writable(inputs)))

  override def forward(isTrain: Boolean, handles: Array[Long], reqs: Array[Int]): Unit = {
    val Seq(ins, outs, aux) = forwardArrays.lists(handles, reqs): @unchecked
    op.forward(isTrain, forwardArrays.requests, ins, outs, aux)
  }

  override def backward(isTrain: Boolean, handles: Array[Long], reqs: Array[Int]): Unit = {
    val Seq(outGrad, ins, outs, inGrad, aux) = backwardArrays.lists(handles, reqs): @unchecked
    op.backward(backwardArrays.requests, outGrad, ins, outs, inGrad, aux)
  }
}

/** Splits the arrays of a call into lists, the last of which has the auxiliary states.
  *
  * @param kinds the other lists
  */
private[mxnet] final class BorrowedLists(kinds: Seq[BorrowedLists.Kind]) {
  private var current: Seq[Array[NDArray]] = Nil

  /** The requests of the call. */
  var requests: Array[String] = Array.empty

  def lists(handles: Array[Long], reqs: Array[Int]): Seq[Array[NDArray]] = {
    if (handles != null) {
      requests = reqs.map(BorrowedLists.requestNames)
      var rest = handles
      val fixed = kinds.map { kind =>
        val (handlesOfKind, others) = rest.splitAt(kind.length)
        rest = others
        handlesOfKind.map(handle => new BorrowedNDArray(handle, kind.isWritable): NDArray)
      }
      current = fixed :+ rest.map(handle => new BorrowedNDArray(handle, writable = true): NDArray)
    }
    current
  }
}

private[mxnet] object BorrowedLists {

  /** A list of a given length. */
  sealed abstract class Kind(val length: Int, val isWritable: Boolean)
  final case class ReadOnly(override val length: Int) extends Kind(length, isWritable = false)
  final case class Writable(override val length: Int) extends Kind(length, isWritable = true)

  /** The names of the gradient requests, by code. */
  private val requestNames = SymbolBind.gradReqCodes.toArray.sortBy(_._2).map(_._1)
}
