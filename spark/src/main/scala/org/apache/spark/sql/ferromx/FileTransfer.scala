package org.apache.spark.sql.ferromx

import java.io.File

import org.apache.spark.deploy.SparkHadoopUtil
import org.apache.spark.util.Utils
import org.apache.spark.{SparkContext, SparkEnv}

/** Sends files of any size from the driver to the executors that request them. `SparkContext.addFile` is not an
  * alternative: since Spark 4, the tasks of a `Dataset` fetch only the files of their session.
  */
object FileTransfer {

  /** Lets executors fetch a file from the driver.
    *
    * @param file a file with a unique name
    * @return its URL, for [[fetch]]
    */
  def serve(context: SparkContext, file: File): String =
    if (context.isLocal) file.toURI.toString else context.env.rpcEnv.fileServer.addFile(file)

  /** Fetches a file from the driver.
    *
    * @param url the result of [[serve]]
    * @param directory the target directory; the file keeps its name
    */
  def fetch(url: String, directory: File): File = {
    val env = SparkEnv.get
    Utils.fetchFile(url, directory, env.conf, SparkHadoopUtil.get.conf, System.currentTimeMillis(), useCache = false)
  }

  /** The directory that the executors of an application share on this machine, which its resource manager deletes at the end.
    * Processes without a resource manager have none.
    */
  def applicationDirectory: Option[File] = {
    val names =
      if (sys.env.contains("CONTAINER_ID")) sys.env.get("LOCAL_DIRS").map(_.split(','))
      else sys.env.get("SPARK_EXECUTOR_DIRS").map(_.split(File.pathSeparatorChar))
    names.flatMap(_.headOption).map(new File(_)).filter(_.isDirectory)
  }

  /** Deletes a directory of [[createDirectory]] with its files. */
  def delete(directory: File): Unit = Utils.deleteRecursively(directory)

  /** A new directory that lives as long as this process, unless it is deleted. */
  def createDirectory(): File = {
    val root = applicationDirectory.fold {
      Option(SparkEnv.get).fold(System.getProperty("java.io.tmpdir"))(env => Utils.getLocalDir(env.conf))
    }(_.getPath)
    Utils.createTempDir(root, "ferromx")
  }
}
