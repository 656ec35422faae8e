package org.apache.mxnet
package internal.memory

import java.lang.management.ManagementFactory
import java.lang.ref.{Reference, ReferenceQueue, WeakReference}
import javax.management.ObjectName
import javax.management.openmbean.CompositeData

import scala.util.Try

/** Runs the garbage collector when unreachable arrays may occupy much memory.
  *
  * To the JVM an array is a small object, so memory outside the heap may run out before the collector runs. It is run
  * when this memory has doubled since the last collection and exceeds the system property `mxnet.gc.threshold` in bytes
  * (256 MiB by default; 0 disables it), even with `-XX:+DisableExplicitGC`.
  */
private[mxnet] object MemoryPressure {
  private val threshold: Long = java.lang.Long.getLong("mxnet.gc.threshold", 256L << 20).longValue

  /** Milliseconds to wait until the JVM enqueues references after a collection. */
  private val maxWait = 1000L

  /** Number of new arrays between two checks. */
  private val interval = 8

  // Concurrent updates may be lost, which only delays the next check.
  private var created = 0
  @volatile private var limit: Long = threshold

  /** Called for every new array. */
  def arrayCreated(): Unit = {
    created += 1
    if (created >= interval && threshold > 0) {
      created = 0
      check()
    }
  }

  /** Called for every new executor, which may hold many arrays of the engine. */
  def executorCreated(): Unit = if (threshold > 0) check()

  private def check(): Unit = {
    val inUse = Base._LIB.memoryInUse()
    if (inUse > limit) {
      limit = Long.MaxValue
      // The JVM enqueues the sentinel together with the references to the arrays that it collects.
      val queue = new ReferenceQueue[AnyRef]
      val sentinel = new WeakReference[AnyRef](new Object, queue)
      collect()
      try queue.remove(maxWait)
      catch { case _: InterruptedException => Thread.currentThread().interrupt() }
      Reference.reachabilityFence(sentinel)
      NativeResourceRef.freeCollected()
      limit = math.max(threshold, 2 * Base._LIB.memoryInUse())
    } else if (limit > threshold && 4 * inUse < limit) limit = math.max(threshold, 2 * inUse)
  }

  /** Invokes an operation with one parameter of a platform MBean. */
  private def call(bean: String, operation: String, argument: AnyRef): Try[AnyRef] = Try {
    ManagementFactory.getPlatformMBeanServer.invoke(
      new ObjectName(s"com.sun.management:type=$bean"),
      operation,
      Array(argument),
      Array(argument.getClass.getName)
    )
  }

  private lazy val isExplicitGcDisabled: Boolean =
    call("HotSpotDiagnostic", "getVMOption", "DisableExplicitGC").toOption.exists {
      case option: CompositeData => option.get("value") == "true"
      case _                     => false
    }

  /** Runs the garbage collector. A class histogram of live objects runs it even with `-XX:+DisableExplicitGC`. */
  private def collect(): Unit = {
    val isCollected =
      isExplicitGcDisabled && call("DiagnosticCommand", "gcClassHistogram", Array.empty[String]).isSuccess
    if (!isCollected) System.gc()
  }
}
