package org.apache.spark.sql.ferromx

import org.apache.spark.sql.{SparkSessionExtensions, SparkSessionExtensionsProvider}

/** Lets every session plan the node of [[AppendColumns]], also one that reads a view of another session, and optimize it.
  * Spark finds this class by the ServiceLoader when it creates a session.
  */
class SessionExtensions extends SparkSessionExtensionsProvider {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    extensions.injectPlannerStrategy(_ => AppendColumns.Strategy)
    extensions.injectOptimizerRule(_ => AppendColumns.PushFilter)
  }
}
