package org.apache.mxnet.io

import org.apache.mxnet.Base._LIB
import org.apache.mxnet._
import org.apache.mxnet.internal.memory.ResourceHolder
import org.apache.mxnet.internal.util.Blocks
import org.apache.mxnet.internal.util.NullChecks.requireNonNull

import scala.collection.immutable.ListMap

/** Splits arrays in memory into mini-batches along the first axis.
  *
  * `lastBatchHandle` is the treatment of an incomplete last batch. `pad` fills it with instances from the start,
  * counted by [[getPad]]. `discard` drops it. `roll_over`, for training only, fills it from the start without counting
  * padding, and the next pass begins after these instances.
  *
  * @param data inputs with their descriptions
  * @param label labels with their descriptions; empty if there are none
  * @param dataBatchSize number of instances in a batch
  * @param shuffle whether to shuffle the instances, in the same order for all arrays, now and at each [[reset]]; seeded
  *   by `Random.seed`
  * @param lastBatchHandle `pad`, `discard` or `roll_over`
  */
class NDArrayIter(
    data: IndexedSeq[(DataDesc, NDArray)],
    label: IndexedSeq[(DataDesc, NDArray)],
    dataBatchSize: Int,
    shuffle: Boolean,
    lastBatchHandle: String
) extends DataIter
    with ResumableIter
    with ResourceHolder {

  /** Names the inputs `dataName` and the labels `labelName`, with `_0`, `_1` and so on appended if there are several.
    */
  def this(
      data: IndexedSeq[NDArray],
      label: IndexedSeq[NDArray] = IndexedSeq.empty,
      dataBatchSize: Int = 1,
      shuffle: Boolean = false,
      lastBatchHandle: String = "pad",
      dataName: String = "data",
      labelName: String = "label"
  ) = this(
    IO.initDataDesc(data, allowEmpty = false, dataName, Layout.UNDEFINED),
    IO.initDataDesc(label, allowEmpty = true, labelName, Layout.UNDEFINED),
    dataBatchSize,
    shuffle,
    lastBatchHandle
  )

  NDArrayIter.check(data, label, dataBatchSize, lastBatchHandle)

  /** The inputs, without discarded instances. */
  val initData: IndexedSeq[(DataDesc, NDArray)] = withoutDiscarded(data)

  /** The labels, without discarded instances. */
  val initLabel: IndexedSeq[(DataDesc, NDArray)] = withoutDiscarded(label)

  /** Number of instances. */
  val numData: Int = initData.head._2.shape(0)

  /** Number of inputs. */
  val numSource: Int = initData.size

  private var cursor = -dataBatchSize
  private var order: Array[Int] = null
  private var shuffledData: IndexedSeq[NDArray] = initData.map(_._2)
  private var shuffledLabel: IndexedSeq[NDArray] = initLabel.map(_._2)
  if (shuffle) shuffleInstances()

  private val dataDescs = initData.map { case (desc, array) => batchDesc(desc, array) }
  private val labelDescs = initLabel.map { case (desc, array) => batchDesc(desc, array) }

  private def withoutDiscarded(arrays: IndexedSeq[(DataDesc, NDArray)]): IndexedSeq[(DataDesc, NDArray)] =
    if (lastBatchHandle != "discard") arrays
    else
      arrays.map { case (desc, array) =>
        val size = array.shape(0)
        (desc, if (size % dataBatchSize == 0) array else array.slice(0, size - size % dataBatchSize))
      }

  private def batchDesc(desc: DataDesc, array: NDArray): DataDesc =
    DataDesc(desc.name, Shape(dataBatchSize) ++ array.shape.drop(1), desc.dtype, desc.layout)

  override private[mxnet] def heldResources: Iterator[Any] = Iterator(initData, initLabel, shuffledData, shuffledLabel)

  private def shuffleInstances(): Unit = {
    val keys = Random.uniform(0f, 1f, Shape(numData))
    val weights = keys.toArray
    keys.dispose()
    reorder(Array.range(0, numData).sortBy(weights(_)))
  }

  private def reorder(newOrder: Array[Int]): Unit = {
    order = newOrder
    val indices = NDArray.empty(Shape(numData), initData.head._2.context, DType.Int32)
    _LIB.ndarraySetInts(indices.liveHandle, 0L, order, 0, numData)
    val old = if (shuffledData.head eq initData.head._2) IndexedSeq.empty else shuffledData ++ shuffledLabel
    shuffledData = initData.map { case (_, array) => NDArrayIter.take(array, indices) }
    shuffledLabel = initLabel.map { case (_, array) => NDArrayIter.take(array, indices) }
    old.foreach(_.dispose())
    indices.dispose()
  }

  /** Resets to the first instance, even with `roll_over`. */
  def hardReset(): Unit = {
    if (shuffle) shuffleInstances()
    cursor = -dataBatchSize
  }

  override def reset(): Unit = {
    val rolledOver = if (lastBatchHandle == "roll_over" && cursor > numData - dataBatchSize && cursor < numData) {
      cursor + dataBatchSize - numData
    } else 0
    hardReset()
    cursor += rolledOver
  }

  override def saveState(): Array[Byte] = Blocks.bytesOf { out =>
    out.writeInt(numData)
    out.writeInt(cursor)
    Blocks.writeAll(out, Option(order).fold(Seq.empty[Int])(_.toSeq))(out.writeInt)
  }

  override def restoreState(state: Array[Byte]): Unit = Blocks.parse(state, "the state of an NDArrayIter") { in =>
    val savedSize = in.readInt()
    val savedCursor = in.readInt()
    val savedOrder = Blocks.readAll(in)(in.readInt()).toArray
    val isShuffled = savedOrder.nonEmpty
    if (savedSize != numData || isShuffled != shuffle)
      throw new MXNetError(
        s"the state is that of an NDArrayIter over $savedSize instances, ${if (isShuffled) "" else "not "}shuffled; this one " +
          s"has $numData, ${if (shuffle) "" else "not "}shuffled: resume with the same data"
      )
    if (isShuffled) {
      if (!savedOrder.sorted.sameElements(0 until numData))
        throw new MXNetError("the state of the NDArrayIter is damaged: its order is not a permutation of the instances")
      reorder(savedOrder)
    }
    cursor = savedCursor
  }

  override def hasNext: Boolean = cursor + dataBatchSize < numData

  @throws(classOf[NoSuchElementException])
  override def next(): DataBatch = {
    if (!hasNext) {
      throw new NoSuchElementException(s"all $numData instances have been read; call reset() for another pass")
    }
    cursor += dataBatchSize
    new DataBatch(getData(), getLabel(), getIndex(), getPad(), null, dataDescs, labelDescs).asTemporary()
  }

  private def batchOf(arrays: IndexedSeq[NDArray]): IndexedSeq[NDArray] = {
    require(cursor >= 0 && cursor < numData, "there is no current batch; call next(), after reset() at the end")
    val end = cursor + dataBatchSize
    if (end <= numData) arrays.map(_.slice(cursor, end)) else arrays.map(fromBothEnds(_, end - numData))
  }

  /** A batch of the last instances and the first `missing` ones, repeating the data if there are fewer. */
  private def fromBothEnds(array: NDArray, missing: Int): NDArray = {
    val batch = NDArray.empty(Shape(dataBatchSize) ++ array.shape.drop(1), array.context, array.dtype)
    var filled = dataBatchSize - missing
    NDArrayIter.copyRows(array, cursor, batch, 0, filled)
    while (filled < dataBatchSize) {
      val rows = math.min(numData, dataBatchSize - filled)
      NDArrayIter.copyRows(array, 0, batch, filled, rows)
      filled += rows
    }
    batch
  }

  override def getData(): IndexedSeq[NDArray] = batchOf(shuffledData)

  override def getLabel(): IndexedSeq[NDArray] = batchOf(shuffledLabel)

  /** Indices of the current batch's instances in the arrays. */
  override def getIndex(): IndexedSeq[Long] = {
    val first = cursor
    (0 until dataBatchSize).map { i =>
      val position = (first + i) % numData
      (if (order == null) position else order(position)).toLong
    }
  }

  override def getPad(): Int =
    if (lastBatchHandle == "pad" && cursor + dataBatchSize > numData) cursor + dataBatchSize - numData else 0

  override def provideData: ListMap[String, Shape] = DataDesc.toShapes(dataDescs)

  override def provideLabel: ListMap[String, Shape] = DataDesc.toShapes(labelDescs)

  override def provideDataDesc: IndexedSeq[DataDesc] = dataDescs

  override def provideLabelDesc: IndexedSeq[DataDesc] = labelDescs

  override def batchSize: Int = dataBatchSize
}

/** Builds iterators over arrays. */
object NDArrayIter {
  private val LastBatchHandles = Seq("pad", "discard", "roll_over")

  private def check(
      data: IndexedSeq[(DataDesc, NDArray)],
      label: IndexedSeq[(DataDesc, NDArray)],
      batchSize: Int,
      lastBatchHandle: String
  ): Unit = {
    require(data != null && data.nonEmpty, "data of NDArrayIter is empty; give at least one array")
    require(label != null, "label of NDArrayIter is null; give IndexedSeq.empty if there are no labels")
    require(batchSize > 0, s"dataBatchSize is $batchSize; it must be at least 1")
    require(
      LastBatchHandles.contains(lastBatchHandle),
      s"lastBatchHandle is $lastBatchHandle; it must be one of ${LastBatchHandles.mkString(", ")}"
    )
    val (firstDesc, first) = data.head
    for ((desc, array) <- data ++ label) {
      require(
        array.shape.length > 0,
        s"${desc.name} has the shape ${array.shape}; its first axis must count the instances"
      )
      require(
        array.shape(0) == first.shape(0),
        s"${desc.name} has ${array.shape(0)} instances (shape ${array.shape}) " +
          s"but ${firstDesc.name} has ${first.shape(0)}"
      )
    }
    require(
      lastBatchHandle != "discard" || batchSize <= first.shape(0),
      s"dataBatchSize is $batchSize but there are only ${first.shape(0)} instances, all of which discard would drop"
    )
    for ((desc, array) <- label) {
      val bad = array.toArray.indexWhere(_.isNaN)
      require(bad < 0, s"label ${desc.name} of shape ${array.shape} is NaN at element $bad; remove or replace it")
    }
  }

  private def take(array: NDArray, indices: NDArray): NDArray =
    NDArray.genericNDArrayFunctionInvoke("take", Seq(array, indices)).get

  private def copyRows(source: NDArray, from: Int, target: NDArray, to: Int, rows: Int): Unit =
    if (rows > 0) {
      val sourceRows = source.slice(from, from + rows)
      val targetRows = target.slice(to, to + rows)
      sourceRows.copyTo(targetRows)
      sourceRows.dispose()
      targetRows.dispose()
    }

  /** Builds an iterator step by step. */
  class Builder() {
    private var data: IndexedSeq[(DataDesc, NDArray)] = IndexedSeq.empty
    private var label: IndexedSeq[(DataDesc, NDArray)] = IndexedSeq.empty
    private var dataBatchSize: Int = 1
    private var lastBatchHandle: String = "pad"

    private def describe(name: String, array: NDArray): DataDesc = {
      requireNonNull("NDArrayIter.Builder", name -> array)
      DataDesc(name, array.shape, array.dtype, Layout.UNDEFINED)
    }

    /** Adds an input. */
    def addData(name: String, data: NDArray): Builder = addDataWithDesc(describe(name, data), data)

    /** Adds a label. */
    def addLabel(name: String, label: NDArray): Builder = addLabelWithDesc(describe(name, label), label)

    /** Adds an input with its description. */
    def addDataWithDesc(dataDesc: DataDesc, data: NDArray): Builder = {
      this.data = this.data :+ ((dataDesc, data))
      this
    }

    /** Adds a label with its description. */
    def addLabelWithDesc(labelDesc: DataDesc, label: NDArray): Builder = {
      this.label = this.label :+ ((labelDesc, label))
      this
    }

    /** Sets the number of instances in a batch. */
    def setBatchSize(batchSize: Int): Builder = {
      this.dataBatchSize = batchSize
      this
    }

    /** Sets the treatment of an incomplete last batch: `pad`, `discard` or `roll_over`. */
    def setLastBatchHandle(lastBatchHandle: String): Builder = {
      this.lastBatchHandle = lastBatchHandle
      this
    }

    /** The iterator. */
    def build(): NDArrayIter = new NDArrayIter(data, label, dataBatchSize, shuffle = false, lastBatchHandle)
  }
}
