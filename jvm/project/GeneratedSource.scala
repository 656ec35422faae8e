import sbt._

/** A source file of the library that the build writes. */
object GeneratedSource {

  /** Writes the file, unless it has this text already.
    *
    * @param folder the root of the generated sources
    * @param path the path of the file below `org/apache/mxnet`
    */
  def write(folder: File, path: String, text: String): File = {
    val file = folder / "org" / "apache" / "mxnet" / path
    if (!file.isFile || IO.read(file) != text) IO.write(file, text)
    file
  }
}
