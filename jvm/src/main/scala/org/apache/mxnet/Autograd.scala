package org.apache.mxnet

import org.apache.mxnet.Base._LIB
import org.apache.mxnet.NativeResource.keepAlive
import org.apache.mxnet.internal.util.Given

/** Gradients of array code: operations in [[record]] are kept on a tape, and [[backward]] runs it in reverse.
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

  /** Whether operators of this thread behave as in training. */
  def isTraining: Boolean = _LIB.autogradIsTraining()

  /** Runs `body` and records it.
    *
    * @param trainMode whether operators behave as in training
    */
  def record[T](trainMode: Boolean = true)(body: => T): T = in(recording = true, trainMode)(body)

  /** Runs `body` without recording it, within [[record]].
    *
    * @param trainMode whether operators behave as in training
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

  /** Makes an array a variable, with a gradient of its shape that starts at zero.
    *
    * @param gradReq what [[backward]] does with the gradient: `write`, `add` or `null`
    */
  def attachGradient(array: NDArray, gradReq: String = "write"): Unit = {
    Given("Autograd.attachGradient", "array" -> array, "gradReq" -> gradReq)
    markVariables(Seq(array), Seq(NDArray.zeros(array.shape, array.context, array.dtype)), gradReq)
  }

  /** Makes arrays variables whose gradients go to the given arrays. */
  def markVariables(variables: Seq[NDArray], gradients: Seq[NDArray], gradReq: String = "write"): Unit = {
    Given("Autograd.markVariables", "variables" -> variables, "gradients" -> gradients, "gradReq" -> gradReq)
    if (variables.length != gradients.length)
      throw new MXNetError(s"Autograd: ${variables.length} variables were given, and ${gradients.length} gradients")
    val request = SymbolBind.gradReqCodes.getOrElse(
      gradReq,
      throw new MXNetError(s"Autograd: the gradient request '$gradReq' is not one of null, write, add")
    )
    val handles = variables.map(_.liveHandle).toArray
    _LIB.autogradMarkVariables(handles, handles.map(_ => request), gradients.map(_.liveHandle).toArray)
    keepAlive(variables)
    keepAlive(gradients)
  }

  /** The gradient of a variable; it is an error if the array is none. */
  def gradient(variable: NDArray): NDArray = {
    Given("Autograd.gradient", "variable" -> variable)
    val handle = _LIB.ndarrayGrad(variable.liveHandle)
    keepAlive(variable)
    if (handle == 0L)
      throw new MXNetError(s"Autograd: ${variable.describe} has no gradient; call attachGradient before it is used")
    NDArray.fromHandle(handle)
  }

  /** Computes the gradients of the variables that `head` was computed from. */
  def backward(head: NDArray): Unit = {
    Given("Autograd.backward", "head" -> head)
    backward(Seq(head))
  }

  /** Computes the gradients of the variables that `heads` were computed from.
    *
    * @param headGradients the gradients of the heads; empty is all ones
    * @param retainGraph whether the tape is kept for another backward pass
    * @param trainMode whether operators behave as in training
    */
  def backward(
      heads: Seq[NDArray],
      headGradients: Seq[NDArray] = Nil,
      retainGraph: Boolean = false,
      trainMode: Boolean = true
  ): Unit = {
    Given("Autograd.backward", "heads" -> heads, "headGradients" -> headGradients)
    val gradients = if (headGradients.isEmpty) null else headGradients.map(_.liveHandle).toArray
    _LIB.autogradBackward(heads.map(_.liveHandle).toArray, gradients, retainGraph, trainMode)
    keepAlive(heads)
    keepAlive(headGradients)
  }

  /** The gradients of `heads` with respect to some variables; those that are attached to the variables stay as they are.
    *
    * @param headGradients the gradients of the heads; empty is all ones
    * @param createGraph whether the gradients are recorded themselves, for gradients of a higher order
    * @param trainMode whether operators behave as in training
    */
  def gradients(
      heads: Seq[NDArray],
      variables: Seq[NDArray],
      headGradients: Seq[NDArray] = Nil,
      createGraph: Boolean = false,
      trainMode: Boolean = true
  ): Seq[NDArray] = {
    Given("Autograd.gradients", "heads" -> heads, "variables" -> variables, "headGradients" -> headGradients)
    val flows = if (headGradients.isEmpty) null else headGradients.map(_.liveHandle).toArray
    val (from, to) = (heads.map(_.liveHandle).toArray, variables.map(_.liveHandle).toArray)
    val made = _LIB.autogradGradients(from, flows, to, createGraph, trainMode)
    keepAlive(heads)
    keepAlive(headGradients)
    keepAlive(variables)
    made.toSeq.map(NDArray.fromHandle(_))
  }
}
