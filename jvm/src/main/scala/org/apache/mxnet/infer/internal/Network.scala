package org.apache.mxnet.infer.internal

import org.apache.mxnet._

/** A trained network with its parameters, which any number of threads can run at the same time. */
private[infer] trait Network {

  /** Names and shapes of the outputs for the described inputs. */
  def outputShapes: IndexedSeq[(String, Shape)]

  /** Runs the network.
    *
    * @param shapes the shapes of the inputs
    * @param fill writes the input arrays
    * @param read reads the outputs, which the next call overwrites
    */
  def run[A](shapes: IndexedSeq[Shape])(fill: IndexedSeq[NDArray] => Unit)(read: IndexedSeq[NDArray] => A): A

  /** Runs the network on arrays. The outputs are new arrays. */
  def predict(batch: IndexedSeq[NDArray]): IndexedSeq[NDArray]
}
