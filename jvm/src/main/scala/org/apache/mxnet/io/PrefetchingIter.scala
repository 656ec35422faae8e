package org.apache.mxnet.io

import java.util.concurrent.Semaphore

import org.apache.mxnet._
import org.apache.mxnet.internal.memory.ResourceHolder
import org.apache.mxnet.internal.util.Blocks
import org.apache.mxnet.internal.util.NullChecks.requireNonNull
import org.apache.mxnet.module.internal.TrackedIter

import scala.collection.immutable.ListMap

/** Prefetches the next batch of one or more iterators in background threads, and merges their batches into one.
  *
  * @param iters the iterators, which must return equal numbers of batches with equal padding
  * @param dataNames for each iterator, the new names of its inputs; null to keep the names
  * @param labelNames for each iterator, the new names of its labels; null to keep the names
  */
class PrefetchingIter(
    iters: IndexedSeq[DataIter],
    dataNames: IndexedSeq[Map[String, String]] = null,
    labelNames: IndexedSeq[Map[String, String]] = null
) extends DataIter
    with CurrentBatch
    with ResumableIter
    with ResourceHolder {
  requireNonNull("PrefetchingIter", "iters" -> iters)
  require(iters.nonEmpty, "PrefetchingIter needs at least one iterator")

  private val dataDescs = rename(iters.map(_.provideDataDesc), dataNames, "dataNames")
  private val labelDescs = rename(iters.map(_.provideLabelDesc), labelNames, "labelNames")

  /** Signals that slot i has a batch (or the end), and that slot i may be filled again. */
  private val ready = iters.map(_ => new Semaphore(0))
  private val taken = iters.map(_ => new Semaphore(1))

  @volatile private var running = true
  private val slots = Array.fill[PrefetchingIter.Read](iters.length)(PrefetchingIter.End)
  private var fetched = false

  // Because the threads read ahead, the position is the start of the pass and the number of batches returned since.
  private val sources = iters.map(new TrackedIter(_))
  private var passStart = sources.map(_.saveState())
  private var numReturned = 0
  private[io] var current: DataBatch = null

  private val threads = iters.indices.map { i =>
    val thread = new Thread(prefetchFunc(i), s"mxnet-prefetch-$i")
    thread.setDaemon(true)
    thread
  }
  threads.foreach(_.start())

  override private[mxnet] def heldResources: Iterator[Any] = iters.iterator

  private def rename(
      descs: IndexedSeq[IndexedSeq[DataDesc]],
      names: IndexedSeq[Map[String, String]],
      what: String
  ): IndexedSeq[DataDesc] =
    if (names == null) descs.flatten
    else {
      requireNonNull("PrefetchingIter", what -> names)
      require(names.length == descs.length, s"$what has ${names.length} maps but there are ${descs.length} iterators")
      descs.zip(names).flatMap { case (ownDescs, renamed) =>
        ownDescs.map { desc =>
          require(renamed.contains(desc.name), s"$what has no new name for ${desc.name}")
          desc.copy(name = renamed(desc.name))
        }
      }
    }

  /** Body of the thread of iterator i: waits until its slot may be filled, fills it and signals it. */
  def prefetchFunc(i: Int): Runnable = () =>
    while (running) {
      taken(i).acquire()
      if (running) {
        slots(i) =
          try if (sources(i).hasNext) PrefetchingIter.Batch(sources(i).next()) else PrefetchingIter.End
          // Fatal errors too: without a result, the reader would wait forever.
          catch { case error: Throwable => PrefetchingIter.Failure(error) }
      }
      ready(i).release()
    }

  override def hasNext: Boolean = {
    if (!fetched) {
      ready.foreach(_.acquire())
      fetched = true
    }
    slots.collectFirst { case PrefetchingIter.Failure(error) => error }.foreach(error => throw error)
    val ended = slots.count(_ == PrefetchingIter.End)
    require(ended == 0 || ended == slots.length, "the iterators of PrefetchingIter have different numbers of batches")
    ended == 0
  }

  @throws(classOf[NoSuchElementException])
  override def next(): DataBatch = {
    if (!hasNext) throw new NoSuchElementException("all batches have been read; call reset() for another pass")
    val batches = slots.toIndexedSeq.collect { case PrefetchingIter.Batch(batch) => batch }
    require(batches.forall(_.pad == batches.head.pad), "the iterators of PrefetchingIter pad their batches differently")
    current = new DataBatch(
      batches.flatMap(_.data),
      batches.flatMap(_.label),
      batches.head.index,
      batches.head.pad,
      batches.head.bucketKey,
      dataDescs,
      labelDescs
    )
    current.isTemporary = batches.forall(_.isTemporary)
    fetched = false
    numReturned += 1
    taken.foreach(_.release())
    current
  }

  override def reset(): Unit = startPass(sources.foreach(_.reset()))

  override def saveState(): Array[Byte] = Blocks.bytesOf { out =>
    out.writeInt(numReturned)
    Blocks.writeAll(out, passStart)(Blocks.write(out, _))
  }

  override def restoreState(state: Array[Byte]): Unit = Blocks.parse(state, "the state of a PrefetchingIter") { in =>
    val count = in.readInt()
    val states = Blocks.readAll(in)(Blocks.read(in))
    if (states.length != sources.length)
      throw new MXNetError(
        s"the state is that of ${states.length} iterators read ahead, but there are ${sources.length}"
      )
    startPass(sources.lazyZip(states).foreach(_.restoreState(_)))
    while (numReturned < count) next().release()
  }

  /** Begins a pass at the position that `goToStart` sets, while no thread reads. */
  private def startPass(goToStart: => Unit): Unit = {
    if (!fetched) ready.foreach(_.acquire())
    slots.foreach {
      case PrefetchingIter.Batch(batch) => batch.release()
      case _                            => ()
    }
    fetched = false
    numReturned = 0
    goToStart
    passStart = sources.map(_.saveState())
    taken.foreach(_.release())
  }

  override def batchSize: Int = dataDescs.head.shape(0)

  override def provideData: ListMap[String, Shape] = DataDesc.toShapes(dataDescs)

  override def provideLabel: ListMap[String, Shape] = DataDesc.toShapes(labelDescs)

  override def provideDataDesc: IndexedSeq[DataDesc] = dataDescs

  override def provideLabelDesc: IndexedSeq[DataDesc] = labelDescs

  /** Stops the threads. */
  def dispose(): Unit =
    if (running) {
      running = false
      taken.foreach(_.release())
      threads.foreach(_.join())
    }
}

private object PrefetchingIter {

  /** The result of a thread: a batch, the end, or an error for the reader. */
  sealed trait Read
  final case class Batch(batch: DataBatch) extends Read
  final case class Failure(error: Throwable) extends Read
  case object End extends Read
}
