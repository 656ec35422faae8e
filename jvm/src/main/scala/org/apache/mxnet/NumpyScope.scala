package org.apache.mxnet

/** A scope with legacy shape semantics, in which a dimension of 0 is unknown, or NumPy semantics, which allow scalars
  * and dimensions of 0. The setting applies to the calling thread.
  *
  * @param isCompatible true for NumPy semantics
  */
class NumpyScope(var isCompatible: Boolean) {

  /** Runs `body` with these semantics, and then restores the previous ones. */
  def withScope[T](body: => T): T = {
    val outer = NumpyScope.setNumpyShape(isCompatible)
    try body
    finally NumpyScope.setNumpyShape(outer)
  }
}

object NumpyScope {

  /** Sets the semantics of this thread and returns the previous setting. */
  def setNumpyShape(isNpComp: Boolean): Boolean = Base._LIB.setNumpyShape(isNpComp)

  /** Whether this thread uses NumPy semantics. */
  def isNumpyShape: Boolean = Base._LIB.isNumpyShape()

  /** A scope with NumPy semantics. */
  def enableNumpyShape: NumpyScope = new NumpyScope(true)

  /** A scope with legacy semantics. */
  def disableNumpyShape: NumpyScope = new NumpyScope(false)
}
