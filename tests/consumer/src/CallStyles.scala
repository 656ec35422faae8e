import org.apache.mxnet._

/** x * x, as a user writes an operator. */
@UserDefinedOp
class SquareOperator(val power: Int) extends UserDefinedCustomOp {
  def this() = this(2)
  override def opName: String = "consumer_power"
  override def exec(context: OpContext): Unit = context.map(0, 0)(x => math.pow(x, power.toDouble))
  override def doDiff(gradients: Array[Symbol]): Array[Symbol] =
    Array(gradients(0) * Symbol.pow(arg(0), power - 1f) * power.toFloat)
}

/** Every way to write a call. Scala 2 and Scala 3 compile this file and get the same results. */
object CallStyles {
  def check(name: String, actual: Any, expected: Any): Unit =
    if (actual != expected) sys.error(s"$name: $actual instead of $expected")

  def run(): Unit = ResourceScope.using() {
    arguments()
    conversions()
    conversionsOfSymbols()
    randomNumbers()
    untyped()
    modules()
    userDefinedOperators()
  }

  private def values(array: NDArray): Seq[Float] = array.toArray.toSeq

  private def arguments(): Unit = {
    val data = Symbol.Variable("data")
    val calls = Seq(
      Symbol.api.Activation(data = Some(data), act_type = "relu", name = Some("a"), attr = Some(Map("__k__" -> "v"))),
      Symbol.api.Activation(data = data, act_type = "relu", name = "a", attr = Map("__k__" -> "v")),
      Symbol.api.Activation(data, "relu", "a", Map("__k__" -> "v")),
      Symbol.api.Activation(act_type = "relu", name = "a", data = data, attr = Map("__k__" -> "v"))
    )
    check("call styles", calls.map(_.toJson).distinct.size, 1)
    check("defaults", Symbol.api.Activation(act_type = "tanh", name = "t").listArguments().toSeq, Seq("t_data"))
    check("null", Symbol.api.Activation(null, "tanh", null, None).listArguments().size, 1)
    val slope = Symbol.api.LeakyReLU(data = data, act_type = "leaky", slope = 1, name = "l")
    check("Int for Float", slope.attr("slope"), Symbol.api.LeakyReLU(data = data, slope = Some(1f)).attr("slope"))
    check("Double for Float", Symbol.api.LeakyReLU(data = data, slope = 0.5).attr("slope"), Some("0.5"))
    val optional = Symbol.api.LeakyReLU(data = data, act_type = Some("elu"))
    check("option of an enumeration", optional.attr("act_type"), Some("elu"))
    val chosen: String = "PRELU".toLowerCase
    val parametric = Symbol.api.LeakyReLU(data = data, act_type = chosen)
    check("text that is known when it runs", parametric.attr("act_type"), Some("prelu"))
    val refused =
      try Symbol.api.LeakyReLU(data = data, act_type = chosen.drop(1)).toString
      catch { case error: MXNetError => error.getMessage }
    check("wrong text", refused.contains("LeakyReLU: Invalid Input: 'relu', valid values are: {'elu', 'gelu'"), true)
  }

  private def conversions(): Unit = {
    import NDArrayConversions._
    val a = NDArray.array(Array(1f, 2f, 3f), Shape(3))
    check("scalars on either side", values(1 - a + a * 2 - 0.5f), Seq(1.5f, 2.5f, 3.5f))
    val squared: NDArray = NDArray.api.square(data = a)
    check("a result as an array", values(squared), Seq(1f, 4f, 9f))
    check("a result in arithmetic", values(NDArray.api.square(a) + a), Seq(2f, 6f, 12f))
    val into = NDArray.zeros(3)
    NDArray.api.relu(data = a, out = into)
    NDArray.api.elemwise_add(lhs = into, rhs = a, out = Some(into))
    check("out", values(into), Seq(2f, 4f, 6f))
    val joined = NDArray.api.Concat(data = Array(a, a), dim = 0)
    check("several inputs", joined.shape, Shape(6))
    val clipped: NDArray = NDArray.api.clip(data = a, a_min = 0, a_max = 2)
    check("clip", values(clipped), Seq(1f, 2f, 2f))
    check("an input that is left out", NDArray.api.softmax(a).shape, Shape(3))
    check("one axis", values(NDArray.api.sum(NDArray.ones(2, 3), axis = 1)), Seq(3f, 3f))
    check("two axes", values(NDArray.api.sum(NDArray.ones(2, 3), axis = (0, 1))), Seq(6f))
    check("a type", NDArray.api.cast(a, dtype = DType.Int32).dtype, DType.Int32)
    check("an optional type", NDArray.api.one_hot(a, depth = 4, dtype = DType.Int32).dtype, DType.Int32)
    check("an option of one axis", values(NDArray.api.max(a, axis = Some(0))), Seq(3f))
  }

  private def conversionsOfSymbols(): Unit = {
    import SymbolConversions._
    val x = Symbol.Variable("x")
    val executor = (1 - x * 2f).bind(Context.cpu(), Map("x" -> NDArray.array(Array(1f, 2f, 3f), Shape(3))))
    executor.forward()
    check("symbols and scalars", values(executor.outputs(0)), Seq(-1f, -3f, -5f))
  }

  private def randomNumbers(): Unit = {
    Random.seed(1)
    val drawn: NDArray = NDArray.random.uniform(low = 1f, high = 2f, shape = Shape(4))
    check("random", (drawn.shape, drawn.toArray.forall(x => x >= 1 && x < 2)), (Shape(4), true))
    val perElement: NDArray = NDArray.random.uniform(low = NDArray.zeros(2), high = NDArray.ones(2), shape = Shape(3))
    check("random per element", perElement.shape, Shape(2, 3))
  }

  private def untyped(): Unit = {
    val x = Symbol.Variable("x")
    val old = Symbol.Activation(name = "a")(x)(Map("act_type" -> "relu"))
    check("untyped", old.toJson, Symbol.api.Activation(x, "relu", name = "a").toJson)
    check("untyped array", values(NDArray.relu(NDArray.ones(1) * -1f).head), Seq(0f))
    check("contrib", contrib.Symbol.api.fft(data = x, compute_size = 128).attr("compute_size"), Some("128"))
  }

  private def modules(): Unit = {
    val rows = IndexedSeq(NDArray.ones(4, 3))
    val iter = new io.NDArrayIter(rows, IndexedSeq(NDArray.zeros(4)), 2, labelName = "softmax_label")
    val network = Symbol.api.SoftmaxOutput(Symbol.api.FullyConnected(Symbol.Variable("data"), num_hidden = 2), name = "softmax")
    val trained = new module.Module(network)
    trained.bind(dataShapes = iter.provideData, labelShapes = Some(iter.provideLabel), forTraining = false)
    check("shapes of an iterator", trained.outputShapes, IndexedSeq("softmax_output" -> Shape(2, 2)))
    check("a constructor's default", new Callback.Speedometer(batchSize = 2).frequent, 50)
  }

  private def userDefinedOperators(): Unit = {
    val x = NDArray.array(Array(1f, 2f, 3f), Shape(3))
    check("invoked", values(new SquareOperator(3).invoke(x).head), Seq(1f, 8f, 27f))
    val symbol = new SquareOperator(2)(Symbol.Variable("x"))
    val gradient = NDArray.zeros(3)
    val executor = symbol.bind(Context.cpu(), Map("x" -> x), Map("x" -> gradient))
    executor.forward(isTrain = true)
    executor.backward(NDArray.ones(3))
    check("trained", (values(executor.outputs(0)), values(gradient)), (Seq(1f, 4f, 9f), Seq(2f, 4f, 6f)))
  }
}
