package org.apache.mxnet.optimizer

import org.apache.mxnet.{NDArray, Optimizer, ResourceScope}

/** AdaDelta (Zeiler, 2012), which needs no learning rate.
  *
  * @param rho decay rate of both accumulators
  * @param rescaleGradient gradients are multiplied by this and by 1 / batch size
  * @param epsilon added under both square roots, so that the first steps are not zero
  * @param wd weight decay: a step multiplies the weight by `1 - wd`
  * @param clipGradient gradients are clipped to [-clipGradient, clipGradient]; 0 does not clip
  */
class AdaDelta(
    rho: Float = 0.05f,
    rescaleGradient: Float = 1.0f,
    epsilon: Float = 1e-8f,
    wd: Float = 0.0f,
    clipGradient: Float = 0f
) extends Optimizer
    with StateArrays {

  override def update(index: Int, weight: NDArray, grad: NDArray, state: AnyRef): Unit = ResourceScope.using() {
    val (squaredGradients, squaredSteps) = state match {
      case (g: NDArray, delta: NDArray) => (g, delta)
      case _ => throw new IllegalArgumentException(s"the state of AdaDelta is a pair of arrays, not $state")
    }
    updateCount(index)
    val gradient = Gradients.scaled(grad, rescaleGrad * rescaleGradient, clipGradient)
    squaredGradients *= rho
    squaredGradients += gradient * gradient * (1f - rho)
    val step = ((squaredSteps + epsilon) ** 0.5f) / ((squaredGradients + epsilon) ** 0.5f) * gradient
    squaredSteps *= rho
    squaredSteps += step * step * (1f - rho)
    val decay = getWd(index, wd)
    if (decay != 0f) weight *= (1f - decay)
    weight -= step
    ()
  }

  /** Accumulated squares of the gradients and of the steps, both zero. */
  override def createState(index: Int, weight: NDArray): (NDArray, NDArray) = (zerosLike(weight), zerosLike(weight))

  override protected def stateOf(arrays: IndexedSeq[NDArray]): AnyRef =
    if (arrays.length == 2) (arrays(0), arrays(1)) else wrongNumber(arrays, 2)
}
