package org.apache.mxnet.codegen

/** The compiler's error message for a wrong enumeration value. */
object OneOfMessage {
  def apply(text: String, values: Seq[String]): String =
    s"'$text' is not one of the values this argument takes: ${values.mkString(", ")}"
}
