package org.apache.mxnet
package internal.operators

import java.util.concurrent.ConcurrentHashMap

import org.apache.mxnet.internal.util.NullChecks.requireValue

/** An operator of the engine: its handle and its lazily loaded metadata.
  *
  * @param name its name, or the alias by which it was looked up
  */
private[mxnet] final class NativeOp private (val name: String, val handle: Base.FunctionHandle) {

  /** The metadata in the form of [[LibInfo.symbolAtomicInfo]]. */
  private lazy val info: Array[String] = Base._LIB.symbolAtomicInfo(handle)

  /** The parameter with the number of inputs of a variadic operator. */
  lazy val keyVarNumArgs: Option[String] = Some(info(2)).filter(_.nonEmpty)

  /** The names and type strings of all arguments, in metadata order. */
  lazy val arguments: Vector[(String, String)] =
    info.toIndexedSeq.drop(4).grouped(3).map(argument => (argument(0), argument(1))).toVector

  /** Whether an argument accepts None, but has another default. */
  def acceptsNonDefaultNone(argument: String): Boolean = arguments.exists { case (name, kind) =>
    name == argument && NativeOp.orNone.findFirstIn(kind).isDefined && !kind.contains("default=None") &&
    !kind.contains("default='None'")
  }

  /** The names of the arguments that are arrays or symbols. */
  lazy val inputNames: Vector[String] = arguments.collect { case (arg, kind) if NativeOp.isInput(kind) => arg }

  /** The names of the other arguments. */
  lazy val paramNames: Vector[String] = arguments.collect { case (arg, kind) if !NativeOp.isInput(kind) => arg }

  /** Rejects attributes that the operator would take for parameters that it does not have: a file with them could not be
    * read again.
    */
  def checkAttributes(keys: Iterable[String]): Unit = if (paramNames.nonEmpty && !NativeOp.takesAnyParameter(name)) {
    val unknown = keys.find(key => !NativeOp.isAttribute(key) && !paramNames.contains(key))
    unknown.foreach { key =>
      throw new MXNetError(
        s"Error in operator $name: Cannot find argument '$key', Possible Arguments: ${paramNames.mkString(", ")}; names of " +
          s"other attributes begin and end with two underscores, as in __${key}__"
      )
    }
  }
}

private[mxnet] object NativeOp {
  private val cache = new ConcurrentHashMap[String, NativeOp]

  /** The operator of this name; an unknown one is an [[MXNetError]]. */
  def apply(name: String): NativeOp = {
    requireValue("NativeOp", "name", name)
    val known = cache.get(name)
    if (known != null) known
    else {
      val added = new NativeOp(name, Base._LIB.opHandle(name))
      val earlier = cache.putIfAbsent(name, added)
      if (earlier == null) added else earlier
    }
  }

  /** The attributes that MXNet accepts without the underscores around their names. */
  private lazy val hiddenKeys =
    Set("ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage", "profiler_scope")

  /** Whether every operator accepts an attribute. */
  private def isAttribute(key: String): Boolean = hiddenKeys(key) || (key.startsWith("__") && key.endsWith("__"))

  /** Whether an operator passes all its parameters to a user-defined one. */
  private def takesAnyParameter(operator: String): Boolean = operator == "Custom"

  /** The beginning of the type strings that allow None. */
  private lazy val orNone = "^([A-Za-z]+ or None,|\\{None,)".r

  private lazy val inputTypes = Set("NDArray", "Symbol", "NDArray-or-Symbol", "Symbol or Symbol[]")

  private def isInput(kind: String): Boolean = {
    val first = kind.takeWhile(_ != ',').trim
    inputTypes(first) || first.endsWith("[]")
  }

  /** A parameter as text that the engine parses: sequences in parentheses, the content of options, `None` for null. */
  def render(value: Any): String = value match {
    case text: String        => text
    case Some(content)       => render(content)
    case None | null         => "None"
    case values: Array[_]    => renderAll(values.iterator)
    case values: Iterable[_] => renderAll(values.iterator)
    case float: Float        => if (float.isInfinite) renderInfinity(float > 0) else float.toString
    case double: Double      => if (double.isInfinite) renderInfinity(double > 0) else double.toString
    case other               => other.toString
  }

  private def renderInfinity(positive: Boolean): String = if (positive) "inf" else "-inf"

  private def renderAll(values: Iterator[Any]): String = values.map(render).mkString("(", ",", ")")

  /** Parallel arrays of keys and rendered values; both null if there are none. */
  def renderPairs(params: Iterable[(String, Any)]): (Array[String], Array[String]) =
    if (params.isEmpty) (null, null)
    else {
      val keys = new Array[String](params.size)
      val values = new Array[String](keys.length)
      var i = 0
      params.foreach { case (key, value) =>
        keys(i) = key
        values(i) = render(value)
        i += 1
      }
      (keys, values)
    }
}
