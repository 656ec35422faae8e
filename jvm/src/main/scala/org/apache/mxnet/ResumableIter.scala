package org.apache.mxnet

/** A data iterator whose position can be saved, so that resumed training gets the same batches.
  *
  * The iterators of the library implement it. Other iterators are read again up to their position, which takes time,
  * and is correct only if they do not use the engine's random number generators.
  */
trait ResumableIter {

  /** The state that determines the next batches: the order of the instances, and the number of batches returned. */
  def saveState(): Array[Byte]

  /** Restores a state of this iterator, or of one over the same data.
    *
    * @throws MXNetError if the state does not match the data
    */
  def restoreState(state: Array[Byte]): Unit
}
