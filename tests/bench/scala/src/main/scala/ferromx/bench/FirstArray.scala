package ferromx.bench

import java.lang.management.ManagementFactory

import org.apache.mxnet._

/** How long a program waits for its first array, in milliseconds since the JVM was started. */
object FirstArray {
  def main(arguments: Array[String]): Unit = {
    val inMain = System.currentTimeMillis()
    val first = NDArray.ones(2, 2).toArray
    val done = System.currentTimeMillis()
    val start = ManagementFactory.getRuntimeMXBean.getStartTime
    println(s"main after ${inMain - start} ms, first array (${first.mkString(" ")}) after ${done - start} ms")
  }
}
