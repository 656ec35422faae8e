package org.apache.mxnet.javaapi

import scala.language.implicitConversions

import org.apache.mxnet.javaapi.internal.JavaValues

/** Name, shape, type and layout of an input, for Java.
  *
  * @param dataDesc the corresponding description of the Scala API
  */
class DataDesc private[mxnet] (val dataDesc: org.apache.mxnet.DataDesc) {

  /** @param name name of the variable
    * @param shape its shape, with the batch
    * @param dType its element type
    * @param layout one letter for each axis, with `N` for the batch; see [[Layout]]
    */
  def this(name: String, shape: Shape, dType: DType.DType, layout: String) =
    this(org.apache.mxnet.DataDesc(name, JavaValues.dims(shape), dType, layout))

  override def toString: String = dataDesc.toString
}

object DataDesc {
  implicit def fromDataDesc(dDesc: org.apache.mxnet.DataDesc): DataDesc = new DataDesc(dDesc)

  implicit def toDataDesc(dataDesc: DataDesc): org.apache.mxnet.DataDesc = dataDesc.dataDesc

  /** The batch axis: the index of the letter `N` in the layout; 0 if the layout is null. */
  def getBatchAxis(layout: String): Int = org.apache.mxnet.DataDesc.getBatchAxis(Option(layout))
}
