package ferromx.bench

import java.lang.management.ManagementFactory

import org.apache.mxnet._

/** How long a program waits for its first array: milliseconds since the JVM was started, without and with the library. */
object FirstArray {
  def main(arguments: Array[String]): Unit = {
    val start = ManagementFactory.getRuntimeMXBean.getStartTime
    val before = System.currentTimeMillis()
    val first = NDArray.ones(2, 2).toArray.sum
    val after = System.currentTimeMillis()
    println(s"main after ${before - start} ms, first array (sum $first) after ${after - start} ms")
  }
}
