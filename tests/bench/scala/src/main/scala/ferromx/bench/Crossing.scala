package ferromx.bench

import java.util.concurrent.TimeUnit

import org.apache.mxnet._
import org.openjdk.jmh.annotations._

/** Measures the boundary between the JVM and the engine: calls with little work, and copies. */
@State(Scope.Thread)
@BenchmarkMode(Array(Mode.AverageTime))
@OutputTimeUnit(TimeUnit.MICROSECONDS)
@Warmup(iterations = 5, time = 1)
@Measurement(iterations = 10, time = 1)
@Fork(2)
class Crossing {
  private val one = NDArray.ones(1)
  private val other = NDArray.ones(1)
  private val x = Symbol.Variable("x")
  private val million = NDArray.ones(1000000)
  private val values = Array.fill(1000000)(1f)
  private val copied = new Array[Float](1000000)
  private val network = Networks.leNet
  private val shapes = Map("data" -> Shape(32, 1, 28, 28), "softmax_label" -> Shape(32))

  @Benchmark def addOneElement(): Unit = (one + other).dispose()

  @Benchmark def addScalar(): Unit = (one + 1f).dispose()

  @Benchmark def addInPlace(): NDArray = one += other

  @Benchmark def apiRelu(): Unit = NDArray.api.relu(data = one).dispose()

  @Benchmark def apiActivation(): Unit = NDArray.api.Activation(data = one, act_type = "relu").dispose()

  @Benchmark def createSymbol(): Unit = Symbol.api.relu(data = x).dispose()

  @Benchmark def createLayer(): Unit = Symbol.api.FullyConnected(data = x, num_hidden = 8, no_bias = true).dispose()

  /** Leaves the arrays to the garbage collector, like a program that never calls `dispose`. */
  @Benchmark def addWithoutDisposing(): NDArray = one + other

  @Benchmark def toArrayOfMillion(): Array[Float] = million.toArray

  @Benchmark def setOfMillion(): NDArray = million.set(values)

  /** The limit set by memory: a copy into a new array, and a copy alone. */
  @Benchmark def cloneOfMillion(): Array[Float] = values.clone()

  @Benchmark def copyOfMillion(): Array[Float] = {
    System.arraycopy(values, 0, copied, 0, values.length)
    copied
  }

  /** Compare with `capi_bind.c`, which binds the same network and frees the arrays. */
  @Benchmark def simpleBind(): Unit = ResourceScope.using() {
    network.simpleBind(Context.cpu(), "write", shapes)
    ()
  }

  /** Also asks for every array, by name. */
  @Benchmark def simpleBindWithArrays(): Int = ResourceScope.using() {
    val executor = network.simpleBind(Context.cpu(), "write", shapes)
    executor.argDict.size + executor.gradDict.size + executor.auxDict.size + executor.outputs.length
  }
}
