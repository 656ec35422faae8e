package org.apache.mxnet.optimizer

import org.apache.mxnet.{LRScheduler, NDArray, Optimizer}

/** Stochastic gradient descent with momentum and weight decay, by the operators `sgd_update` and `sgd_mom_update`:
  * `mom = momentum * mom - lr * (clip(rescale * grad) + wd * weight)` and `weight += mom`.
  *
  * @param learningRate learning rate (step size)
  * @param momentum decay of the previous step; 0 keeps no state
  * @param wd weight decay
  * @param clipGradient gradients are clipped to [-clipGradient, clipGradient]; 0 does not clip
  * @param lrScheduler schedule of the learning rate, whose base rate becomes `learningRate`; null for a constant rate
  */
class SGD(
    val learningRate: Float = 0.01f,
    momentum: Float = 0.0f,
    wd: Float = 0.0001f,
    clipGradient: Float = 0f,
    lrScheduler: LRScheduler = null
) extends Optimizer
    with StateArrays {
  if (lrScheduler != null) lrScheduler.baseLR = learningRate

  private val clip = if (clipGradient == 0f) -1f else clipGradient
  private val withoutMomentum = new UpdateOperator("sgd_update", Array("lr", "wd", "rescale_grad", "clip_gradient"))
  private val withMomentum =
    new UpdateOperator("sgd_mom_update", Array("lr", "wd", "rescale_grad", "clip_gradient", "momentum"))

  override def update(index: Int, weight: NDArray, grad: NDArray, state: AnyRef): Unit = {
    val lr = nextLr(index, learningRate, lrScheduler)
    val decay = getWd(index, wd)
    state match {
      case null =>
        require(
          momentum == 0f,
          s"momentum of SGD is $momentum but parameter $index has no state: make it with createState"
        )
        withoutMomentum(index, Array(weight, grad), Array(lr, decay, rescaleGrad, clip))
      case mom: NDArray => withMomentum(index, Array(weight, grad, mom), Array(lr, decay, rescaleGrad, clip, momentum))
      case other        =>
        throw new IllegalArgumentException(s"the state of SGD is an NDArray or null, not a ${other.getClass.getName}")
    }
  }

  override def createState(index: Int, weight: NDArray): AnyRef = if (momentum == 0f) null else zerosLike(weight)

  override protected def stateOf(arrays: IndexedSeq[NDArray]): AnyRef =
    if (arrays.length == 1) arrays(0) else wrongNumber(arrays, 1)
}
