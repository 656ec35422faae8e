import java.util.concurrent.atomic.AtomicLong

import org.apache.mxnet._

/** y = x * x + x, element by element in buffers. */
class Polynomial extends UserDefinedCustomOp {
  def opName: String = "bench_polynomial"
  override def exec(context: OpContext): Unit = {
    val (x, y) = (context.floatInput(0), context.floatOutput(0))
    val n = x.capacity()
    var i = 0
    while (i < n) {
      val v = x.get(i)
      y.put(i, v * v + v)
      i += 1
    }
  }
}

/** The same, block by block in Java arrays. */
class PolynomialInBlocks extends UserDefinedCustomOp {
  def opName: String = "bench_polynomial_in_blocks"
  override def exec(context: OpContext): Unit = context.mapBlocks(0, 0) { (x, y, n) =>
    var i = 0
    while (i < n) {
      y(i) = x(i) * x(i) + x(i)
      i += 1
    }
  }
}

/** y = x / (1 + exp(-x)), with a function of one element. */
class Swish extends UserDefinedCustomOp {
  def opName: String = "bench_swish"
  override def exec(context: OpContext): Unit = context.map(0, 0)(x => x / (1 + math.exp(-x)))
}

/** Does nothing. */
class NoOp extends UserDefinedCustomOp {
  def opName: String = "bench_no_op"
  override def exec(context: OpContext): Unit = ()
}

/** Measures user-defined operators: an elementwise one on 1M floats, alternating with the same loop on Java arrays, and a
  * call of one that does nothing. Prints minimum and median in microseconds.
  */
object UserOperators {
  private val Size = 1000000
  private val Rounds = 200
  private val sink = new AtomicLong

  def main(args: Array[String]): Unit = {
    val values = Array.tabulate(Size)(i => (i % 1000) / 500f - 1f)
    val out = new Array[Float](Size)
    Seq("buffers" -> new Polynomial, "blocks" -> new PolynomialInBlocks).foreach { case (way, op) =>
      compare(s"x * x + x on 1M floats, $way", op, values) {
        var i = 0
        while (i < Size) {
          val v = values(i)
          out(i) = v * v + v
          i += 1
        }
        sink.addAndGet(out(7).toLong)
      }
    }
    compare("swish of 1M floats", new Swish, values) {
      var i = 0
      while (i < Size) {
        val v = values(i).toDouble
        out(i) = (v / (1 + math.exp(-v))).toFloat
        i += 1
      }
      sink.addAndGet(out(7).toLong)
    }
    calls()
  }

  private def timed(calls: Int)(body: => Any): Double = {
    val start = System.nanoTime()
    var i = 0
    while (i < calls) {
      body
      i += 1
    }
    (System.nanoTime() - start) / 1e3 / calls
  }

  /** Warms up for two seconds, so that the JVM compiles the code. */
  private def warmUp(body: => Any): Unit = {
    val end = System.nanoTime() + 2000000000L
    while (System.nanoTime() < end) body
  }

  private def bound(op: UserDefinedCustomOp, values: Array[Float]): Executor =
    op(Symbol.Variable("x")).bind(Context.cpu(), Map("x" -> NDArray.array(values, Shape(values.length))))

  private def compare(name: String, op: UserDefinedCustomOp, values: Array[Float])(loop: => Any): Unit = {
    val executor = bound(op, values)
    warmUp {
      executor.forward()
      loop
    }
    val pairs = Seq.fill(Rounds)((timed(1)(executor.forward()), timed(1)(loop)))
    val (operator, plain) = (pairs.map(_._1).sorted, pairs.map(_._2).sorted)
    val (least, median) = (operator.head / plain.head, operator(operator.length / 2) / plain(plain.length / 2))
    println(
      f"$name%-36s operator ${operator.head}%8.1f ${operator(operator.length / 2)}%8.1f, plain loop ${plain.head}%8.1f " +
        f"${plain(plain.length / 2)}%8.1f us: $least%.2f times by the least, $median%.2f by the median"
    )
  }

  private def calls(): Unit = {
    val (one, noOp) = (NDArray.ones(Shape(1)), new NoOp)
    val executor = bound(noOp, Array(1f))
    val without = Symbol.api.identity(Symbol.Variable("x")).bind(Context.cpu(), Map("x" -> one))
    def report(name: String)(call: => Any): Unit = {
      warmUp(call)
      val times = Seq.fill(Rounds)(timed(1000)(call)).sorted
      println(f"$name%-50s ${times.head}%8.3f ${times(times.length / 2)}%8.3f us")
    }
    report("forward of an executor with a copy only")(without.forward())
    report("forward of an executor with an operator that does nothing")(executor.forward())
    report("invoke of an operator that does nothing")(noOp.invoke(one).head.dispose())
  }
}
