package org.apache.mxnet.module
package internal

import org.apache.mxnet.Callback.EpochRecord
import org.apache.mxnet.MXNetError

/** Selects the metric of an epoch to compare, and the direction of improvement.
  *
  * @param metric a metric's name, optionally with the prefix `validation-` or `train-`; empty for the first metric. By
  *   default that of the validation data, if there are any.
  * @param mode `max`, `min`, or `auto` for the metrics of this library
  */
private[mxnet] final class MetricChoice(metric: String, mode: String) {
  require(metric != null, "metric is null; omit it for the first metric")
  require(Seq("auto", "max", "min").contains(mode), s"mode is $mode; it must be auto, max or min")

  /** Name and value in an epoch. */
  def in(record: EpochRecord): (String, Float) = {
    val named = record.validation.map { case (name, value) => (s"validation-$name", name, value) } ++
      record.train.map { case (name, value) => (s"train-$name", name, value) }
    val found =
      if (metric.isEmpty) named.headOption
      else named.find { case (full, short, _) => full == metric || short == metric }
    found.map { case (_, name, value) => (name, value) }.getOrElse {
      throw new MXNetError(s"there is no metric '$metric'; the metrics are ${named.map(_._1).mkString(", ")}")
    }
  }

  /** Whether the value of an epoch is better than a value; NaN is never better. */
  def isBetter(record: EpochRecord, than: Float, minDelta: Float = 0f): Boolean = {
    val (name, value) = in(record)
    val gain = if (isMaximized(name)) value - than else than - value
    !value.isNaN && (than.isNaN || gain > minDelta)
  }

  private def isMaximized(name: String): Boolean = mode match {
    case "max" => true
    case "min" => false
    case _     =>
      if (MetricChoice.Maximized.exists(known => name.startsWith(known))) true
      else if (MetricChoice.Minimized.contains(name)) false
      else throw new MXNetError(s"mode is auto, but '$name' is not a metric of this library: set mode to max or min")
  }
}

private[mxnet] object MetricChoice {
  val Maximized: Seq[String] = Seq("accuracy", "top_k_accuracy", "f1")
  val Minimized: Set[String] = Set("Perplexity", "cross-entropy", "mae", "mse", "rmse")
}
