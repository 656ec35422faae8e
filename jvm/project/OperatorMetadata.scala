import sbt._
import sbt.util.Logger

/** The file of operator metadata, from which functions and their documentation are generated. */
object OperatorMetadata {

  /** `file`, if it exists. */
  def existing(file: File): File = {
    if (!file.isFile)
      sys.error(
        s"No operator metadata at $file. Take codegen/ops.jsonl, which is the default, by unsetting the environment " +
          "variable FERROMX_OPS, or let it name an existing file. scripts/metadata writes codegen/ops.jsonl."
      )
    file
  }

  /** Runs the generator of the base classes when the metadata or the generator changed since the last time. */
  def baseClasses(
      metadata: File,
      classpath: Seq[File],
      folder: File,
      cache: File,
      runner: ScalaRun,
      log: Logger
  ): Seq[File] = {
    val generate = FileFunction.cached(cache, FilesInfo.hash, FilesInfo.exists) { _ =>
      val arguments = Seq(metadata.getAbsolutePath, folder.getAbsolutePath)
      runner.run("org.apache.mxnet.codegen.BaseClasses", classpath, arguments, log).get
      (folder ** "*.scala").get.toSet
    }
    val classFiles = classpath.flatMap(entry => if (entry.isDirectory) (entry ** "*.class").get else Seq(entry))
    generate((metadata +: classFiles).toSet).toSeq
  }
}
