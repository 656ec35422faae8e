package org.apache.mxnet.codegen

/** A set of generated functions, and the class that documents them.
  *
  * @param packageName
  *   the package of the base class
  * @param className
  *   the base class, which the annotated object extends
  * @param summary description of the set, for ScalaDoc
  */
final case class Api(packageName: String, className: String, summary: String)

object Api {
  private val mxnet = "org.apache.mxnet"
  private val contrib = "org.apache.mxnet.contrib"

  val SymbolFunctions: Api = Api(mxnet, "SymbolBase", "Operators over symbols, inputs by position or by name in a map.")
  val NDArrayFunctions: Api =
    Api(mxnet, "NDArrayBase", "Operators over arrays, inputs and settings by position or in a map.")
  val SymbolApi: Api = Api(mxnet, "SymbolAPIBase", "The typesafe operators over symbols: `Symbol.api`.")
  val NDArrayApi: Api = Api(mxnet, "NDArrayAPIBase", "The typesafe operators over arrays: `NDArray.api`.")
  val SymbolRandom: Api = Api(mxnet, "SymbolRandomAPIBase", "Random symbols: `Symbol.random`.")
  val NDArrayRandom: Api = Api(mxnet, "NDArrayRandomAPIBase", "Random arrays: `NDArray.random`.")
  val ContribSymbolFunctions: Api =
    SymbolFunctions.copy(packageName = contrib, summary = "All operators over symbols, `_contrib_` ones included.")
  val ContribNDArrayFunctions: Api =
    NDArrayFunctions.copy(packageName = contrib, summary = "All operators over arrays, `_contrib_` ones included.")
  val ContribSymbolApi: Api =
    SymbolApi.copy(packageName = contrib, summary = "The typesafe `_contrib_` operators over symbols.")
  val ContribNDArrayApi: Api =
    NDArrayApi.copy(packageName = contrib, summary = "The typesafe `_contrib_` operators over arrays.")

  val JavaNDArrayFunctions: Api =
    Api("org.apache.mxnet.javaapi", "NDArrayBase", "Operators over arrays, for programs in Java.")
  val JavaParams: Api =
    Api("org.apache.mxnet.javaapi", "Params", "Arguments of the functions with several optional ones.")

  private val ContribPrefix = "_contrib_"

  /** Operators for users. A leading underscore marks the internal ones. */
  def public(operators: Seq[Operator]): Seq[Operator] = operators.filterNot(_.name.startsWith("_"))

  /** The typesafe `Custom` is written by hand, because its parameters are those of the user's operator. */
  private def typed(operators: Seq[Operator]): Seq[Operator] = operators.filterNot(_.name == "Custom")

  /** The functions of the untyped sets, as (function name, operator). With `isContrib`, an operator `_contrib_X` is
    * listed under this name and, unless a public operator has it, as `X`.
    */
  def functions(operators: Seq[Operator], isContrib: Boolean): Seq[(String, Operator)] = {
    val common = public(operators).map(operator => operator.name -> operator)
    if (!isContrib) common
    else {
      val taken = common.map(_._1).toSet
      val prefixed = contribOperators(operators).map(operator => operator.name -> operator)
      val short = contribNames(operators).filterNot { case (name, _) => taken.contains(name) }
      common ++ prefixed ++ short
    }
  }

  /** The functions of `Symbol.api`, or of the contrib one. */
  def symbols(operators: Seq[Operator], isContrib: Boolean): Seq[Signature] =
    typedOperators(operators, isContrib).map { case (name, operator) => Signature.symbol(name, operator) }

  /** The functions of `NDArray.api`, or of the contrib one. */
  def ndarrays(operators: Seq[Operator], isContrib: Boolean): Seq[Signature] =
    typedOperators(operators, isContrib).map { case (name, operator) => Signature.ndarray(name, operator) }

  /** The functions of the Java API. Of names that differ only in case, the lower-case one is generated. */
  def javas(operators: Seq[Operator]): Seq[JavaSignature] = {
    val names = typed(public(operators)).map(_.name).toSet
    typed(public(operators))
      .filter(operator => operator.name == operator.name.toLowerCase || !names.contains(operator.name.toLowerCase))
      .map(JavaSignature(_))
  }

  private def typedOperators(operators: Seq[Operator], isContrib: Boolean): Seq[(String, Operator)] =
    if (isContrib) contribNames(operators) else typed(public(operators)).map(operator => operator.name -> operator)

  private def contribOperators(operators: Seq[Operator]): Seq[Operator] =
    operators.filter(_.name.startsWith(ContribPrefix))

  private def contribNames(operators: Seq[Operator]): Seq[(String, Operator)] =
    contribOperators(operators).map(operator => operator.name.stripPrefix(ContribPrefix) -> operator)
}
