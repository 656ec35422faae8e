package org.apache.mxnet

import scala.annotation.varargs

import org.apache.mxnet.DType.DType
import org.apache.mxnet.internal.userop.{OpFields, UserOperators}

/** A user-defined operator in Scala; `javaapi.UserDefinedCustomOp` is the one for Java.
  *
  * A minimal operator:
  * {{{
  * @UserDefinedOp
  * class Square extends UserDefinedCustomOp {
  *   def opName: String = "square_udf"
  *   override def exec(context: OpContext): Unit = context.map(0, 0)(x => x * x)
  *   override def doDiff(gradients: Array[Symbol]): Array[Symbol] = Array(arg() * 2f * gradients(0))
  * }
  * val y = new Square()(x)
  * }}}
  *
  * '''Instances.''' An instance that is applied to symbols describes a node: its [[propertiesForFunction properties]]
  * are stored in the graph. For each node in each executor, a new instance is created by the constructor without
  * parameters, or one whose parameters all have defaults, and gets these properties. One thread at a time uses it, so
  * fields may hold state between runs.
  *
  * @param symbols the inputs, for [[Symbol.doUdf]]; alternatively pass them to [[apply]]
  */
abstract class UserDefinedCustomOp(symbols: Array[Symbol]) extends SameDiffMember with UserOperator {

  /** Without inputs; used when a graph is loaded. */
  def this() = this(Array.empty[Symbol])

  /** With one input. */
  def this(symbol: Symbol) = this(Array(symbol))

  /** With several inputs in a graph; see [[SameDiff.doUdf]]. */
  def this(sameDiff: SameDiff, symbols: Array[Symbol]) = {
    this(symbols)
    this.sameDiff = sameDiff
  }

  /** With one input in a graph. */
  def this(sameDiff: SameDiff, symbol: Symbol) = this(sameDiff, Array(symbol))

  private[mxnet] var argumentSymbols: Array[Symbol] = symbols
  private[mxnet] var outputSymbols: Array[Symbol] = Array.empty
  private[mxnet] var context: OpContext = _
  private[mxnet] var inputCount: Int = symbols.length

  /** The operator's name in graphs. It must differ from those of built-in operators and other classes. */
  def opName: String

  /** Number of inputs; -1 for any number. */
  def getNumInputs: Int = -1

  /** The names of `count` inputs. Missing inputs become variables `node_name`. */
  def inputNames(count: Int): Array[String] =
    if (count == 1) Array("data") else Array.tabulate(count)(i => s"data$i")

  /** Number of outputs. */
  def getNumOutputs: Int =
    if (isInplaceCall) 1 else calculateOutputDataTypes(Array.fill(inputCount)(DType.Float32)).length

  /** The names of the auxiliary states, arrays that the operator updates in each run. They follow the inputs. */
  def stateNames: Array[String] = Array.empty

  /** Infers the types of the outputs from those of the inputs; by default one output of the first input's type. */
  def calculateOutputDataTypes(dataTypes: Array[DType]): Array[DType] =
    Array(dataTypes.headOption.getOrElse(DType.Float32))

  /** Infers the shapes of the outputs from [[inputShapes]], or from [[inputArguments]]; by default that of the first
    * input.
    */
  def calculateOutputShape(): Array[Shape] =
    if (inputShapes.nonEmpty) Array(inputShapes.head)
    else throw new MXNetError(s"$opName has no inputs: override calculateOutputShape")

  /** Infers the shapes of the outputs from the inputs in the context; by default by [[calculateOutputShape()* the other
    * overload]]. Neither is called for an in-place operator.
    */
  def calculateOutputShape(context: OpContext): Array[Shape] = calculateOutputShape()

  /** Infers unknown shapes of inputs, such as weights, from those of other inputs and outputs.
    *
    * @param inputs the shapes of the inputs, null where unknown
    * @param outputs the shapes of the outputs, null where unknown
    * @return the shapes of the inputs, null where unknown; by default `inputs`
    */
  def inferInputShapes(inputs: Array[Shape], outputs: Array[Shape]): Array[Shape] = inputs

  /** Infers the shapes of the auxiliary states from [[inputShapes]]; by default scalars. */
  def calculateStateShapes(): Array[Shape] = stateNames.map(_ => Shape(1))

  /** The properties to save, by name: booleans, numbers, strings, shapes, element types, arrays, sequences and options
    * of these, and maps with strings as keys. By default the fields of the class that are not `@transient`.
    */
  def propertiesForFunction(): Map[String, Any] = OpFields.read(this)

  /** Restores the properties of [[propertiesForFunction]]; by default sets the fields of these names. */
  def setPropertiesForFunction(properties: Map[String, Any]): Unit = OpFields.write(this, properties)

  /** Called for each new instance once its properties and number of inputs are set. */
  def configureFromArguments(): Unit = ()

  /** Called for an instance that was applied to symbols.
    *
    * @param graph the outputs of the new node
    */
  def configureWithSymbol(graph: Symbol): Unit = ()

  /** Called after [[configureWithSymbol]] for an instance that was created for, or added to, a [[SameDiff]], but not
    * when a saved graph is loaded.
    */
  def configureWithSameDiff(sameDiff: SameDiff): Unit = this.sameDiff = sameDiff

  /** Whether the operator works in place: the engine copies the inputs to the outputs, and [[exec(context:* exec]] gets
    * these arrays as inputs and outputs, of equal shapes and types.
    */
  def isInplaceCall: Boolean = false

  /** The gradients of the inputs, composed of [[arg]], [[outputs]], the given gradients, and any operators; null for no
    * gradient. Needed only for training.
    *
    * @param gradients the gradients of the outputs
    * @return one gradient for each input
    */
  def doDiff(gradients: Array[Symbol]): Array[Symbol] = throw new MXNetError(
    s"operator $opName is not differentiable: override doDiff, or request no gradient (grad_req null) of its inputs"
  )

  /** Computes [[outputArguments]] from [[inputArguments]]. */
  def exec(): Unit = throw new MXNetError(s"operator $opName computes nothing: override exec() or exec(OpContext)")

  /** Computes the outputs in the context from its inputs; by default by [[exec()* the other overload]]. */
  def exec(context: OpContext): Unit = exec()

  /** The inputs as symbols: those of the application, or in [[doDiff]] those of the node. */
  def args: Array[Symbol] = argumentSymbols.clone()

  /** An input as a symbol. */
  def arg(index: Int): Symbol = {
    if (index < 0 || index >= argumentSymbols.length)
      throw new MXNetError(s"operator $opName has ${argumentSymbols.length} inputs, there is none at $index")
    argumentSymbols(index)
  }

  /** The first input as a symbol. */
  def arg(): Symbol = arg(0)

  /** The first input as a symbol. */
  def larg(): Symbol = arg(0)

  /** The second input as a symbol. */
  def rarg(): Symbol = arg(1)

  /** The outputs as symbols, after the application or in [[doDiff]]. */
  def outputs: Array[Symbol] = outputSymbols.clone()

  /** The inputs of the current run, read-only. During shape inference they have a shape but no elements. */
  def inputArguments: OpArrays = current.inputArrays

  /** The outputs of the current run, to be written or replaced. */
  def outputArguments: OpArrays = current.outputArrays

  /** The auxiliary states of the current run. */
  def stateArguments: OpArrays = current.stateArrays

  /** The shapes of the inputs, during shape inference and in a run. */
  def inputShapes: IndexedSeq[Shape] = current.inputShapes

  private def current: OpContext =
    if (context != null) context
    else
      throw new MXNetError(
        s"operator $opName: arrays and shapes of inputs exist only while it runs or infers shapes"
      )

  /** Applies the operator to symbols. Missing inputs become variables. Symbols of auxiliary states may follow the
    * inputs if the number of inputs is fixed.
    */
  @varargs def apply(symbols: Symbol*): Symbol = UserOperators.compose(this, null, symbols.toArray)

  /** As [[apply]], with a name for the node. */
  @varargs def named(name: String, symbols: Symbol*): Symbol = UserOperators.compose(this, name, symbols.toArray)

  /** The object of the user's class, whose fields are the properties and whose class is registered. */
  private[mxnet] def userObject: AnyRef = this

  /** Runs the operator on arrays, auxiliary states last. [[Autograd]] records it. */
  @varargs def invoke(arrays: NDArray*): NDArrayFuncReturn = UserOperators.invoke(this, arrays.toArray)
}
