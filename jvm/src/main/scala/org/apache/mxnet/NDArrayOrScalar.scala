package org.apache.mxnet

import scala.annotation.implicitNotFound

/** Whether `T`, the type of a distribution's parameters, is a number (one distribution) or an array (one distribution
  * per element). The default of `T` is `Float`.
  */
@implicitNotFound("parameters of a random array are Float, Int or NDArray, not ${T}")
class NDArrayOrScalar[T](val isScalar: Boolean)

object NDArrayOrScalar extends NDArrayOrScalarOthers {
  def apply[T](implicit ev: NDArrayOrScalar[T]): NDArrayOrScalar[T] = ev
  implicit object FloatWitness extends NDArrayOrScalar[Float](true)
}

private[mxnet] trait NDArrayOrScalarOthers extends NDArrayOrScalarLast {
  implicit object IntWitness extends NDArrayOrScalar[Int](true)
}

private[mxnet] trait NDArrayOrScalarLast extends NDArrayOrScalarUnsaid {
  implicit object NDArrayWitness extends NDArrayOrScalar[NDArray](false)
}

/** For calls in which only default arguments determine `T`. */
private[mxnet] trait NDArrayOrScalarUnsaid {
  implicit object UnsaidWitness extends NDArrayOrScalar[Nothing](true)
}
