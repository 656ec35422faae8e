package org.apache.mxnet.optimizer

import org.apache.mxnet.Base.{_LIB, FunctionHandle, NDArrayHandle}
import org.apache.mxnet.internal.operators.NativeOp
import org.apache.mxnet.{MXNetError, NDArray, NativeResource}

import scala.collection.mutable

/** An update operator such as `sgd_mom_update`, with little overhead per call.
  *
  * The operator is looked up once. The arguments for a parameter, handles and attribute strings, are cached and created
  * again only if an array or a number has changed, so that a training step costs one native call per parameter.
  *
  * @param name the operator
  * @param keys names of its attributes, in the order of their values
  */
private[optimizer] final class UpdateOperator(name: String, keys: Array[String]) extends Serializable {
  @transient private lazy val operator: FunctionHandle = NativeOp(name).handle
  @transient private lazy val calls = mutable.HashMap.empty[Int, UpdateOperator.Call]

  /** Runs the operator, which updates the weight and the states in place.
    *
    * @param index the index of the parameter
    * @param arrays weight, gradient and states
    * @param values values of the attributes
    */
  def apply(index: Int, arrays: Array[NDArray], values: Array[Float]): Unit = {
    if (arrays.contains(null))
      throw new MXNetError(s"$name of parameter $index: the weight, the gradient or a state is null; give arrays")
    var call = calls.getOrElse(index, null)
    if (call == null || !call.fits(arrays, values)) {
      call = new UpdateOperator.Call(arrays, values)
      calls(index) = call
    }
    _LIB.imperativeInvoke(operator, call.inputs, call.output, keys, call.attributes)
    NativeResource.keepAlive(arrays)
  }
}

private object UpdateOperator {

  /** The cached arguments of one parameter. */
  final class Call(arrays: Array[NDArray], values: Array[Float]) {
    val inputs: Array[NDArrayHandle] = arrays.map(_.liveHandle)
    val output: Array[NDArrayHandle] = Array(inputs(0))
    val attributes: Array[String] = values.map(_.toString)

    def fits(otherArrays: Array[NDArray], otherValues: Array[Float]): Boolean =
      java.util.Arrays.equals(values, otherValues) && sameArrays(otherArrays)

    private def sameArrays(other: Array[NDArray]): Boolean = {
      var i = 0
      while (i < inputs.length && (arrays(i) eq other(i)) && !other(i).isDisposed) i += 1
      i == inputs.length
    }
  }
}
