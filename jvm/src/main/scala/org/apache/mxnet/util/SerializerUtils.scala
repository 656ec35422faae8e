package org.apache.mxnet.util

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, DataInputStream, DataOutputStream, EOFException}

import org.apache.mxnet.{MXNetError, NDArray}

/** Writes several arrays into one block of bytes: their number, then the length and the content of each. */
private[mxnet] object SerializerUtils {

  /** The arrays as bytes, in order. */
  def serializeNDArrays(arrays: NDArray*): Array[Byte] = {
    val bytes = new ByteArrayOutputStream()
    val out = new DataOutputStream(bytes)
    out.writeInt(arrays.length)
    arrays.foreach { array =>
      val content = array.serialize()
      out.writeInt(content.length)
      out.write(content)
    }
    out.flush()
    bytes.toByteArray
  }

  /** The arrays whose bytes [[serializeNDArrays]] made.
    *
    * @throws MXNetError if the bytes end too early or an array in them is invalid
    */
  def deserializeNDArrays(bytes: Array[Byte]): IndexedSeq[NDArray] = {
    val in = new DataInputStream(new ByteArrayInputStream(bytes))
    try {
      IndexedSeq.fill(in.readInt()) {
        val length = in.readInt()
        if (length < 0 || length > in.available()) throw new EOFException()
        NDArray.deserialize(in.readNBytes(length))
      }
    } catch {
      case _: EOFException => throw new MXNetError(s"serialized arrays end too early, after ${bytes.length} bytes")
    }
  }
}
