package org.apache.mxnet.optimizer

import org.apache.mxnet.{NDArray, Optimizer, ResourceScope}

/** AdaGrad (Duchi, Hazan and Singer, 2011): `history += g^2^` and `weight -= lr * (g / sqrt(history + epsilon) + wd *
  * weight)`.
  *
  * @param learningRate learning rate (step size)
  * @param rescaleGradient gradients are multiplied by this and by 1 / batch size
  * @param epsilon keeps the denominator from being zero
  * @param wd weight decay
  */
class AdaGrad(
    val learningRate: Float = 0.05f,
    rescaleGradient: Float = 1.0f,
    epsilon: Float = 1e-7f,
    wd: Float = 0.0f
) extends Optimizer
    with StateArrays {

  override def update(index: Int, weight: NDArray, grad: NDArray, state: AnyRef): Unit = ResourceScope.using() {
    val lr = nextLr(index, learningRate, null)
    val history = state match {
      case array: NDArray => array
      case _              => throw new IllegalArgumentException(s"the state of AdaGrad is an NDArray, not $state")
    }
    val gradient = Gradients.scaled(grad, rescaleGrad * rescaleGradient, 0f)
    history += gradient * gradient
    val step = gradient / ((history + epsilon) ** 0.5f)
    step += weight * getWd(index, wd)
    weight -= step * lr
    ()
  }

  override def createState(index: Int, weight: NDArray): NDArray = zerosLike(weight)

  override protected def stateOf(arrays: IndexedSeq[NDArray]): AnyRef =
    if (arrays.length == 1) arrays(0) else wrongNumber(arrays, 1)
}
