package org.apache.mxnet.examples.operators

import org.apache.mxnet._

/** The probabilities of classes, trained by the focal loss `-(1 - p)^gamma log p` of the right class's probability `p`,
  * which gives less weight to examples that are already classified well (Lin and others, 2017, arXiv:1708.02002). With
  * `gamma = 0` it is the cross entropy.
  *
  * Inputs are the scores, of shape (batch, classes), and the labels, of shape (batch). As the output layer of a network
  * it starts the gradient itself: it ignores the one that comes in.
  */
@UserDefinedOp
class FocalLoss(val classes: Int, val gamma: Float) extends UserDefinedCustomOp {

  def this() = this(2, 2f)

  override def opName: String = "focal_loss"

  override def getNumInputs: Int = 2

  override def inputNames(count: Int): Array[String] = Array("data", "label")

  override def exec(context: OpContext): Unit =
    NDArray.api.SoftmaxActivation(context.input(0), out = context.output(0))

  override def doDiff(gradients: Array[Symbol]): Array[Symbol] = {
    val probabilities = Symbol.api.softmax(arg(0))
    val right = Symbol.api.one_hot(arg(1), depth = classes)
    val p = Symbol.api.sum(probabilities * right, axis = Shape(1), keepdims = true) + 1e-7f
    val rest = p * -1f + 1.000001f
    val slope = Symbol.pow(rest, gamma - 1f) * Symbol.api.log(p) * p * gamma - Symbol.pow(rest, gamma)
    Array(Symbol.api.broadcast_mul(slope, right - probabilities), null)
  }
}
