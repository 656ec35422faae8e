package org.apache.mxnet

import org.apache.mxnet.internal.operators.NativeOp

/** Random arrays, and the state of the random number generators. */
object Random {
  private lazy val uniformOp = NativeOp("_random_uniform")
  private lazy val normalOp = NativeOp("_random_normal")

  /** Samples from the uniform distribution on `[low, high)`.
    *
    * @param shape the shape of a new array
    * @param ctx the device of a new array; null for [[Context.defaultCtx]]
    * @param out the array to fill; null for a new one, which needs `shape`
    */
  def uniform(
      low: Float,
      high: Float,
      shape: Shape = null,
      ctx: Context = null,
      out: NDArray = null
  ): NDArray = draw(uniformOp, Seq("low" -> low, "high" -> high), shape, ctx, out)

  /** Samples from the normal distribution with mean `loc` and standard deviation `scale`; for the other parameters see
    * [[uniform]].
    */
  def normal(
      loc: Float,
      scale: Float,
      shape: Shape = null,
      ctx: Context = null,
      out: NDArray = null
  ): NDArray = draw(normalOp, Seq("loc" -> loc, "scale" -> scale), shape, ctx, out)

  /** Sets the seed. The same seed and the same operations give the same numbers. */
  def seed(seedState: Int): Unit = Base._LIB.randomSeed(seedState)

  /** Runs `body`, in which the calling thread draws from a generator of its own on all devices: other threads neither
    * affect its numbers nor are affected. [[seed]], [[getState]] and [[setState]] in `body` apply to this generator.
    */
  private[mxnet] def withSeed[A](seedState: Long)(body: => A): A = {
    val outer = Base._LIB.randomSetThread(Array(seedState, 0L))
    try body
    finally {
      Base._LIB.randomSetThread(outer)
      ()
    }
  }

  /** The state of the generators of all devices, for [[setState]]. */
  def getState(): Array[Long] = Base._LIB.randomState()

  /** Restores a state of [[getState]]: the same operations give the same numbers again.
    *
    * @throws MXNetError if this is not a state
    */
  def setState(state: Array[Long]): Unit = Base._LIB.randomRestore(state)

  private def draw(op: NativeOp, params: Seq[(String, Any)], shape: Shape, ctx: Context, out: NDArray): NDArray = {
    if (out == null && shape == null) throw new MXNetError(s"Random: ${op.name} needs a shape, or an array to fill")
    if (out != null) {
      if (shape != null && shape != out.shape)
        throw new MXNetError(s"Random: ${op.name} was given shape $shape and an array of shape ${out.shape}")
      val all = params ++ Seq("shape" -> out.shape, "ctx" -> out.context, "dtype" -> out.dtype)
      NDArray.invoke(op, Array.empty, Array(out), all).head
    } else {
      val device = if (ctx == null) Context.defaultCtx else ctx
      NDArray.invoke(op, Array.empty, null, params ++ Seq("shape" -> shape, "ctx" -> device)).head
    }
  }
}
