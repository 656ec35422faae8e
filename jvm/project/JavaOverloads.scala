import sbt._

/** The overloads of the Java API that combine arrays with arrays and with numbers, which are `Float` or `Double`. */
object JavaOverloads {
  private val numbers = Seq("Float", "Double")

  /** A method of an array.
    *
    * @param operator the operator of the Scala API
    * @param result the result for an operand, which is "another array" or "a number"
    */
  private final case class Method(name: String, operator: String, result: String => String)

  private val arithmetic = Seq(
    Method("add", "+", other => s"The element-wise sum of this array and $other."),
    Method("subtract", "-", other => s"This array minus $other, element-wise."),
    Method("multiply", "*", other => s"The element-wise product of this array and $other."),
    Method("div", "/", other => s"This array divided by $other, element-wise."),
    Method("pow", "**", other => s"This array to the power of $other, element-wise."),
    Method("mod", "%", other => s"The remainder of the element-wise division by $other, with the sign of the divisor.")
  )

  private val comparisons = Seq("greater" -> ">", "greaterEqual" -> ">=", "lesser" -> "<", "lesserEqual" -> "<=").map {
    case (name, operator) =>
      Method(name, operator, other => s"1 where the elements of this array are ${inWords(name)} $other, 0 elsewhere.")
  }

  /** A function of two arrays, or of an array and a number.
    *
    * @param acceptsNumberFirst whether the number can also be the first argument
    */
  private final case class Function(name: String, result: String, acceptsNumberFirst: Boolean)

  private val functions =
    Seq(
      Function("power", "`lhs` to the power of `rhs`, element-wise.", acceptsNumberFirst = true),
      Function("maximum", "The element-wise maximum.", acceptsNumberFirst = true),
      Function("minimum", "The element-wise minimum.", acceptsNumberFirst = true)
    ) ++ Seq("equal", "notEqual", "greater", "greaterEqual", "lesser", "lesserEqual").map { name =>
      Function(name, s"1 where `lhs` is ${inWords(name)} `rhs`, 0 elsewhere.", acceptsNumberFirst = false)
    }

  private def inWords(comparison: String): String = comparison match {
    case "equal"        => "equal to"
    case "notEqual"     => "not equal to"
    case "greater"      => "greater than"
    case "greaterEqual" => "greater than or equal to"
    case "lesser"       => "less than"
    case "lesserEqual"  => "less than or equal to"
  }

  /** Writes the traits with the overloads. */
  def write(folder: File): Seq[File] = Seq(
    GeneratedSource.write(folder, "javaapi/NDArrayOperators.scala", operatorsSource),
    GeneratedSource.write(folder, "javaapi/NDArrayFunctions.scala", functionsSource)
  )

  private def operatorsSource: String = {
    val methods =
      for (method <- arithmetic ++ comparisons; kind <- "NDArray" +: numbers) yield {
        val other = if (kind == "NDArray") "another array" else "a number"
        overload(method.result(other), method.name, Seq("other" -> kind), s"nd ${method.operator} ${argument("other", kind)}")
      }
    val inPlace =
      for (method <- arithmetic; kind <- "NDArray" +: numbers) yield {
        val result = s"wrapped(nd ${method.operator}= ${argument("other", kind)})"
        overload(s"As `${method.name}`, into this array, which is returned.", s"${method.name}Inplace", Seq("other" -> kind), result)
      }
    s"""package org.apache.mxnet.javaapi
       |
       |import org.apache.mxnet.javaapi.internal.JavaValues.unwrapped
       |import org.apache.mxnet.{NDArray => CoreArray}
       |
       |/** Arithmetic and comparisons of an array with arrays of the same shape and with numbers. */
       |trait NDArrayOperators {
       |
       |  /** The array in the Scala API. */
       |  def nd: CoreArray
       |
       |  /** The result of an operation in place, which is this array. */
       |  private[javaapi] def wrapped(result: CoreArray): NDArray
       |${(methods ++ inPlace).mkString}}
       |""".stripMargin
  }

  private def functionsSource: String = {
    val overloads = functions.flatMap { function =>
      val numberLast = ("NDArray" +: numbers).map("NDArray" -> _)
      val numberFirst = if (function.acceptsNumberFirst) numbers.map(_ -> "NDArray") else Nil
      (numberLast ++ numberFirst).map { case (lhs, rhs) =>
        val result = s"CoreArray.${function.name}(${argument("lhs", lhs)}, ${argument("rhs", rhs)})"
        overload(function.result, function.name, Seq("lhs" -> lhs, "rhs" -> rhs), result)
      }
    }
    s"""package org.apache.mxnet.javaapi
       |
       |import org.apache.mxnet.javaapi.internal.JavaValues.unwrapped
       |import org.apache.mxnet.{NDArray => CoreArray}
       |
       |/** Element-wise functions of two arrays of the same shape, or of an array and a number. */
       |trait NDArrayFunctions {
       |${overloads.mkString}}
       |""".stripMargin
  }

  private def argument(name: String, kind: String): String = if (kind == "NDArray") s"unwrapped($name)" else name

  private def overload(doc: String, name: String, parameters: Seq[(String, String)], result: String): String = {
    val declared = parameters.map { case (parameter, kind) => s"$parameter: $kind" }.mkString(", ")
    s"\n  /** $doc */\n  def $name($declared): NDArray = $result\n"
  }
}
