package org.apache.mxnet.codegen

/** Random functions: `normal[T](mu, sigma, …)` takes numbers and calls `_random_normal`, or takes symbols or arrays and
  * calls `_sample_normal`.
  */
object RandomSignature {
  private val Random = "_random_"
  private val Sample = "_sample_"

  /** The random functions over symbols, by name. */
  def symbols(operators: Seq[Operator]): Seq[Signature] =
    signatures(operators, ScalaType.Symbol, "org.apache.mxnet.SymbolOrScalar", Signature.named, ScalaType.Symbol)

  /** The random functions over arrays, by name. */
  def ndarrays(operators: Seq[Operator]): Seq[Signature] =
    signatures(
      operators,
      ScalaType.NDArray,
      "org.apache.mxnet.NDArrayOrScalar",
      Seq(Signature.out),
      ScalaType.NDArrayFuncReturn
    )

  /** The parameter name for an argument of the scalar form; `normal` uses the names of its array form. */
  private def callerName(operator: String, argument: String): String = (operator, argument) match {
    case ("_random_normal" | "_random_normal_like", "loc")   => "mu"
    case ("_random_normal" | "_random_normal_like", "scale") => "sigma"
    case _                                                   => argument
  }

  private def signatures(
      operators: Seq[Operator],
      tensor: ScalaType,
      evidence: String,
      last: Seq[Parameter],
      result: ScalaType
  ): Seq[Signature] = {
    val byName = operators.map(operator => operator.name -> operator).toMap
    val names = byName.keys.collect {
      case name if name.startsWith(Random) => name.stripPrefix(Random)
      case name if name.startsWith(Sample) => name.stripPrefix(Sample)
    }
    for (name <- names.toSeq.distinct.sorted) yield {
      val scalar = byName.get(Random + name)
      val array = byName.get(Sample + name)
      val shown = scalar.orElse(array).get
      val sampler = Sampler(ClassType(evidence), scalar, array)
      val parameters = shown.arguments.map(parameter(shown, _, tensor, hasTensors(shown)))
      Signature(name, shown, parameters ++ last, result, Some(sampler))
    }
  }

  private def hasTensors(operator: Operator): Boolean =
    operator.arguments.exists(argument => ParsedType(argument.typeText).argumentType == ArgumentType.Tensor)

  /** Inputs have the type `T`, and so do the numbers of an operator without inputs, since its array form has inputs
    * instead.
    */
  private def parameter(operator: Operator, argument: Argument, tensor: ScalaType, hasTensors: Boolean): Parameter = {
    val plain = Signature.parameter(operator, argument, tensor)
    val varies = ParsedType(argument.typeText).argumentType match {
      case ArgumentType.Tensor                                 => true
      case ArgumentType.Plain(ScalaType.Float | ScalaType.Int) => !hasTensors
      case _                                                   => false
    }
    val named = plain.copy(name = callerName(operator.name, plain.name))
    if (!varies) named
    else {
      val T = ClassType("T")
      named.copy(scala = if (plain.optional) ScalaType.opt(T) else T, role = Role.Distribution)
    }
  }
}
