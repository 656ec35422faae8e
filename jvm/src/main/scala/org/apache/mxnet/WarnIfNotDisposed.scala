package org.apache.mxnet

import org.apache.mxnet.util.Logging

/** Warns, once for each class, when an object was collected without being disposed. With the system property
  * `mxnet.traceLeakedObjects` set to `true` the warning says where the object was created.
  */
private[mxnet] trait WarnIfNotDisposed {
  private val creation: Option[Throwable] =
    if (WarnIfNotDisposed.tracing) Some(new Throwable("it was created here")) else None

  def isDisposed: Boolean

  override protected def finalize(): Unit =
    try if (!isDisposed) WarnIfNotDisposed.warn(getClass, creation)
    finally super.finalize()
}

private[mxnet] object WarnIfNotDisposed {
  private val logger = Logging.of(classOf[WarnIfNotDisposed])
  private val warned = java.util.concurrent.ConcurrentHashMap.newKeySet[Class[_]]()

  private[mxnet] val traceProperty = "mxnet.traceLeakedObjects"

  private def tracing: Boolean = java.lang.Boolean.getBoolean(traceProperty)

  private def warn(kind: Class[_], creation: Option[Throwable]): Unit =
    if (creation.isDefined || warned.add(kind)) {
      val message = s"LEAK: an instance of ${kind.getName} was collected that had not been disposed"
      logger.warn(
        if (creation.isEmpty) s"$message; set -D$traceProperty=true to see where it was created" else message,
        creation.orNull
      )
    }
}
