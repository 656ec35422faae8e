package org.apache.mxnet.optimizer

import org.apache.mxnet.{LRScheduler, NDArray, Optimizer}

/** Adam (Kingma and Ba, 2014), by the operator `adam_update`. Weight decay is decoupled from the gradient: a step also
  * subtracts `lr * wd * weight`.
  *
  * @param learningRate learning rate (step size)
  * @param beta1 decay rate of the first moment
  * @param beta2 decay rate of the second moment
  * @param epsilon keeps the denominator from being zero
  * @param decayFactor beta1 of update t is `beta1 * decayFactor^(t - 1)^`
  * @param wd weight decay
  * @param clipGradient gradients are clipped to [-clipGradient, clipGradient]; 0 does not clip
  * @param lrScheduler schedule of the learning rate, whose base rate becomes `learningRate`; null for a constant rate
  */
class Adam(
    val learningRate: Float = 0.002f,
    beta1: Float = 0.9f,
    beta2: Float = 0.999f,
    epsilon: Float = 1e-8f,
    decayFactor: Float = 1 - 1e-8f,
    wd: Float = 0.0f,
    clipGradient: Float = 0f,
    lrScheduler: LRScheduler = null
) extends Optimizer
    with StateArrays {
  if (lrScheduler != null) lrScheduler.baseLR = learningRate

  private val clip = if (clipGradient == 0f) -1f else clipGradient
  private val operator = new UpdateOperator(
    "adam_update",
    Array("lr", "beta1", "beta2", "epsilon", "wd", "rescale_grad", "clip_gradient")
  )

  override def update(index: Int, weight: NDArray, grad: NDArray, state: AnyRef): Unit = {
    val (mean, variance) = state match {
      case (m: NDArray, v: NDArray) => (m, v)
      case _                        =>
        throw new IllegalArgumentException(s"the state of Adam is a pair of arrays (mean, variance), not $state")
    }
    val lr = nextLr(index, learningRate, lrScheduler)
    val step = indexUpdateCount(index)
    val correctedLr = lr * math.sqrt(1.0 - math.pow(beta2, step)) / (1.0 - math.pow(beta1, step))
    val firstDecay = beta1 * math.pow(decayFactor, step - 1)
    val decay = getWd(index, wd)
    if (decay != 0f) weight *= (1f - lr * decay)
    operator(
      index,
      Array(weight, grad, mean, variance),
      Array(correctedLr.toFloat, firstDecay.toFloat, beta2, epsilon, 0f, rescaleGrad, clip)
    )
  }

  /** Mean and variance of the gradient, both zero. */
  override def createState(index: Int, weight: NDArray): (NDArray, NDArray) = (zerosLike(weight), zerosLike(weight))

  override protected def stateOf(arrays: IndexedSeq[NDArray]): AnyRef =
    if (arrays.length == 2) (arrays(0), arrays(1)) else wrongNumber(arrays, 2)
}
