package org.apache.mxnet.util

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, DataInputStream, DataOutputStream, EOFException}

import org.apache.mxnet.{MXNetError, NDArray}

/** Serializes several arrays: their number, then length and content of each. */
private[mxnet] object SerializerUtils {

  /** Serializes arrays. */
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

  /** Deserializes the arrays of [[serializeNDArrays]].
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
