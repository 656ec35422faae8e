package org.apache.mxnet

import java.nio.file.{Files, Path}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

/** Temporary files and folders of a suite, which are deleted at its end. */
trait TemporaryFiles extends munit.FunSuite {
  private val created = mutable.ArrayBuffer.empty[Path]

  protected def temporaryFolder(name: String): Path = deletedAfterwards(Files.createTempDirectory(s"mxnet-$name"))

  protected def temporaryFile(name: String, ending: String): Path =
    deletedAfterwards(Files.createTempFile(s"mxnet-$name", ending))

  private def deletedAfterwards(path: Path): Path = {
    created += path
    path
  }

  override def afterAll(): Unit =
    try created.foreach(TemporaryFiles.delete)
    finally super.afterAll()
}

object TemporaryFiles {

  /** Deletes a file, or a folder with its contents. */
  def delete(path: Path): Unit =
    if (Files.exists(path)) {
      val files = Files.walk(path)
      try files.iterator.asScala.toSeq.reverse.foreach(Files.deleteIfExists(_))
      finally files.close()
    }
}
