package org.apache.mxnet

import org.apache.mxnet.internal.util.Logging

/** A learning rate schedule.
  *
  * @param baseLR initial learning rate; an optimizer sets it to its own learning rate
  */
abstract class LRScheduler(var baseLR: Float = 0.01f) extends Serializable {

  /** The learning rate of the next update.
    *
    * @param numUpdate the largest number of updates of any parameter, which is about the number of mini-batches so far;
    *   it never decreases
    */
  def apply(numUpdate: Int): Float
}

/** Multiplies the learning rate by a factor every `step` updates: after n updates it is `baseLR * factor^floor((n - 1)
  * / step)^`.
  *
  * @param step number of updates between reductions, at least 1
  * @param factor the factor, less than 1
  */
class FactorScheduler(protected var step: Int, protected var factor: Float) extends LRScheduler {
  require(step >= 1, s"step of FactorScheduler is $step; it must be at least 1 update")
  require(factor < 1.0, s"factor of FactorScheduler is $factor; it must be less than 1 to reduce the learning rate")

  protected var count: Int = 0

  override def apply(numUpdate: Int): Float = {
    while (numUpdate > count + step) {
      count += step
      baseLR *= factor
      FactorScheduler.logger.info("Update[{}]: learning rate is now {}", numUpdate, baseLR)
    }
    baseLR
  }
}

private object FactorScheduler {
  private val logger = Logging.of(classOf[FactorScheduler])
}
