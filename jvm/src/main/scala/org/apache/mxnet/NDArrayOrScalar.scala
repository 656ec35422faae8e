package org.apache.mxnet

import scala.annotation.implicitNotFound

/** Whether `T`, the type of a distribution's parameters, is a number (one distribution) or an array (one distribution
  * per element). The default of `T` is `Float`.
  */
@implicitNotFound("parameters of a random array are Float, Int or NDArray, not ${T}")
class NDArrayOrScalar[T](val isScalar: Boolean)

object NDArrayOrScalar extends LowPriorityNDArrayOrScalar {
  def apply[T](implicit ev: NDArrayOrScalar[T]): NDArrayOrScalar[T] = ev
  implicit object FloatWitness extends NDArrayOrScalar[Float](true)
}

private[mxnet] trait LowPriorityNDArrayOrScalar extends LowerPriorityNDArrayOrScalar {
  implicit object IntWitness extends NDArrayOrScalar[Int](true)
}

private[mxnet] trait LowerPriorityNDArrayOrScalar extends LowestPriorityNDArrayOrScalar {
  implicit object NDArrayWitness extends NDArrayOrScalar[NDArray](false)
}

/** For calls in which only default arguments determine `T`. */
private[mxnet] trait LowestPriorityNDArrayOrScalar {
  implicit object NothingWitness extends NDArrayOrScalar[Nothing](true)
}
