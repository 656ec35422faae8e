package org.apache.mxnet

import scala.annotation.implicitNotFound

/** Whether `T`, the type of a distribution's parameters, is a number (one distribution) or a symbol (one distribution
  * per element). The default of `T` is `Float`.
  */
@implicitNotFound("parameters of a random symbol are Float, Int or Symbol, not ${T}")
class SymbolOrScalar[T](val isScalar: Boolean)

object SymbolOrScalar extends SymbolOrScalarOthers {
  def apply[T](implicit ev: SymbolOrScalar[T]): SymbolOrScalar[T] = ev
  implicit object FloatWitness extends SymbolOrScalar[Float](true)
}

private[mxnet] trait SymbolOrScalarOthers extends SymbolOrScalarLast {
  implicit object IntWitness extends SymbolOrScalar[Int](true)
}

private[mxnet] trait SymbolOrScalarLast extends SymbolOrScalarUnsaid {
  implicit object SymbolWitness extends SymbolOrScalar[Symbol](false)
}

/** For calls in which only default arguments determine `T`. */
private[mxnet] trait SymbolOrScalarUnsaid {
  implicit object UnsaidWitness extends SymbolOrScalar[Nothing](true)
}
