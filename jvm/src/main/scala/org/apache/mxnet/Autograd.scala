package org.apache.mxnet

import scala.util.Using

import org.apache.mxnet.Base._LIB
import org.apache.mxnet.NativeResource.keepAlive
import org.apache.mxnet.internal.util.NullChecks.requireNonNull

/** Automatic differentiation of array code: [[record]] writes operations to a tape, and [[backward]] runs it in
  * reverse.
  *
  * {{{
  * Autograd.attachGradient(x)
  * val loss = Autograd.record() { (x * x) + 1f }
  * Autograd.backward(loss)
  * Autograd.gradient(x) // 2 x
  * }}}
  *
  * Recording and training mode belong to the calling thread.
  */
object Autograd {

  /** Whether operations of this thread are recorded. */
  def isRecording: Boolean = _LIB.autogradIsRecording()

  /** Whether this thread is in training mode. */
  def isTraining: Boolean = _LIB.autogradIsTraining()

  /** Runs `body` and records it.
    *
    * @param trainMode whether operators run in training mode
    */
  def record[T](trainMode: Boolean = true)(body: => T): T = in(recording = true, trainMode)(body)

  /** Runs `body` without recording it, within [[record]].
    *
    * @param trainMode whether operators run in training mode
    */
  def pause[T](trainMode: Boolean = false)(body: => T): T = in(recording = false, trainMode)(body)

  private def in[T](recording: Boolean, training: Boolean)(body: => T): T = {
    val wasRecording = _LIB.autogradSetRecording(recording)
    val wasTraining = _LIB.autogradSetTraining(training)
    try body
    finally {
      _LIB.autogradSetTraining(wasTraining)
      _LIB.autogradSetRecording(wasRecording)
    }
  }

  /** Marks an array as a variable, with a gradient of zeros in its shape.
    *
    * @param gradReq what [[backward]] does with the gradient: `write`, `add` or `null`
    */
  def attachGradient(array: NDArray, gradReq: String = "write"): Unit = {
    requireNonNull("Autograd.attachGradient", "array" -> array, "gradReq" -> gradReq)
    // The tape keeps the gradient alive.
    Using.resource(NDArray.zeros(array.shape, array.context, array.dtype)) { gradient =>
      markVariables(Seq(array), Seq(gradient), gradReq)
    }
  }

  /** Marks arrays as variables whose gradients are written to the given arrays. */
  def markVariables(variables: Seq[NDArray], gradients: Seq[NDArray], gradReq: String = "write"): Unit = {
    requireNonNull("Autograd.markVariables", "variables" -> variables, "gradients" -> gradients, "gradReq" -> gradReq)
    if (variables.length != gradients.length)
      throw new MXNetError(s"Autograd: ${variables.length} variables were given, and ${gradients.length} gradients")
    val request = SymbolBind.gradReqCode("Autograd", gradReq)
    val handles = variables.map(_.liveHandle).toArray
    _LIB.autogradMarkVariables(handles, handles.map(_ => request), gradients.map(_.liveHandle).toArray)
    keepAlive(variables)
    keepAlive(gradients)
  }

  /** The gradient of a variable; any other array is an error. */
  def gradient(variable: NDArray): NDArray = {
    requireNonNull("Autograd.gradient", "variable" -> variable)
    val handle = _LIB.ndarrayGrad(variable.liveHandle)
    keepAlive(variable)
    if (handle == 0L)
      throw new MXNetError(s"Autograd: ${variable.describe} has no gradient; call attachGradient before it is used")
    NDArray.fromHandle(handle)
  }

  /** Computes the gradients of the variables that `head` was computed from. */
  def backward(head: NDArray): Unit = {
    requireNonNull("Autograd.backward", "head" -> head)
    backward(Seq(head))
  }

  /** Computes the gradients of the variables that `heads` were computed from.
    *
    * @param headGradients the gradients of the heads; if empty, all ones
    * @param retainGraph whether the tape is kept for another backward pass
    * @param trainMode whether operators run in training mode
    */
  def backward(
      heads: Seq[NDArray],
      headGradients: Seq[NDArray] = Nil,
      retainGraph: Boolean = false,
      trainMode: Boolean = true
  ): Unit = {
    requireNonNull("Autograd.backward", "heads" -> heads, "headGradients" -> headGradients)
    val gradients = if (headGradients.isEmpty) null else headGradients.map(_.liveHandle).toArray
    _LIB.autogradBackward(heads.map(_.liveHandle).toArray, gradients, retainGraph, trainMode)
    keepAlive(heads)
    keepAlive(headGradients)
  }

  /** The gradients of `heads` with respect to some variables. The gradients attached to the variables do not change.
    *
    * @param headGradients the gradients of the heads; if empty, all ones
    * @param createGraph whether the gradients are recorded, for higher-order gradients
    * @param trainMode whether operators run in training mode
    */
  def gradients(
      heads: Seq[NDArray],
      variables: Seq[NDArray],
      headGradients: Seq[NDArray] = Nil,
      createGraph: Boolean = false,
      trainMode: Boolean = true
  ): Seq[NDArray] = {
    requireNonNull("Autograd.gradients", "heads" -> heads, "variables" -> variables, "headGradients" -> headGradients)
    val headGradientHandles = if (headGradients.isEmpty) null else headGradients.map(_.liveHandle).toArray
    val (from, to) = (heads.map(_.liveHandle).toArray, variables.map(_.liveHandle).toArray)
    val gradients = _LIB.autogradGradients(from, headGradientHandles, to, createGraph, trainMode)
    keepAlive(heads)
    keepAlive(headGradients)
    keepAlive(variables)
    gradients.toSeq.map(NDArray.fromHandle(_))
  }
}
