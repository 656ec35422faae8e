package org.apache.mxnet

import java.io.{ByteArrayInputStream, DataInputStream, EOFException}

import org.apache.mxnet.Base.CPtrAddress
import org.apache.mxnet.internal.util.Blocks
import org.apache.mxnet.internal.util.NullChecks.requireNonNull

import scala.collection.mutable

/** An optimizer: updates parameters by their gradients.
  *
  * Parameters are identified by an integer index. Learning rate and weight decay can be scaled per parameter, by index
  * or by name; names need [[setIdx2Name]], which `Module` calls. [[setRescaleGrad]] sets the scale of gradients,
  * usually 1 / batch size.
  *
  * Java's serialization writes an optimizer without its network and without the states of parameters.
  */
abstract class Optimizer extends Serializable {

  /** Multiplier of the learning rate of a parameter, by index or name. */
  protected val lrMult: mutable.Map[Either[Int, String], Float] = mutable.HashMap.empty

  /** Multiplier of the weight decay of a parameter, by index or name. */
  protected val wdMult: mutable.Map[Either[Int, String], Float] = mutable.HashMap.empty

  /** The largest number of updates of any parameter. */
  protected var numUpdate: Int = 0

  /** Number of updates of each parameter. */
  protected val indexUpdateCount: mutable.Map[Int, Int] = mutable.HashMap.empty

  /** True if [[setArgNames]] was called; then only weights decay. */
  protected var specialized: Boolean = false

  /** Indices of the weights, if [[setArgNames]] was called. */
  protected val weightSet: mutable.Set[Int] = mutable.HashSet.empty

  /** Scale of the gradients, usually 1 / batch size. */
  protected var rescaleGrad: Float = 1f

  /** The network whose parameters are optimized, if set. */
  @transient protected var symbol: Symbol = null

  /** Names of the parameters by index, if set. */
  protected var idx2name: Map[Int, String] = null

  /** Updates one parameter in place.
    *
    * @param index the parameter's index
    * @param weight the parameter
    * @param grad its gradient, of the same shape
    * @param state the state that [[createState]] returned for this parameter
    */
  def update(index: Int, weight: NDArray, grad: NDArray, state: AnyRef): Unit

  /** Creates the state of a parameter, such as momentum; null if there is none. */
  def createState(index: Int, weight: NDArray): AnyRef

  /** Frees a state of [[createState]] or [[deserializeState]]. */
  def disposeState(state: AnyRef): Unit

  /** Serializes a state; null for a null state. */
  def serializeState(state: AnyRef): Array[Byte]

  /** Deserializes a state; null for null. */
  def deserializeState(bytes: Array[Byte]): AnyRef

  /** Sets multipliers of the learning rate by index. */
  @deprecated("Use setLrMult instead.", "0.10.0")
  def setLrScale(lrScale: Map[Int, Float]): Unit = {
    requireNonNull("Optimizer.setLrScale", "lrScale" -> lrScale)
    setLrMult(lrScale.map { case (index, multiplier) => Left(index) -> multiplier })
  }

  /** Sets multipliers of the learning rate, in addition to those already set.
    *
    * @param argsLrMult multiplier by index (Left) or name (Right) of a parameter; an index takes precedence over a name
    */
  def setLrMult(argsLrMult: Map[Either[Int, String], Float]): Unit = {
    requireNonNull("Optimizer.setLrMult", "argsLrMult" -> argsLrMult)
    lrMult ++= argsLrMult
  }

  /** Sets multipliers of the weight decay, in addition to those already set.
    *
    * @param argsWdMult multiplier by index (Left) or name (Right) of a parameter; an index takes precedence over a name
    */
  def setWdMult(argsWdMult: Map[Either[Int, String], Float]): Unit = {
    requireNonNull("Optimizer.setWdMult", "argsWdMult" -> argsWdMult)
    wdMult ++= argsWdMult
  }

  /** Restricts weight decay to parameters whose names end with `weight`.
    *
    * @param argNames the network's arguments; names that end with `data` or `label` get no index
    */
  def setArgNames(argNames: Seq[String]): Unit =
    if (argNames != null) {
      requireNonNull("Optimizer.setArgNames", "argNames" -> argNames)
      specialized = true
      val parameters = argNames.filterNot(name => name.endsWith("data") || name.endsWith("label"))
      weightSet ++= parameters.indices.filter(i => parameters(i).endsWith("weight"))
    }

  /** Sets the scale of the gradients. */
  def setRescaleGrad(rescaleGrad: Float): Unit = this.rescaleGrad = rescaleGrad

  /** Reads the multipliers in the attributes `__lr_mult__` and `__wd_mult__` of the network's variables. */
  def setSymbol(sym: Symbol): Unit = {
    symbol = sym
    if (sym != null) {
      val attributes = sym.attrMap()
      for (name <- sym.listArguments(); own <- attributes.get(name)) {
        own.get("__lr_mult__").foreach(multiplier => lrMult(Right(name)) = multiplier.toFloat)
        own.get("__wd_mult__").foreach(multiplier => wdMult(Right(name)) = multiplier.toFloat)
      }
    }
  }

  /** Sets the parameters' names; those that do not end with `_weight` or `_gamma` do not decay unless [[setWdMult]]
    * sets a multiplier.
    */
  def setIdx2Name(paramIdx2Name: Map[Int, String]): Unit = {
    idx2name = paramIdx2Name
    if (idx2name != null) {
      requireNonNull("Optimizer.setIdx2Name", "paramIdx2Name" -> idx2name)
      idx2name.values.filterNot(name => name.endsWith("_weight") || name.endsWith("_gamma")).foreach { name =>
        wdMult.getOrElseUpdate(Right(name), 0f)
      }
    }
  }

  /** Counts an update of a parameter. */
  protected def updateCount(index: Int): Unit = {
    val count = indexUpdateCount.getOrElse(index, 0) + 1
    indexUpdateCount(index) = count
    numUpdate = math.max(count, numUpdate)
  }

  /** The learning rate of a parameter, given the base rate. */
  protected def getLr(index: Int, lr: Float): Float = lr * multiplierOf(lrMult, index)

  /** The weight decay of a parameter, given the base value. */
  protected def getWd(index: Int, wd: Float): Float =
    if (wd == 0f || (specialized && !weightSet.contains(index))) 0f else wd * multiplierOf(wdMult, index)

  private def multiplierOf(multipliers: mutable.Map[Either[Int, String], Float], index: Int): Float =
    if (multipliers.isEmpty) 1f
    else
      multipliers.getOrElse(
        Left(index),
        if (idx2name == null) 1f else idx2name.get(index).flatMap(name => multipliers.get(Right(name))).getOrElse(1f)
      )

  /** Counts an update of a parameter and returns its learning rate, from the scheduler if there is one. */
  private[mxnet] def nextLr(index: Int, learningRate: Float, scheduler: LRScheduler): Float = {
    // Counted first, so that all parameters have the same rate in the same step.
    updateCount(index)
    getLr(index, if (scheduler == null) learningRate else scheduler(numUpdate))
  }

  /** Per-parameter settings and counters; see [[OptimizerContent]]. */
  private[mxnet] def parameterSettings: Map[String, Any] = Map(
    "lrMult" -> lrMult.map { case (parameter, mult) => parameter.merge -> mult },
    "wdMult" -> wdMult.map { case (parameter, mult) => parameter.merge -> mult },
    "weights" -> weightSet,
    "names" -> idx2name,
    "updates" -> indexUpdateCount
  )

  /** Restores the result of [[parameterSettings]]. */
  private[mxnet] def restoreParameterSettings(settings: Map[String, Any]): Unit = {
    def entries(setting: String): Iterable[(Any, Any)] = settings.get(setting) match {
      case Some(map: collection.Map[_, _]) => map
      case _                               => Nil
    }
    def multipliers(setting: String): Iterable[(Either[Int, String], Float)] = entries(setting).collect {
      case (index: Int, mult: Float)   => Left(index) -> mult
      case (name: String, mult: Float) => Right(name) -> mult
    }
    lrMult ++= multipliers("lrMult")
    wdMult ++= multipliers("wdMult")
    settings.get("weights").foreach {
      case weights: collection.Set[_] => weightSet ++= weights.collect { case index: Int => index }
      case _                          =>
    }
    if (settings.get("names").exists(_ != null))
      idx2name = entries("names").collect { case (index: Int, name: String) => index -> name }.toMap
    restoreUpdateCounts(entries("updates").collect { case (index: Int, count: Int) => index -> count }.toMap)
  }

  /** Update counts of all parameters, which learning rate schedules and bias corrections depend on. */
  private[mxnet] def updateCounts: Map[Int, Int] = indexUpdateCount.toMap

  private[mxnet] def restoreUpdateCounts(counts: Map[Int, Int]): Unit = {
    indexUpdateCount.clear()
    indexUpdateCount ++= counts
    numUpdate = counts.values.foldLeft(0)(math.max(_, _))
  }
}

/** Creates updaters from optimizers. */
object Optimizer {

  /** A function of (index, gradient, weight) that stores the optimizer's state of every index. */
  def getUpdater(optimizer: Optimizer): MXKVStoreUpdater = {
    requireNonNull("Optimizer.getUpdater", "optimizer" -> optimizer)
    new OptimizerUpdater(optimizer)
  }
}

/** Updates a stored value when a value is pushed. */
trait MXKVStoreUpdater extends NativeResource {

  /** Called with each pushed value.
    *
    * @param key the key
    * @param recv the value that was pushed
    * @param local the stored value, which is updated in place
    */
  def update(key: Int, recv: NDArray, local: NDArray): Unit

  // An updater owns no native memory itself. As a NativeResource it can be disposed by a ResourceScope, with its
  // states.
  override def nativeAddress: CPtrAddress = System.identityHashCode(this).toLong
  override def nativeDeAllocator: CPtrAddress => Int = _ => 0
  override val ref: NativeResourceRef = register()
  override val bytesAllocated: Long = 0L
}

/** An updater whose optimizer states can be saved and restored. */
trait MXKVStoreCachedStates {

  /** State of each parameter, by index. */
  protected val states: mutable.Map[Int, AnyRef] = mutable.HashMap.empty

  /** All states as bytes. */
  def serializeState(): Array[Byte]

  /** Replaces all states by serialized ones; see [[serializeState]]. */
  def deserializeState(bytes: Array[Byte]): Unit
}

/** Applies an optimizer, creating the state of a parameter at its first update. */
private[mxnet] class OptimizerUpdater(optimizer: Optimizer) extends MXKVStoreUpdater with MXKVStoreCachedStates {

  override def update(key: Int, recv: NDArray, local: NDArray): Unit =
    optimizer.update(key, local, recv, states.getOrElseUpdate(key, owned(optimizer.createState(key, local))))

  /** A state that lives as long as this updater, not as the scope of the first update. */
  private def owned(state: => AnyRef): AnyRef = ResourceScope.ownedIn(scope)(state)

  override private[mxnet] def companions: Iterator[NativeResource] =
    states.valuesIterator.flatMap(ResourceScope.resourcesIn)

  override private[mxnet] def dispose(removeFromScope: Boolean): Unit = {
    disposeStates()
    super.dispose(removeFromScope)
  }

  private def disposeStates(): Unit = {
    states.values.foreach(optimizer.disposeState)
    states.clear()
  }

  override def serializeState(): Array[Byte] = Blocks.bytesOf { out =>
    out.writeInt(OptimizerUpdater.Magic)
    out.writeInt(states.size)
    val counts = optimizer.updateCounts
    for ((key, state) <- states.toSeq.sortBy(_._1)) {
      out.writeInt(key)
      out.writeInt(counts.getOrElse(key, 0))
      val content = if (state == null) null else optimizer.serializeState(state)
      out.writeInt(if (content == null) -1 else content.length)
      if (content != null) out.write(content)
    }
  }

  override def deserializeState(bytes: Array[Byte]): Unit = {
    val in = new DataInputStream(new ByteArrayInputStream(bytes))
    val loaded = mutable.HashMap.empty[Int, AnyRef]
    val counts = mutable.HashMap.empty[Int, Int]
    try {
      val magic = in.readInt()
      if (magic != OptimizerUpdater.Magic) {
        throw new MXNetError(
          f"these are not optimizer states: they start with 0x$magic%08x instead of 0x${OptimizerUpdater.Magic}%08x; " +
            "give a file that saveOptimizerStates of this library wrote"
        )
      }
      for (_ <- 0 until in.readInt()) {
        val key = in.readInt()
        counts(key) = in.readInt()
        val length = in.readInt()
        if (length > in.available()) throw new EOFException()
        loaded(key) = if (length < 0) null else owned(optimizer.deserializeState(in.readNBytes(length)))
      }
    } catch {
      case _: EOFException =>
        throw new MXNetError(s"the optimizer states end too early, after ${bytes.length} bytes: the file is truncated")
    }
    disposeStates()
    states ++= loaded
    optimizer.restoreUpdateCounts(counts.toMap)
  }
}

private object OptimizerUpdater {

  /** First four bytes of serialized states: "FMOS". */
  val Magic = 0x464d4f53
}
