package org.apache.spark.sql.ferromx

import org.apache.spark.SparkContext

/** Listeners are called on another thread, which only Spark's own packages can wait for. */
object Listeners {

  /** Waits until the listeners have received all events. */
  def flush(context: SparkContext): Unit = context.listenerBus.waitUntilEmpty()
}
