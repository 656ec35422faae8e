package org.apache.mxnet.spark

import java.io.{ObjectInputStream, ObjectOutputStream}

import org.apache.mxnet.NDArray

/** An array that Java serialization can send from task to driver. */
class MXNDArray(@transient private var ndArray: NDArray) extends Serializable {
  require(ndArray != null, "MXNDArray: ndArray is null; give an array")

  /** The array. */
  def get: NDArray = ndArray

  private def writeObject(out: ObjectOutputStream): Unit = out.writeObject(ndArray.serialize())

  private def readObject(in: ObjectInputStream): Unit =
    ndArray = NDArray.deserialize(in.readObject().asInstanceOf[Array[Byte]])
}

object MXNDArray {
  def apply(ndArray: NDArray): MXNDArray = new MXNDArray(ndArray)
}
