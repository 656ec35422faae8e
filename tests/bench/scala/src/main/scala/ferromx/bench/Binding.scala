package ferromx.bench

import java.lang.management.ManagementFactory

import org.apache.mxnet._

/** Measures the processor time of binding a network for training, alone and with all arrays by name, like `capi_bind.c`.
  *
  * `runMain ferromx.bench.Binding SYMBOL.json DATA_SHAPE [ROUNDS [BINDS_PER_ROUND]]`
  */
object Binding {
  private val threads = ManagementFactory.getThreadMXBean

  private def bind(network: Symbol, shapes: Map[String, Shape], byName: Boolean): Int = ResourceScope.using() {
    val executor = network.simpleBind(Context.cpu(), "write", shapes)
    if (byName) executor.argDict.size + executor.gradDict.size + executor.auxDict.size + executor.outputs.length else 0
  }

  def main(arguments: Array[String]): Unit = {
    val network = Symbol.load(arguments(0))
    val shape = Shape(arguments(1).split(',').map(_.toInt))
    val shapes = Map("data" -> shape, "softmax_label" -> Shape(shape.head))
    val rounds = arguments.lift(2).fold(60)(_.toInt)
    val binds = arguments.lift(3).fold(100)(_.toInt)
    val times = Array.fill(rounds) {
      Seq(false, true).map { byName =>
        val start = threads.getCurrentThreadCpuTime
        (1 to binds).foreach(_ => bind(network, shapes, byName))
        (threads.getCurrentThreadCpuTime - start) / 1000.0 / binds
      }
    }
    // The first third warms up.
    times.drop(rounds / 3).toSeq.transpose.zip(Seq(":                   ", ", all arrays by name:")).foreach { case (each, name) =>
      println(f"Scala simpleBind$name minimum ${each.min}%.1f median ${each.sorted.apply(each.length / 2)}%.1f us")
    }
  }
}
