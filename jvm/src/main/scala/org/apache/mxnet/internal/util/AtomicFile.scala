package org.apache.mxnet
package internal.util

import java.io.{BufferedOutputStream, IOException, OutputStream}
import java.nio.channels.FileChannel
import java.nio.charset.StandardCharsets
import java.nio.file.{AtomicMoveNotSupportedException, Files, Path, Paths, StandardCopyOption, StandardOpenOption}

import scala.util.Using

/** Writes files that other processes, and this one after a crash, see whole or not at all. */
private[mxnet] object AtomicFile {

  /** Writes a file through a stream. */
  def write(file: String)(content: OutputStream => Unit): Unit = replace(file) { partial =>
    Using.resource(new BufferedOutputStream(Files.newOutputStream(partial)))(content)
  }

  /** Writes a text file. */
  def writeText(file: String, text: String): Unit = write(file)(_.write(text.getBytes(StandardCharsets.UTF_8)))

  /** Replaces a file by what `write` puts into a file beside it. Missing directories are made. */
  def replace(file: String)(write: Path => Unit): Unit = {
    val path = Paths.get(file).toAbsolutePath
    Files.createDirectories(path.getParent)
    // One name for all attempts, so that processes that were killed leave at most one such file.
    val partial = path.resolveSibling(s"${path.getFileName}.partial")
    write(partial)
    Using.resource(FileChannel.open(partial, StandardOpenOption.WRITE))(_.force(true))
    try Files.move(partial, path, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING)
    catch {
      case _: AtomicMoveNotSupportedException => Files.move(partial, path, StandardCopyOption.REPLACE_EXISTING)
    }
    // The new name is on the disk once the directory is; not every system lets a directory be synchronized.
    try Using.resource(FileChannel.open(path.getParent, StandardOpenOption.READ))(_.force(true))
    catch { case _: IOException => }
  }
}
