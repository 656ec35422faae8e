package org.apache.spark.sql.ferromx

import org.apache.spark.SparkContext
import org.apache.spark.sql.{classic, SparkSession}

/** Finds the session of a program that has only a Spark context. */
object Sessions {

  /** The active or default session, unchanged, or a new one of this context. A builder with the context's settings would
    * set them in an existing session again, and so undo what the program has set there.
    */
  def of(context: SparkContext): SparkSession = classic.SparkSession.builder().sparkContext(context).getOrCreate()
}
