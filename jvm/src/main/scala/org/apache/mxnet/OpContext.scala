package org.apache.mxnet

import java.nio.{ByteBuffer, DoubleBuffer, FloatBuffer}

import org.apache.mxnet.DType.DType
import org.apache.mxnet.internal.memory.DirectBuffer
import org.apache.mxnet.internal.userop.{BorrowedNDArray, HelperThreads}
import org.apache.mxnet.internal.util.PerThread

/** The arrays of a user-defined operator. During shape inference there are only inputs, which have a shape but no
  * elements.
  *
  * The arrays are those of the engine, not copies. Inputs are read-only. Arrays are valid during the call only;
  * afterwards the engine reuses their memory.
  */
final class OpContext private[mxnet] (
    val inputShapes: IndexedSeq[Shape],
    inputs: Array[NDArray],
    outputs: Array[NDArray],
    states: Array[NDArray]
) {
  private val inputList = new OpArrays(inputs, canReplace = false)
  private val outputList = new OpArrays(outputs, canReplace = true)
  private val stateList = new OpArrays(states, canReplace = false)
  private var training = false

  /** Whether the operator runs in training. */
  def isTrain: Boolean = training

  /** Called before each run. */
  private[mxnet] def startRun(isTrain: Boolean): Unit = {
    training = isTrain
    outputList.startRun()
  }

  /** The inputs, read-only. During shape inference they have a shape but no elements. */
  def inputArrays: OpArrays = inputList

  /** The inputs, read-only. During shape inference they have a shape but no elements. */
  def getInputArrays(): java.util.List[NDArray] = inputList

  /** The outputs, to be written. An operator may also replace one by another array, which is then copied. */
  def outputArrays: OpArrays = requireRunning(outputList)

  /** The outputs, to be written or replaced. */
  def getOutputArrays(): java.util.List[NDArray] = outputArrays

  /** The auxiliary states, which the operator may change. */
  def stateArrays: OpArrays = requireRunning(stateList)

  /** An input. */
  def input(index: Int): NDArray = inputArrays(index)

  /** An output. */
  def output(index: Int): NDArray = outputArrays(index)

  /** An auxiliary state. */
  def state(index: Int): NDArray = stateArrays(index)

  /** The types of the inputs. */
  def inputTypes: IndexedSeq[DType] = inputArrays.map(_.dtype)

  /** False during shape inference. */
  private[mxnet] def isRunning: Boolean = outputList.elements != null

  private def requireRunning(arrays: OpArrays): OpArrays =
    if (arrays.elements != null) arrays
    else
      throw new MXNetError(
        "OpContext: there are no outputs and states during shape inference: use the shapes of inputs, or move this to exec"
      )

  /** The elements of an input of type float32, without a copy. */
  def floatInput(index: Int): FloatBuffer = floats(input(index), s"input $index")

  /** The elements of an output of type float32, without a copy. */
  def floatOutput(index: Int): FloatBuffer = floats(output(index), s"output $index")

  /** The elements of an input of type float64, without a copy. */
  def doubleInput(index: Int): DoubleBuffer = doubles(input(index), s"input $index")

  /** The elements of an output of type float64, without a copy. */
  def doubleOutput(index: Int): DoubleBuffer = doubles(output(index), s"output $index")

  private def floats(array: NDArray, what: String): FloatBuffer =
    memory(array, what, DType.Float32).asFloatBuffer()

  private def doubles(array: NDArray, what: String): DoubleBuffer =
    memory(array, what, DType.Float64).asDoubleBuffer()

  private def memory(array: NDArray, what: String, dtype: DType): ByteBuffer = {
    if (array.dtype != dtype)
      throw new MXNetError(s"OpContext: $what is of type ${array.dtype}, but the buffer is of $dtype")
    array match {
      case borrowed: BorrowedNDArray => borrowed.buffer
      case other                     => DirectBuffer.of(other)
    }
  }

  /** Calls `f` for each block of elements: with the block of an input as a Java array, an array for that block of an
    * output, and the block's length. The JVM vectorizes loops over Java arrays, but not over buffers, so this is the
    * fastest way for short formulas. Input and output are float32 and of equal length.
    *
    * Long arrays are processed by several threads, so `f` must have no side effects.
    */
  def mapBlocks(inputIndex: Int, outputIndex: Int)(f: (Array[Float], Array[Float], Int) => Unit): Unit = {
    checkSizes("mapBlocks", inputIndex, outputIndex)
    val (from, to) = (floatInput(inputIndex), floatOutput(outputIndex))
    val numChunks = (to.capacity + OpContext.ChunkSize - 1) / OpContext.ChunkSize
    HelperThreads.run(numChunks) { chunk =>
      val begin = chunk * OpContext.ChunkSize
      OpContext.blocks(from, to, begin, math.min(to.capacity, begin + OpContext.ChunkSize), f)
    }
  }

  private def checkSizes(method: String, inputIndex: Int, outputIndex: Int): Unit = {
    val (from, to) = (input(inputIndex).size, output(outputIndex).size)
    if (from != to)
      throw new MXNetError(s"OpContext.$method: input $inputIndex has $from elements, output $outputIndex has $to")
  }

  /** Applies `f` to every element of an input and writes the results to an output of equal length. Both are float32 or
    * both float64.
    */
  def map(inputIndex: Int, outputIndex: Int)(f: Double => Double): Unit = {
    checkSizes("map", inputIndex, outputIndex)
    val count = output(outputIndex).size
    var i = 0
    if (output(outputIndex).dtype == DType.Float64) {
      val (from, to) = (doubleInput(inputIndex), doubleOutput(outputIndex))
      while (i < count) {
        to.put(i, f(from.get(i)))
        i += 1
      }
    } else {
      val (from, to) = (floatInput(inputIndex), floatOutput(outputIndex))
      while (i < count) {
        to.put(i, f(from.get(i).toDouble).toFloat)
        i += 1
      }
    }
  }
}

private object OpContext {

  /** Elements of a block; two blocks fit in the L1 cache. */
  private val BlockSize = 2048

  /** Elements that a thread processes as one unit of work. */
  private val ChunkSize = 1 << 15

  /** The input and the output block of a thread. The first is longer than a block, so that corresponding elements are not
    * a multiple of 4096 bytes apart: a load at such a distance from an earlier store waits for it (4K aliasing).
    */
  private val scratch = new PerThread[(Array[Float], Array[Float])](null)

  private def scratchOfThread: (Array[Float], Array[Float]) = {
    if (scratch.get() == null) scratch.set((new Array(BlockSize + BlockSize / 4), new Array(BlockSize)))
    scratch.get()
  }

  /** Computes the elements from `begin` until `end`, block by block. */
  def blocks(
      input: FloatBuffer,
      output: FloatBuffer,
      begin: Int,
      end: Int,
      f: (Array[Float], Array[Float], Int) => Unit
  ): Unit = {
    val (from, to) = (input.duplicate(), output.duplicate())
    from.position(begin)
    to.position(begin)
    val (x, y) = scratchOfThread
    var start = begin
    while (start < end) {
      val length = math.min(BlockSize, end - start)
      from.get(x, 0, length)
      f(x, y, length)
      to.put(y, 0, length)
      start += length
    }
  }
}
