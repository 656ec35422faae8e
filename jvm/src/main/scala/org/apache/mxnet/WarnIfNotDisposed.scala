package org.apache.mxnet

import org.apache.mxnet.internal.util.Logging

/** Warns, once for each class, when an object was collected without being disposed. With the system property
  * `mxnet.traceLeakedObjects` set to `true` the warning says where the object was created.
  */
private[mxnet] trait WarnIfNotDisposed {

  /** The stack trace of the constructor, if enabled. */
  protected val creationTrace: Option[Array[StackTraceElement]] =
    if (tracingEnabled) Some(Thread.currentThread().getStackTrace) else None

  def isDisposed: Boolean

  /** Whether to record stack traces of constructors. */
  protected def tracingEnabled: Boolean = WarnIfNotDisposed.tracing

  /** Warns that this object was collected without being disposed. */
  protected def logDisposeWarning(): Unit = WarnIfNotDisposed.warn(getClass, creationTrace)

  override protected def finalize(): Unit =
    try if (!isDisposed) logDisposeWarning()
    finally super.finalize()
}

private[mxnet] object WarnIfNotDisposed {
  private val logger = Logging.of(classOf[WarnIfNotDisposed])
  private val warned = java.util.concurrent.ConcurrentHashMap.newKeySet[Class[_]]()

  private[mxnet] val traceProperty = "mxnet.traceLeakedObjects"

  private def tracing: Boolean = java.lang.Boolean.getBoolean(traceProperty)

  private def warn(kind: Class[_], trace: Option[Array[StackTraceElement]]): Unit =
    if (trace.isDefined || warned.add(kind)) {
      val creation = trace.map { elements =>
        val created = new Throwable("it was created here")
        created.setStackTrace(elements)
        created
      }
      val message = s"LEAK: an instance of ${kind.getName} was collected that had not been disposed"
      logger.warn(
        if (creation.isEmpty) s"$message; set -D$traceProperty=true to see where it was created" else message,
        creation.orNull
      )
    }
}
