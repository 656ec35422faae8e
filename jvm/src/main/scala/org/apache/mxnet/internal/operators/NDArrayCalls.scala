package org.apache.mxnet
package internal.operators

import scala.collection.mutable.ArrayBuffer
import scala.ref.WeakReference

import org.apache.mxnet.Base._LIB
import org.apache.mxnet.NativeResource.keepAlive
import org.apache.mxnet.internal.memory.NDArrayOrigin
import org.apache.mxnet.internal.util.NullChecks.requireNonNull

/** Calls of operators on arrays: what needs collections, which the first array of a program does not load; see `Shape`. */
private[mxnet] object NDArrayCalls {

  def onehotEncode(indices: NDArray, out: NDArray): NDArray = {
    val depth = out.shape(out.shape.length - 1)
    invoke(NDArrayOps.oneHot, Array(indices), Array(out), Seq("depth" -> depth, "dtype" -> out.dtype)).head
  }

  /** As [[NDArray.genericNDArrayFunctionInvoke]]. */
  def byName(funcName: String, args: Seq[Any], kwargs: Map[String, Any]): NDArrayFuncReturn = {
    if (args == null) requireNonNull(s"NDArray.$funcName", "args" -> args)
    val op = NativeOp(funcName)
    val inputs = ArrayBuffer.empty[NDArray]
    val positional = ArrayBuffer.empty[Any]
    args.foreach { arg =>
      if (arg == null)
        throw new MXNetError(
          s"$funcName: argument ${args.indexOf(null)} of ${args.length} is null; give an array or a value"
        )
      if (!collectArrays(arg, inputs)) positional += arg
    }
    val named = if (kwargs == null) Map.empty[String, Any] else kwargs
    val outputs = named.get("out").filter(out => out != null && out != None).map { out =>
      val arrays = ArrayBuffer.empty[NDArray]
      if (!collectArrays(out, arrays))
        throw new MXNetError(s"$funcName: out must be an NDArray or a sequence of them, it is ${out.getClass.getName}")
      arrays.toArray
    }
    val params = bindPositional(op, positional) ++ named.view.filterKeys(_ != "out")
    invoke(op, inputs.toArray, outputs.orNull, withInputCount(op, inputs.length, params))
  }

  private def bindPositional(op: NativeOp, values: ArrayBuffer[Any]): Seq[(String, Any)] =
    if (values.isEmpty) Nil
    else {
      if (values.length > op.paramNames.length)
        throw new MXNetError(
          s"${op.name}: besides arrays ${values.length} values were given, it takes " +
            (if (op.paramNames.isEmpty) "none" else op.paramNames.mkString("at most ", ", ", ""))
        )
      op.paramNames.zip(values)
    }

  /** The parameters, with the number of inputs if the operator needs it. */
  def withInputCount(op: NativeOp, count: Int, params: Seq[(String, Any)]): Seq[(String, Any)] =
    op.keyVarNumArgs match {
      case Some(key) if !params.exists(_._1 == key) => params :+ (key -> count)
      case _                                        => params
    }

  /** Appends the arrays in `value` to `into`; false if `value` has another type. */
  private def collectArrays(value: Any, into: ArrayBuffer[NDArray]): Boolean = value match {
    case array: NDArray              => into += array; true
    case returned: NDArrayFuncReturn => into ++= returned.arr; true
    case items: Array[AnyRef]        => collectAll(items, into)
    case items: Seq[_]               => collectAll(items, into)
    case Some(content)               => collectArrays(content, into)
    case _                           => false
  }

  /** Keeps a null among the arrays, so that [[invoke]] reports it. */
  private def collectAll(items: collection.Seq[Any], into: ArrayBuffer[NDArray]): Boolean = {
    def isArray(item: Any) = item match {
      case _: NDArray | _: NDArrayFuncReturn => true
      case _                                 => false
    }
    val areArrays = items.exists(isArray) && items.forall(item => item == null || isArray(item))
    if (areArrays) items.foreach(item => if (item == null) into += null else collectArrays(item, into))
    areArrays
  }

  /** As [[NDArray.invoke]]. */
  def invoke(
      op: NativeOp,
      inputs: Array[NDArray],
      outputs: Array[NDArray],
      params: Iterable[(String, Any)]
  ): NDArrayFuncReturn = {
    val (keys, values) = NativeOp.renderPairs(params)
    val inputHandles = handlesOf(op, "input", inputs)
    if (outputs != null) {
      outputs.foreach(output => if (output != null) output.requireWritable(op))
      _LIB.imperativeInvoke(op.handle, inputHandles, handlesOf(op, "output", outputs), keys, values)
      keepAlive(inputs)
      keepAlive(outputs)
      new NDArrayFuncReturn(outputs)
    } else {
      val results = _LIB.imperativeInvoke(op.handle, inputHandles, null, keys, values)
      val mayBeSparse = inputs.exists(_.isSparse) || (keys != null && keys.contains("stype"))
      val origins = inputs.map(_.origin)
      new NDArrayFuncReturn(results.map { handle =>
        val array = if (mayBeSparse) NDArray.fromHandle(handle) else new NDArray(handle)
        array.inputs = origins
        array
      })
    }
  }

  private def handlesOf(op: NativeOp, role: String, arrays: Array[NDArray]): Array[Long] = {
    val handles = new Array[Long](arrays.length)
    var i = 0
    while (i < arrays.length) {
      if (arrays(i) == null)
        throw new MXNetError(
          s"${op.name}: $role $i of ${arrays.length} (${op.inputNames.lift(i).getOrElse("data")}) is null; give an array"
        )
      handles(i) = arrays(i).liveHandle
      i += 1
    }
    handles
  }

  /** The arrays that an array was computed from and that were not freed, by their handles. */
  def dependencies(inputs: Array[NDArrayOrigin]): collection.Map[Long, WeakReference[NDArray]] =
    NDArrayOrigin.liveArrays(inputs).map(array => array.handle -> new WeakReference(array)).toMap
}
