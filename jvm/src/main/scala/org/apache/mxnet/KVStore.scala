package org.apache.mxnet

import java.nio.file.{Files, Paths}

import scala.collection.mutable

import org.apache.mxnet.Base.{_LIB, CPtrAddress, KVStoreHandle}
import org.apache.mxnet.NativeResource.keepAlive
import org.apache.mxnet.internal.jni.KVStoreCallback
import org.apache.mxnet.internal.util.AtomicFile
import org.apache.mxnet.internal.util.NullChecks.requireNonNull

/** Stores one array per key and sums what several devices push to it.
  *
  * A push sums the values given for a key. The updater updates the stored value with the sum; without an updater, the
  * sum replaces the stored value. A pull copies the stored value. Priorities are ignored.
  *
  * A distributed store, of type `dist_sync` or `dist_device_sync`, is shared by the ranks of a job: that of the
  * environment, or a [[DistributedJob]]. A rank pushes the gradients of its shards, in order; the sum over all shards
  * has the same bits for any number of ranks. It is computed in the background and applied when the key is pulled, so
  * push all keys before pulling. All ranks must make the same calls in the same order. If a rank is lost or does not
  * answer within the job's time-out, the call fails with an [[MXNetError]] that names the rank.
  *
  * @param handle the native store, which this object owns
  */
class KVStore(private[mxnet] val handle: KVStoreHandle) extends NativeResource {
  override def nativeAddress: CPtrAddress = handle
  override def nativeDeAllocator: CPtrAddress => Int = KVStore.free
  override val ref: NativeResourceRef = register()

  /** 0, because the store's values are not counted. */
  override val bytesAllocated: Long = 0L

  /** The index of each key for updaters, in the order of [[init]]. */
  private val indices = mutable.HashMap.empty[String, Int]
  private var updater: Option[MXKVStoreUpdater] = None

  private def native[R](call: KVStoreHandle => R): R = {
    val result = call(handleOf("KVStore"))
    keepAlive(this)
    result
  }

  /** Initializes new keys with copies of the values. A distributed store uses the values of rank 0.
    *
    * @throws MXNetError if a key is initialized already
    */
  def init(keys: Array[String], values: Array[NDArray]): Unit = {
    requireNonNull("KVStore.init", "keys" -> keys, "values" -> values)
    requirePairs(keys, values)
    native(_LIB.kvstoreInit(_, keys, values.map(_.liveHandle)))
    keepAlive(values)
    keys.foreach(key => indices(key) = indices.size)
  }

  /** Initializes a new key with a copy of the value. */
  def init(key: String, value: NDArray): Unit = init(Array(key), Array(value))

  /** Pushes values; those of one key are summed. The priority is ignored.
    *
    * @throws MXNetError if a key is not initialized
    */
  def push(keys: Array[String], values: Array[NDArray], priority: Int): Unit = {
    requireNonNull("KVStore.push", "keys" -> keys, "values" -> values)
    requirePairs(keys, values)
    native(_LIB.kvstorePush(_, keys, values.map(_.liveHandle)))
    keepAlive(values)
  }

  /** Pushes values; those of one key are summed. */
  def push(keys: Array[String], values: Array[NDArray]): Unit = push(keys, values, 0)

  /** Pushes one value. */
  def push(key: String, value: NDArray, priority: Int = 0): Unit = push(Array(key), Array(value), priority)

  /** Pushes the sum of several values. */
  def push(key: String, values: Array[NDArray], priority: Int): Unit = {
    requireNonNull("KVStore.push", "key" -> key, "values" -> values)
    push(Array.fill(values.length)(key), values, priority)
  }

  /** Pushes the sum of several values. */
  def push(key: String, values: Array[NDArray]): Unit = push(key, values, 0)

  /** Copies stored values to `outs`, one for each key. The priority is ignored.
    *
    * @throws MXNetError if a key is not initialized, or an array has another shape than the stored value
    */
  def pull(keys: Array[String], outs: Array[NDArray], priority: Int): Unit = {
    requireNonNull("KVStore.pull", "keys" -> keys, "outs" -> outs)
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
    requireNonNull("KVStore.pull", "key" -> key, "outs" -> outs)
    pull(Array.fill(outs.length)(key), outs, priority)
  }

  /** Copies a stored value to several arrays. */
  def pull(key: String, outs: Array[NDArray]): Unit = pull(key, outs, 0)

  /** The type of the store, as given to [[KVStore.create]]. */
  def `type`: String = native(_LIB.kvstoreType)

  private[mxnet] lazy val isDistributed: Boolean = `type`.startsWith("dist")

  /** Number of processes that share the store. */
  def numWorkers: Int = native(_LIB.kvstoreNumWorkers)

  /** The rank of this process among those that share the store. */
  def rank: Int = native(_LIB.kvstoreRank)

  /** Sets gradient compression, for stores of type `device` and distributed ones.
    *
    * @param params `type` is `none` or `2bit`, which quantizes each element to threshold, -threshold or 0 and adds the
    *   error to the next push; the default of `threshold` is 0.5
    */
  def setGradientCompression(params: Map[String, String]): Unit = {
    requireNonNull("KVStore.setGradientCompression", "params" -> params)
    val (keys, values) = params.toArray.unzip
    native(_LIB.kvstoreCompress(_, keys, values))
  }

  /** Sets the optimizer that updates stored weights with pushed gradients. The index of a key is its position in the
    * order of [[init]].
    */
  def setOptimizer(optimizer: Optimizer): Unit =
    setUpdater(ResourceScope.ownedIn(scope)(Optimizer.getUpdater(optimizer)))

  /** Sets the function that updates a stored value when a value is pushed. */
  def setUpdater(updater: MXKVStoreUpdater): Unit = {
    require(updater != null, "the updater is null; to remove an updater, create a new store")
    native(_LIB.kvstoreSetUpdater(_, new KVStore.Callback(updater, indices)))
    this.updater = Some(updater)
  }

  /** Waits for all processes that share the store. */
  def barrier(): Unit = native(_LIB.kvstoreBarrier)

  /** Number of workers that are lost or have ended, if `nodeId` contains GROUP_NODE_WORKER; there are no servers or
    * schedulers to count.
    */
  def numDeadNode(nodeId: Int): Int = {
    require(
      nodeId >= 0 && nodeId <= 7,
      s"nodeId is $nodeId; it is a sum of GROUP_NODE_SCHEDULER, GROUP_NODE_SERVER, GROUP_NODE_WORKER"
    )
    native(_LIB.kvstoreNumDead(_, nodeId))
  }

  /** Sets whether disposing the store waits for the other processes. By default it does not, because a process notifies
    * the others when it ends.
    */
  def setBarrierBeforeExit(barrierBeforeExit: Boolean): Unit = native(_LIB.kvstoreWaitAtEnd(_, barrierBeforeExit))

  /** Runs as a server or scheduler. */
  private[mxnet] def serve(): Unit = native(_LIB.kvstoreServe)

  /** Writes the states of the optimizer to a file. */
  def saveOptimizerStates(fname: String): Unit = {
    requireNonNull("KVStore.saveOptimizerStates", "fname" -> fname)
    val states = cachedStates.serializeState()
    AtomicFile.write(fname)(_.write(states))
  }

  /** Reads the states of the optimizer from a file that [[saveOptimizerStates]] wrote. */
  def loadOptimizerStates(fname: String): Unit = {
    requireNonNull("KVStore.loadOptimizerStates", "fname" -> fname)
    Model.requireFile(fname)
    cachedStates.deserializeState(Files.readAllBytes(Paths.get(fname)))
  }

  /** Frees the stored values and the updater. */
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

  /** Group of the scheduler. */
  val GROUP_NODE_SCHEDULER: Int = 1

  /** Group of the servers. */
  val GROUP_NODE_SERVER: Int = 2

  /** Group of the workers. */
  val GROUP_NODE_WORKER: Int = 4

  /** Creates a store.
    *
    * @param name `local`, `local_update_cpu`, `local_allreduce_cpu`, `local_allreduce_device` or `device`, for the
    *   devices of this process, or `dist_sync` or `dist_device_sync`, for the job that the environment variables
    *   `DMLC_NUM_WORKER`, `DMLC_PS_ROOT_URI`, `DMLC_PS_ROOT_PORT` and `DMLC_WORKER_ID`
    *   describe. Other names without `dist` are the same as `local`, as in MXNet
    * @throws MXNetError for another distributed type, a missing variable, or workers that do not connect in time
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
