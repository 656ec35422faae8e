import org.apache.mxnet._

/** How long the shortest calls take from Scala, in microseconds per call: the best and the median of the rounds. */
object SmallCalls {
  private val Rounds = 300

  def main(args: Array[String]): Unit = {
    val ones = NDArray.ones(Shape(1))
    val more = NDArray.ones(Shape(1))
    val million = NDArray.ones(Shape(1000000))
    ResourceScope.using() {
      report("a + b, disposed at once", calls = 2000)((ones + more).dispose())
      report("a + 1, disposed at once", calls = 2000)((ones + 1f).dispose())
      report("a += b", calls = 2000)(ones += more)
      report("NDArray.api.elemwise_add, disposed at once", calls = 2000)(
        NDArray.api.elemwise_add(lhs = ones, rhs = more).dispose()
      )
      report("toArray of 1M floats", calls = 5)(million.toArray)
      report("a new Array of 1M floats, for comparison", calls = 5)(new Array[Float](1000000))
    }
  }

  private def report(name: String, calls: Int)(call: => Any): Unit = {
    val times = Seq.fill(Rounds) {
      val start = System.nanoTime()
      var i = 0
      while (i < calls) {
        call
        i += 1
      }
      (System.nanoTime() - start) / 1e3 / calls
    }.sorted
    println(f"$name%-44s ${times.head}%9.3f ${times(Rounds / 2)}%9.3f us")
  }
}
