package org.apache.mxnet
package internal.memory

/** An object that owns no native memory itself but uses native resources, which move between scopes together with it. */
private[mxnet] trait ResourceHolder {

  /** The resources, also within collections and other holders. */
  private[mxnet] def heldResources: Iterator[Any]
}
