package org.apache.mxnet

import java.nio.file.{Files, Paths}

import scala.collection.mutable

import org.apache.mxnet.Base.{_LIB, CPtrAddress, KVStoreHandle}
import org.apache.mxnet.NativeResource.keepAlive
import org.apache.mxnet.internal.jni.KVStoreCallback
import org.apache.mxnet.internal.util.Given

/** Keeps one value for each key and adds up what several devices push to it.
  *
  * A push sums the values given for a key. The sum goes to the updater, which changes the stored value, or replaces the
  * stored value if there is no updater. A pull copies the stored value. Priorities change nothing.
  *
  * A distributed store, of type `dist_sync` or `dist_device_sync`, is shared by the ranks of a job: the one that the
  * environment describes, or a [[DistributedJob]]. What a rank pushes for a key are the gradients of its logical shards,
  * in order; the sum over all shards has the same bits for any number of ranks. It travels in the background while the
  * rank goes on, and is applied when the key is pulled: push all keys, then pull. All ranks make the same calls in the
  * same order. A rank that is lost or silent is an [[MXNetError]] that names it, within the job's time-out.
  *
  * @param handle the native store, which then belongs to this object
  */
class KVStore(private[mxnet] val handle: KVStoreHandle) extends NativeResource {
  override def nativeAddress: CPtrAddress = handle
  override def nativeDeAllocator: CPtrAddress => Int = KVStore.free
  override val ref: NativeResourceRef = register()

  /** 0: the store's values are not counted. */
  override val bytesAllocated: Long = 0L

  /** The number of each key, in the order of [[init]]: what updaters know it by. */
  private val indices = mutable.HashMap.empty[String, Int]
  private var updater: Option[MXKVStoreUpdater] = None

  private def native[R](call: KVStoreHandle => R): R = {
    val result = call(handleOf("KVStore"))
    keepAlive(this)
    result
  }

  /** Sets the first value of each key, which is copied. A key must not have one yet. A distributed store takes the
    * values of rank 0.
    */
  def init(keys: Array[String], values: Array[NDArray]): Unit = {
    Given("KVStore.init", "keys" -> keys, "values" -> values)
    requirePairs(keys, values)
    native(_LIB.kvstoreInit(_, keys, values.map(_.liveHandle)))
    keepAlive(values)
    keys.foreach(key => indices(key) = indices.size)
  }

  /** Sets the first value of a key. */
  def init(key: String, value: NDArray): Unit = init(Array(key), Array(value))

  /** Pushes values; those that share a key are added up. The priority changes nothing. */
  def push(keys: Array[String], values: Array[NDArray], priority: Int): Unit = {
    Given("KVStore.push", "keys" -> keys, "values" -> values)
    requirePairs(keys, values)
    native(_LIB.kvstorePush(_, keys, values.map(_.liveHandle)))
    keepAlive(values)
  }

  /** Pushes values; those that share a key are added up. */
  def push(keys: Array[String], values: Array[NDArray]): Unit = push(keys, values, 0)

  /** Pushes one value. */
  def push(key: String, value: NDArray, priority: Int = 0): Unit = push(Array(key), Array(value), priority)

  /** Pushes the sum of several values. */
  def push(key: String, values: Array[NDArray], priority: Int): Unit = {
    Given("KVStore.push", "key" -> key, "values" -> values)
    push(Array.fill(values.length)(key), values, priority)
  }

  /** Pushes the sum of several values. */
  def push(key: String, values: Array[NDArray]): Unit = push(key, values, 0)

  /** Copies stored values to `outs`, one for each key. The priority changes nothing. */
  def pull(keys: Array[String], outs: Array[NDArray], priority: Int): Unit = {
    Given("KVStore.pull", "keys" -> keys, "outs" -> outs)
    requirePairs(keys, outs)
    native(_LIB.kvstorePull(_, keys, outs.map(_.liveHandle)))
    keepAlive(outs)
  }

  /** Copies stored values to `outs`, one for each key. */
  def pull(keys: Array[String], outs: Array[NDArray]): Unit = pull(keys, outs, 0)

  /** Copies a stored value. */
  def pull(key: String, out: NDArray, priority: Int = 0): Unit = pull(Array(key), Array(out), priority)

  /** Copies a stored value to several arrays. */
  def pull(key: String, outs: Array[NDArray], priority: Int): Unit = {
    Given("KVStore.pull", "key" -> key, "outs" -> outs)
    pull(Array.fill(outs.length)(key), outs, priority)
  }

  /** Copies a stored value to several arrays. */
  def pull(key: String, outs: Array[NDArray]): Unit = pull(key, outs, 0)

  /** The type that it was created with. */
  def `type`: String = native(_LIB.kvstoreType)

  /** Number of processes that share the store. */
  def numWorkers: Int = native(_LIB.kvstoreNumWorkers)

  /** Number of this process among those that share the store. */
  def rank: Int = native(_LIB.kvstoreRank)

  /** Sets the compression of gradients, of stores of type `device` and of distributed ones.
    *
    * @param params `type` is `none` or `2bit`, which sends each element as threshold, -threshold or 0 and keeps the
    *   rest for the next push; `threshold` is 0.5 if not given
    */
  def setGradientCompression(params: Map[String, String]): Unit = {
    Given("KVStore.setGradientCompression", "params" -> params)
    val (keys, values) = params.toArray.unzip
    native(_LIB.kvstoreCompress(_, keys, values))
  }

  /** Lets pushed gradients change the stored weights by an optimizer; a key's index is its position in the
    * order of [[init]].
    */
  def setOptimizer(optimizer: Optimizer): Unit = setUpdater(Optimizer.getUpdater(optimizer))

  /** Lets a function change the stored value when a value is pushed. */
  def setUpdater(updater: MXKVStoreUpdater): Unit = {
    require(updater != null, "the updater is null; create a new store to have none")
    native(_LIB.kvstoreSetUpdater(_, new KVStore.Callback(updater, indices)))
    this.updater = Some(updater)
  }

  /** Waits for all processes that share the store. */
  def barrier(): Unit = native(_LIB.kvstoreBarrier)

  /** Number of workers that died or have ended, if `nodeId` contains GROUP_NODE_WORKER; there are no other processes to
    * count.
    */
  def numDeadNode(nodeId: Int): Int = {
    require(
      nodeId >= 0 && nodeId <= 7,
      s"nodeId is $nodeId; it is a sum of GROUP_NODE_SCHEDULER, GROUP_NODE_SERVER, GROUP_NODE_WORKER"
    )
    native(_LIB.kvstoreNumDead(_, nodeId))
  }

  /** Sets whether disposing of the store waits for the other processes. By default it does not: a process that ends says
    * so to the others.
    */
  def setBarrierBeforeExit(barrierBeforeExit: Boolean): Unit = native(_LIB.kvstoreWaitAtEnd(_, barrierBeforeExit))

  /** Does the work of a server or scheduler. */
  private[mxnet] def serve(): Unit = native(_LIB.kvstoreServe)

  /** Writes the states of the optimizer to a file. */
  def saveOptimizerStates(fname: String): Unit = {
    Given("KVStore.saveOptimizerStates", "fname" -> fname)
    Files.write(Paths.get(fname), cachedStates.serializeState())
    ()
  }

  /** Reads the states of the optimizer from a file that [[saveOptimizerStates]] wrote. */
  def loadOptimizerStates(fname: String): Unit = {
    Given("KVStore.loadOptimizerStates", "fname" -> fname)
    cachedStates.deserializeState(Files.readAllBytes(Paths.get(fname)))
  }

  /** Frees the stored values and the updater; the store must not be used afterwards. */
  override private[mxnet] def dispose(removeFromScope: Boolean): Unit = {
    super.dispose(removeFromScope)
    updater.foreach(_.dispose())
    updater = None
  }

  private[mxnet] def cachedStates: MXKVStoreCachedStates = updater match {
    case Some(states: MXKVStoreCachedStates) => states
    case _                                   =>
      throw new IllegalArgumentException(
        "the KVStore has no optimizer whose states could be saved or loaded; call setOptimizer first"
      )
  }

  private def requirePairs(keys: Array[String], values: Array[NDArray]): Unit =
    require(
      keys.length == values.length,
      s"${keys.length} keys but ${values.length} arrays; give one array for each key"
    )
}

/** Creates stores. */
object KVStore {

  /** Group of the process that schedules others. */
  val GROUP_NODE_SCHEDULER: Int = 1

  /** Group of the processes that hold values. */
  val GROUP_NODE_SERVER: Int = 2

  /** Group of the processes that compute. */
  val GROUP_NODE_WORKER: Int = 4

  /** Makes a store.
    *
    * @param name `local`, `local_update_cpu`, `local_allreduce_cpu`, `local_allreduce_device` or `device`, which keep
    *   the values of the devices of this process, or `dist_sync` or `dist_device_sync`, which join the job that the
    *   environment variables `DMLC_NUM_WORKER`, `DMLC_PS_ROOT_URI`, `DMLC_PS_ROOT_PORT` and `DMLC_WORKER_ID` describe
    * @throws MXNetError for another type, a missing variable, or workers that do not come in time
    */
  def create(name: String = "local"): KVStore = new KVStore(_LIB.kvstoreCreate(name))

  private val free: CPtrAddress => Int = handle => { _LIB.kvstoreFree(handle); 0 }

  private final class Callback(updater: MXKVStoreUpdater, indices: collection.Map[String, Int])
      extends KVStoreCallback {
    override def update(key: String, pushed: Long, stored: Long): Unit = {
      val sum = NDArray.fromHandle(pushed)
      try updater.update(indices(key), sum, NDArray.fromHandle(stored))
      finally sum.dispose()
    }
  }
}
