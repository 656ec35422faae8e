package org.apache.spark.sql.ferromx

import java.io.File

import org.apache.hadoop.fs.Path
import org.apache.spark.ml.util.ReadWriteUtils

/** The paths of saved stages. */
object SavedFiles {

  /** A file or directory in the directory of a saved stage. The cache of Spark Connect saves models on the server's
    * local disk (`MLWriter.saveToLocal`), other callers on any file system that Hadoop supports.
    */
  def path(directory: String, name: String): Path = {
    val isLocal = ReadWriteUtils.localSavingModeState.get()
    new Path(if (isLocal) new Path(new File(directory).toURI) else new Path(directory), name)
  }
}
