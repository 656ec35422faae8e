package org.apache.mxnet

import org.apache.mxnet.Callback.EpochRecord
import org.apache.mxnet.internal.util.AtomicFile
import org.apache.mxnet.internal.util.NullChecks.requireNonNull
import org.apache.mxnet.internal.visualization.CurvePlot

/** Writes an SVG image of the metrics over the epochs after each epoch: one plot per metric, with a curve for the
  * training data and one for the validation data.
  *
  * @param svg the file
  * @param title title above the plots
  */
class LearningCurve(svg: String, title: String = "Learning curve") extends TrainingCallback {
  require(svg != null, "svg is null; give the file for the image")

  override def onEpochEnd(record: EpochRecord, training: Training): Unit = {
    val plots = LearningCurve.plotsOf(training.history)
    if (plots.exists { case (_, curves) => CurvePlot.isDrawable(curves) })
      AtomicFile.writeText(svg, CurvePlot.stacked(title, "epoch", plots))
  }
}

/** Draws learning curves, such as in a notebook. */
object LearningCurve {

  /** The metrics of epochs as an SVG image.
    *
    * @throws IllegalArgumentException if no metric has a finite value
    */
  def toSvg(records: Seq[EpochRecord], title: String = "Learning curve"): String = {
    requireNonNull("LearningCurve.toSvg", "records" -> records, "title" -> title)
    CurvePlot.stacked(title, "epoch", plotsOf(records))
  }

  private def plotsOf(records: Seq[EpochRecord]): Seq[(String, CurvePlot.Curves)] = {
    val names = records.flatMap(record => (record.train ++ record.validation).map(_._1)).distinct
    names.map { name =>
      def curve(data: String, metrics: EpochRecord => Seq[(String, Float)]) =
        data -> records.flatMap { record =>
          metrics(record).collect { case (`name`, value) => (record.epoch + 1.0, value.toDouble) }
        }
      name -> Seq(curve("training", _.train), curve("validation", _.validation)).filter(_._2.nonEmpty)
    }
  }
}
