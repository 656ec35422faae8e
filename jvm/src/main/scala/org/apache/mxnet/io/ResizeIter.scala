package org.apache.mxnet.io

import org.apache.mxnet._
import org.apache.mxnet.internal.memory.ResourceHolder
import org.apache.mxnet.internal.util.Blocks
import org.apache.mxnet.internal.util.NullChecks.requireNonNull
import org.apache.mxnet.module.internal.TrackedIter

import scala.collection.immutable.ListMap

/** Changes the number of batches per pass of an iterator, which is reset when it ends.
  *
  * @param dataIter the iterator, which must return at least one batch
  * @param reSize number of batches in a pass
  * @param resetInternal whether [[reset]] resets `dataIter`; otherwise a pass continues after the last one
  */
class ResizeIter(dataIter: DataIter, reSize: Int, resetInternal: Boolean = true)
    extends DataIter
    with CurrentBatch
    with ResumableIter
    with ResourceHolder {

  override private[mxnet] def heldResources: Iterator[Any] = Iterator(dataIter)

  requireNonNull("ResizeIter", "dataIter" -> dataIter)
  require(reSize >= 0, s"reSize is $reSize; it must not be negative")

  private val source = new TrackedIter(dataIter)
  private var batches = 0
  private[io] var current: DataBatch = null

  override def reset(): Unit = {
    batches = 0
    current = null
    if (resetInternal) source.reset()
  }

  override def saveState(): Array[Byte] = Blocks.bytesOf { out =>
    out.writeInt(batches)
    Blocks.write(out, source.saveState())
  }

  override def restoreState(state: Array[Byte]): Unit = Blocks.parse(state, "the state of a ResizeIter") { in =>
    batches = in.readInt()
    source.restoreState(Blocks.read(in))
  }

  override def hasNext: Boolean = batches < reSize

  @throws(classOf[NoSuchElementException])
  override def next(): DataBatch = {
    if (!hasNext)
      throw new NoSuchElementException(s"all $reSize batches have been returned; call reset() for another pass")
    if (!source.hasNext) {
      source.reset()
      if (!source.hasNext)
        throw new NoSuchElementException("the iterator that ResizeIter wraps has no batches")
    }
    current = source.next()
    batches += 1
    current
  }

  override def batchSize: Int = dataIter.batchSize

  override def provideData: ListMap[String, Shape] = DataDesc.toShapes(provideDataDesc)

  override def provideLabel: ListMap[String, Shape] = DataDesc.toShapes(provideLabelDesc)

  override def provideDataDesc: IndexedSeq[DataDesc] = dataIter.provideDataDesc

  override def provideLabelDesc: IndexedSeq[DataDesc] = dataIter.provideLabelDesc
}
