package org.apache.mxnet.infer.internal

import org.apache.mxnet._
import org.apache.mxnet.io.NDArrayIter
import org.apache.mxnet.module.Module

/** A network that a module runs. Threads that share it take turns.
  *
  * @param module the module, bound for `inputs`
  */
private[infer] final class ModuleNetwork(module: Module, inputs: NetworkInputs) extends Network {

  override def outputShapes: IndexedSeq[(String, Shape)] = module.synchronized(module.outputShapes)

  override def run[A](shapes: IndexedSeq[Shape])(fill: IndexedSeq[NDArray] => Unit)(
      read: IndexedSeq[NDArray] => A
  ): A = {
    val arrays = inputs.withShapes(shapes).map(desc => NDArray.empty(desc.shape, Context.cpu(), desc.dtype))
    try {
      fill(arrays)
      val outputs = predict(arrays)
      try read(outputs)
      finally outputs.foreach(_.dispose())
    } finally arrays.foreach(_.dispose())
  }

  /** Runs the module on a batch. For other shapes than the described ones, the module is bound for this call only. */
  override def predict(batch: IndexedSeq[NDArray]): IndexedSeq[NDArray] = module.synchronized {
    val shapes = batch.map(_.shape)
    val isBound = shapes == inputs.descs.map(_.shape)
    if (!isBound) rebind(inputs.withShapes(shapes))
    // The iterator must return one batch even if the batch axis is not the first.
    try module.predict(new NDArrayIter(batch, dataBatchSize = shapes.head(0)))
    finally if (!isBound) rebind(inputs.descs)
  }

  private def rebind(descs: IndexedSeq[DataDesc]): Unit =
    ResourceScope.outside(module.bind(descs, forTraining = false, forceRebind = true))
}
