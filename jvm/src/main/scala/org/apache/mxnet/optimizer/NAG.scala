package org.apache.mxnet.optimizer

import org.apache.mxnet.{LRScheduler, NDArray, Optimizer, ResourceScope}

/** Stochastic gradient descent with Nesterov momentum. With `g = clip(rescaleGrad * grad) + wd * weight`:
  * {{{
  * mom = momentum * mom + g
  * weight = weight - lr * (g + momentum * mom)
  * }}}
  *
  * @param learningRate learning rate (step size)
  * @param momentum decay of the previous momentum; 0 keeps no state
  * @param wd weight decay
  * @param clipGradient gradients are clipped to [-clipGradient, clipGradient]; 0 does not clip
  * @param lrScheduler schedule of the learning rate, whose base rate becomes `learningRate`; null for a constant rate
  */
class NAG(
    val learningRate: Float = 0.01f,
    momentum: Float = 0.0f,
    wd: Float = 0.0001f,
    clipGradient: Float = 0f,
    lrScheduler: LRScheduler = null
) extends Optimizer
    with StateArrays {
  if (lrScheduler != null) lrScheduler.baseLR = learningRate

  override def update(index: Int, weight: NDArray, grad: NDArray, state: AnyRef): Unit = ResourceScope.using() {
    val lr = nextLr(index, learningRate, lrScheduler)
    val step = Gradients.scaled(grad, rescaleGrad, clipGradient)
    step += weight * getWd(index, wd)
    state match {
      case null =>
        require(
          momentum == 0f,
          s"momentum of NAG is $momentum but parameter $index has no state: make it with createState"
        )
      case mom: NDArray =>
        mom *= momentum
        mom += step
        step += mom * momentum
      case other =>
        throw new IllegalArgumentException(s"the state of NAG is an NDArray or null, not a ${other.getClass.getName}")
    }
    weight -= step * lr
    ()
  }

  override def createState(index: Int, weight: NDArray): AnyRef = if (momentum == 0f) null else zerosLike(weight)

  override protected def stateOf(arrays: IndexedSeq[NDArray]): AnyRef =
    if (arrays.length == 1) arrays(0) else wrongNumber(arrays, 1)
}
