package org.apache.mxnet

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
