package org.apache.mxnet

import scala.annotation.varargs

import org.apache.mxnet.DType.DType
import org.apache.mxnet.internal.userop.{OpFields, UserOperators}

/** An operator that a program defines, in Scala or Java.
  *
  * The smallest one has a name and computes:
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
  * '''Instances.''' An instance that is applied to symbols describes a node: its [[propertiesForFunction properties]] go
  * into the graph. Whatever runs is made anew, by the empty constructor and from the properties: one instance for each
  * node in each executor, used by one thread at a time. So an operator may keep what it likes in its fields, and needs
  * an empty constructor.
  *
  * @param symbols the inputs, for [[Symbol.doUdf]]; they may also be given to [[apply]]
  */
abstract class UserDefinedCustomOp(symbols: Array[Symbol]) extends SameDiffMember {

  /** Without inputs: what graphs are loaded with. */
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

  /** The operator's name: what graphs know it by. No operator of the engine has it, and no other class. */
  def opName: String

  /** How many inputs it takes; -1 for as many as it is given. */
  def getNumInputs: Int = -1

  /** The names of `count` inputs: those that are left out become variables `node_name`. */
  def inputNames(count: Int): Array[String] =
    if (count == 1) Array("data") else Array.tabulate(count)(i => s"data$i")

  /** How many outputs it has. */
  def getNumOutputs: Int =
    if (isInplaceCall) 1 else calculateOutputDataTypes(Array.fill(inputCount)(DType.Float32)).length

  /** The names of its auxiliary states, arrays that it keeps from run to run. They follow the inputs. */
  def stateNames: Array[String] = Array.empty

  /** The types of the outputs, from those of the inputs; by default one output of the first input's type. */
  def calculateOutputDataTypes(dataTypes: Array[DType]): Array[DType] =
    Array(dataTypes.headOption.getOrElse(DType.Float32))

  /** The shapes of the outputs, from [[inputShapes]], or the shapes of [[inputArguments]]; by default that of the first
    * input.
    */
  def calculateOutputShape(): Array[Shape] =
    if (inputShapes.nonEmpty) Array(inputShapes.head)
    else throw new MXNetError(s"$opName has no inputs: override calculateOutputShape")

  /** The shapes of the outputs, from those in the context; by default [[calculateOutputShape()* the other form]]. Neither
    * is called for an operator that works in place.
    */
  def calculateOutputShape(context: OpContext): Array[Shape] = calculateOutputShape()

  /** The shapes of inputs that follow from what is known of the others and of the outputs, for inputs whose shape is not
    * given, such as weights.
    *
    * @param inputs the shapes of the inputs, null where unknown
    * @param outputs the shapes of the outputs, null where unknown
    * @return the shapes of the inputs, null where they stay unknown; by default what is known already
    */
  def inferInputShapes(inputs: Array[Shape], outputs: Array[Shape]): Array[Shape] = inputs

  /** The shapes of the auxiliary states, from [[inputShapes]]; by default those of scalars. */
  def calculateStateShapes(): Array[Shape] = stateNames.map(_ => Shape(1))

  /** What the operator needs to be made again, by name: booleans, numbers, strings, shapes, types of elements, arrays,
    * sequences and options of these, and maps of all these with strings as keys. By default the fields of the class
    * that are not `@transient`.
    */
  def propertiesForFunction(): Map[String, Any] = OpFields.read(this)

  /** Takes over what [[propertiesForFunction]] gave, from a graph; by default sets the fields of these names. */
  def setPropertiesForFunction(properties: Map[String, Any]): Unit = OpFields.write(this, properties)

  /** Called for each new instance after its properties were set and the number of its inputs is known. */
  def configureFromArguments(): Unit = ()

  /** Called for the instance that was applied to symbols, after it joined their graph.
    *
    * @param graph the outputs of the new node
    */
  def configureWithSymbol(graph: Symbol): Unit = ()

  /** Called after [[configureWithSymbol]] for an instance that was made for, or added to, a [[SameDiff]]: not for those
    * that are made when a saved graph is loaded.
    */
  def configureWithSameDiff(sameDiff: SameDiff): Unit = this.sameDiff = sameDiff

  /** Whether the first outputs are the first inputs: the engine then puts the inputs' values into the outputs, and
    * [[exec(context:* exec]] finds the same arrays, to be changed, on both sides. Outputs are like their inputs.
    */
  def isInplaceCall: Boolean = false

  /** The gradients of the inputs, composed of [[arg]], [[outputs]], the given gradients, and any operators; null for an
    * input without one. Needed for training only.
    *
    * @param gradients the gradients of the outputs
    * @return one gradient for each input
    */
  def doDiff(gradients: Array[Symbol]): Array[Symbol] = throw new MXNetError(
    s"operator $opName is not differentiable: override doDiff, or request no gradient (grad_req null) of its inputs"
  )

  /** Computes [[outputArguments]] from [[inputArguments]]. */
  def exec(): Unit = throw new MXNetError(s"operator $opName computes nothing: override exec() or exec(OpContext)")

  /** Computes the outputs in the context from the inputs in it; by default by [[exec()* the other form]]. */
  def exec(context: OpContext): Unit = exec()

  /** The inputs as symbols: those that it was applied to, or while [[doDiff]] runs those of the node. */
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

  /** The outputs as symbols, after the operator was applied, or while [[doDiff]] runs. */
  def outputs: Array[Symbol] = outputSymbols.clone()

  /** The inputs while the operator runs, read-only; while shapes are inferred they have a shape and nothing else. */
  def inputArguments: OpArrays = current.inputArrays

  /** The outputs while the operator runs, to be written or replaced. */
  def outputArguments: OpArrays = current.outputArrays

  /** The auxiliary states while the operator runs. */
  def stateArguments: OpArrays = current.stateArrays

  /** The shapes of the inputs, while shapes are inferred and while the operator runs. */
  def inputShapes: IndexedSeq[Shape] = current.inputShapes

  private def current: OpContext =
    if (context != null) context
    else
      throw new MXNetError(
        s"operator $opName: there are no arrays and shapes of inputs but while it runs or infers shapes"
      )

  /** Applies the operator to symbols. What is left out becomes a variable; symbols of auxiliary states may follow the
    * inputs of an operator with a number of inputs of its own.
    */
  @varargs def apply(symbols: Symbol*): Symbol = UserOperators.compose(this, null, symbols.toArray)

  /** As [[apply]], with a name for the node. */
  @varargs def named(name: String, symbols: Symbol*): Symbol = UserOperators.compose(this, name, symbols.toArray)

  /** The object of the program's own class: its fields are the properties, and its class registers the operator. */
  private[mxnet] def userObject: AnyRef = this

  /** Runs the operator on arrays, auxiliary states last; recorded like any other while [[Autograd]] records. */
  @varargs def invoke(arrays: NDArray*): NDArrayFuncReturn = UserOperators.invoke(this, arrays.toArray)
}
