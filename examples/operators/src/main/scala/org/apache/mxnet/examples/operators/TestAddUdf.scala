package org.apache.mxnet.examples.operators

import org.apache.mxnet.DType.DType
import org.apache.mxnet._

/** The sum of two arrays, with all methods of a user-defined operator. The defaults would suffice for most. */
@UserDefinedOp
class TestAddUdf(symbols: Array[Symbol]) extends UserDefinedCustomOp(symbols) {

  /** The constructor that loading a graph uses. */
  def this() = this(Array.empty[Symbol])

  def this(left: Symbol, right: Symbol) = this(Array(left, right))

  override def opName: String = "test_add_udf"

  override def getNumInputs: Int = 2

  override def getNumOutputs: Int = 1

  override def inputNames(count: Int): Array[String] = Array("lhs", "rhs")

  override def calculateOutputDataTypes(dataTypes: Array[DType]): Array[DType] = Array(dataTypes(0))

  override def calculateOutputShape(): Array[Shape] = {
    if (inputShapes(0) != inputShapes(1))
      throw new MXNetError(s"$opName needs two arrays of the same shape, not ${inputShapes(0)} and ${inputShapes(1)}")
    Array(inputShapes(0))
  }

  override def propertiesForFunction(): Map[String, Any] = Map.empty

  override def setPropertiesForFunction(properties: Map[String, Any]): Unit = ()

  override def configureFromArguments(): Unit = ()

  override def configureWithSymbol(graph: Symbol): Unit = ()

  override def isInplaceCall: Boolean = false

  override def doDiff(gradients: Array[Symbol]): Array[Symbol] = Array(gradients(0), gradients(0))

  override def exec(): Unit = {
    val (left, right) = (inputArguments(0), inputArguments(1))
    NDArray.api.elemwise_add(left, right, out = outputArguments(0))
  }
}
