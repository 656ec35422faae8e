package ferromx.bench

import java.lang.management.ManagementFactory

/** The calls of [[Crossing]] in processor time of their thread, for machines on which other programs run. */
object ProcessorTime {
  private val threads = ManagementFactory.getThreadMXBean
  private val rounds = 40
  private val warmUp = 15

  /** Prints the minimum and the median of the rounds after warming up, in microseconds per call. */
  private def measure(name: String, calls: Int)(call: => Any): Unit = {
    val times = Array.fill(rounds) {
      val start = threads.getCurrentThreadCpuTime
      var i = 0
      while (i < calls) {
        call
        i += 1
      }
      (threads.getCurrentThreadCpuTime - start) / 1000.0 / calls
    }
    val sorted = times.drop(warmUp).sorted
    println(f"$name%-20s minimum ${sorted.head}%8.3f median ${sorted(sorted.length / 2)}%8.3f")
  }

  def main(arguments: Array[String]): Unit = {
    val calls = new Crossing
    measure("a + b", 5000)(calls.addOneElement())
    measure("a + 1", 5000)(calls.addScalar())
    measure("a += b", 5000)(calls.addInPlace())
    measure("NDArray.api.relu", 5000)(calls.apiRelu())
    measure("Activation", 5000)(calls.apiActivation())
    measure("Symbol.api.relu", 5000)(calls.createSymbol())
    measure("FullyConnected", 5000)(calls.createLayer())
    measure("simpleBind", 100)(calls.simpleBind())
    measure("simpleBind and dicts", 100)(calls.simpleBindWithArrays())
    measure("toArray of 1M", 50)(calls.toArrayOfMillion())
    measure("clone of 1M", 50)(calls.cloneOfMillion())
    measure("set of 1M", 50)(calls.setOfMillion())
    measure("copy of 1M", 50)(calls.copyOfMillion())
  }
}
