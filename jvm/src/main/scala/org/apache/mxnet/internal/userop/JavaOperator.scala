package org.apache.mxnet
package internal.userop

import java.util.function.Consumer
import java.util.{Arrays, List => JList, Map => JMap}

import scala.jdk.CollectionConverters._
import scala.reflect.ClassTag

import org.apache.mxnet.DType.DType
import org.apache.mxnet.internal.util.NullChecks.requireNonNull

/** Adapts a [[javaapi.UserDefinedCustomOp]] to the Scala API.
  *
  * @param op the user's operator
  * @param setArrays sets the operator's fields to the arrays of a run, or clears them
  * @param graph the graph that it was created for, or null
  */
private[mxnet] final class JavaOperator(
    op: javaapi.UserDefinedCustomOp,
    setArrays: Consumer[javaapi.OpContext],
    graph: SameDiff,
    symbols: Array[Symbol]
) extends UserDefinedCustomOp(graph, symbols) {

  override private[mxnet] def userObject: AnyRef = op

  override def opName: String = op.opName
  override def getNumInputs: Int = op.getNumInputs
  override def inputNames(count: Int): Array[String] = array(op.inputNames(count))
  override def getNumOutputs: Int = op.getNumOutputs
  override def stateNames: Array[String] = array(op.stateNames)
  override def isInplaceCall: Boolean = op.isInplaceCall
  override def configureFromArguments(): Unit = op.configureFromArguments()
  override def configureWithSymbol(symbol: Symbol): Unit = op.configureWithSymbol(symbol)

  override def configureWithSameDiff(sameDiff: SameDiff): Unit = {
    super.configureWithSameDiff(sameDiff)
    op.configureWithSameDiff(sameDiff)
  }

  override def calculateOutputDataTypes(dataTypes: Array[DType]): Array[DType] = {
    val known = new java.util.ArrayList[Enumeration#Value](dataTypes.length)
    dataTypes.foreach(known.add)
    val types = op.calculateOutputDataTypes(known)
    if (types == null) null else types.asScala.map(_.asInstanceOf[DType]).toArray
  }

  override def calculateOutputShape(context: OpContext): Array[Shape] =
    withArrays(context)(javaContext => shapes(op.calculateOutputShape(javaContext)))

  override def calculateStateShapes(): Array[Shape] = withArrays(context)(_ => shapes(op.calculateStateShapes()))

  override def inferInputShapes(inputs: Array[Shape], outputs: Array[Shape]): Array[Shape] =
    shapes(op.inferInputShapes(javaShapes(inputs), javaShapes(outputs)))

  override def propertiesForFunction(): Map[String, Any] = {
    val properties = op.propertiesForFunction()
    if (properties == null) null else properties.asScala.toMap
  }

  override def setPropertiesForFunction(properties: Map[String, Any]): Unit =
    op.setPropertiesForFunction(properties.asInstanceOf[Map[String, AnyRef]].asJava)

  override def doDiff(gradients: Array[Symbol]): Array[Symbol] = array(op.doDiff(Arrays.asList(gradients: _*)))

  override def exec(context: OpContext): Unit = withArrays(context)(op.exec)

  // The default implementations of the methods of the user's class.

  def defaultInputNames(count: Int): JList[String] = Arrays.asList(super.inputNames(count): _*)

  def defaultNumOutputs: Int = super.getNumOutputs

  def readFields(): JMap[String, AnyRef] =
    new java.util.TreeMap(super.propertiesForFunction().asInstanceOf[Map[String, AnyRef]].asJava)

  def writeFields(properties: JMap[String, AnyRef]): Unit = super.setPropertiesForFunction(properties.asScala.toMap)

  def noGradient(): JList[Symbol] = Arrays.asList(super.doDiff(Array.empty): _*)

  /** Runs the operator on arrays of the Java API. */
  def invokeOn(arrays: Array[javaapi.NDArray]): JList[javaapi.NDArray] = {
    requireNonNull(opName, "arrays" -> arrays)
    val results = UserOperators.invoke(this, arrays.map(_.nd)).arr
    Arrays.asList(results.map(new javaapi.NDArray(_)): _*)
  }

  private def withArrays[T](context: OpContext)(body: javaapi.OpContext => T): T = {
    val javaContext = new javaapi.OpContext(context)
    setArrays.accept(javaContext)
    try body(javaContext)
    finally setArrays.accept(null)
  }

  private def array[T: ClassTag](list: JList[T]): Array[T] =
    if (list == null) null else list.asScala.toArray

  private def shapes(list: JList[javaapi.Shape]): Array[Shape] =
    if (list == null) null else list.asScala.map(shape => if (shape == null) null else shape.shape).toArray

  private def javaShapes(shapes: Array[Shape]): JList[javaapi.Shape] =
    Arrays.asList(shapes.map(shape => if (shape == null) null else new javaapi.Shape(shape)): _*)
}

private[mxnet] object JavaOperator {

  /** Registers the operator of a class. */
  def register(cls: Class[_ <: javaapi.UserDefinedCustomOp]): Unit = {
    requireNonNull("UserDefinedCustomOp.register", "opClass" -> cls)
    val definition = UdfClass(cls)
    UserOperators.register(definition.name, definition)
  }

  /** A new node of any operator. */
  def node(operator: String, parameters: JMap[String, _], inputs: Array[Symbol]): Symbol = {
    requireNonNull("UserDefinedCustomOp.node", "operator" -> operator, "parameters" -> parameters, "inputs" -> inputs)
    Symbol.createFromListedSymbolsNoCheck(operator)(inputs, parameters.asScala.toMap)
  }
}
