package org.apache.mxnet

import org.apache.mxnet.internal.userop.{BridgedOperator, OperatorDefinition, UdfOperator, UserOperators}
import org.apache.mxnet.internal.util.NullChecks.requireNonNull

/** An operator that consists of two functions, created by [[Symbol.udf]] or [[Symbol.udf2]]: the computation on arrays,
  * and the gradient on symbols. A graph stores only its name, so a program must create it before it loads the graph.
  */
final class UserFunction private[mxnet] (
    val opName: String,
    arity: Int,
    forward: Array[NDArray] => NDArray,
    gradient: (Array[Symbol], Symbol) => Array[Symbol],
    code: Class[_]
) extends UserDefinedCustomOp {

  override def getNumInputs: Int = arity

  override def propertiesForFunction(): Map[String, Any] = Map.empty

  override def exec(context: OpContext): Unit = context.outputArrays(0) = forward(context.inputArrays.elements)

  override def doDiff(gradients: Array[Symbol]): Array[Symbol] = gradient(args, gradients(0))

  /** The source location of the functions, and how to create the operator of a node. */
  private[mxnet] val definition: OperatorDefinition = new UserFunction.Definition(opName, code, () => copy())

  private def copy(): UserFunction = new UserFunction(opName, arity, forward, gradient, code)
}

private[mxnet] object UserFunction {

  /** @param code the class of the forward function, which identifies its location in the source */
  final class Definition(name: String, val code: Class[_], make: () => UserDefinedCustomOp) extends OperatorDefinition {
    def described: String = s"the function '$name' of ${code.getName.takeWhile(_ != '$')}"

    def isSameAs(other: OperatorDefinition): Boolean = other match {
      case that: Definition => that.code == code
      case _                => false
    }

    def operator(name: String, attributes: Map[String, String]): BridgedOperator =
      new UdfOperator(name, attributes, make)
  }
}

/** Creates symbols of user-defined operators. */
trait SymbolUserOperators {

  /** Applies an operator to the symbols passed to its constructor.
    *
    * @param op the operator
    * @param name the new node's name; null for one chosen by [[NameManager.current]]
    * @return its outputs
    */
  def doUdf(op: UserDefinedCustomOp, name: String = null): Array[Symbol] = {
    requireNonNull("Symbol.doUdf", "op" -> op)
    UserOperators.compose(op, name, op.args)
    op.outputs
  }

  /** An operator with one input and one output of the same shape.
    *
    * {{{
    * val swish = Symbol.udf("swish")(x => x * NDArray.api.sigmoid(x)) { (x, dy) =>
    *   val s = Symbol.api.sigmoid(x)
    *   dy * (s + x * s * (s * -1f + 1f))
    * }
    * val y = swish(x)
    * }}}
    *
    * @param name the operator's name; a program must create the operator before it loads a graph with it
    * @param forward computes the output from the input
    * @param gradient composes the gradient of the input from the input and the gradient of the output
    */
  def udf(name: String)(forward: NDArray => NDArray)(gradient: (Symbol, Symbol) => Symbol): UserFunction = {
    requireNonNull("Symbol.udf", "name" -> name, "forward" -> forward, "gradient" -> gradient)
    define(name, 1, forward.getClass)(arrays => forward(arrays(0))) { (args, outputGradient) =>
      Array(gradient(args(0), outputGradient))
    }
  }

  /** An operator with two inputs and one output of the first input's shape; see [[udf]].
    *
    * @param gradient composes the gradients of the inputs from the inputs and the gradient of the output
    */
  def udf2(name: String)(forward: (NDArray, NDArray) => NDArray)(
      gradient: (Symbol, Symbol, Symbol) => (Symbol, Symbol)
  ): UserFunction = {
    requireNonNull("Symbol.udf2", "name" -> name, "forward" -> forward, "gradient" -> gradient)
    define(name, 2, forward.getClass)(arrays => forward(arrays(0), arrays(1))) { (args, outputGradient) =>
      val (first, second) = gradient(args(0), args(1), outputGradient)
      Array(first, second)
    }
  }

  private def define(name: String, arity: Int, code: Class[_])(forward: Array[NDArray] => NDArray)(
      gradient: (Array[Symbol], Symbol) => Array[Symbol]
  ): UserFunction = {
    val function = new UserFunction(name, arity, forward, gradient, code)
    UserOperators.register(name, function.definition)
    function
  }
}
