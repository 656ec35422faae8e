package org.apache.mxnet
package internal.userop

/** An input during shape inference: it has a shape but no elements. */
private[mxnet] final class ShapeOnlyNDArray(override val shape: Shape)
    extends NDArray(0L, writable = false, addToCollector = false) {

  private[mxnet] override def register(): NativeResourceRef = new NativeResourceRef(this, _ => 0)

  private[mxnet] override def dispose(removeFromScope: Boolean): Unit = ()

  private[mxnet] override def liveHandle: Base.NDArrayHandle = throw new MXNetError(
    "OpContext: inputs have only a shape during shape inference: move code that needs their elements or types to exec"
  )

  override def toString: String = s"<NDArray $shape without elements, during shape inference>"
}
