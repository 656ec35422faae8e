package org.apache.mxnet

import java.lang.ref.{PhantomReference, Reference, ReferenceQueue}
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

import scala.util.control.NonFatal

import org.apache.mxnet.Base.CPtrAddress

/** An object that owns memory outside the Java heap.
  *
  * It is freed by the first of: [[dispose]] (or `close`), the end of the [[ResourceScope]] it was created in, or the
  * garbage collector. Disposing twice does nothing; using it afterwards is an [[MXNetError]].
  */
trait NativeResource extends AutoCloseable {

  /** The handle, whether or not it is still valid; see [[handleOf]]. */
  def nativeAddress: CPtrAddress

  /** Frees a handle of this kind and returns 0. It must not hold on to this object. */
  def nativeDeAllocator: CPtrAddress => Int

  /** What frees the handle when this object is gone. */
  def ref: NativeResourceRef

  /** Bytes outside the Java heap that go when this object goes. */
  def bytesAllocated: Long

  /** The scope that frees this object. */
  @volatile private[mxnet] var scope: Option[ResourceScope] = None
  @volatile private var disposed: Boolean = false

  /** Whether [[dispose]] was called. */
  def isDisposed: Boolean = disposed

  /** Registers this object for clean-up; to be called once, by the constructor. */
  private[mxnet] def register(): NativeResourceRef = {
    ResourceScope.adopt(this)
    NativeResourceRef.register(this, nativeDeAllocator)
  }

  /** Resources that live and move between scopes together with this one. */
  private[mxnet] def companions: Iterator[NativeResource] = Iterator.empty

  override def close(): Unit = dispose()

  /** Frees what this object owns. */
  def dispose(): Unit = dispose(removeFromScope = true)

  private[mxnet] def dispose(removeFromScope: Boolean): Unit = {
    disposed = true
    if (removeFromScope) scope.foreach(_.remove(this))
    ref.free(nativeDeAllocator)
  }

  /** The handle for a native call, which must be followed by [[NativeResource.keepAlive]].
    *
    * @param kind what to call this object in an error
    */
  protected[mxnet] final def handleOf(kind: String): CPtrAddress = {
    if (disposed)
      throw new MXNetError(s"$kind: it was used after dispose(); keep it until the last use, or copy what is needed")
    nativeAddress
  }
}

private[mxnet] object NativeResource {

  /** Bytes outside the Java heap that live arrays hold now. */
  def totalBytesAllocated: AtomicLong = new AtomicLong(Base._LIB.memoryInUse())

  /** Tells the JVM that the object is in use up to here: without it an object whose handle was read could be collected,
    * and its handle freed, while the native call that uses the handle still runs.
    */
  @inline def keepAlive(resource: AnyRef): Unit = Reference.reachabilityFence(resource)
}

/** The phantom of a [[NativeResource]]: it knows the handle, and frees it once.
  *
  * @param resource the object to follow
  * @param resourceDeAllocator frees a handle
  */
class NativeResourceRef private[mxnet] (
    resource: NativeResource,
    val resourceDeAllocator: CPtrAddress => Int
) extends PhantomReference[NativeResource](resource, NativeResourceRef.refQ) {
  private val address: CPtrAddress = resource.nativeAddress

  // Neighbours in the list of live references; the list keeps a reference reachable until it has done its work. The
  // names differ from those of `java.lang.ref.Reference`, so that programs can extend this class.
  private[mxnet] var previousLive: NativeResourceRef = _
  private[mxnet] var nextLive: NativeResourceRef = _
  private[mxnet] var live: Boolean = false

  /** Frees the handle unless that was done before. */
  private[mxnet] def free(deAllocator: CPtrAddress => Int = resourceDeAllocator): Unit =
    if (NativeResourceRef.unlink(this)) {
      clear()
      deAllocator(address)
    }
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

  /** How many resources were ever followed. */
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

  /** Follows a resource until it is disposed or collected. */
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

  /** Stops following a resource without freeing its handle. */
  def deRegister(ref: NativeResourceRef): Unit = unlink(ref)

  /** Whether the handle was freed, or is not followed any more. */
  def isDeAllocated(ref: NativeResourceRef): Boolean = lock.synchronized(!ref.live)

  /** The references that are followed now, with their handles: a copy, for programs in this package. */
  private[mxnet] def refMap: ConcurrentHashMap[NativeResourceRef, CPtrAddress] = lock.synchronized {
    val live = new ConcurrentHashMap[NativeResourceRef, CPtrAddress]
    Iterator.iterate(first)(_.nextLive).takeWhile(_ != null).foreach(ref => live.put(ref, ref.address))
    live
  }

  /** Waits for one collected resource and frees its handle. */
  def cleanup(): Unit = free(refQ.remove())

  /** Frees the handles of the resources that were collected by now. The JVM reports them on a thread of its own, so this
    * goes on until a millisecond passes without a report.
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
      // Nobody is there to catch it, and the next resource must still be freed.
      case NonFatal(e) => System.err.println(s"mxnet: a collected object could not be freed: ${e.getMessage}")
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

  /** Ends the cleaner unless there are new resources, which have found it running; true if it ends. */
  private def endUnlessRegistered(known: Long): Boolean = lock.synchronized {
    val isIdle = registered == known
    if (isIdle) runningCleaner = null
    isIdle
  }
}
