package org.apache.mxnet

import java.nio.file.{Files, Paths}

import scala.collection.mutable

/** Keeps one value for each key and adds up what several devices push to it.
  *
  * A push sums the values given for a key. The sum goes to the updater, which changes the stored value, or replaces the
  * stored value if
  * there is no updater. A pull copies the stored value. Operations are done when the call returns, so priorities change
  * nothing.
  *
  * @param kind the type that it was created with
  */
class KVStore private (kind: String) extends AutoCloseable {
  private val stored = mutable.LinkedHashMap.empty[String, NDArray]
  private val indices = mutable.HashMap.empty[String, Int]
  private var updater: Option[MXKVStoreUpdater] = None

  /** Sets the first value of each key, which is copied. A key must not have one yet. */
  def init(keys: Array[String], values: Array[NDArray]): Unit = {
    requirePairs(keys, values)
    keys.indices.foreach { i =>
      val key = keys(i)
      require(
        !stored.contains(key),
        s"key $key of the KVStore has been initialized before; push to it to change its value"
      )
      stored(key) = values(i).copy()
      indices(key) = indices.size
    }
  }

  /** Sets the first value of a key. */
  def init(key: String, value: NDArray): Unit = init(Array(key), Array(value))

  /** Pushes values; those that share a key are added up. The priority changes nothing. */
  def push(keys: Array[String], values: Array[NDArray], priority: Int): Unit = {
    requirePairs(keys, values)
    val byKey = mutable.LinkedHashMap.empty[String, mutable.ArrayBuffer[NDArray]]
    keys.indices.foreach(i => byKey.getOrElseUpdate(keys(i), mutable.ArrayBuffer.empty) += values(i))
    byKey.foreachEntry((key, group) => pushOne(key, group))
  }

  /** Pushes values; those that share a key are added up. */
  def push(keys: Array[String], values: Array[NDArray]): Unit = push(keys, values, 0)

  /** Pushes one value. */
  def push(key: String, value: NDArray, priority: Int = 0): Unit = push(Array(key), Array(value), priority)

  /** Pushes the sum of several values. */
  def push(key: String, values: Array[NDArray], priority: Int): Unit =
    push(Array.fill(values.length)(key), values, priority)

  /** Pushes the sum of several values. */
  def push(key: String, values: Array[NDArray]): Unit = push(key, values, 0)

  /** Copies stored values to `outs`, one for each key. The priority changes nothing. */
  def pull(keys: Array[String], outs: Array[NDArray], priority: Int): Unit = {
    requirePairs(keys, outs)
    keys.indices.foreach(i => valueOf(keys(i)).copyTo(outs(i)))
  }

  /** Copies stored values to `outs`, one for each key. */
  def pull(keys: Array[String], outs: Array[NDArray]): Unit = pull(keys, outs, 0)

  /** Copies a stored value. */
  def pull(key: String, out: NDArray, priority: Int = 0): Unit = pull(Array(key), Array(out), priority)

  /** Copies a stored value to several arrays. */
  def pull(key: String, outs: Array[NDArray], priority: Int): Unit = pull(Array.fill(outs.length)(key), outs, priority)

  /** Copies a stored value to several arrays. */
  def pull(key: String, outs: Array[NDArray]): Unit = pull(key, outs, 0)

  /** The type that it was created with. */
  def `type`: String = kind

  /** Number of processes that share the store: 1. */
  def numWorkers: Int = 1

  /** Number of this process among those that share the store: 0. */
  def rank: Int = 0

  /** Lets pushed gradients change the stored weights by an optimizer; a key's index is its place in the order of
    * [[init]].
    */
  def setOptimizer(optimizer: Optimizer): Unit = setUpdater(Optimizer.getUpdater(optimizer))

  /** Lets a function change the stored value when a value is pushed. */
  def setUpdater(updater: MXKVStoreUpdater): Unit = this.updater = Option(updater)

  /** Waits for all processes that share the store: there is one, so it returns at once. */
  def barrier(): Unit = ()

  /** Number of processes that died: 0, since a local store has this process alone. */
  def numDeadNode(nodeId: Int): Int = {
    require(
      nodeId >= 0 && nodeId <= 7,
      s"nodeId is $nodeId; it is a sum of GROUP_NODE_SCHEDULER, GROUP_NODE_SERVER, GROUP_NODE_WORKER"
    )
    0
  }

  /** Whether processes wait for each other at the end; a local store has nobody to wait for. */
  def setBarrierBeforeExit(barrierBeforeExit: Boolean): Unit = ()

  /** Writes the states of the optimizer to a file. */
  def saveOptimizerStates(fname: String): Unit = {
    Files.write(Paths.get(fname), cachedStates.serializeState())
    ()
  }

  /** Reads the states of the optimizer from a file that [[saveOptimizerStates]] wrote. */
  def loadOptimizerStates(fname: String): Unit = cachedStates.deserializeState(Files.readAllBytes(Paths.get(fname)))

  /** Frees the stored values and the updater; the store must not be used afterwards. */
  def dispose(): Unit = {
    stored.values.foreach(_.dispose())
    stored.clear()
    updater.foreach(_.dispose())
    updater = None
  }

  override def close(): Unit = dispose()

  private def cachedStates: MXKVStoreCachedStates = updater match {
    case Some(states: MXKVStoreCachedStates) => states
    case _                                   =>
      throw new IllegalArgumentException(
        "the KVStore has no optimizer whose states could be saved or loaded; call setOptimizer first"
      )
  }

  private def valueOf(key: String): NDArray =
    stored.getOrElse(key, throw new IllegalArgumentException(s"the KVStore has no key $key; call init for it first"))

  private def requirePairs(keys: Array[String], values: Array[NDArray]): Unit =
    require(
      keys.length == values.length,
      s"${keys.length} keys but ${values.length} arrays; give one array for each key"
    )

  private def pushOne(key: String, values: collection.IndexedSeq[NDArray]): Unit = {
    val target = valueOf(key)
    values.foreach { value =>
      require(
        value.shape == target.shape,
        s"key $key holds the shape ${target.shape} but ${value.shape} is pushed to it"
      )
    }
    val merged = values.head.copyTo(target.context)
    values.drop(1).foreach { value =>
      if (value.context == target.context) merged += value
      else {
        val here = value.copyTo(target.context)
        merged += here
        here.dispose()
      }
    }
    updater match {
      case Some(function) => function.update(indices(key), merged, target)
      case None           => merged.copyTo(target)
    }
    merged.dispose()
  }
}

/** Creates stores. */
object KVStore {

  /** Group of the process that schedules others. */
  val GROUP_NODE_SCHEDULER: Int = 1

  /** Group of the processes that hold values. */
  val GROUP_NODE_SERVER: Int = 2

  /** Group of the processes that compute. */
  val GROUP_NODE_WORKER: Int = 4

  private[mxnet] val LocalTypes =
    Seq("local", "local_update_cpu", "local_allreduce_cpu", "local_allreduce_device", "device")

  /** Makes a store.
    *
    * @param name `local`, `local_update_cpu`, `local_allreduce_cpu`, `local_allreduce_device` or `device`; all of them
    *   keep the values of
    *   the devices of this process
    * @throws IllegalArgumentException for another type
    */
  def create(name: String = "local"): KVStore = {
    require(
      LocalTypes.contains(name),
      s"KVStore type $name is not supported; this version has ${LocalTypes.mkString(", ")}, " +
        "which all work within one process"
    )
    new KVStore(name)
  }
}
