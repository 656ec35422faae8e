package org.apache.mxnet.codegen

/** The text that a wrong enumeration value gets, from the compiler and at run time alike. */
object OneOfMessage {
  def apply(text: String, values: Seq[String]): String =
    s"'$text' is not one of the values this argument takes: ${values.mkString(", ")}"
}
