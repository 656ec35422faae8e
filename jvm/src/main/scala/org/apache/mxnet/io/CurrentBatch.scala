package org.apache.mxnet.io

import org.apache.mxnet.{DataBatch, DataIter, NDArray}

/** The methods of an iterator that describe its last batch. */
private[io] trait CurrentBatch extends DataIter {

  /** The last batch; `null` before the first. */
  private[io] def current: DataBatch

  private def currentBatch: DataBatch = {
    require(current != null, "there is no current batch; call next()")
    current
  }

  override def getData(): IndexedSeq[NDArray] = currentBatch.data

  override def getLabel(): IndexedSeq[NDArray] = currentBatch.label

  override def getIndex(): IndexedSeq[Long] = currentBatch.index

  override def getPad(): Int = currentBatch.pad
}
