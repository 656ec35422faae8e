package org.apache.mxnet.util

import org.apache.mxnet.NDArray
import org.apache.mxnet.internal.util.Blocks

/** Serializes several arrays: their number, then length and content of each. */
private[mxnet] object SerializerUtils {

  /** Serializes arrays. */
  def serializeNDArrays(arrays: NDArray*): Array[Byte] =
    Blocks.bytesOf(out => Blocks.writeAll(out, arrays)(array => Blocks.write(out, array.serialize())))

  /** Deserializes the arrays of [[serializeNDArrays]].
    *
    * @throws MXNetError if the bytes end too early or an array in them is invalid
    */
  def deserializeNDArrays(bytes: Array[Byte]): IndexedSeq[NDArray] =
    Blocks.parse(bytes, "the sequence of serialized arrays") { in =>
      Blocks.readAll(in)(NDArray.deserialize(Blocks.read(in)))
    }
}
