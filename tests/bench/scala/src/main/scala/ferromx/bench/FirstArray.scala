package ferromx.bench

import java.lang.management.ManagementFactory

import org.apache.mxnet._

/** Prints the time from the start of the JVM to the first array, in milliseconds. */
object FirstArray {
  def main(arguments: Array[String]): Unit = {
    val inMain = System.currentTimeMillis()
    val first = NDArray.ones(2, 2).toArray
    val done = System.currentTimeMillis()
    val start = ManagementFactory.getRuntimeMXBean.getStartTime
    println(s"main after ${inMain - start} ms, first array (${first.mkString(" ")}) after ${done - start} ms")
  }
}
