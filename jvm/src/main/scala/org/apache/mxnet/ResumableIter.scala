package org.apache.mxnet

import org.apache.mxnet.util.Blocks

import scala.collection.immutable.ListMap

/** A data iterator whose position can be saved, so that training that resumes gets the batches that it would have got.
  *
  * The iterators of the library are such; an iterator of your own may be. Any other one is brought to its position by
  * reading and resetting it again as training had done, which takes as long as the data take to read, and needs an
  * iterator that draws no numbers from the engine's generator.
  */
trait ResumableIter {

  /** What decides the batches to come: the order of the instances, and how many were given. */
  def saveState(): Array[Byte]

  /** Goes to the position in which [[saveState]] was called, of this iterator or of one over the same data.
    *
    * @throws MXNetError if the state does not fit the data
    */
  def restoreState(state: Array[Byte]): Unit
}

/** An iterator that is read by this object only, which so knows its position.
  *
  * @param iter the iterator, not read yet
  */
private[mxnet] final class TrackedIter(iter: DataIter) extends DataIter with ResumableIter {

  /** Batches that were read in each pass that a reset ended. */
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
        s"the data give $i batches in a pass in which training had read $count: resume with the same data"
      )
    iter.next().dispose()
  }
}
