package org.apache.mxnet

import scala.annotation.implicitNotFound

/** Whether `T`, the type of a distribution's parameters, is a number (one distribution) or an array (one distribution
  * per element). Where a call says nothing of `T`, it is `Float`.
  */
@implicitNotFound("parameters of a random array are Float, Int or NDArray, not ${T}")
class NDArrayOrScalar[T](val isScalar: Boolean)

object NDArrayOrScalar extends OtherNDArrayOrScalar {
  def apply[T](implicit ev: NDArrayOrScalar[T]): NDArrayOrScalar[T] = ev
  implicit object FloatWitness extends NDArrayOrScalar[Float](true)
}

private[mxnet] trait OtherNDArrayOrScalar extends NDArrayWitnesses {
  implicit object IntWitness extends NDArrayOrScalar[Int](true)
}

private[mxnet] trait NDArrayWitnesses {
  implicit object NDArrayWitness extends NDArrayOrScalar[NDArray](false)
}
