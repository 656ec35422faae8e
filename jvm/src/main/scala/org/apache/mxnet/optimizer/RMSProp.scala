package org.apache.mxnet.optimizer

import org.apache.mxnet.{LRScheduler, NDArray, Optimizer, ResourceScope}

/** RMSProp in the centered form of Graves (2013, equations 38 to 45), with 1e-4 under the root.
  *
  * @param learningRate learning rate (step size)
  * @param rescaleGradient gradients are multiplied by this and by 1 / batch size
  * @param gamma1 decay rate of the means of the gradient and of its square
  * @param gamma2 momentum of the step
  * @param wd weight decay
  * @param lrScheduler schedule of the learning rate, whose base rate becomes `learningRate`; null for a constant rate
  * @param clipGradient gradients are clipped to [-clipGradient, clipGradient]; 0 does not clip
  */
class RMSProp(
    val learningRate: Float = 0.002f,
    rescaleGradient: Float = 1.0f,
    gamma1: Float = 0.95f,
    gamma2: Float = 0.9f,
    wd: Float = 0.0f,
    lrScheduler: LRScheduler = null,
    clipGradient: Float = 0f
) extends Optimizer
    with StateArrays {
  if (lrScheduler != null) lrScheduler.baseLR = learningRate

  override def update(index: Int, weight: NDArray, grad: NDArray, state: AnyRef): Unit = ResourceScope.using() {
    val lr = nextLr(index, learningRate, lrScheduler)
    val (meanSquare, mean, delta) = state match {
      case (n: NDArray, g: NDArray, d: NDArray) => (n, g, d)
      case _ => throw new IllegalArgumentException(s"the state of RMSProp is a triple of arrays, not $state")
    }
    val gradient = Gradients.scaled(grad, rescaleGrad * rescaleGradient, clipGradient)
    meanSquare *= gamma1
    meanSquare += gradient * gradient * (1f - gamma1)
    mean *= gamma1
    mean += gradient * (1f - gamma1)
    val step = gradient / ((meanSquare - mean * mean + RMSProp.Stabilizer) ** 0.5f)
    step += weight * getWd(index, wd)
    delta *= gamma2
    delta -= step * lr
    weight += delta
    ()
  }

  /** Mean square and mean of the gradient and the last step, all zero. */
  override def createState(index: Int, weight: NDArray): (NDArray, NDArray, NDArray) =
    (zerosLike(weight), zerosLike(weight), zerosLike(weight))

  override protected def stateOf(arrays: IndexedSeq[NDArray]): AnyRef =
    if (arrays.length == 3) (arrays(0), arrays(1), arrays(2)) else wrongNumber(arrays, 3)
}

private object RMSProp {
  val Stabilizer = 1e-4f
}
