package org.apache.mxnet

import java.lang.ref.{PhantomReference, Reference, ReferenceQueue}
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

import scala.util.control.NonFatal

import org.apache.mxnet.Base.CPtrAddress

/** An object that owns memory outside the Java heap.
  *
  * The first of these frees it: [[dispose]] (or `close`), the end of the [[ResourceScope]] in which it was created, or
  * garbage collection. Disposing twice does nothing; using a disposed object is an [[MXNetError]].
  */
trait NativeResource extends AutoCloseable {

  /** The handle, whether or not it is still valid; see [[handleOf]]. */
  def nativeAddress: CPtrAddress

  /** Frees a handle of this kind and returns 0. It must not reference this object. */
  def nativeDeAllocator: CPtrAddress => Int

  /** The reference that frees the handle when this object is collected. */
  def ref: NativeResourceRef

  /** Bytes outside the Java heap that are freed with this object. */
  def bytesAllocated: Long

  /** The scope that disposes this object, or that has disposed it. */
  @volatile private[mxnet] var scope: Option[ResourceScope] = None

  /** The entry of this object in that scope. */
  @volatile private[mxnet] var scopeEntry: ResourceScope.Entry = _
  @volatile private var disposed: Boolean = false

  /** Whether [[dispose]] was called. */
  def isDisposed: Boolean = disposed

  /** Registers this object to be freed when it is collected; called once, by the constructor. */
  private[mxnet] def register(): NativeResourceRef = {
    ResourceScope.adopt(this)
    NativeResourceRef.register(this, nativeDeAllocator)
  }

  /** Resources that move between scopes together with this one. */
  private[mxnet] def companions: Iterator[NativeResource] = Iterator.empty

  override def close(): Unit = dispose()

  /** Frees the native resources of this object. */
  def dispose(): Unit = dispose(removeFromScope = true)

  private[mxnet] def dispose(removeFromScope: Boolean): Unit = {
    disposed = true
    if (removeFromScope) scope.foreach(_.remove(this))
    ref.free(nativeDeAllocator)
  }

  /** The handle for a native call, which must be followed by [[NativeResource.keepAlive]].
    *
    * @param kind name of the object in errors
    */
  protected[mxnet] final def handleOf(kind: String): CPtrAddress = {
    if (disposed) throw NativeResource.usedAfterDisposal(this, kind)
    nativeAddress
  }

  /** What an error says about this object after its kind, such as its shape. */
  private[mxnet] def detail: String = ""
}

private[mxnet] object NativeResource {

  /** Bytes outside the Java heap that arrays use now. */
  def totalBytesAllocated: AtomicLong = new AtomicLong(Base._LIB.memoryInUse())

  private def usedAfterDisposal(resource: NativeResource, kind: String): MXNetError = {
    val freedBy = resource.scope.filter(_.hasEnded)
    new MXNetError(freedBy match {
      case Some(scope) => s"$kind${resource.detail}: it was used after ${scope.describeEnd}"
      case None => s"$kind${resource.detail}: it was used after dispose(); keep it until the last use, or copy it"
    })
  }

  /** Keeps the object reachable up to this call. Otherwise the JVM could collect it, and so free its handle, while a
    * native call uses the handle.
    */
  @inline def keepAlive(resource: AnyRef): Unit = Reference.reachabilityFence(resource)
}

/** The phantom reference of a [[NativeResource]], which frees the handle once.
  *
  * @param resource the object to track
  * @param resourceDeAllocator frees a handle
  */
class NativeResourceRef private[mxnet] (
    resource: NativeResource,
    val resourceDeAllocator: CPtrAddress => Int
) extends PhantomReference[NativeResource](resource, NativeResourceRef.refQ) {
  private val address: CPtrAddress = resource.nativeAddress

  // Links of the list of tracked references, which keeps each reachable until it has freed its handle. The names differ
  // from those of `java.lang.ref.Reference`, so that programs can extend this class.
  private[mxnet] var previousLive: NativeResourceRef = _
  private[mxnet] var nextLive: NativeResourceRef = _
  private[mxnet] var live: Boolean = false

  /** Frees the handle if that has not happened yet. */
  private[mxnet] def free(deAllocator: CPtrAddress => Int = resourceDeAllocator): Unit =
    // A reference that nothing tracks is never enqueued, so it need not be cleared.
    if (NativeResourceRef.unlink(this)) deAllocator(address)
}

private[mxnet] object NativeResourceRef {
  private[mxnet] val refQ = new ReferenceQueue[NativeResource]
  private val lock = new Object
  private var first: NativeResourceRef = _

  /** Milliseconds without a collected resource after which the cleaner ends. A thread that never ends keeps the class
    * loader of the library alive.
    */
  private val cleanerPatience = 10000L

  private var runningCleaner: Thread = _

  /** Number of resources that were ever tracked. */
  private var registered = 0L

  /** Frees the handles of collected resources. It is started again with the next resource after it ended. */
  private[mxnet] def cleaner: Thread = lock.synchronized {
    if (runningCleaner == null) {
      runningCleaner = new Thread("mxnet-cleaner") {
        override def run(): Unit = cleanUntilIdle()
      }
      runningCleaner.setDaemon(true)
      runningCleaner.start()
    }
    runningCleaner
  }

  /** Tracks a resource until it is disposed or collected. */
  def register(resource: NativeResource, nativeDeAllocator: CPtrAddress => Int): NativeResourceRef = {
    val ref = new NativeResourceRef(resource, nativeDeAllocator)
    lock.synchronized {
      if (runningCleaner == null) cleaner
      registered += 1
      ref.live = true
      ref.nextLive = first
      if (first != null) first.previousLive = ref
      first = ref
    }
    ref
  }

  /** Stops tracking a resource without freeing its handle. */
  def deRegister(ref: NativeResourceRef): Unit = unlink(ref)

  /** Whether the handle was freed, or is not tracked any more. */
  def isDeAllocated(ref: NativeResourceRef): Boolean = lock.synchronized(!ref.live)

  /** A copy of the tracked references with their handles, for programs in this package. */
  private[mxnet] def refMap: ConcurrentHashMap[NativeResourceRef, CPtrAddress] = lock.synchronized {
    val live = new ConcurrentHashMap[NativeResourceRef, CPtrAddress]
    Iterator.iterate(first)(_.nextLive).takeWhile(_ != null).foreach(ref => live.put(ref, ref.address))
    live
  }

  /** Waits for one collected resource and frees its handle. */
  def cleanup(): Unit = free(refQ.remove())

  /** Frees the handles of the resources that were collected. The JVM reports them on its own thread, so this continues
    * until a millisecond passes without a report.
    */
  private[mxnet] def freeCollected(): Unit =
    Iterator.continually(nextCollected()).takeWhile(_ != null).foreach(free)

  /** A thread that was interrupted does not wait, and stays interrupted. */
  private def nextCollected(): Reference[_ <: NativeResource] =
    try refQ.remove(1)
    catch {
      case _: InterruptedException =>
        Thread.currentThread().interrupt()
        refQ.poll()
    }

  private def free(collected: Reference[_ <: NativeResource]): Unit = {
    val ref = collected.asInstanceOf[NativeResourceRef]
    try ref.free()
    catch {
      // There is no caller, and the next resource must still be freed.
      case NonFatal(e) => System.err.println(s"mxnet: a garbage-collected resource could not be freed: ${e.getMessage}")
    }
  }

  private[mxnet] def unlink(ref: NativeResourceRef): Boolean = lock.synchronized {
    val wasLive = ref.live
    if (wasLive) {
      ref.live = false
      if (ref.previousLive != null) ref.previousLive.nextLive = ref.nextLive else first = ref.nextLive
      if (ref.nextLive != null) ref.nextLive.previousLive = ref.previousLive
      ref.previousLive = null
      ref.nextLive = null
    }
    wasLive
  }

  private def cleanUntilIdle(): Unit =
    try {
      var ended = false
      while (!ended) {
        val known = lock.synchronized(registered)
        val collected = refQ.remove(cleanerPatience)
        if (collected != null) free(collected) else ended = endUnlessRegistered(known)
      }
    } catch { case _: InterruptedException => Thread.currentThread().interrupt() }
    finally lock.synchronized { if (runningCleaner eq Thread.currentThread()) runningCleaner = null }

  /** Ends the cleaner unless resources were added while it was running; true if it ends. */
  private def endUnlessRegistered(known: Long): Boolean = lock.synchronized {
    val isIdle = registered == known
    if (isIdle) runningCleaner = null
    isIdle
  }
}
