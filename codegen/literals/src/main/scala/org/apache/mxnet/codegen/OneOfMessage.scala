package org.apache.mxnet.codegen

/** The error message for a wrong enumeration value, at compile time and at run time. */
object OneOfMessage {
  def apply(text: String, values: Seq[String]): String =
    s"'$text' is not one of the values this argument takes: ${values.mkString(", ")}"
}
