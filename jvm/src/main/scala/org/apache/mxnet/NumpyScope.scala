package org.apache.mxnet

/** Switches between legacy shape semantics, in which 0 stands for "unknown", and numpy's, in which an array may have no
  * dimension or a dimension of 0. The setting belongs to the calling thread.
  *
  * @param isCompatible whether numpy semantics hold in the scope
  */
class NumpyScope(var isCompatible: Boolean) {

  /** Runs `body` with these semantics and restores what was before. */
  def withScope[T](body: => T): T = {
    val outer = NumpyScope.setNumpyShape(isCompatible)
    try body
    finally NumpyScope.setNumpyShape(outer)
  }
}

object NumpyScope {

  /** Sets the semantics of this thread; returns what was before. */
  def setNumpyShape(isNpComp: Boolean): Boolean = Base._LIB.setNumpyShape(isNpComp)

  /** Whether numpy semantics hold in this thread. */
  def isNumpyShape: Boolean = Base._LIB.isNumpyShape()

  /** A scope with numpy semantics. */
  def enableNumpyShape: NumpyScope = new NumpyScope(true)

  /** A scope with legacy semantics. */
  def disableNumpyShape: NumpyScope = new NumpyScope(false)
}
