package org.apache.mxnet

import java.time.Duration

import org.apache.mxnet.Base.{_LIB, CPtrAddress}
import org.apache.mxnet.NativeResource.keepAlive
import org.apache.mxnet.internal.util.NullChecks.requireNonNull

/** The membership of a process, or of one of its threads, in a group that trains one model.
  *
  * Each member opens a listener by [[DistributedJob.listen]], sends its address to the others, and calls [[join]] with
  * its rank and all addresses. The stores of the job then sum gradients over all ranks. A job may be used from any
  * thread, but all ranks must call their stores in the same order.
  *
  * @param handle the native membership, which this object owns
  */
final class DistributedJob private (handle: CPtrAddress) extends NativeResource {
  override def nativeAddress: CPtrAddress = handle
  override def nativeDeAllocator: CPtrAddress => Int = DistributedJob.free
  override val ref: NativeResourceRef = register()

  /** 0: buffers of messages are not counted. */
  override val bytesAllocated: Long = 0L

  private def native[R](call: CPtrAddress => R): R = {
    val result = call(handleOf("DistributedJob"))
    keepAlive(this)
    result
  }

  /** The port at which this member listens. */
  def port: Int = native(_LIB.jobPort)

  /** Connects to all other ranks and waits for them.
    *
    * @param rank number of this member, from 0
    * @param peers `host:port` of every rank, this one included, in order of ranks
    * @param secret 16 or more random bytes, equal on all ranks; a new secret for each attempt excludes members of
    *   earlier ones
    * @param timeout the maximum time to wait for other ranks, in this call and in each later operation
    * @throws MXNetError if a rank cannot be reached or does not connect in time; the message names it
    */
  def join(rank: Int, peers: Seq[String], secret: Array[Byte], timeout: Duration = Duration.ofMinutes(5)): Unit = {
    requireNonNull("DistributedJob.join", "peers" -> peers, "secret" -> secret, "timeout" -> timeout)
    native(_LIB.jobJoin(_, rank, peers.toArray, secret, timeout.toMillis))
  }

  /** The number of this member. */
  def rank: Int = native(_LIB.jobRank)

  /** Number of ranks. */
  def size: Int = native(_LIB.jobSize)

  /** Waits for all ranks. */
  def barrier(): Unit = native(_LIB.jobBarrier)

  /** Creates a store that all ranks share. All ranks create their stores in the same order.
    *
    * @param kind `dist_sync` or `dist_device_sync`
    */
  def createStore(kind: String = "dist_sync"): KVStore = {
    requireNonNull("DistributedJob.createStore", "kind" -> kind)
    new KVStore(native(_LIB.jobStore(_, kind)))
  }

  /** Leaves the job. Threads that wait get an [[MXNetError]], and the stores of the job can no longer be used. Closing
    * twice does nothing.
    */
  override private[mxnet] def dispose(removeFromScope: Boolean): Unit = {
    if (!isDisposed) native(_LIB.jobClose)
    super.dispose(removeFromScope)
  }
}

object DistributedJob {

  /** Opens a listener.
    *
    * @param host the local address to listen on
    * @param port the port; 0 takes a free one
    */
  def listen(host: String = "0.0.0.0", port: Int = 0): DistributedJob = {
    requireNonNull("DistributedJob.listen", "host" -> host)
    new DistributedJob(_LIB.jobListen(host, port))
  }

  private val free: CPtrAddress => Int = handle => { _LIB.jobFree(handle); 0 }
}
