package org.apache.mxnet
package internal.util

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, DataInputStream, DataOutputStream, EOFException}
import java.nio.charset.StandardCharsets

import org.apache.mxnet.MXNetError

/** Blocks of bytes, each preceded by its length. */
private[mxnet] object Blocks {

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
    Given("Blocks", "bytes" -> bytes)
    try read(new DataInputStream(new ByteArrayInputStream(bytes)))
    catch { case _: EOFException => throw new MXNetError(s"$what ends too early, after ${bytes.length} bytes") }
  }

  def write(out: DataOutputStream, content: Array[Byte]): Unit = {
    out.writeInt(content.length)
    out.write(content)
  }

  def read(in: DataInputStream): Array[Byte] = {
    val length = in.readInt()
    if (length < 0) throw new EOFException()
    // Memory grows with the bytes that are read, not with the announced length.
    val content = in.readNBytes(length)
    if (content.length < length) throw new EOFException()
    content
  }

  def writeText(out: DataOutputStream, text: String): Unit = write(out, text.getBytes(StandardCharsets.UTF_8))

  def readText(in: DataInputStream): String = new String(read(in), StandardCharsets.UTF_8)

  def writeAll[A](out: DataOutputStream, items: Iterable[A])(writeItem: A => Unit): Unit = {
    out.writeInt(items.size)
    items.foreach(writeItem)
  }

  def readAll[A](in: DataInputStream)(readItem: => A): IndexedSeq[A] = {
    val count = in.readInt()
    if (count < 0) throw new EOFException()
    Iterator.fill(count)(readItem).toIndexedSeq
  }
}
