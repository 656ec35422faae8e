package org.apache.mxnet

import org.apache.mxnet.Base.{_LIB, CPtrAddress, SymbolHandle}
import org.apache.mxnet.DType.DType
import org.apache.mxnet.NativeResource.keepAlive
import org.apache.mxnet.internal.operators.NativeOp
import org.apache.mxnet.internal.userop.UserOperators
import org.apache.mxnet.internal.util.BufferConversion
import org.apache.mxnet.internal.util.NullChecks.requireNonNull

/** Creates symbols: variables, groups, symbols from files, and every operator as a function. */
@AddSymbolFunctions(false)
object Symbol extends SymbolBase with SymbolFunctions with SymbolUserOperators with BufferConversion[Symbol] {

  /** The operators with typed parameters. */
  val api: SymbolAPI.type = SymbolAPI

  /** Random symbols. */
  val random: SymbolRandomAPI.type = SymbolRandomAPI

  /** A variable: an input of a graph, such as a parameter or data.
    *
    * @param name the name by which an array is bound to it
    * @param attr attributes
    * @param shape the shape, for shape inference
    * @param lrMult multiplier of this parameter's learning rate
    * @param wdMult multiplier of this parameter's weight decay
    * @param dType the element type, for type inference
    * @param kwargs further attributes, such as `__init__`, whose names begin and end with two underscores
    */
  def Variable(
      name: String,
      attr: Map[String, String] = null,
      shape: Shape = null,
      lrMult: Option[Float] = None,
      wdMult: Option[Float] = None,
      dType: DType = null,
      kwargs: Map[String, String] = null
  ): Symbol = {
    if (name == null || name.isEmpty) throw new MXNetError("Symbol.Variable: the name is null or empty")
    val more = Option(kwargs).getOrElse(Map.empty)
    more.keys.find(key => key.length < 5 || !key.startsWith("__") || !key.endsWith("__")).foreach { key =>
      throw new MXNetError(
        s"Symbol.Variable: '$key' is not an attribute of variable '$name'; " +
          s"names in kwargs begin and end with two underscores, as in __${key}__"
      )
    }
    val attributes = AttrScope.current.get(Option(attr)) ++
      Option(shape).map(s => "__shape__" -> s.toString) ++
      lrMult.map(m => "__lr_mult__" -> m.toString) ++
      wdMult.map(m => "__wd_mult__" -> m.toString) ++
      Option(dType).map(t => "__dtype__" -> t.id.toString) ++
      more
    val variable = new Symbol(_LIB.symbolCreateVariable(name))
    variable.setAttr(attributes)
    variable
  }

  /** A symbol with the outputs of all given symbols, in order. */
  def Group(symbols: Symbol*): Symbol = {
    requireNonNull("Symbol.Group", "symbols" -> symbols)
    val inputs = symbols.toArray
    val group = new Symbol(_LIB.symbolCreateGroup(inputs.map(_.handle)))
    keepAlive(inputs)
    group
  }

  /** Applies an operator to symbols by position.
    *
    * @param operator the operator's name or alias
    * @param name name of the new symbol; if null or empty, chosen by [[NameManager.current]]
    * @param attr attributes, in addition to those of the attribute scope; their names begin and end with two underscores
    * @param symbols the inputs; missing ones become variables
    * @param paramKwargs the operator's parameters
    */
  def createFromListedSymbols(operator: String, name: String = null, attr: Map[String, String] = null)(
      symbols: Array[Symbol],
      paramKwargs: Map[String, String] = null
  ): Symbol = {
    val op = NativeOp(operator)
    val params = NDArray.withInputCount(op, symbols.length, asPairs(paramKwargs))
    create(op, name, attr, params, null, symbols)
  }

  /** Applies an operator to symbols by the names of its arguments; the other parameters are as in
    * [[createFromListedSymbols]]. An operator with a variable number of inputs takes them by position only.
    */
  def createFromNamedSymbols(operator: String, name: String = null, attr: Map[String, String] = null)(
      symbols: Map[String, Symbol],
      paramKwargs: Map[String, String] = null
  ): Symbol = {
    val op = NativeOp(operator)
    if (symbols.nonEmpty && op.keyVarNumArgs.isDefined)
      throw new MXNetError(
        s"$operator takes any number of inputs, so they have no names; " +
          s"pass ${symbols.keys.mkString(", ")} by position"
      )
    val (keys, inputs) = symbols.toArray.unzip
    create(op, name, attr, asPairs(paramKwargs), keys, inputs)
  }

  /** As [[createFromNamedSymbols]], with inputs and parameters in one map. */
  def createFromNamedSymbolsNoCheck(operator: String, name: String = null, attr: Map[String, String] = null)(
      kwargs: Map[String, Any]
  ): Symbol = {
    val (symbols, params) = separate(kwargs)
    createFromNamedSymbols(operator, name, attr)(symbols, params)
  }

  /** As [[createFromListedSymbols]], with parameters of any type. */
  def createFromListedSymbolsNoCheck(operator: String, name: String = null, attr: Map[String, String] = null)(
      symbols: Array[Symbol],
      kwargs: Map[String, Any] = null
  ): Symbol = createFromListedSymbols(operator, name, attr)(symbols, separate(kwargs)._2)

  /** Applies an operator; called by the generated functions.
    *
    * @param symbols inputs by position
    * @param kwargs parameters, and inputs by name if there are none by position
    */
  private[mxnet] def createSymbolGeneral(
      operator: String,
      name: String,
      attr: Map[String, String],
      symbols: Seq[Symbol],
      kwargs: Map[String, Any]
  ): Symbol = {
    if (symbols == null) requireNonNull(operator, "symbols" -> symbols)
    val (named, params) = separate(kwargs)
    if (symbols.nonEmpty && named.nonEmpty)
      throw new MXNetError(
        s"$operator: give all inputs by position or all by name; ${symbols.length} came by position, " +
          s"${named.keys.mkString(", ")} by name"
      )
    if (named.isEmpty) createFromListedSymbols(operator, name, attr)(symbols.toArray, params)
    else createFromNamedSymbols(operator, name, attr)(named, params)
  }

  /** Splits a map into symbols and the text of other values; absent values are omitted. */
  private def separate(kwargs: Map[String, Any]): (Map[String, Symbol], Map[String, String]) = {
    val all = Option(kwargs)
      .getOrElse(Map.empty)
      .iterator
      .map {
        case (key, Some(content)) => (key, content)
        case other                => other
      }
      .filter { case (_, value) => value != null && value != None }
      .toMap
    val symbols = all.collect { case (key, symbol: Symbol) => key -> symbol }
    (symbols, (all -- symbols.keys).map { case (key, value) => key -> NativeOp.render(value) })
  }

  private def asPairs(params: Map[String, String]): Seq[(String, Any)] = if (params == null) Nil else params.toSeq

  private def create(
      op: NativeOp,
      name: String,
      attr: Map[String, String],
      params: Seq[(String, Any)],
      inputKeys: Array[String],
      inputs: Array[Symbol]
  ): Symbol = {
    val (keys, values) = NativeOp.renderPairs(params)
    val attributes = AttrScope.current.get(Option(attr))
    if (attributes.nonEmpty) op.checkAttributes(attributes.keys)
    val (attrKeys, attrValues) = NativeOp.renderPairs(attributes)
    val finalName = NameManager.current.get(Option(name).filter(_.nonEmpty), op.name.toLowerCase(java.util.Locale.ROOT))
    inputs.indices.foreach { i =>
      if (inputs(i) == null)
        throw new MXNetError(s"${op.name}: input $i of ${inputs.length} of '$finalName' is null; give a symbol")
    }
    val handles = inputs.map(_.handle)
    val created = _LIB.symbolCreate(op.handle, finalName, keys, values, attrKeys, attrValues, inputKeys, handles)
    keepAlive(inputs)
    new Symbol(created)
  }

  /** Reads a symbol from a JSON file that [[Symbol.save]] or MXNet (1.9.1 or earlier) wrote, usually `*-symbol.json`.
    *
    * @throws MXNetError if the file is missing or is not such a graph
    */
  def load(fname: String): Symbol = new Symbol(_LIB.symbolLoad(fname))

  /** Reads a symbol from the content of such a file. */
  def loadJson(json: String): Symbol = new Symbol(_LIB.symbolFromJson(json))

  private val free: CPtrAddress => Int = handle => { _LIB.symbolFree(handle); 0 }
}

/** A graph of operators with one or more outputs, to be bound to arrays and run.
  *
  * Arithmetic and comparisons are element-wise, of a symbol of the same shape or a number (an `Int`, `Long`, `Float` or
  * `Double`). Comparisons are 1 where they are true and 0 elsewhere.
  *
  * @param address the handle
  */
class Symbol private[mxnet] (address: SymbolHandle) extends NativeResource with SymbolBind with SymbolInference {

  override def nativeAddress: CPtrAddress = address

  override def nativeDeAllocator: CPtrAddress => Int = Symbol.free

  override val ref: NativeResourceRef = register()

  /** 0, because a graph has no arrays. */
  override val bytesAllocated: Long = 0L

  /** The handle for a native call. */
  private[mxnet] def handle: SymbolHandle = handleOf("Symbol")

  /** Runs a native call on this symbol; the symbol cannot be collected before the call returns. */
  private[mxnet] def native[R](call: SymbolHandle => R): R = {
    val result = call(handle)
    keepAlive(this)
    result
  }

  /** The sum of elements at the same positions. Both arrays must have the same shape. */
  def +(other: Symbol): Symbol = Symbol.binary("_Plus", this, other)

  /** The sum of each element and a number. */
  def +[V](other: V): Symbol = Symbol.scalar("_PlusScalar", this, other)

  /** The difference of elements at the same positions. Both arrays must have the same shape. */
  def -(other: Symbol): Symbol = Symbol.binary("_Minus", this, other)

  /** The difference of each element and a number. */
  def -[V](other: V): Symbol = Symbol.scalar("_MinusScalar", this, other)

  /** The product of elements at the same positions. Both arrays must have the same shape. */
  def *(other: Symbol): Symbol = Symbol.binary("_Mul", this, other)

  /** The product of each element and a number. */
  def *[V](other: V): Symbol = Symbol.scalar("_MulScalar", this, other)

  /** The quotient of elements at the same positions. Both arrays must have the same shape. */
  def /(other: Symbol): Symbol = Symbol.binary("_Div", this, other)

  /** The quotient of each element and a number. */
  def /[V](other: V): Symbol = Symbol.scalar("_DivScalar", this, other)

  /** The remainder, with the sign of the divisor, of elements at the same positions. Both arrays must have the same shape. */
  def %(other: Symbol): Symbol = Symbol.binary("_Mod", this, other)

  /** The remainder, with the sign of the divisor, of each element and a number. */
  def %[V](other: V): Symbol = Symbol.scalar("_ModScalar", this, other)

  /** The element-wise power. */
  def **(other: Symbol): Symbol = Symbol.pow(this, other)

  /** Each element to the power of a number. */
  def **[V](other: V): Symbol = Symbol.pow(this, other)

  /** 1 where an element is greater than that of `other`, which has the same shape, else 0. */
  def >(other: Symbol): Symbol = Symbol.greater(this, other)

  /** 1 where an element is greater than a number, else 0. */
  def >[V](other: V): Symbol = Symbol.greater(this, other)

  /** 1 where an element is greater than or equal to that of `other`, which has the same shape, else 0. */
  def >=(other: Symbol): Symbol = Symbol.greaterEqual(this, other)

  /** 1 where an element is greater than or equal to a number, else 0. */
  def >=[V](other: V): Symbol = Symbol.greaterEqual(this, other)

  /** 1 where an element is less than that of `other`, which has the same shape, else 0. */
  def <(other: Symbol): Symbol = Symbol.lesser(this, other)

  /** 1 where an element is less than a number, else 0. */
  def <[V](other: V): Symbol = Symbol.lesser(this, other)

  /** 1 where an element is less than or equal to that of `other`, which has the same shape, else 0. */
  def <=(other: Symbol): Symbol = Symbol.lesserEqual(this, other)

  /** 1 where an element is less than or equal to a number, else 0. */
  def <=[V](other: V): Symbol = Symbol.lesserEqual(this, other)

  /** The element-wise negation. */
  def unary_- : Symbol = this * -1f

  /** A deep copy of the graph. */
  override def clone(): Symbol = new Symbol(native(_LIB.symbolCopy))

  /** Output `index`, from 0, as a symbol. */
  def get(index: Int): Symbol = new Symbol(native(_LIB.symbolGetOutput(_, index)))

  /** The output of this name, such as `fc1_output`, as a symbol. */
  def get(name: String): Symbol = {
    val outputs = listOutputs()
    outputs.indexOf(name) match {
      case -1 => throw new MXNetError(s"Symbol.get: there is no output '$name'; there are ${outputs.mkString(", ")}")
      case i if outputs.indexOf(name, i + 1) >= 0 =>
        throw new MXNetError(s"Symbol.get: there are several outputs '$name'; use get(index)")
      case i => get(i)
    }
  }

  /** A symbol with every output of every node, in topological order. */
  def getInternals(): Symbol = new Symbol(native(_LIB.symbolGetInternals))

  /** The names of the arguments in topological order, in which arrays are bound. */
  def listArguments(): IndexedSeq[String] = {
    knownArguments = listedOnce(knownArguments, _LIB.symbolListArguments)
    knownArguments
  }

  // A graph never changes, so its names are listed once.
  @volatile private var knownArguments: IndexedSeq[String] = _
  @volatile private var knownAuxiliaryStates: IndexedSeq[String] = _

  private def listedOnce(known: IndexedSeq[String], list: SymbolHandle => Array[String]): IndexedSeq[String] =
    if (known != null && !isDisposed) known else native(list).toIndexedSeq

  /** The names of the outputs: that of the operator with `_output`, such as `fc1_output`, or with the operator's own suffix if
    * it has several outputs.
    */
  def listOutputs(): IndexedSeq[String] = native(_LIB.symbolListOutputs).toIndexedSeq

  /** The names of the auxiliary states, which operators update in the forward pass. */
  def listAuxiliaryStates(): IndexedSeq[String] = {
    knownAuxiliaryStates = listedOnce(knownAuxiliaryStates, _LIB.symbolListAuxiliaryStates)
    knownAuxiliaryStates
  }

  /** An attribute of the output's node. */
  def attr(key: String): Option[String] = Option(native(_LIB.symbolGetAttr(_, key)))

  /** Sets attributes of the output's node. */
  private[mxnet] def setAttr(attr: Map[String, String]): Unit = if (attr.nonEmpty) {
    val (keys, values) = attr.toArray.unzip
    native(_LIB.symbolSetAttrs(_, keys, values))
  }

  /** The attributes of the output's node. */
  def listAttr(): Map[String, String] =
    native(_LIB.symbolListAttrShallow).grouped(2).map(pair => pair(0) -> pair(1)).toMap

  /** The attributes of all nodes, by the names of the nodes. */
  def attrMap(): Map[String, Map[String, String]] =
    native(_LIB.symbolListAttr)
      .grouped(2)
      .map { pair =>
        val separator = pair(0).indexOf('$')
        (pair(0).take(separator), pair(0).drop(separator + 1), pair(1))
      }
      .toSeq
      .groupMap(_._1)(attribute => attribute._2 -> attribute._3)
      .view
      .mapValues(_.toMap)
      .toMap

  /** A copy of this graph in which variables are replaced by other symbols.
    *
    * @param name the new name of the output's node
    * @param symbols replacements of variables, by name
    */
  def apply(name: String, symbols: Map[String, Symbol]): Symbol = {
    requireNonNull("Symbol.apply", "symbols" -> symbols)
    val composed = clone()
    val (keys, inputs) = symbols.toArray.unzip
    composed.native(_LIB.symbolCompose(_, name, keys, inputs.map(_.handle)))
    keepAlive(inputs)
    composed
  }

  /** Applies a user-defined operator to the symbols passed to its constructor, or else to these outputs.
    *
    * @return its outputs
    */
  def doUdf(op: UserDefinedCustomOp): Array[Symbol] = {
    requireNonNull("Symbol.doUdf", "op" -> op)
    if (op.args.nonEmpty) Symbol.doUdf(op)
    else {
      UserOperators.compose(op, null, Array.tabulate(listOutputs().length)(get))
      op.outputs
    }
  }

  /** Throws if an operator of the graph is missing; the message says how to supply it. */
  private[mxnet] def checkReady(): Unit = native(_LIB.symbolCheckReady)

  /** The graph as readable text. */
  def debugStr: String = native(_LIB.symbolPrint)

  /** The graph in MXNet's JSON format. */
  def toJson: String = native(_LIB.symbolToJson)

  /** Writes the graph in MXNet's JSON format. */
  def save(fname: String): Unit = native(_LIB.symbolSave(_, fname))

  override def toString: String =
    if (isDisposed) "<Symbol, disposed>" else s"<Symbol ${listOutputs().mkString(", ")}>"
}
