package org.apache.mxnet.examples.operators

import org.apache.mxnet._

/** Rounds numbers to a grid of `2^bits - 1` values from -1 to 1; those outside become -1 or 1. The straight-through
  * gradient is that of the identity inside of the range (Bengio and others, 2013, arXiv:1308.3432), so that a network
  * can be trained for quantized inference.
  */
@UserDefinedOp
class Quantizer(val bits: Int) extends UserDefinedCustomOp {

  @transient private var steps = 1.0

  def this() = this(4)

  override def opName: String = "straight_through_quantizer"

  override def configureFromArguments(): Unit = {
    if (bits < 2 || bits > 16) throw new MXNetError(s"$opName: bits is $bits, but must be from 2 to 16")
    steps = ((1 << (bits - 1)) - 1).toDouble
  }

  /** An input without a given shape, such as a weight, has the shape of the output. */
  override def inferInputShapes(inputs: Array[Shape], outputs: Array[Shape]): Array[Shape] = outputs

  override def exec(context: OpContext): Unit =
    context.map(0, 0)(x => math.rint(math.max(-1.0, math.min(1.0, x)) * steps) / steps)

  override def doDiff(gradients: Array[Symbol]): Array[Symbol] =
    Array(gradients(0) * (Symbol.api.abs(arg()) <= 1f))
}
