package org.apache.mxnet
package internal.util

import java.io.{BufferedOutputStream, IOException, OutputStream}
import java.nio.channels.FileChannel
import java.nio.charset.StandardCharsets
import java.nio.file.{AtomicMoveNotSupportedException, Files, Path, Paths, StandardCopyOption, StandardOpenOption}

import scala.util.Using

/** Replaces files atomically for other processes, and for this one after a crash. */
private[mxnet] object AtomicFile {

  /** Writes a file through a stream. */
  def write(file: String)(content: OutputStream => Unit): Unit = replace(file) { partial =>
    Using.resource(new BufferedOutputStream(Files.newOutputStream(partial)))(content)
  }

  /** Writes a text file. */
  def writeText(file: String, text: String): Unit = write(file)(_.write(text.getBytes(StandardCharsets.UTF_8)))

  /** Calls `write` on a temporary file in the same directory, and renames it. Creates missing directories. */
  def replace(file: String)(write: Path => Unit): Unit = {
    val path = Paths.get(file).toAbsolutePath
    Files.createDirectories(path.getParent)
    // A fixed name, so that killed processes leave at most one temporary file.
    val partial = path.resolveSibling(s"${path.getFileName}.partial")
    write(partial)
    Using.resource(FileChannel.open(partial, StandardOpenOption.WRITE))(_.force(true))
    try Files.move(partial, path, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING)
    catch {
      case _: AtomicMoveNotSupportedException => Files.move(partial, path, StandardCopyOption.REPLACE_EXISTING)
    }
    // Makes the new name durable. Not every system can synchronize a directory.
    try Using.resource(FileChannel.open(path.getParent, StandardOpenOption.READ))(_.force(true))
    catch { case _: IOException => }
  }
}
