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

  /** Deletes a directory of [[createDirectory]] with its files. */
  def delete(directory: File): Unit = Utils.deleteRecursively(directory)

  /** A new directory that lives as long as this process, unless it is deleted. */
  def createDirectory(): File = {
    val root = Option(SparkEnv.get).fold(System.getProperty("java.io.tmpdir"))(env => Utils.getLocalDir(env.conf))
    Utils.createTempDir(root, "ferromx")
  }
}
