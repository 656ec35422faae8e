package org.apache.mxnet.spark

import org.apache.spark.scheduler.SparkListenerEvent

/** The event of a completed epoch, which listeners of the Spark context get by `onOtherEvent`.
  *
  * @param uid uid of the estimator
  * @param epoch number of the epoch, from 0
  * @param numEpoch number of epochs to train
  * @param train metrics of the training data by name
  * @param validation metrics of the validation data by name; empty without validation
  * @param rowsPerSecond training speed of all workers together
  */
final case class TrainingProgress(
    uid: String,
    epoch: Int,
    numEpoch: Int,
    train: Map[String, Float],
    validation: Map[String, Float],
    rowsPerSecond: Double
) extends SparkListenerEvent {

  /** The epoch as a line of text. */
  def line: String = {
    val metrics = train.map { case (name, value) => f"$name $value%.4f" } ++
      validation.map { case (name, value) => f"validation $name $value%.4f" }
    s"epoch ${epoch + 1}/$numEpoch  ${metrics.mkString("  ")}  ${rowsPerSecond.round} rows/s"
  }
}
