import sbt._

import java.nio.charset.StandardCharsets.UTF_8

/** The version of the native interface: a hash of the declarations in `LibInfo.scala`, which `native/capi/build.rs`
  * computes too.
  */
object NativeInterface {

  /** Writes the object with the version. */
  def write(declarations: File, folder: File): Seq[File] =
    Seq(GeneratedSource.write(folder, "internal/jni/NativeInterface.scala", source(version(IO.read(declarations)))))

  /** The 32-bit FNV-1a hash of the declarations without blanks. A declaration ends with the line of its result. */
  def version(source: String): Int = {
    val declarations = source.split("@native def ").tail.map { text =>
      text.take(text.indexOf('\n', text.indexOf(')'))).filterNot(_.isWhitespace)
    }
    declarations.mkString("\n").getBytes(UTF_8).foldLeft(0x811c9dc5)((hash, byte) => (hash ^ (byte & 0xff)) * 16777619)
  }

  private def source(version: Int): String =
    s"""package org.apache.mxnet.internal.jni
       |
       |/** The native methods of [[LibInfo]] as a whole. */
       |private[mxnet] object NativeInterface {
       |
       |  /** The version of the interface, a hash of the declarations. A library of another version is not loaded. */
       |  final val Version = $version
       |}
       |""".stripMargin
}
