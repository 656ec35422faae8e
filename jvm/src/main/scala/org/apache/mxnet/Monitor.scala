package org.apache.mxnet

import scala.collection.mutable

import org.apache.mxnet.Base.NDArrayHandle
import org.apache.mxnet.internal.util.Given

/** Watches what executors compute, every so many batches: between [[tic]] and [[toc]] it applies a statistic to every
  * output of every operator.
  *
  * @param interval the number of batches from one look to the next
  * @param statFunc the statistic; by default the norm divided by the square root of the number of elements
  */
class Monitor(protected val interval: Int, protected var statFunc: NDArray => NDArray = null) {
  if (interval < 1) throw new MXNetError(s"Monitor: the interval is $interval batches, it must be 1 or more")
  if (statFunc == null) statFunc = Monitor.meanSize

  private var activated = false
  private var step = 0
  private val queue = mutable.Queue.empty[(Int, String, NDArray)]
  private val executors = mutable.ListBuffer.empty[Executor]

  /** What the executors call. */
  val statHelper: MXMonitorCallback = new MXMonitorCallback {
    override def invoke(name: String, arr: NDArrayHandle): Unit = {
      val array = NDArray.fromHandle(arr, writable = false)
      if (activated) queue.enqueue((step, name, statFunc(array)))
      else array.dispose()
    }
  }

  /** Watches an executor. */
  def install(exe: Executor): Unit = {
    Given("Monitor.install", "exe" -> exe)
    exe.setMonitorCallback(statHelper)
    executors += exe
  }

  /** Starts to collect if this batch is one to look at; to be called before `forward`. */
  def tic(): Unit = {
    if (step % interval == 0) {
      queue.clear()
      activated = true
    }
    step += 1
  }

  /** Ends to collect; to be called after `backward`.
    *
    * @return the batch's number, the name and the value of each statistic; empty if this batch was not looked at
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

  /** [[toc]], printed. */
  def tocPrint(): Unit = toc().foreach { case (batch, name, value) => println(f"Batch: $batch%7d $name%30s $value") }
}

private object Monitor {
  def meanSize(array: NDArray): NDArray =
    NDArray.genericNDArrayFunctionInvoke("norm", Seq(array)).head / math.sqrt(array.size.toDouble).toFloat

  def text(value: NDArray): String = {
    val values = value.toArray
    if (values.length == 1) values(0).toString else values.mkString("[", ", ", "]")
  }
}
