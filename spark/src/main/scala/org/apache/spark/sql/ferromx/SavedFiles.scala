package org.apache.spark.sql.ferromx

import java.io.File

import org.apache.hadoop.fs.Path
import org.apache.spark.ml.util.ReadWriteUtils

/** Where stages are saved. */
object SavedFiles {

  /** A file or directory in the directory of a saved stage. The cache of Spark Connect saves models on the local disk of the server
    * (`MLWriter.saveToLocal`), other callers on any file system that Hadoop knows.
    */
  def path(directory: String, name: String): Path = {
    val isLocal = ReadWriteUtils.localSavingModeState.get()
    new Path(if (isLocal) new Path(new File(directory).toURI) else new Path(directory), name)
  }
}
