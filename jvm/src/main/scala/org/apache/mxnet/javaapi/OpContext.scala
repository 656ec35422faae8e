package org.apache.mxnet.javaapi

import java.nio.{DoubleBuffer, FloatBuffer}
import java.util.function.DoubleUnaryOperator
import java.util.{AbstractList, List => JList}

import scala.jdk.CollectionConverters._

import org.apache.mxnet.{OpArrays, OpContext => CoreContext}

/** The shapes and arrays of a [[UserDefinedCustomOp]], for Java. During shape inference there are only inputs, which
  * have a shape but no elements. Arrays are valid during the call only.
  */
final class OpContext private[mxnet] (context: CoreContext) {

  /** Whether the operator runs in training. */
  def isTrain: Boolean = context.isTrain

  /** Whether there are outputs; false during shape inference. */
  private[mxnet] def isRunning: Boolean = context.isRunning

  /** The shapes of the inputs. */
  def getInputShapes(): JList[Shape] = context.inputShapes.map(new Shape(_)).asJava

  /** The inputs, read-only. */
  def getInputArrays(): JList[NDArray] = new BorrowedArrays(context.inputArrays)

  /** The outputs, to be written or replaced. */
  def getOutputArrays(): JList[NDArray] = new BorrowedArrays(context.outputArrays)

  /** The auxiliary states, which the operator may change. */
  def getStateArrays(): JList[NDArray] = new BorrowedArrays(context.stateArrays)

  /** An input. */
  def input(index: Int): NDArray = new NDArray(context.input(index))

  /** An output. */
  def output(index: Int): NDArray = new NDArray(context.output(index))

  /** An auxiliary state. */
  def state(index: Int): NDArray = new NDArray(context.state(index))

  /** The elements of an input of type float32, without a copy. */
  def floatInput(index: Int): FloatBuffer = context.floatInput(index)

  /** The elements of an output of type float32, without a copy. */
  def floatOutput(index: Int): FloatBuffer = context.floatOutput(index)

  /** The elements of an input of type float64, without a copy. */
  def doubleInput(index: Int): DoubleBuffer = context.doubleInput(index)

  /** The elements of an output of type float64, without a copy. */
  def doubleOutput(index: Int): DoubleBuffer = context.doubleOutput(index)

  /** Applies `f` to every element of an input and writes the results to an output of equal length. Both are float32 or
    * both float64.
    */
  def map(inputIndex: Int, outputIndex: Int, f: DoubleUnaryOperator): Unit =
    context.map(inputIndex, outputIndex)(x => f.applyAsDouble(x))
}

/** The arrays of an operator as a list of the Java API. */
private final class BorrowedArrays(arrays: OpArrays) extends AbstractList[NDArray] {
  override def size: Int = arrays.size

  override def get(index: Int): NDArray = new NDArray(arrays.get(index))

  override def set(index: Int, array: NDArray): NDArray =
    new NDArray(arrays.set(index, if (array == null) null else array.nd))

  override def add(array: NDArray): Boolean = arrays.add(if (array == null) null else array.nd)
}
