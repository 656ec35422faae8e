package org.apache.mxnet.optimizer

import org.apache.mxnet.{LRScheduler, NDArray, Optimizer, Random, ResourceScope}

/** Stochastic gradient Langevin dynamics (Welling and Teh, 2011), which samples from the posterior instead of finding
  * its maximum: `weight -= lr / 2 * (g + wd * weight)` plus normal noise of variance lr.
  *
  * @param learningRate learning rate (step size)
  * @param rescaleGradient gradients are multiplied by this and by 1 / batch size
  * @param wd weight decay
  * @param clipGradient gradients are clipped to [-clipGradient, clipGradient]; 0 does not clip
  * @param lrScheduler schedule of the learning rate, whose base rate becomes `learningRate`; null for a constant rate
  */
class SGLD(
    val learningRate: Float = 0.01f,
    rescaleGradient: Float = 1.0f,
    wd: Float = 0.0001f,
    clipGradient: Float = 0f,
    lrScheduler: LRScheduler = null
) extends Optimizer {
  if (lrScheduler != null) lrScheduler.baseLR = learningRate

  override def update(index: Int, weight: NDArray, grad: NDArray, state: AnyRef): Unit = ResourceScope.using() {
    val lr = nextLr(index, learningRate, lrScheduler)
    val step = Gradients.scaled(grad, rescaleGrad * rescaleGradient, clipGradient)
    step += weight * getWd(index, wd)
    step *= -lr / 2
    // No noise for parameters that do not learn: the generator needs a positive deviation.
    if (lr > 0) step += Random.normal(0f, math.sqrt(lr).toFloat, weight.shape, weight.context)
    weight += step
    ()
  }

  /** Null: there is no state. */
  override def createState(index: Int, weight: NDArray): AnyRef = null

  override def disposeState(state: AnyRef): Unit = ()

  override def serializeState(state: AnyRef): Array[Byte] =
    throw new UnsupportedOperationException("SGLD keeps no states, so there is nothing to serialize")

  override def deserializeState(bytes: Array[Byte]): AnyRef =
    throw new UnsupportedOperationException("SGLD keeps no states, so there is nothing to deserialize")
}
