package org.apache.mxnet

import org.apache.mxnet.Base.{_LIB, CPtrAddress, ExecutorHandle}
import org.apache.mxnet.NativeResource.keepAlive
import org.apache.mxnet.internal.memory.MemoryPressure
import org.apache.mxnet.internal.util.NullChecks.requireNonNull

object Executor {

  /** Binds a symbol to arrays in its order; null in `grads` means no gradient. */
  private[mxnet] def bind(
      symbol: Symbol,
      ctx: Context,
      args: Array[NDArray],
      grads: Array[NDArray],
      gradReqs: Array[Int],
      aux: Array[NDArray],
      group2ctx: Map[String, Context],
      sharedExec: Executor
  ): Executor = {
    val (names, types, ids) = groupArrays(group2ctx)
    val handle = _LIB.executorBind(
      symbol.handle,
      ctx.deviceTypeid,
      ctx.deviceId,
      names,
      types,
      ids,
      args.map(_.liveHandle),
      grads.map(handleOrNone),
      gradReqs.zip(grads).map { case (request, grad) => if (grad == null) 0 else request },
      aux.map(_.liveHandle),
      if (sharedExec == null) 0L else sharedExec.handle
    )
    keepAlive(args)
    keepAlive(grads)
    keepAlive(aux)
    keepAlive(sharedExec)
    keepAlive(symbol)
    new Executor(handle, ctx, group2ctx, GivenArrays(args, grads, aux), symbol)
  }

  /** Binds a symbol to new arrays of zeros.
    *
    * @param gradReq the request code of all arguments except inputs, which are recognized by their names
    * @param shapes shapes of arguments; the others are inferred
    * @param types types of arguments; the others are inferred, or float32
    */
  private[mxnet] def simpleBind(
      symbol: Symbol,
      ctx: Context,
      gradReq: Int,
      shapes: Map[String, Shape],
      types: Map[String, DType.DType]
  ): Executor = {
    val (names, inputShapes) = shapes.toArray.unzip
    val (ndims, dims) = Shape.packed(inputShapes)
    val (typed, dtypes) = types.toArray.unzip
    val handle = _LIB.executorSimpleBind(
      symbol.handle,
      ctx.deviceTypeid,
      ctx.deviceId,
      gradReq,
      names,
      ndims,
      dims,
      typed,
      dtypes.map(_.id)
    )
    keepAlive(symbol)
    new Executor(handle, ctx, Map.empty, OwnArrays(areDense = true, areDisposedTogether = false), symbol)
  }

  private def handleOrNone(array: NDArray): Long = if (array == null) 0L else array.liveHandle

  private def groupArrays(group2ctx: Map[String, Context]): (Array[String], Array[Int], Array[Int]) =
    if (group2ctx.isEmpty) (null, null, null)
    else {
      val (names, contexts) = group2ctx.toArray.unzip
      (names, contexts.map(_.deviceTypeid), contexts.map(_.deviceId))
    }

  private val free: CPtrAddress => Int = handle => { _LIB.executorFree(handle); 0 }

  /** Where the arrays of an executor come from. */
  private[mxnet] sealed trait Arrays

  /** A program gave the arrays; null stands for no gradient. */
  private[mxnet] final case class GivenArrays(args: Array[NDArray], grads: Array[NDArray], aux: Array[NDArray])
      extends Arrays

  /** The executor created the arrays.
    *
    * @param areDense whether no array can be sparse, which saves asking each one
    * @param areDisposedTogether whether `dispose` of the executor disposes them
    */
  private[mxnet] final case class OwnArrays(areDense: Boolean, areDisposedTogether: Boolean) extends Arrays
}

/** A symbol bound to arrays, ready to run.
  *
  * Every [[forward]] overwrites the outputs. Disposing an executor disposes its outputs, and the arrays it is bound to
  * only if [[reshape]] created them.
  *
  * The objects for arrays that an executor creates, and for its symbol, are created when a program first asks for them:
  * for most arrays none does. They belong to the executor's scope then, as if they had been created with it.
  *
  * @param address the handle
  * @param boundSymbol the symbol that was bound, which a program may have disposed
  */
class Executor private[mxnet] (
    address: ExecutorHandle,
    private[mxnet] val ctx: Context,
    private[mxnet] val group2ctx: Map[String, Context],
    arrays: Executor.Arrays,
    boundSymbol: Symbol
) extends NativeResource {

  override def nativeAddress: CPtrAddress = address

  override def nativeDeAllocator: CPtrAddress => Int = Executor.free

  override val ref: NativeResourceRef = register()

  /** 0, because the arrays that it uses are counted themselves. */
  override val bytesAllocated: Long = 0L

  /** The handle for a native call. */
  private[mxnet] def handle: ExecutorHandle = handleOf("Executor")

  private val lock = new Object

  /** A value that is created on first access, by any thread. */
  private final class OnDemand[A <: AnyRef](create: => A) {
    @volatile private var value: A = _

    def ifCreated: Option[A] = Option(value)

    /** The value. It belongs to the executor's scope, and not to a collector of the calling thread. */
    def get(): A = if (value != null) value
    else
      lock.synchronized {
        if (value == null) value = ResourceScope.outside(create)
        value
      }

    /** Creates the value, in the scope and for the collector of this thread. */
    def createNow(): Unit = if (value == null) value = create
  }

  private val lazySymbol = new OnDemand[Symbol]({
    val created = new Symbol(native(_LIB.executorSymbol))
    scope.foreach(_.add(created))
    created
  })
  private val lazyOutputs = new OnDemand[Array[NDArray]](ownArrays(_LIB.executorOutputs, areDense = false))
  private val lazyArgs = boundArrays(_.args, _LIB.executorArguments)
  private val lazyGrads = boundArrays(_.grads, _LIB.executorGradients)
  private val lazyAux = boundArrays(_.aux, _LIB.executorAuxiliaryStates)

  MemoryPressure.executorCreated()
  if (NDArrayCollector.isCollecting) Iterator(lazyOutputs, lazyArgs, lazyGrads, lazyAux).foreach(_.createNow())

  private def boundArrays(
      select: Executor.GivenArrays => Array[NDArray],
      list: ExecutorHandle => Array[Long]
  ): OnDemand[Array[NDArray]] = arrays match {
    case own: Executor.OwnArrays      => new OnDemand(ownArrays(list, own.areDense))
    case chosen: Executor.GivenArrays =>
      val part = new OnDemand(select(chosen))
      part.createNow()
      part
  }

  /** New objects for arrays of the engine; null where it has none. */
  private def ownArrays(list: ExecutorHandle => Array[Long], areDense: Boolean): Array[NDArray] = {
    val handles = native(list)
    val created = new Array[NDArray](handles.length)
    val own = scope
    var i = 0
    while (i < created.length) {
      if (handles(i) != 0L) {
        created(i) = if (areDense) new NDArray(handles(i)) else NDArray.fromHandle(handles(i))
        if (own.nonEmpty) own.get.add(created(i))
      }
      i += 1
    }
    created
  }

  private def native[R](call: ExecutorHandle => R): R = {
    val result = call(handle)
    keepAlive(this)
    result
  }

  /** The outputs, in the order of the symbol's `listOutputs`. Every [[forward]] overwrites them: copy what must last. */
  def outputs: Array[NDArray] = lazyOutputs.get()

  private[mxnet] def symbol: Symbol = lazySymbol.get()

  private[mxnet] def argArrays: Array[NDArray] = lazyArgs.get()

  private[mxnet] def gradArrays: Array[NDArray] = lazyGrads.get()

  private[mxnet] def auxArrays: Array[NDArray] = lazyAux.get()

  private[mxnet] override def companions: Iterator[NativeResource] =
    lazySymbol.ifCreated.iterator ++
      Iterator(lazyOutputs, lazyArgs, lazyGrads, lazyAux).flatMap(_.ifCreated).flatten.filter(_ != null)

  override def dispose(): Unit = lock.synchronized {
    if (!isDisposed) {
      outputs.foreach(_.dispose()) // Creates them if need be: programs may dispose them again.
      super.dispose()
      lazySymbol.ifCreated.foreach(_.dispose())
      arrays match {
        case Executor.OwnArrays(_, true) => companions.foreach(_.dispose())
        case _                           =>
      }
    }
  }

  /** An executor of the same symbol for other input shapes, which shares parameters and memory with this one.
    *
    * @param partialShaping whether the shapes of arguments that are not in `kwargs` may change
    * @param allowUpSizing whether arrays may grow, in new memory
    * @param kwargs the new shapes, by the names of arguments
    */
  def reshape(
      partialShaping: Boolean = false,
      allowUpSizing: Boolean = false,
      kwargs: Map[String, Shape]
  ): Executor = {
    requireNonNull("Executor.reshape", "kwargs" -> kwargs)
    val (groupNames, groupTypes, groupIds) = Executor.groupArrays(group2ctx)
    val (names, shapes) = kwargs.toArray.unzip
    val (ndims, dims) = Shape.packed(shapes)
    val reshaped = native(
      _LIB.executorReshape(
        _,
        partialShaping,
        allowUpSizing,
        ctx.deviceTypeid,
        ctx.deviceId,
        groupNames,
        groupTypes,
        groupIds,
        names,
        ndims,
        dims
      )
    )
    new Executor(
      reshaped,
      ctx,
      group2ctx,
      Executor.OwnArrays(areDense = false, areDisposedTogether = true),
      boundSymbol
    )
  }

  /** Computes the outputs.
    *
    * @param isTrain whether operators run in training mode, so that [[backward]] can follow
    * @param kwargs arrays to copy into arguments first, by name
    * @throws MXNetError if there is no argument of a name, or it has another shape
    */
  def forward(isTrain: Boolean, kwargs: (String, NDArray)*): Unit = {
    requireNonNull("Executor.forward", "kwargs" -> kwargs)
    kwargs.foreach { case (name, array) =>
      if (array == null) requireNonNull("Executor.forward", s"'$name' of kwargs" -> array)
      val target = argDict.getOrElse(name, throw unknown("Executor.forward", "argument", name, argDict.keys))
      checkShape("forward", name, array, target)
      array.copyTo(target)
    }
    native(_LIB.executorForward(_, isTrain))
  }

  /** Computes the outputs in inference mode. */
  def forward(): Unit = forward(isTrain = false)

  /** Computes the gradients of the arguments, after `forward(isTrain = true)`, and writes or adds them to [[gradDict]] as
    * requested when the symbol was bound.
    *
    * @param outGrads the gradients of the outputs, in the order and with the shapes of [[outputs]]; null or empty if all
    *   outputs are losses such as `SoftmaxOutput`
    */
  def backward(outGrads: Array[NDArray]): Unit = {
    if (outGrads != null) requireNonNull("Executor.backward", "outGrads" -> outGrads)
    val heads = if (outGrads == null || outGrads.isEmpty) null else outGrads.map(_.liveHandle)
    native(_LIB.executorBackward(_, heads))
    keepAlive(outGrads)
  }

  /** Computes the gradients for a symbol with one output. */
  def backward(outGrad: NDArray): Unit = {
    requireNonNull("Executor.backward", "outGrad" -> outGrad)
    backward(Array(outGrad))
  }

  /** Computes the gradients if all outputs are losses. */
  def backward(): Unit = backward(Array.empty[NDArray])

  /** Computes the gradients like [[backward]] and pushes arrays to a store like [[KVStore.push]], but each key as soon
    * as those of its arrays that are gradients of this executor are complete, so that a distributed store sends them
    * while others are computed. Keys without a gradient of this executor are pushed last.
    *
    * The order of pushes is that of the gradients in the graph, whatever the order of the keys. So all ranks of a
    * distributed store must push by this method, with networks of the same symbol.
    *
    * @param values one array for each key; several arrays of one key are summed
    * @param outGrads see [[backward]]
    * @throws MXNetError if a key is not initialized, or a rank is lost; some keys may have been pushed then
    */
  def backwardAndPush(
      store: KVStore,
      keys: Array[String],
      values: Array[NDArray],
      outGrads: Array[NDArray] = Array.empty
  ): Unit = {
    requireNonNull("Executor.backwardAndPush", "store" -> store, "keys" -> keys, "values" -> values)
    require(
      keys.length == values.length,
      s"${keys.length} keys but ${values.length} arrays; give one array for each key"
    )
    if (outGrads != null) requireNonNull("Executor.backwardAndPush", "outGrads" -> outGrads)
    val heads = if (outGrads == null || outGrads.isEmpty) null else outGrads.map(_.liveHandle)
    native(_LIB.executorBackwardPush(_, heads, store.handleOf("KVStore"), keys, values.map(_.liveHandle)))
    keepAlive(outGrads)
    keepAlive(values)
    keepAlive(store)
  }

  /** Calls `callback` with every output of every operator as it is computed; null removes the callback. With a
    * callback, the executor does not fuse operators.
    */
  def setMonitorCallback(callback: MXMonitorCallback): Unit =
    native(_LIB.executorSetMonitorCallback(_, callback, monitorAll = false))

  /** The arguments, which are inputs and parameters, by name. Set their elements before [[forward]]. */
  lazy val argDict: Map[String, NDArray] = byName("argDict", "argument", argNames, argArrays)

  /** The gradients by the names of the arguments; null for an argument without gradient. */
  lazy val gradDict: Map[String, NDArray] = byName("gradDict", "argument", argNames, gradArrays)

  /** The symbol that was bound knows its names if it has listed them before. */
  private def nameSource: Symbol = if (boundSymbol.isDisposed) symbol else boundSymbol

  private lazy val argNames = nameSource.listArguments()

  /** The auxiliary states by name. */
  lazy val auxDict: Map[String, NDArray] =
    byName("auxDict", "auxiliary state", nameSource.listAuxiliaryStates(), auxArrays)

  /** The arrays by name. Applied to another name, the map throws an error that lists the names. */
  private def byName(
      dict: String,
      kind: String,
      names: IndexedSeq[String],
      arrays: Array[NDArray]
  ): Map[String, NDArray] = {
    val byName = Map.newBuilder[String, NDArray]
    var i = 0
    while (i < arrays.length) {
      byName += ((names(i), arrays(i)))
      i += 1
    }
    val all = byName.result()
    if (all.size < names.length) throw sameName(kind, names)
    all.withDefault(name => throw unknown(s"Executor.$dict", kind, name, names))
  }

  private def sameName(kind: String, names: IndexedSeq[String]): MXNetError = {
    val name = names.diff(names.distinct).head
    new MXNetError(s"Executor: two ${kind}s are called '$name'; give them different names")
  }

  /** Copies parameters into the arguments and auxiliary states, converting their types.
    *
    * @param argParams arrays by the names of arguments
    * @param auxParams arrays by the names of auxiliary states; null for none
    * @param allowExtraParams whether to ignore names that the symbol does not have
    */
  def copyParamsFrom(
      argParams: Map[String, NDArray],
      auxParams: Map[String, NDArray],
      allowExtraParams: Boolean = false
  ): Unit = {
    requireNonNull("Executor.copyParamsFrom", "argParams" -> argParams)
    copyInto("argument", argParams, argDict, allowExtraParams)
    if (auxParams != null) {
      requireNonNull("Executor.copyParamsFrom", "auxParams" -> auxParams)
      copyInto("auxiliary state", auxParams, auxDict, allowExtraParams)
    }
  }

  /** Copies arguments only, converting their types; see above. */
  def copyParamsFrom(argParams: Map[String, NDArray], allowExtraParams: Boolean): Unit =
    copyParamsFrom(argParams, null, allowExtraParams)

  /** Copies arguments only, converting their types. A name that the symbol does not have is an error. */
  def copyParamsFrom(argParams: Map[String, NDArray]): Unit = copyParamsFrom(argParams, allowExtraParams = false)

  private def copyInto(
      kind: String,
      params: Map[String, NDArray],
      targets: Map[String, NDArray],
      allowExtra: Boolean
  ): Unit = params.foreach { case (name, array) =>
    targets.get(name) match {
      case Some(target) =>
        checkShape("copyParamsFrom", name, array, target)
        array.copyTo(target)
      case None => if (!allowExtra) throw unknown("Executor.copyParamsFrom", kind, name, targets.keys)
    }
  }

  private def checkShape(method: String, name: String, array: NDArray, target: NDArray): Unit =
    if (array.shape != target.shape)
      throw new MXNetError(
        s"Executor.$method: '$name' has shape ${array.shape}, the executor was bound with ${target.shape}; " +
          "give that shape, or reshape the executor"
      )

  private def unknown(method: String, kind: String, name: String, known: Iterable[String]): MXNetError =
    new MXNetError(s"$method: there is no $kind '$name'; the names are ${known.mkString(", ")}")

  /** The execution plan as readable text. */
  def debugStr: String = native(_LIB.executorPrint)
}
