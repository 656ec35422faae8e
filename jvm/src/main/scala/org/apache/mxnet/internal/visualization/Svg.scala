package org.apache.mxnet
package internal.visualization

import java.util.Locale

/** Builds SVG text. */
private[mxnet] object Svg {

  /** Formats a number without unnecessary digits, independently of the locale. */
  def number(value: Double): String = {
    val text = String.format(Locale.ROOT, "%.1f", value)
    if (text.endsWith(".0")) text.dropRight(2) else text
  }

  /** Escapes text for XML; drops control characters, which XML does not allow. */
  def escape(text: String): String = text.flatMap {
    case '&'                                                            => "&amp;"
    case '<'                                                            => "&lt;"
    case '>'                                                            => "&gt;"
    case '"'                                                            => "&quot;"
    case control if control < ' ' && control != '\n' && control != '\t' => ""
    case other                                                          => other.toString
  }

  /** A line of text.
    *
    * @param anchor the point of the text that is at `x`: `start`, `middle` or `end`
    * @param more further attributes, after a space
    */
  def text(
      x: Double,
      y: Double,
      content: String,
      size: Int,
      anchor: String = "middle",
      fill: String = "#333333",
      more: String = ""
  ): String =
    s"""<text x="${number(x)}" y="${number(y)}" font-size="$size" text-anchor="$anchor" fill="$fill"$more>${escape(
        content
      )}</text>"""

  /** A complete SVG document. */
  def document(width: Double, height: Double, title: String, body: Seq[String]): String = {
    val head =
      s"""<svg xmlns="http://www.w3.org/2000/svg" width="${number(width)}" height="${number(height)}" """ +
        s"""viewBox="0 0 ${number(width)} ${number(height)}" font-family="Helvetica, Arial, sans-serif">"""
    (Seq(
      """<?xml version="1.0" encoding="UTF-8"?>""",
      head,
      s"<title>${escape(title)}</title>",
      """<rect width="100%" height="100%" fill="#ffffff"/>"""
    ) ++ body :+ "</svg>").mkString("", "\n", "\n")
  }

  /** Approximate width of a text. */
  def widthOf(content: String, size: Int): Double = content.length * size * 0.58
}
