package org.apache.mxnet

import scala.annotation.implicitNotFound

/** Whether `T`, the type of a distribution's parameters, is a number (one distribution) or a symbol (one distribution
  * per element). The default of `T` is `Float`.
  */
@implicitNotFound("parameters of a random symbol are Float, Int or Symbol, not ${T}")
class SymbolOrScalar[T](val isScalar: Boolean)

object SymbolOrScalar extends LowPrioritySymbolOrScalar {
  def apply[T](implicit ev: SymbolOrScalar[T]): SymbolOrScalar[T] = ev
  implicit object FloatWitness extends SymbolOrScalar[Float](true)
}

private[mxnet] trait LowPrioritySymbolOrScalar extends LowerPrioritySymbolOrScalar {
  implicit object IntWitness extends SymbolOrScalar[Int](true)
}

private[mxnet] trait LowerPrioritySymbolOrScalar extends LowestPrioritySymbolOrScalar {
  implicit object SymbolWitness extends SymbolOrScalar[Symbol](false)
}

/** For calls in which only default arguments determine `T`. */
private[mxnet] trait LowestPrioritySymbolOrScalar {
  implicit object NothingWitness extends SymbolOrScalar[Nothing](true)
}
