package org.apache.mxnet.optimizer

import org.apache.mxnet.internal.util.NullChecks.requireNonNull
import org.apache.mxnet.util.SerializerUtils
import org.apache.mxnet.{MXNetError, NDArray, Optimizer}

/** Disposes and serializes optimizer states that consist of no array, one array or a tuple of arrays. */
private[mxnet] trait StateArrays { this: Optimizer =>

  /** Creates the state from its arrays, in their order; throws if their number is wrong. */
  protected def stateOf(arrays: IndexedSeq[NDArray]): AnyRef

  private def arraysOf(state: AnyRef): IndexedSeq[NDArray] = state match {
    case null           => IndexedSeq.empty
    case array: NDArray => IndexedSeq(array)
    case tuple: Product => tuple.productIterator.collect { case array: NDArray => array }.toIndexedSeq
    case other          =>
      throw new IllegalArgumentException(
        s"${getClass.getSimpleName} got a state of ${other.getClass.getName} that it did not create"
      )
  }

  override def disposeState(state: AnyRef): Unit = arraysOf(state).foreach(_.dispose())

  override def serializeState(state: AnyRef): Array[Byte] =
    if (state == null) null else SerializerUtils.serializeNDArrays(arraysOf(state): _*)

  override def deserializeState(bytes: Array[Byte]): AnyRef =
    if (bytes == null) null else stateOf(SerializerUtils.deserializeNDArrays(bytes))

  /** The error for a wrong number of arrays. */
  protected def wrongNumber(arrays: IndexedSeq[NDArray], expected: Int): Nothing =
    throw new MXNetError(
      s"${getClass.getSimpleName} keeps $expected arrays for a parameter but the saved state has ${arrays.length}: " +
        "it was saved by another optimizer"
    )

  /** Zeros in the shape of a weight. */
  protected def zerosLike(weight: NDArray): NDArray = {
    requireNonNull(s"${getClass.getSimpleName}.createState", "weight" -> weight)
    NDArray.zeros(weight.shape, weight.context, weight.dtype)
  }
}

private[optimizer] object Gradients {

  /** A new array of the gradient times `scale`, clipped to [-clip, clip] unless `clip` is 0. */
  def scaled(grad: NDArray, scale: Float, clip: Float): NDArray = {
    val scaled = grad * scale
    if (clip == 0f) scaled
    else {
      val clipped = NDArray.minimum(NDArray.maximum(scaled, -clip), clip)
      scaled.dispose()
      clipped
    }
  }
}
