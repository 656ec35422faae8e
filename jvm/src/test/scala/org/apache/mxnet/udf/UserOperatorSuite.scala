package org.apache.mxnet.udf

import java.nio.file.{Files, Paths}

import scala.concurrent.duration._

import org.apache.mxnet._
import org.apache.mxnet.examples.operators.{Main, Networks, Quantizer, TestAddUdf}
import org.apache.mxnet.module.{FitParams, Module}
import org.apache.mxnet.io.NDArrayIter
import org.apache.mxnet.optimizer.SGD

/** User-defined operators, one test for each requirement of the design document. */
class UserOperatorSuite extends munit.FunSuite with TemporaryFiles {

  /** One test trains four networks, which can take long on a busy machine. */
  override val munitTimeout: Duration = 10.minutes

  private val cpu = Context.cpu()
  private lazy val (x, y) = (Symbol.Variable("x"), Symbol.Variable("y"))

  private def vector(values: Float*): NDArray = NDArray.array(values.toArray, Shape(values.length))

  private def values(array: NDArray): Seq[Float] = array.toArray.toSeq

  private def run(symbol: Symbol, inputs: (String, NDArray)*): Seq[Seq[Float]] = {
    val executor = symbol.bind(cpu, inputs.toMap)
    executor.forward()
    val outputs = executor.outputs.map(values).toSeq
    executor.dispose()
    outputs
  }

  /** The outputs and the gradients of all inputs, for gradients of ones. */
  private def train(symbol: Symbol, inputs: (String, NDArray)*): (Seq[Seq[Float]], Map[String, Seq[Float]]) = {
    val gradients = inputs.map { case (name, array) => name -> NDArray.zeros(array.shape) }.toMap
    val executor = symbol.bind(cpu, inputs.toMap, gradients)
    executor.forward(isTrain = true)
    executor.backward(executor.outputs.map(output => NDArray.ones(output.shape)))
    (executor.outputs.map(values).toSeq, gradients.map { case (name, array) => name -> values(array) })
  }

  test("the graph's JSON carries the operator's name and properties") {
    val json = new Scale(2.5f).named("s", x).toJson
    assert(json.contains("\"op\": \"Custom\"") && json.contains("\"op_type\": \"test_scale\""), json)
    val loaded = Symbol.loadJson(json)
    assertEquals(loaded.toJson, json)
    assertEquals(run(loaded, "x" -> vector(1, -2)), Seq(Seq(2.5f, -5f)))
  }

  test("constructors: empty, with one symbol, with several") {
    assertEquals(new TestAddUdf().args.length, 0)
    val sd = SameDiff.create()
    val sum = sd.doUdf(new JavaAdd(sd, Array(sd.variable("x"), sd.variable("y")))).head
    assertEquals(run(sum, "x" -> vector(1, 2), "y" -> vector(3, 4)), Seq(Seq(4f, 6f)))
    assertEquals(new TestAddUdf(Array(x, y)).args.toSeq, Seq(x, y))
    assertEquals(
      run(Symbol.doUdf(new TestAddUdf(x, y)).head, "x" -> vector(1, 2), "y" -> vector(3, 4)),
      Seq(Seq(4f, 6f))
    )
    val single = new UserDefinedCustomOp(x) { def opName: String = "test_never_registered" }
    assertEquals(single.args.toSeq, Seq(x))
  }

  test("exec() and exec(OpContext) compute on arrays, on buffers, or with their own arrays") {
    val matrix = NDArray.array(Array(1f, 2f, 3f, 4f, 5f, 6f), Shape(2, 3))
    assertEquals(run(new Rows()(x), "x" -> matrix), Seq(Seq(6f, 15f)))
    assertEquals(run(new Square()(x), "x" -> vector(3, -1)), Seq(Seq(9f, 1f)))
    Seq(1, 3000, 300001).foreach { size =>
      val numbers = Array.tabulate(size)(_.toFloat)
      val successors = run(new Successor()(x), "x" -> NDArray.array(numbers, Shape(size))).head
      assert(successors.indices.forall(i => successors(i) == i + 1f), s"of $size")
    }
    val both = run(new SumAndDifference()(x, y), "x" -> vector(5), "y" -> vector(3))
    assertEquals(both, Seq(Seq(8f), Seq(2f)))
  }

  test("doUdf and apply return symbols that compose with every operator, also inside of the fused plan") {
    val scaled = x.doUdf(new Scale(3f)).head
    val composed = Symbol.api.Activation(data = new Square()(scaled * 2f + 1f) - y, act_type = "relu")
    assertEquals(run(composed, "x" -> vector(1, 0), "y" -> vector(1, 5)), Seq(Seq(48f, 0f)))
    val two = new SumAndDifference
    assertEquals(two.named("sd", x, y).listOutputs(), IndexedSeq("sd_output0", "sd_output1"))
    assertEquals(two.outputs.toSeq.flatMap(_.listOutputs()), Seq("sd_output0", "sd_output1"))
    assertEquals(Symbol.doUdf(new TestAddUdf(x, y), "sum").toSeq.flatMap(_.listOutputs()), Seq("sum_output"))
  }

  test("names of nodes and of inputs that are left out") {
    val names = new NameManager
    val symbol = names.withScope(new TestAddUdf()(x))
    assertEquals(symbol.listArguments(), IndexedSeq("x", "test_add_udf0_rhs"))
    assertEquals(symbol.listOutputs(), IndexedSeq("test_add_udf0_output"))
  }

  test(
    "annotated classes are found on the class path, once, and created by their constructor without parameters"
  ) {
    val cube = Symbol.loadJson("""{"nodes": [{"op": "null", "name": "x", "inputs": []}, {"op": "Custom", "name": "c",
      "attrs": {"op_type": "java_cube", "num_inputs": "1", "properties": "{\"factor\": {\"float\": \"2.0\"}}"},
      "inputs": [[0, 0, 0]]}], "arg_nodes": [0], "heads": [[1, 0, 0]]}""")
    assertEquals(run(cube, "x" -> vector(3)), Seq(Seq(54f)))
  }

  test("register makes a class without annotation known") {
    Operator.register(classOf[Rows])
    Operator.register(classOf[Rows])
    val loaded = Symbol.loadJson(new Rows()(x).toJson)
    assertEquals(run(loaded, "x" -> NDArray.ones(2, 4)), Seq(Seq(4f, 4f)))
  }

  test("in Scala the constructor may have parameters with defaults instead") {
    val symbol = new Shifted(by = 3f, times = 2)(x)
    val json = symbol.toJson
    assertEquals(run(symbol, "x" -> vector(1)), Seq(Seq(7f)))
    assertEquals(run(Symbol.loadJson(json), "x" -> vector(1)), Seq(Seq(7f)))
    assertEquals(run(Symbol.Custom("c")(x)(Map("op_type" -> "test_shifted")), "x" -> vector(1)), Seq(Seq(3f)))
    assertEquals(values(new InSuite(4f).invoke(vector(1)).head), Seq(5f))
  }

  /** As in a notebook. */
  class InSuite(val by: Float = 1f) extends UserDefinedCustomOp {
    def opName: String = "test_in_suite"
    override def exec(context: OpContext): Unit = context.map(0, 0)(_ + by)
  }

  test("data types and the number of outputs come from the class") {
    val symbol = new SumAndDifference()(x, y)
    assertEquals(symbol.listOutputs().length, 2)
    val (args, outs, _) = symbol.inferType(Map("x" -> DType.Float64))
    assertEquals((args, outs), (Seq(DType.Float64, DType.Float64), Seq(DType.Float64, DType.Float64)))
  }

  test("output shapes come from the class") {
    val (_, outs, _) = new Rows()(x).inferShape(Map("x" -> Shape(5, 7)))
    assertEquals(outs, IndexedSeq(Shape(5)))
    val quantized = new Quantizer(bits = 4)(Symbol.Variable("weight"))
    val fc = Symbol.api.FullyConnected(data = x, weight = quantized, num_hidden = 4, no_bias = true)
    assertEquals(fc.inferShape(Map("x" -> Shape(2, 3)))._1, IndexedSeq(Shape(2, 3), Shape(4, 3)))
    val (_, partial, _) = new Rows()(x).inferShapePartial(Map.empty[String, Shape])
    assertEquals(partial.head.length, 0)
    val executor = new Rows()(x).simpleBind(cpu, "null", Map("x" -> Shape(2, 3)))
    executor.forward(isTrain = false, "x" -> NDArray.ones(2, 3))
    assertEquals(values(executor.outputs(0)), Seq(3f, 3f))
  }

  test("shapes from the inputs themselves, as in the document, and fields of types Seq and Option") {
    val plain = new DocumentedAdd()(x, y)
    assertEquals(plain.inferShape(Map("x" -> Shape(2, 3), "y" -> Shape(2, 3)))._2, IndexedSeq(Shape(2, 3)))
    assertEquals(run(plain, "x" -> vector(1, 2), "y" -> vector(3, 4)), Seq(Seq(4f, 6f)))
    val loaded = Symbol.loadJson(new DocumentedAdd(Some(5f), Seq(2, 3))(x, y).toJson)
    assertEquals(run(loaded, "x" -> vector(1, 2), "y" -> vector(3, 4)), Seq(Seq(20f, 25f)))
    val early = intercept[MXNetError](new TooEarly()(x).inferShape(Map("x" -> Shape(2))))
    assert(early.getMessage.contains("inputs have only a shape during shape inference"), early.getMessage)
  }

  test(
    "in place the outputs are the inputs, calculateOutputShape is not called, and the inputs stay as they are"
  ) {
    val input = vector(1, 2)
    val symbol = new InPlace()(x * 1f, y)
    assertEquals(run(symbol + x, "x" -> input, "y" -> vector(10, 20)), Seq(Seq(13f, 26f)))
    assertEquals(run(new InPlace()(x, y), "x" -> input, "y" -> vector(10, 20)), Seq(Seq(12f, 24f)))
    assertEquals(values(input), Seq(1f, 2f))
    assertEquals(train(new InPlace()(x, y), "x" -> input, "y" -> input)._2, Map("x" -> Seq(2f, 2f), "y" -> Seq(1f, 1f)))
  }

  test("fields are saved with the graph and restored exactly; see also OpPropertiesSuite") {
    val json = new Scale(0.1f).named("s", x).toJson
    val loaded = Symbol.loadJson(json)
    assertEquals(loaded.attr("properties"), Some("""{"factor": {"float": "0.1"}}"""))
    assertEquals(run(loaded, "x" -> vector(1)), Seq(Seq(0.1f)))
    assertEquals(loaded.toJson, json)
  }

  test("configureFromArguments sees the properties; configureWithSymbol comes after joining a graph") {
    val error = intercept[MXNetError](new Quantizer(99)(x))
    assert(error.getMessage.contains("bits is 99"), error.getMessage)
    val op = new Hooked
    val symbol = op(x)
    assertEquals(op.joined.listOutputs(), symbol.listOutputs())
  }

  test("doDiff composes the gradient of any operators, user-defined ones included") {
    assertEquals(train(new Square()(x), "x" -> vector(3, -1)), (Seq(Seq(9f, 1f)), Map("x" -> Seq(6f, -2f))))
    val (_, gradients) = train(new SumAndDifference()(x, y), "x" -> vector(5), "y" -> vector(3))
    assertEquals(gradients, Map("x" -> Seq(2f), "y" -> Seq(0f)))
    val cube = JavaCube.of(x)
    assertEquals(values(JavaCube.of(vector(2, -3))), Seq(8f, -27f))
    assertEquals(train(cube, "x" -> vector(3, -1)), (Seq(Seq(54f, -2f)), Map("x" -> Seq(54f, 6f))))
  }

  test("gradients of higher orders, on the tape") {
    val point = vector(2, 3)
    Autograd.attachGradient(point)
    val second = Autograd.record() {
      val cube = new JavaCube(1f).invoke(point).head
      val first = Autograd.gradients(Seq(cube), Seq(point), createGraph = true).head
      Autograd.gradients(Seq(first), Seq(point)).head
    }
    assertEquals(values(second), Seq(12f, 18f))
  }

  test("imperative calls with autograd") {
    val point = vector(3, -1)
    Autograd.attachGradient(point)
    val result = Autograd.record()((new Square().invoke(point).head * 2f))
    Autograd.backward(result)
    assertEquals(values(result), Seq(18f, 2f))
    assertEquals(values(Autograd.gradient(point)), Seq(12f, -4f))
  }

  test("gradient requests write, add and null") {
    val (args, grads) = (Map("x" -> vector(3)), Map("x" -> NDArray.ones(1)))
    val (none, group) = (Seq.empty[NDArray], Map.empty[String, Context])
    val adding = new Square()(x).bind(cpu, args, grads, "add", none, group, null)
    (1 to 2).foreach { _ =>
      adding.forward(isTrain = true)
      adding.backward(vector(1))
    }
    assertEquals(values(grads("x")), Seq(13f))
    new NoGradient()(x).bind(cpu, args, grads, "null", none, group, null).forward(isTrain = true)
    val error = intercept[MXNetError](new NoGradient().named("n", x).bind(cpu, args, grads))
    assert(error.getMessage.contains("test_no_gradient") && error.getMessage.contains("doDiff"), error.getMessage)
  }

  private def digits: Seq[NDArray] = {
    val iterator = Networks.testData("data/digits")
    val batch = iterator.next()
    Seq(batch.data.head.copy(), batch.label.head.copy())
  }

  test("the document's example in Java, every method of it") {
    val sum = Symbol.doUdf(new JavaAdd(Array(x, y)), "sum").head
    val inputs = Seq("x" -> vector(1, 2), "y" -> vector(3, 4))
    assertEquals(sum.inferShape(Map("x" -> Shape(2), "y" -> Shape(2)))._2, IndexedSeq(Shape(2)))
    assertEquals(run(Symbol.loadJson(sum.toJson), inputs: _*), Seq(Seq(4f, 6f)))
    assertEquals(train(sum, inputs: _*)._2, Map("x" -> Seq(1f, 1f), "y" -> Seq(1f, 1f)))
  }

  test("TestAddUdf runs, trains in a Module, saves and loads") {
    val data = digits
    val iterator = new NDArrayIter(
      IndexedSeq(data.head),
      IndexedSeq(data(1)),
      dataBatchSize = 33,
      dataName = "data",
      labelName = "softmax_label"
    )
    val module = new Module(Networks.shortcut)
    val parameters = new FitParams().setInitializer(new Xavier()).setOptimizer(new SGD(learningRate = 0.1f))
    module.fit(iterator, None, 30, parameters)
    assert(module.score(iterator, new Accuracy()).get._2.head > 0.9f)
    val prefix = temporaryFolder("udf").resolve("shortcut").toString
    module.saveCheckpoint(prefix, 30)
    val loaded = Networks.load(prefix, 30, "data/digits")
    assertEquals(loaded.predict(iterator).head.toArray.toSeq, module.predict(iterator).head.toArray.toSeq)
  }

  test("networks around all operators of the example are trained, saved, and predict the same in a new JVM") {
    val output = temporaryFolder("udf")
    Main.train("data/digits", output)
    val program = "org.apache.mxnet.examples.operators.Main"
    val text = JavaProcess.run(Seq(JavaProcess.Library), program, "predict", "data/digits", output.toString)
    val accuracies = "network (0\\.\\d+)".r.findAllMatchIn(text).map(_.group(1).toFloat).toSeq
    assertEquals(accuracies.length, 4, text)
    assert(accuracies.forall(_ > 0.85f), text)
  }

  test("a graph of another program whose class is missing loads, prints, infers what it can and saves unchanged") {
    val chain = Symbol.api.relu(new Stateful().named("st", new SumAndDifference().named("sd", x * 2f, y).get(1)))
    val json = chain.toJson.replace("test_sum_and_difference", "of_nobody").replace("test_stateful", "of_nobody_else")
    val loaded = Symbol.loadJson(json)
    assertEquals(loaded.toJson, json)
    assertEquals(loaded.listArguments(), chain.listArguments())
    assertEquals(loaded.listAuxiliaryStates(), chain.listAuxiliaryStates())
    assertEquals(loaded.getInternals().listOutputs(), chain.getInternals().listOutputs())
    assert(loaded.debugStr.contains("op_type=of_nobody"), loaded.debugStr)
    val (args, _, _) = loaded.inferShapePartial(Map("x" -> Shape(2)))
    assertEquals(args.head, Shape(2))
    val internals = loaded.getInternals()
    val inferred =
      internals.inferShapePartial(Map("x" -> Shape(2)))._2(internals.listOutputs().indexWhere(_.contains("mul")))
    assertEquals(inferred, Shape(2))
    val summary = Visualization.summary(loaded, Map("x" -> Shape(2), "y" -> Shape(2)))
    assert(summary.contains("sd (of_nobody)"), summary)
    val error = intercept[MXNetError](loaded.simpleBind(cpu, "null", Map("x" -> Shape(2), "y" -> Shape(2))))
    Seq("of_nobody", "sd", "@UserDefinedOp", "Operator.register").foreach { part =>
      assert(error.getMessage.contains(part), error.getMessage)
    }
  }

  test("a class that is registered after its graph was loaded is used") {
    val json = new Scale(2f).named("s", x).toJson.replace("test_scale", "test_later")
    val loaded = Symbol.loadJson(json)
    intercept[MXNetError](loaded.bind(cpu, Map("x" -> vector(1))))
    Operator.register(classOf[Later])
    assertEquals(run(loaded, "x" -> vector(1, 5)), Seq(Seq(-2f, -10f)))
  }

  test("a JSON with Custom nodes that MXNet wrote loads") {
    val json = Files.readString(Paths.get("tests/oracle/fixtures/custom-operator.json"))
    val loaded = Symbol.loadJson(json)
    assertEquals(loaded.listArguments(), IndexedSeq("data", "fc_weight", "fc_bias"))
    assertEquals(loaded.listAuxiliaryStates(), IndexedSeq("mine_count"))
    Operator.register("scaled_by_python", new ScaledProp)
    val again = Symbol.loadJson(json)
    assertEquals(again.listOutputs(), IndexedSeq("mine_y"))
    val executor = again.simpleBind(cpu, "null", Map("data" -> Shape(1, 2)))
    executor.argDict("fc_bias").set(1f)
    executor.forward()
    assertEquals(values(executor.outputs(0)), Seq(3f, 3f, 3f))
  }

  test("scanning serves models of other programs: plain attributes of a node become fields of the class") {
    val json = Files.readString(Paths.get("tests/oracle/fixtures/custom-operator.json"))
    def imported(factor: String): Symbol = Symbol.loadJson(
      json.replace("scaled_by_python", "test_imported").replace("\"factor\": \"3\"", s"\"factor\": \"$factor\"")
    )
    val loaded = imported("3\", \"kernel\": \"(2, 5)")
    assertEquals(loaded.listAuxiliaryStates(), IndexedSeq("mine_count"))
    val executor = loaded.simpleBind(cpu, "null", Map("data" -> Shape(1, 2)))
    executor.argDict("fc_bias").set(1f)
    executor.forward()
    assertEquals(values(executor.outputs(0)), Seq(30f, 30f, 30f))
    val error = intercept[MXNetError](imported("three"))
    assert(error.getMessage.contains("the attribute factor is 'three'"), error.getMessage)
  }

  test("a failure is an error that names operator, node and remedy; see UserOperatorSafetySuite") {
    val error =
      intercept[MXNetError](new TestAddUdf().named("t", x, y).inferShape(Map("x" -> Shape(2), "y" -> Shape(3))))
    Seq("t", "test_add_udf", "(2)", "(3)").foreach(part => assert(error.getMessage.contains(part), error.getMessage))
    assert(error.getCause.getStackTrace.exists(_.getClassName.endsWith("TestAddUdf")))
  }

  test("operators of functions: udf and udf2") {
    val swish = Symbol.udf("test_swish")(a => a * NDArray.api.sigmoid(a)) { (a, dy) =>
      val s = Symbol.api.sigmoid(a)
      dy * (s + a * s * (s * -1f + 1f))
    }
    val sigmoid = 1 / (1 + math.exp(-1))
    val (outputs, gradients) = train(swish(x), "x" -> vector(1))
    assertEqualsFloat(outputs.head.head, sigmoid.toFloat, 1e-6f)
    assertEqualsFloat(gradients("x").head, (sigmoid * (2 - sigmoid)).toFloat, 1e-6f)
    assert(GradCheck(swish, Seq(vector(0.3f, -2f))).isCorrect)
    val product = Symbol.udf2("test_product")((a, b) => a * b)((a, b, dy) => (dy * b, dy * a))
    assertEquals(train(product(x, y), "x" -> vector(2), "y" -> vector(5))._2, Map("x" -> Seq(5f), "y" -> Seq(2f)))
    assertEquals(run(Symbol.loadJson(swish(x).toJson), "x" -> vector(0)), Seq(Seq(0f)))
    val error = intercept[MXNetError](Symbol.udf("test_swish")(a => a)((_, dy) => dy))
    assert(error.getMessage.contains("already defined"), error.getMessage)
  }

  test("operators without inputs, and with many auxiliary states") {
    val count = new Count
    count.size = 4
    assertEquals(run(count() + x, "x" -> vector(1, 1, 1, 1)), Seq(Seq(1f, 2f, 3f, 4f)))
    assertEquals(values(new Count().invoke().head), Seq(0f, 1f, 2f))
    val states = Seq.fill(20)(vector(1))
    assertEquals(values(new Stateful().invoke(vector(5) +: states: _*).head), Seq(25f))
    val stateful = new Stateful().named("st", x)
    assertEquals(stateful.listAuxiliaryStates(), IndexedSeq.tabulate(20)(i => s"st_count$i"))
    val executor = stateful.simpleBind(cpu, "write", Map("x" -> Shape(2)))
    executor.forward(isTrain = true)
    executor.forward(isTrain = true)
    executor.forward()
    assertEquals(values(executor.outputs(0)), Seq(40f, 40f))
    assertEquals(values(executor.auxDict("st_count7")), Seq(2f, 2f))
  }

  test("a module starts states without an initialization rule at zero, trains and saves them") {
    val data = Symbol.Variable("data")
    val network = Symbol.api.SoftmaxOutput(
      Symbol.api.FullyConnected(new Stateful().named("st", data), num_hidden = 2),
      name = "softmax"
    )
    val iterator =
      new NDArrayIter(IndexedSeq(NDArray.ones(8, 3)), IndexedSeq(NDArray.zeros(8)), 4, labelName = "softmax_label")
    val module = new Module(network)
    module.fit(iterator, numEpoch = 2, fitParams = new FitParams().setInitializer(new Uniform(0.1f)))
    assertEquals(values(module.getParams._2("st_count3")).distinct, Seq(4f))
    val prefix = temporaryFolder("states").resolve("net").toString
    module.saveCheckpoint(prefix, 2)
    assertEquals(values(Model.loadCheckpoint(prefix, 2)._3("st_count3")).distinct, Seq(4f))
  }

  test("the name shows in summary, plot and monitor") {
    val net = new Scale(2f).named("s", x)
    val text = Visualization.summary(net, Map("x" -> Shape(2)))
    assert(text.contains("s (test_scale)"), text)
    val executor = net.bind(cpu, Map("x" -> vector(1)))
    val seen = scala.collection.mutable.ArrayBuffer.empty[String]
    executor.setMonitorCallback { (name, handle) =>
      seen += name
      NDArray.fromHandle(handle).dispose()
    }
    executor.forward()
    assertEquals(seen.toSeq, Seq("s_output"))
    assert(executor.debugStr.contains("test_scale 's'"), executor.debugStr)
  }

  test("GradCheck checks an operator that takes float32 only in float32") {
    val report = GradCheck(new SinglePrecisionSquare, Seq(vector(0.5f, -2f, 3f)))
    assertEquals((report.checked, report.mismatches), (3, Vector.empty))
  }

  test("GradCheck checks an operator that computes with numbers of float32 with larger steps") {
    val inputs = Seq(vector(0.3f, -1.7f, 2.9f))
    assert(GradCheck(new CubeOfFloats(3f), inputs).isCorrect)
    val wrong = GradCheck(new CubeOfFloats(2.5f), inputs)
    assertEquals((wrong.checked, wrong.mismatches.length), (3, 3))
  }

  test("fields of type Option and Seq are saved and restored") {
    val op = new Polynomial(Seq(1f, 0f, 2f), Some(3f))
    val loaded = Symbol.loadJson(op(Symbol.Variable("x")).toJson)
    val executor = loaded.bind(Context.cpu(), Map("x" -> vector(2f, -1f)))
    executor.forward()
    assertEquals(values(executor.outputs(0)), Seq(12f, 6f)) // 1 + 2 x^2 + 3
  }

  test("GradCheck agrees with right gradients and says where a wrong one is off") {
    assert(GradCheck(new Square, Seq(vector(0.5f, -2f, 0f))).isCorrect)
    assert(GradCheck(new SumAndDifference, Seq(vector(1, 2), vector(3, 4))).isCorrect)
    val filter = new examples.operators.BilateralFilter(2, 1f, 0.4f)
    val signal = NDArray.array(Array.tabulate(14)(i => math.sin(i * 1.7).toFloat), Shape(2, 7))
    assertEquals(
      GradCheck(filter, Seq(signal)).toString,
      "the gradient of operator bilateral_filter_1d agrees with finite differences at 14 elements"
    )
    val wrong = GradCheck(new Wrong("wrong gradient"), Seq(NDArray.ones(2, 2)))
    assertEquals(wrong.mismatches.length, 4)
    assertEquals(wrong.mismatches(1).index, Vector(0, 1))
    val error = intercept[MXNetError](wrong.orThrow())
    assert(error.getMessage.contains("input 0 at (0, 1): the gradient is"), error.getMessage)
  }

  test("an instance for each node in each executor") {
    val net = new Counting().named("a", x) + new Counting().named("b", x) * 0f
    val executors = Seq.fill(2)(net.bind(cpu, Map("x" -> vector(1))))
    val seen = executors.map { executor =>
      executor.forward()
      executor.forward()
      executor.outputs(0).toScalar.toInt
    }
    assertEquals(seen.map(_ % 1000), Seq(2, 2))
    assertNotEquals(seen(0), seen(1))
  }
}

/** `x^3`, computed with arrays of float32; its gradient is `factor * x^2`. */
class CubeOfFloats(var factor: Float) extends UserDefinedCustomOp {
  def this() = this(3f)
  def opName: String = "test_cube_of_floats"
  override def exec(): Unit = outputArguments(0).set(inputArguments(0).toArray.map(x => x * x * x))
  override def doDiff(gradients: Array[Symbol]): Array[Symbol] = Array(arg() * arg() * factor * gradients(0))
}

/** Keeps the graph that it joined. */
class Hooked extends UserDefinedCustomOp {
  @transient var joined: Symbol = _
  def opName: String = "test_hooked"
  override def configureWithSymbol(graph: Symbol): Unit = joined = graph
}

/** Registered after its graph was loaded. */
class Later(var factor: Float) extends UserDefinedCustomOp {
  def this() = this(0f)
  def opName: String = "test_later"
  override def exec(context: OpContext): Unit = context.map(0, 0)(x => -factor * x)
}

/** The operator `scaled_by_python` of a graph from MXNet's Python package: x times a factor, with a count of runs. */
class ScaledProp extends CustomOpProp(true) {
  override def listOutputs(): Array[String] = Array("y")
  override def listAuxiliaryStates(): Array[String] = Array("count")
  override def inferShape(inShape: Array[Shape]): (Array[Shape], Array[Shape], Array[Shape]) =
    (inShape, inShape, Array(Shape(1)))
  override def createOperator(ctx: String, inShapes: Array[Array[Int]], inDtypes: Array[Int]): CustomOp = {
    val factor = kwargs("factor").toFloat
    new ElementwiseOp(_ * factor, (dy, _) => dy * factor, aux => aux(0) += 1f)
  }
}
