package org.apache.mxnet

import java.util.concurrent.TimeUnit

/** Memory outside the heap stays bounded if a program never disposes anything. */
class MemoryPressureSuite extends munit.FunSuite {
  override val munitTimeout = scala.concurrent.duration.Duration(5, TimeUnit.MINUTES)

  private def peak(program: String, options: String*): Long = {
    val all = Seq("-Xmx512m", JavaProcess.Library, "-Dmxnet.gc.threshold=67108864") ++ options
    JavaProcess.run(all, s"org.apache.mxnet.$program").linesIterator.toSeq.last.toLong
  }

  test("500 arrays of 4 MiB that nobody keeps, with and without explicit collection") {
    Seq(Nil, Seq("-XX:+DisableExplicitGC")).foreach { options =>
      val most = peak("MemoryPressureProgram", options: _*)
      assert(most < (300L << 20), s"$most bytes with ${options.mkString}")
    }
  }

  test("200 executors of 8 MiB that nobody keeps, whose arrays nobody asks for") {
    val most = peak("BoundMemoryProgram", "-XX:+DisableExplicitGC")
    assert(most < (300L << 20), s"$most bytes")
  }

  test("the histories of 60,000 arrays that are kept, each computed from the one before, fit into the heap") {
    assertEquals(peak("KeptArraysProgram"), 60000L)
  }
}

object MemoryPressureProgram {
  def main(args: Array[String]): Unit = {
    var most = 0L
    var sum = NDArray.zeros(1024, 1024)
    (1 to 500).foreach { _ =>
      sum = sum * 1f
      most = math.max(most, Base._LIB.memoryInUse())
    }
    println(most)
  }
}

object BoundMemoryProgram {
  def main(args: Array[String]): Unit = {
    val network = Symbol.api.exp(Symbol.Variable("x"))
    println((1 to 200).map { _ =>
      network.simpleBind(Context.cpu(), "null", Map("x" -> Shape(1024, 1024)))
      Base._LIB.memoryInUse()
    }.max)
  }
}

/** Prints the number of arrays that the last one was computed from. */
object KeptArraysProgram {
  def main(args: Array[String]): Unit = {
    val kept = Iterator.iterate(NDArray.zeros(1))(_ + 1f).take(60001).toArray
    println(kept.last.dependencies.size)
  }
}
