package org.apache.mxnet
package internal.visualization

/** Draws curves over a common axis, such as accuracies over epochs. */
private[mxnet] object CurvePlot {

  /** Name and points (x, y) of each curve. */
  type Curves = Seq[(String, Seq[(Double, Double)])]

  private val Width = 640.0
  private val Height = 400.0
  private val Left = 66.0
  private val Right = 20.0
  private val Top = 52.0
  private val Bottom = 56.0
  private val Colors = IndexedSeq("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf")

  /** The plot.
    *
    * @param series the curves; points that are not finite are left out
    */
  def svg(title: String, xLabel: String, yLabel: String, series: Curves): String =
    Svg.document(Width, Height, title, body(title, xLabel, yLabel, series))

  /** Stacks plots vertically, each with its name on the y axis.
    *
    * @param plots name and curves of each; those without a finite point are left out
    */
  def stacked(title: String, xLabel: String, plots: Seq[(String, Curves)]): String = {
    val drawn = plots.filter { case (_, series) => isDrawable(series) }
    require(drawn.nonEmpty, "there is nothing to plot: no curve has a finite point")
    val elements = drawn.zipWithIndex.flatMap { case ((name, series), i) =>
      val plot = body(if (i == 0) title else "", xLabel, name, series)
      s"""<g transform="translate(0 ${Svg.number(i * Height)})">""" +: plot :+ "</g>"
    }
    Svg.document(Width, drawn.length * Height, title, elements)
  }

  /** Whether these curves have a finite point. */
  def isDrawable(series: Curves): Boolean =
    series.exists(_._2.exists { case (x, y) => x.isFinite && y.isFinite })

  private def body(title: String, xLabel: String, yLabel: String, series: Curves): Seq[String] = {
    val curves = series.map { case (name, points) => name -> points.filter { case (x, y) => x.isFinite && y.isFinite } }
    val points = curves.flatMap(_._2)
    require(points.nonEmpty, "there is nothing to plot: no curve has a finite point")
    val xTicks = ticks(points.map(_._1).min, points.map(_._1).max)
    val yTicks = ticks(points.map(_._2).min, points.map(_._2).max)

    def px(x: Double): Double = Left + (x - xTicks.head) / (xTicks.last - xTicks.head) * (Width - Left - Right)
    def py(y: Double): Double =
      Height - Bottom - (y - yTicks.head) / (yTicks.last - yTicks.head) * (Height - Top - Bottom)

    val grid = xTicks.flatMap { x =>
      Seq(
        line(px(x), Top, px(x), Height - Bottom, "#e6e6e6"),
        Svg.text(px(x), Height - Bottom + 18, tickText(x, xTicks), 11)
      )
    } ++ yTicks.flatMap { y =>
      Seq(
        line(Left, py(y), Width - Right, py(y), "#e6e6e6"),
        Svg.text(Left - 8, py(y) + 4, tickText(y, yTicks), 11, "end")
      )
    }
    val axes = Seq(
      line(Left, Top, Left, Height - Bottom, "#333333"),
      line(Left, Height - Bottom, Width - Right, Height - Bottom, "#333333"),
      Svg.text(Left, 24, title, 16, "start"),
      Svg.text((Left + Width - Right) / 2, Height - 14, xLabel, 12),
      Svg.text(
        0,
        0,
        yLabel,
        12,
        more = s""" transform="translate(18 ${Svg.number((Top + Height - Bottom) / 2)}) rotate(-90)""""
      )
    )
    val lines = curves.zipWithIndex.flatMap { case ((_, points), i) =>
      curve(points.map { case (x, y) => (px(x), py(y)) }, color(i))
    }
    grid ++ axes ++ lines ++ legend(curves.map(_._1))
  }

  private def color(index: Int): String = Colors(index % Colors.length)

  private def line(x1: Double, y1: Double, x2: Double, y2: Double, stroke: String): String =
    s"""<line x1="${Svg.number(x1)}" y1="${Svg.number(y1)}" x2="${Svg.number(x2)}" y2="${Svg.number(
        y2
      )}" stroke="$stroke"/>"""

  private def curve(points: Seq[(Double, Double)], stroke: String): Seq[String] = {
    val coordinates = points.map { case (x, y) => s"${Svg.number(x)},${Svg.number(y)}" }.mkString(" ")
    val dots =
      if (points.length > 60) Seq.empty
      else
        points.map { case (x, y) =>
          s"""<circle cx="${Svg.number(x)}" cy="${Svg.number(y)}" r="2.5" fill="$stroke"/>"""
        }
    s"""<polyline points="$coordinates" fill="none" stroke="$stroke" stroke-width="2" stroke-linejoin="round"/>""" +: dots
  }

  private def legend(names: Seq[String]): Seq[String] = {
    val widths = names.map(name => Svg.widthOf(name, 12) + 40)
    val starts = widths.scanLeft(Left)(_ + _)
    names.indices.flatMap { i =>
      Seq(
        s"""<rect x="${Svg.number(starts(i))}" y="33" width="16" height="4" fill="${color(i)}"/>""",
        Svg.text(starts(i) + 22, 39, names(i), 12, "start")
      )
    }
  }

  /** Equidistant round numbers from at most `min` to at least `max`. */
  private[mxnet] def ticks(min: Double, max: Double): IndexedSeq[Double] = {
    val range = if (max > min) max - min else math.max(math.abs(max), 1.0)
    val raw = range / 5
    val power = math.pow(10, math.floor(math.log10(raw)))
    val step = power * Seq(1.0, 2.0, 5.0, 10.0).find(_ * power >= raw * 0.999).getOrElse(10.0)
    val first = math.floor(min / step + 1e-9)
    val last = math.max(math.ceil(max / step - 1e-9), first + 1)
    (first.toLong to last.toLong).map(_ * step)
  }

  private def tickText(value: Double, ticks: IndexedSeq[Double]): String = {
    val step = ticks(1) - ticks(0)
    val digits = math.max(0, -math.floor(math.log10(step) + 1e-9).toInt)
    String.format(java.util.Locale.ROOT, s"%.${digits}f", Double.box(value))
  }
}
