package org.apache.mxnet
package internal.memory

import java.lang.management.ManagementFactory
import java.lang.ref.{Reference, ReferenceQueue, WeakReference}
import javax.management.ObjectName
import javax.management.openmbean.CompositeData

import scala.util.Try

/** Runs the garbage collector when arrays that nobody uses any more may hold much memory.
  *
  * To the JVM an array is a small object, so the collector, left alone, may wait until the memory outside the heap is
  * used up. It is run when that memory has grown to twice what was in use before, and to more than the system property
  * `mxnet.gc.threshold` says, in bytes (256 MiB by default; 0 turns this off). `-XX:+DisableExplicitGC` does not keep
  * it from running.
  */
private[mxnet] object MemoryPressure {
  private val threshold: Long = java.lang.Long.getLong("mxnet.gc.threshold", 256L << 20).longValue

  /** Milliseconds to wait for the JVM's reports of a collection. */
  private val maxWait = 1000L

  /** How many arrays are created from one look to the next. */
  private val interval = 8

  // Updates that race are lost, which only shifts the next look.
  private var created = 0
  @volatile private var ceiling: Long = threshold

  /** To be called for every new array. */
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
      // Tells when the JVM begins to report what this collection found.
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

  /** A histogram of the live objects needs a collection first, which the option does not turn off. */
  private def collect(): Unit = {
    val isCollected =
      isExplicitGcDisabled && call("DiagnosticCommand", "gcClassHistogram", Array.empty[String]).isSuccess
    if (!isCollected) System.gc()
  }
}
