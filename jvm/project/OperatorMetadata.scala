import sbt._
import sbt.util.Logger

/** The file of operator metadata, from which functions and their documentation are generated. */
object OperatorMetadata {

  /** `file`, if it is there; the message says how to make it. */
  def existing(file: File): File = {
    if (!file.isFile)
      sys.error(
        s"No operator metadata at $file. Write it with the native library's dump_ops " +
          "(cargo build --release -p libmxnet && target/release/dump_ops target/release/ops.jsonl), " +
          "or name another file with the environment variable FERROMX_OPS."
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
