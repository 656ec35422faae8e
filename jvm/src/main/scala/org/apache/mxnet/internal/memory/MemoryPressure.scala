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

  /** Milliseconds to wait for the JVM's reports of a collection. */
  private val maxWait = 1000L

  /** Number of new arrays between two checks. */
  private val interval = 8

  // Concurrent updates may be lost, which only delays the next check.
  private var created = 0
  @volatile private var ceiling: Long = threshold

  /** Called for every new array. */
  def arrayCreated(): Unit = {
    created += 1
    if (created >= interval && threshold > 0) {
      created = 0
      look()
    }
  }

  private def look(): Unit = {
    val inUse = Base._LIB.memoryInUse()
    if (inUse > ceiling) {
      ceiling = Long.MaxValue
      // A reference that the JVM enqueues when it reports the objects of this collection.
      val reports = new ReferenceQueue[AnyRef]
      val mark = new WeakReference[AnyRef](new Object, reports)
      collect()
      try reports.remove(maxWait)
      catch { case _: InterruptedException => Thread.currentThread().interrupt() }
      Reference.reachabilityFence(mark)
      NativeResourceRef.freeCollected()
      ceiling = math.max(threshold, 2 * Base._LIB.memoryInUse())
    } else if (ceiling > threshold && 4 * inUse < ceiling) ceiling = math.max(threshold, 2 * inUse)
  }

  /** Calls an operation of one of the JVM's own beans that takes one argument. */
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

  /** A histogram of live objects runs a collection, which the option does not disable. */
  private def collect(): Unit = {
    val isCollected =
      isExplicitGcDisabled && call("DiagnosticCommand", "gcClassHistogram", Array.empty[String]).isSuccess
    if (!isCollected) System.gc()
  }
}
