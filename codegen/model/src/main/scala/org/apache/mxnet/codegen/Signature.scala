package org.apache.mxnet.codegen

/** The role of a parameter of a generated function. */
sealed trait Role

object Role {

  /** An input of the operator: a symbol or an array, or any number of them. */
  case object Input extends Role

  /** A parameter of the operator. */
  case object Setting extends Role

  /** The parameter with the number of inputs; if absent, the inputs are counted. */
  case object InputCount extends Role

  /** A parameter of a random function: a number for one distribution, an input for one distribution per element. */
  case object Distribution extends Role

  /** Not a parameter of the operator: `name`, `attr`, `out`. */
  case object Call extends Role
}

/** One parameter of a generated function.
  *
  * @param name its name in Scala
  * @param argument
  *   the operator's name for it
  * @param optional
  *   true if it defaults to `Opt.absent`; its type is then an `Opt`
  * @param default
  *   the value if the argument is omitted, as Scala source: the engine's for a setting, `null` for an input
  */
final case class Parameter(
    name: String,
    argument: String,
    scala: ScalaType,
    optional: Boolean,
    role: Role,
    description: String,
    default: Option[String] = None
) {

  /** The value if the argument is omitted, as ScalaDoc shows it; `None` if the argument is required. */
  def shownDefault: Option[String] = default.orElse(if (optional) Some("Opt.absent") else None)
}

/** A generated function with one parameter list.
  *
  * @param operator
  *   the operator it calls; a random function with a type parameter chooses between two
  */
final case class Signature(
    name: String,
    operator: Operator,
    parameters: Seq[Parameter],
    result: ScalaType,
    sampler: Option[Sampler] = None
) {

  /** Whether inputs are passed by position, because their number is variable. */
  def variadic: Boolean = Signature.variadic(operator)
}

/** The operators that a random function with type parameter `T` calls.
  *
  * @param scalar
  *   draws from one distribution
  * @param array
  *   draws from one distribution per element of its inputs
  */
final case class Sampler(evidence: ScalaType, scalar: Option[Operator], array: Option[Operator])

object Signature {
  private val keywords =
    ("abstract case catch class def do else extends false final finally for forSome if implicit import lazy match new " +
      "null object override package private protected return sealed super this throw trait true try val while with yield")
      .split(' ')
      .toSet

  /** The name of a parameter: that of the argument, unless it is a Scala keyword. */
  def safeName(argument: String): String = argument match {
    case "var"                                 => "vari"
    case "type"                                => "typeOf"
    case keyword if keywords.contains(keyword) => keyword + "_"
    case other                                 => other
  }

  def variadic(operator: Operator): Boolean =
    operator.arguments.exists(argument => ParsedType(argument.typeText).argumentType == ArgumentType.Tensors)

  /** The typesafe function `name` over symbols: all inputs and optional arguments may be omitted. */
  def symbol(name: String, operator: Operator): Signature =
    Signature(
      name,
      operator,
      operator.arguments.map(parameter(operator, _, ScalaType.Symbol)) ++ named,
      ScalaType.Symbol
    )

  /** The typesafe function `name` over arrays: inputs are required unless a setting decides whether the operator has
    * them, `out` receives the result.
    */
  def ndarray(name: String, operator: Operator): Signature = {
    val parameters = operator.arguments.map { argument =>
      val typed = parameter(operator, argument, ScalaType.NDArray)
      if (isConditional(operator, argument.name)) typed.copy(default = Some("null")) else typed
    }
    Signature(name, operator, parameters :+ out, ScalaType.NDArrayFuncReturn)
  }

  /** Whether a setting decides if the operator has this input, as `no_bias` does for `bias`. */
  private[codegen] def isConditional(operator: Operator, input: String): Boolean =
    operator.arguments.exists(setting => setting.name == s"no_$input" || setting.name == s"use_$input") ||
      chosenInputs(operator.name.stripPrefix("_contrib_") -> input)

  /** Inputs that an operator has only with some values of `act_type` or `mode`. */
  private val chosenInputs = Set("LeakyReLU" -> "gamma", "RNN" -> "state_cell", "BilinearResize2D" -> "like")

  /** The last parameters of every symbol function. */
  val named: Seq[Parameter] = Seq(
    call("name", ScalaType.Text, "name of the symbol; generated if absent"),
    call("attr", ScalaType.Attributes, "attributes of the symbol")
  )

  /** The last parameters of every array function. */
  val out: Parameter = call("out", ScalaType.NDArray, "array that receives the result")

  /** The parameter for one argument, of an operator over `tensor`. */
  def parameter(operator: Operator, argument: Argument, tensor: ScalaType): Parameter = {
    val parsed = ParsedType(argument.typeText)
    val counts = operator.countArgument.contains(argument.name)
    val (scala, role) = parsed.argumentType match {
      case ArgumentType.Tensor              => (tensor, Role.Input)
      case ArgumentType.Tensors             => (ScalaType.array(tensor), Role.Input)
      case ArgumentType.Plain(scala)        => (scala, if (counts) Role.InputCount else Role.Setting)
      case ArgumentType.Enumeration(values) => (ScalaType.oneOf(values), Role.Setting)
      case ArgumentType.Opaque              =>
        throw new IllegalArgumentException(
          s"${operator.name}: '${argument.typeText}' does not say what argument '${argument.name}' takes"
        )
    }
    val optional = counts || parsed.optional && (role != Role.Input || tensor == ScalaType.Symbol)
    Parameter(
      safeName(argument.name),
      argument.name,
      if (optional) ScalaType.opt(scala) else scala,
      optional,
      role,
      describe(argument, parsed),
      parsed.default.filter(_ => optional && !counts).flatMap(DefaultText(scala, _))
    )
  }

  private[codegen] def describe(argument: Argument, parsed: ParsedType): String = {
    val values = parsed.argumentType match {
      case ArgumentType.Enumeration(values) => Seq(s"one of ${values.mkString(", ")}")
      case _                                => Nil
    }
    val range =
      if (argument.typeText.contains("(non-negative)") && !argument.description.contains("Range: ")) Seq("at least 0")
      else Nil
    val default = parsed.default.map(text => s"default ${if (text.isEmpty) "\"\"" else text}").toSeq
    (Seq(argument.description.stripSuffix(".")).filter(_.nonEmpty) ++ values ++ range ++ default).mkString("; ")
  }

  private def call(name: String, scala: ScalaType, description: String) =
    Parameter(name, name, ScalaType.opt(scala), optional = true, Role.Call, description)
}
