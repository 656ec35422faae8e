package org.apache.mxnet
package internal.userop

import scala.util.control.NonFatal

import org.apache.mxnet.internal.memory.DirectBuffer

/** The operator of a node, for the engine. Lists of arrays have inputs, then outputs, then auxiliary states. */
private[mxnet] abstract class BridgedOperator {

  /** The names of the inputs (kind 0), of the outputs (1), or of the auxiliary states (2). */
  def names(kind: Int): Array[String]

  /** The flags of the companion object that apply. */
  def flags(): Int

  /** @param ins the shapes of the inputs, null where the rank is unknown
    * @param outs the shapes of the outputs, likewise
    * @return the shapes of all arrays
    */
  def inferShapes(ins: Array[Array[Long]], outs: Array[Array[Long]]): Array[Array[Long]]

  /** @param ins type codes of the inputs, -1 where unknown
    * @param outs type codes of the outputs, likewise
    * @return type codes of all arrays
    */
  def inferTypes(ins: Array[Int], outs: Array[Int]): Array[Int]

  /** Gradients of the inputs, from handles of symbols that belong to the receiver.
    *
    * @return handles of symbols that belong to the caller, 0 for no gradient
    */
  def gradient(inputs: Array[Long], outputs: Array[Long], outputGradients: Array[Long]): Array[Long]

  /** Creates the instance for an executor or a recorded call.
    *
    * @param shapes shapes of the inputs
    * @param dtypes type codes of the inputs
    */
  def create(context: String, shapes: Array[Array[Long]], dtypes: Array[Int]): BridgedInstance
}

private[mxnet] object BridgedOperator {

  /** The gradient reads the gradients of the outputs. */
  val ReadsOutputGradients = 1

  /** [[BridgedOperator.gradient]] composes the gradient of operators. */
  val ComposesGradient = 2

  /** Several calls may share the operator. */
  val IsShareable = 4
}

/** The instance of an operator in one executor or recorded call, used by one thread at a time. The engine owns the
  * handles.
  */
private[mxnet] abstract class BridgedInstance {

  /** @param handles inputs, outputs, auxiliary states; null if they are those of the last call
    * @param reqs the request code of each output, with the codes of `gradReq`; null if `handles` is null
    */
  def forward(isTrain: Boolean, handles: Array[Long], reqs: Array[Int]): Unit

  /** @param handles gradients of outputs (if they are read), inputs, outputs, gradients of inputs, auxiliary states
    * @param reqs the request code of each input gradient
    */
  def backward(isTrain: Boolean, handles: Array[Long], reqs: Array[Int]): Unit
}

/** Creates operators written in Scala or Java, for the engine. */
private[mxnet] final class OperatorBridge {

  /** Creates the operator of a node with these attributes. */
  def make(opType: String, keys: Array[String], values: Array[String]): BridgedOperator =
    UserOperators.definition(opType).operator(opType, keys.zip(values).toMap)

  /** Searches the class path for an unregistered type; returns whether it was found. */
  def resolve(opType: String): Boolean = UserOperators.find(opType)

  /** The message of an exception of user code, which becomes the cause of the error. */
  def describe(thrown: Throwable): String =
    try
      thrown match {
        case error: MXNetError => error.getMessage
        case other             => other.toString
      }
    catch { case NonFatal(_) => thrown.getClass.getName }
}

/** An array that the engine owns and an operator uses while it runs. Disposing it does nothing. */
private[mxnet] final class BorrowedNDArray(handle: Base.NDArrayHandle, writable: Boolean)
    extends NDArray(handle, writable, addToCollector = false) {

  /** The engine frees the handle, so the object is not tracked, and no scope owns it. */
  private[mxnet] override def register(): NativeResourceRef = new NativeResourceRef(this, BorrowedNDArray.keep)

  private[mxnet] override def dispose(removeFromScope: Boolean): Unit = ()

  /** The memory of this array. */
  lazy val buffer: java.nio.ByteBuffer = DirectBuffer.of(this)
}

private[mxnet] object BorrowedNDArray {
  private val keep: Base.CPtrAddress => Int = _ => 0
}
