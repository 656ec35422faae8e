package org.apache.mxnet.io

import org.apache.mxnet.Base.{_LIB, CPtrAddress, DataIterHandle, MXUint}
import org.apache.mxnet.NativeResource.keepAlive
import org.apache.mxnet._
import org.apache.mxnet.internal.util.Blocks

import scala.collection.immutable.ListMap

/** A data iterator of the native library.
  *
  * @param handle its handle
  * @param dataName name of its data
  * @param labelName name of its labels
  */
private[mxnet] class MXDataIter(
    private[mxnet] val handle: DataIterHandle,
    dataName: String = "data",
    labelName: String = "label"
) extends DataIter
    with ResumableIter
    with NativeResource {

  override def nativeAddress: CPtrAddress = handle
  override def nativeDeAllocator: CPtrAddress => Int = MXDataIter.free
  override val ref: NativeResourceRef = register()
  override val bytesAllocated: Long = 0L

  private def native[R](call: DataIterHandle => R): R = {
    val result = call(handleOf("MXDataIter"))
    keepAlive(this)
    result
  }

  /** The batch that [[hasNext]] prefetched. */
  private var nextBatch: DataBatch = null

  /** Number of batches of this pass that were returned. */
  private var numReturned = 0

  private val (dataDescs, labelDescs) =
    if (hasNext) {
      val data = nextBatch.data.head
      val label = nextBatch.label.head
      (
        IndexedSeq(DataDesc(dataName, data.shape, data.dtype, Layout.UNDEFINED)),
        IndexedSeq(DataDesc(labelName, label.shape, label.dtype, Layout.UNDEFINED))
      )
    } else (IndexedSeq.empty[DataDesc], IndexedSeq.empty[DataDesc])

  override def reset(): Unit = {
    if (nextBatch != null) nextBatch.dispose()
    nextBatch = null
    numReturned = 0
    native(_LIB.dataIterBeforeFirst)
  }

  override def saveState(): Array[Byte] = Blocks.bytesOf { out =>
    native(_LIB.dataIterEpoch).foreach(out.writeLong)
    out.writeInt(numReturned)
  }

  override def restoreState(state: Array[Byte]): Unit = Blocks.parse(state, "the state of a data iterator") { in =>
    reset()
    native(_LIB.dataIterRestart(_, in.readLong(), in.readLong()))
    val count = in.readInt()
    while (numReturned < count) next().dispose()
  }

  override def hasNext: Boolean = {
    if (nextBatch == null && native(_LIB.dataIterNext)) {
      nextBatch = new DataBatch(getData(), getLabel(), getIndex(), getPad()).asTemporary()
    }
    nextBatch != null
  }

  @throws(classOf[NoSuchElementException])
  override def next(): DataBatch = {
    if (!hasNext) throw new NoSuchElementException("all batches have been read; call reset() for another pass")
    val batch = nextBatch
    nextBatch = null
    numReturned += 1
    batch
  }

  override def getData(): IndexedSeq[NDArray] = IndexedSeq(
    NDArray.fromHandle(native(_LIB.dataIterData), writable = false)
  )

  override def getLabel(): IndexedSeq[NDArray] = IndexedSeq(
    NDArray.fromHandle(native(_LIB.dataIterLabel), writable = false)
  )

  override def getIndex(): IndexedSeq[Long] = native(_LIB.dataIterIndex).toIndexedSeq

  override def getPad(): MXUint = native(_LIB.dataIterPad)

  override def provideData: ListMap[String, Shape] = DataDesc.toShapes(dataDescs)

  override def provideLabel: ListMap[String, Shape] = DataDesc.toShapes(labelDescs)

  override def provideDataDesc: IndexedSeq[DataDesc] = dataDescs

  override def provideLabelDesc: IndexedSeq[DataDesc] = labelDescs

  override def batchSize: Int = dataDescs.headOption.fold(0)(_.shape(0))

  override private[mxnet] def dispose(removeFromScope: Boolean): Unit = {
    if (nextBatch != null) nextBatch.dispose()
    nextBatch = null
    super.dispose(removeFromScope)
  }
}

private[mxnet] object MXDataIter {
  val free: CPtrAddress => Int = handle => {
    _LIB.dataIterFree(handle)
    0
  }
}

/** Creates a native iterator for each iteration.
  *
  * @param iterName name of the iterator
  * @param params its parameters
  */
private[mxnet] class MXDataPack(iterName: String, params: Map[String, String]) extends DataPack {
  override def iterator: DataIter = IO.createIterator(iterName, params)
}
