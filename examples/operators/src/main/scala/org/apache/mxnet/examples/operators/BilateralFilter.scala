package org.apache.mxnet.examples.operators

import org.apache.mxnet._

/** The weights of the bilateral filter, by the distance and the difference in value of a neighbor. */
private[operators] trait BilateralWeights {

  /** Number of neighbors on each side. */
  def radius: Int

  /** Standard deviation of the distance weight. */
  def sigmaSpace: Float

  /** Standard deviation of the value weight. */
  def sigmaRange: Float

  protected def weight(distance: Int, difference: Double): Double =
    math.exp(
      -0.5 * distance * distance / (sigmaSpace * sigmaSpace) - 0.5 * difference * difference / (sigmaRange * sigmaRange)
    )

  protected def rowLength(context: OpContext): Int = context.inputShapes(0).toVector.last

  /** Calls `f` with the indices of an element and each of its neighbors, for every row of length `length`. */
  protected def neighbors(count: Int, length: Int)(f: (Int, Int) => Unit): Unit = {
    var i = 0
    while (i < count) {
      val row = i / length * length
      var j = math.max(row, i - radius)
      val end = math.min(row + length - 1, i + radius)
      while (j <= end) {
        f(i, j)
        j += 1
      }
      i += 1
    }
  }
}

/** A filter along the last axis that smooths noise and keeps edges: every element becomes the weighted mean of its
  * neighbors, whose weights decrease with their distance and their difference (Tomasi and Manduchi, 1998).
  */
@UserDefinedOp
class BilateralFilter(val radius: Int, val sigmaSpace: Float, val sigmaRange: Float)
    extends UserDefinedCustomOp
    with BilateralWeights {

  def this() = this(2, 1f, 0.3f)

  override def opName: String = "bilateral_filter_1d"

  override def exec(context: OpContext): Unit = {
    val x = context.input(0).toFloat64Array
    val (y, norms) = (new Array[Double](x.length), new Array[Double](x.length))
    neighbors(x.length, rowLength(context)) { (i, j) =>
      val w = weight(i - j, x(i) - x(j))
      y(i) += w * x(j)
      norms(i) += w
    }
    for (i <- y.indices) y(i) /= norms(i)
    context.output(0).set(y)
  }

  /** Another user-defined operator computes the gradient. */
  override def doDiff(gradients: Array[Symbol]): Array[Symbol] =
    Array(new BilateralFilterGradient(radius, sigmaSpace, sigmaRange)(gradients(0), arg(), outputs(0)))
}

/** The gradient of [[BilateralFilter]], from the gradient of its output, its input, and its output. */
@UserDefinedOp
class BilateralFilterGradient(val radius: Int, val sigmaSpace: Float, val sigmaRange: Float)
    extends UserDefinedCustomOp
    with BilateralWeights {

  def this() = this(2, 1f, 0.3f)

  override def opName: String = "bilateral_filter_1d_gradient"

  override def getNumInputs: Int = 3

  override def exec(context: OpContext): Unit = {
    def values(index: Int): Array[Double] = context.input(index).toFloat64Array
    val (dy, x, y) = (values(0), values(1), values(2))
    val norms = new Array[Double](x.length)
    neighbors(x.length, rowLength(context))((i, j) => norms(i) += weight(i - j, x(i) - x(j)))
    val dx = new Array[Double](x.length)
    neighbors(x.length, rowLength(context)) { (i, j) =>
      val w = weight(i - j, x(i) - x(j))
      // Product rule: through the neighbor's value, and through its weight, which depends on both values.
      val share = dy(i) / norms(i)
      val moved = share * w * (x(j) - y(i)) * (x(i) - x(j)) / (sigmaRange * sigmaRange)
      dx(j) += share * w + moved
      dx(i) -= moved
    }
    context.output(0).set(dx)
  }
}
