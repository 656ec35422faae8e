package org.apache.mxnet.module
package internal

import scala.collection.immutable.ListMap

import org.apache.mxnet._
import org.apache.mxnet.internal.util.Blocks

/** Tracks the position of an iterator, which only this object may read.
  *
  * @param iter the iterator, at its start
  */
private[mxnet] final class TrackedIter(iter: DataIter) extends DataIter with ResumableIter {

  /** Number of batches read in each completed pass. */
  private var passes = Vector.empty[Int]
  private var batches = 0

  override def hasNext: Boolean = iter.hasNext

  override def next(): DataBatch = {
    batches += 1
    iter.next()
  }

  override def reset(): Unit = {
    passes :+= batches
    batches = 0
    iter.reset()
  }

  override def batchSize: Int = iter.batchSize
  override def getData(): IndexedSeq[NDArray] = iter.getData()
  override def getLabel(): IndexedSeq[NDArray] = iter.getLabel()
  override def getPad(): Int = iter.getPad()
  override def getIndex(): IndexedSeq[Long] = iter.getIndex()
  override def provideData: ListMap[String, Shape] = iter.provideData
  override def provideLabel: ListMap[String, Shape] = iter.provideLabel
  override def provideDataDesc: IndexedSeq[DataDesc] = iter.provideDataDesc
  override def provideLabelDesc: IndexedSeq[DataDesc] = iter.provideLabelDesc
  override def defaultBucketKey: AnyRef = iter.defaultBucketKey

  override def saveState(): Array[Byte] = Blocks.bytesOf { out =>
    Blocks.writeAll(out, passes)(out.writeInt)
    out.writeInt(batches)
    iter match {
      case resumable: ResumableIter => Blocks.write(out, resumable.saveState())
      case _                        => ()
    }
  }

  override def restoreState(state: Array[Byte]): Unit = Blocks.parse(state, "the position of a data iterator") { in =>
    passes = Blocks.readAll(in)(in.readInt()).toVector
    batches = in.readInt()
    iter match {
      case resumable: ResumableIter => resumable.restoreState(Blocks.read(in))
      case _                        => replay()
    }
  }

  private def replay(): Unit = {
    passes.foreach { count =>
      skip(count)
      iter.reset()
    }
    skip(batches)
  }

  private def skip(count: Int): Unit = (0 until count).foreach { i =>
    if (!iter.hasNext)
      throw new MXNetError(
        s"the data have $i batches in a pass of which training had read $count: resume with the same data"
      )
    iter.next().dispose()
  }
}
