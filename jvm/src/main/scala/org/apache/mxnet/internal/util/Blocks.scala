package org.apache.mxnet
package internal.util

import java.io._
import java.nio.charset.StandardCharsets
import java.nio.file.{Files, Path}

import scala.util.Using

import org.apache.mxnet.MXNetError
import org.apache.mxnet.internal.util.NullChecks.requireNonNull

/** Blocks of bytes, each preceded by its length. */
private[mxnet] object Blocks {

  /** A `DataOutputStream` or an `ObjectOutputStream`. */
  type Output = OutputStream with DataOutput

  /** A `DataInputStream` or an `ObjectInputStream`. */
  type Input = InputStream with DataInput

  private val BufferBytes = 1 << 20

  /** The bytes that `write` writes. */
  def bytesOf(write: DataOutputStream => Unit): Array[Byte] = {
    val bytes = new ByteArrayOutputStream()
    val out = new DataOutputStream(bytes)
    write(out)
    out.flush()
    bytes.toByteArray
  }

  /** Reads bytes; an early end is an error that names the input. */
  def parse[A](bytes: Array[Byte], what: String)(read: DataInputStream => A): A = {
    requireNonNull("Blocks", "bytes" -> bytes)
    try read(new DataInputStream(new ByteArrayInputStream(bytes)))
    catch { case _: EOFException => throw new MXNetError(s"$what ends too early, after ${bytes.length} bytes") }
  }

  def write(out: Output, content: Array[Byte]): Unit = {
    out.writeInt(content.length)
    out.write(content)
  }

  def read(in: Input): Array[Byte] = {
    val length = in.readInt()
    if (length < 0) throw new EOFException()
    // Memory grows with the bytes that are read, not with the announced length.
    val content = in.readNBytes(length)
    if (content.length < length) throw new EOFException()
    content
  }

  def writeText(out: Output, text: String): Unit = write(out, text.getBytes(StandardCharsets.UTF_8))

  def readText(in: Input): String = new String(read(in), StandardCharsets.UTF_8)

  def writeAll[A](out: Output, items: Iterable[A])(writeItem: A => Unit): Unit = {
    out.writeInt(items.size)
    items.foreach(writeItem)
  }

  def readAll[A](in: Input)(readItem: => A): IndexedSeq[A] = {
    val count = in.readInt()
    if (count < 0) throw new EOFException()
    Iterator.fill(count)(readItem).toIndexedSeq
  }

  /** Writes the content of a file, whose size is not limited. */
  def writeFile(out: Output, file: Path): Unit = {
    val length = Files.size(file)
    out.writeLong(length)
    val written = Files.copy(file, out)
    if (written != length)
      throw new IOException(s"$file had $length bytes, then $written; another program writes to it")
  }

  /** Reads what [[writeFile]] wrote into a file. */
  def readFile(in: Input, file: Path): Unit = Using.resource(Files.newOutputStream(file))(readContent(in, _))

  /** Reads past what [[writeFile]] wrote. */
  def skipFile(in: Input): Unit = readContent(in, OutputStream.nullOutputStream())

  private def readContent(in: Input, out: OutputStream): Unit = {
    var left = in.readLong()
    if (left < 0) throw new EOFException()
    val buffer = new Array[Byte](math.min(left, BufferBytes.toLong).toInt)
    while (left > 0) {
      val count = in.read(buffer, 0, math.min(left, buffer.length.toLong).toInt)
      if (count < 0) throw new EOFException()
      out.write(buffer, 0, count)
      left -= count
    }
  }
}
