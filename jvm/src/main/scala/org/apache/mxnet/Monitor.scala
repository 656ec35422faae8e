package org.apache.mxnet

import scala.collection.mutable

import org.apache.mxnet.Base.NDArrayHandle
import org.apache.mxnet.internal.util.Logging
import org.apache.mxnet.internal.util.NullChecks.requireNonNull

/** Monitors executors: every `interval` batches, it applies a statistic to every output of every operator between
  * [[tic]] and [[toc]].
  *
  * @param interval number of batches between two measurements
  * @param statFunc the statistic; by default the norm divided by the square root of the number of elements
  */
class Monitor(protected val interval: Int, protected var statFunc: NDArray => NDArray = null) {
  if (interval < 1) throw new MXNetError(s"Monitor: the interval is $interval batches, it must be 1 or more")
  if (statFunc == null) statFunc = Monitor.meanSize

  private var activated = false
  private var step = 0
  private val queue = mutable.Queue.empty[(Int, String, NDArray)]
  private val executors = mutable.ListBuffer.empty[Executor]

  /** The callback of the executors. */
  val statHelper: MXMonitorCallback = new MXMonitorCallback {
    override def invoke(name: String, arr: NDArrayHandle): Unit = {
      val array = NDArray.fromHandle(arr, writable = false)
      if (activated) queue.enqueue((step, name, statFunc(array)))
      else array.dispose()
    }
  }

  /** Installs the monitor on an executor. */
  def install(exe: Executor): Unit = {
    requireNonNull("Monitor.install", "exe" -> exe)
    exe.setMonitorCallback(statHelper)
    executors += exe
  }

  /** Starts collecting if this batch is to be measured; call it before `forward`. */
  def tic(): Unit = {
    if (step % interval == 0) {
      queue.clear()
      activated = true
    }
    step += 1
  }

  /** Stops collecting; call it after `backward`.
    *
    * @return the batch's number, the name and the value of each statistic; empty if this batch was not measured
    */
  def toc(): mutable.Queue[(Int, String, String)] =
    if (activated) {
      activated = false
      executors.foreach { exe =>
        exe.symbol.listArguments().zip(exe.argArrays).foreach { case (name, array) =>
          queue.enqueue((step, name, statFunc(array)))
        }
      }
      val statistics = queue.map { case (batch, name, value) => (batch, name, Monitor.text(value)) }
      queue.clear()
      statistics
    } else mutable.Queue.empty

  /** Logs the result of [[toc]], by SLF4J at level info. */
  def tocPrint(): Unit = toc().foreach { case (batch, name, value) =>
    Monitor.logger.info(s"Batch: $batch $name $value")
  }
}

private object Monitor {
  private val logger = Logging.of(classOf[Monitor])

  def meanSize(array: NDArray): NDArray =
    NDArray.genericNDArrayFunctionInvoke("norm", Seq(array)).head / math.sqrt(array.size.toDouble).toFloat

  def text(value: NDArray): String =
    if (value.shape == Shape(1)) value.toScalar.toString else value.toArray.mkString("[", ",", "]")
}
