package org.apache.mxnet.optimizer

import org.apache.mxnet.{LRScheduler, NDArray, Optimizer, ResourceScope}

/** Delay-compensated asynchronous stochastic gradient descent (Zheng and others, 2016).
  *
  * @param learningRate learning rate (step size)
  * @param momentum decay of the previous step
  * @param lamda strength of the compensation
  * @param wd weight decay
  * @param clipGradient gradients are clipped to [-clipGradient, clipGradient]; 0 does not clip
  * @param lrScheduler schedule of the learning rate, whose base rate becomes `learningRate`; null for a constant rate
  */
class DCASGD(
    val learningRate: Float = 0.01f,
    momentum: Float = 0.0f,
    lamda: Float = 0.04f,
    wd: Float = 0.0f,
    clipGradient: Float = 0f,
    lrScheduler: LRScheduler = null
) extends Optimizer
    with StateArrays {
  if (lrScheduler != null) lrScheduler.baseLR = learningRate

  override def update(index: Int, weight: NDArray, grad: NDArray, state: AnyRef): Unit = ResourceScope.using() {
    val lr = nextLr(index, learningRate, lrScheduler)
    val (mom, previous) = state match {
      case (m, p: NDArray) => (m.asInstanceOf[NDArray], p)
      case _               =>
        throw new IllegalArgumentException(
          s"the state of DCASGD is a pair (momentum or null, previous weight), not $state"
        )
    }
    require(
      mom != null || momentum == 0f,
      s"momentum of DCASGD is $momentum but the state of parameter $index has none: make it with createState"
    )
    val gradient = Gradients.scaled(grad, rescaleGrad, clipGradient)
    val direction = gradient * gradient * (weight - previous) * lamda
    direction += gradient
    direction += weight * getWd(index, wd)
    direction *= -lr
    previous.set(weight)
    if (mom == null) weight += direction
    else {
      mom *= momentum
      mom += direction
      weight += mom
    }
    ()
  }

  /** Momentum, null if there is none, and a copy of the weight. */
  override def createState(index: Int, weight: NDArray): (NDArray, NDArray) =
    (if (momentum == 0f) null else zerosLike(weight), weight.copy())

  override protected def stateOf(arrays: IndexedSeq[NDArray]): AnyRef = arrays match {
    case IndexedSeq(previous)      => (null, previous)
    case IndexedSeq(mom, previous) => (mom, previous)
    case _                         => wrongNumber(arrays, 2)
  }
}
