package org.apache.spark.sql.ferromx

import org.apache.spark.SparkContext

/** How many tasks a cluster runs at the same time. Spark has this number for its own packages only. */
object TaskSlots {
  def of(context: SparkContext): Int =
    context.maxNumConcurrentTasks(context.resourceProfileManager.defaultResourceProfile)
}
