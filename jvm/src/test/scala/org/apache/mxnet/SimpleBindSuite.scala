package org.apache.mxnet

/** Binding to new arrays. */
class SimpleBindSuite extends munit.FunSuite {
  private val cpu = Context.cpu()

  private def fullyConnected: Symbol =
    Symbol.api.FullyConnected(data = Symbol.Variable("data"), num_hidden = 4, name = "fc1")

  private def net: Symbol = {
    val norm = Symbol.api.BatchNorm(data = fullyConnected, name = "bn")
    Symbol.api.SoftmaxOutput(data = norm, name = "softmax")
  }

  private lazy val data: NDArray = NDArray.ones(8, 3)

  private val noArrays = Map.empty[String, NDArray]
  private val noRequests = Map.empty[String, String]

  private def moments(array: NDArray): (Double, Double) = {
    val numbers = array.toFloat64Array
    val mean = numbers.sum / numbers.length
    (mean, math.sqrt(numbers.map(v => (v - mean) * (v - mean)).sum / numbers.length))
  }

  test("four maps by name give an executor; a name that the symbol does not have is an error") {
    val executor = net.simpleBind(cpu, Map("data" -> data), noArrays, noRequests, noArrays)
    executor.forward(isTrain = true)
    executor.backward()
    assertEquals(executor.outputs(0).shape, Shape(8, 4))
    val wrong = Map("dta" -> NDArray.ones(8, 4))
    val attempts = Seq[(String, () => Executor)](
      "argsMap" -> (() => net.simpleBind(cpu, wrong, noArrays, noRequests, noArrays)),
      "argGradStore" -> (() => net.simpleBind(cpu, Map("data" -> data), wrong, noRequests, noArrays)),
      "gradReqType" -> (() => net.simpleBind(cpu, Map("data" -> data), noArrays, Map("dta" -> "add"), noArrays)),
      "auxMap" -> (() => net.simpleBind(cpu, Map("data" -> data), noArrays, noRequests, wrong))
    )
    attempts.foreach { case (what, attempt) =>
      val message = intercept[MXNetError](attempt()).getMessage
      assert(message.contains(s"$what has 'dta'"), message)
    }
  }

  test("shapes of the given arguments determine all others") {
    val executor = net.simpleBind(cpu, Map("data" -> data))
    val shapes = net.listArguments().map(name => executor.argDict(name).shape)
    assertEquals(shapes, net.inferShape(Map("data" -> Shape(8, 3)))._1)
    val message = intercept[MXNetError](net.simpleBind(cpu, noArrays)).getMessage
    assert(message.contains("give the shape of data"), message)
  }

  test("given arguments are used as they are, missing ones are drawn from the normal distribution") {
    val wide = Symbol.api.FullyConnected(data = Symbol.Variable("data"), num_hidden = 100, name = "fc")
    Random.seed(3)
    val input = NDArray.ones(2, 100)
    val executor = wide.simpleBind(cpu, Map("data" -> input))
    assert(executor.argDict("data") eq input)
    val (mean, deviation) = moments(executor.argDict("fc_weight"))
    assertEqualsDouble(mean, 0.0, 0.05)
    assertEqualsDouble(deviation, 1.0, 0.05)
  }

  test("the form with shapes fills with zeros") {
    val executor = net.simpleBind(cpu, "write", Map("data" -> Shape(8, 3)))
    net.listArguments().foreach { name =>
      assert(executor.argDict(name).toArray.forall(_ == 0f), name)
    }
    assert(executor.auxDict.values.forall(_.toArray.forall(_ == 0f)))
  }

  test("the form with shapes takes types and a request, and makes dense arrays") {
    val shapes = Map("data" -> Shape(8, 3))
    val half = fullyConnected.simpleBind(cpu, "add", shapes, Map("data" -> DType.Float16))
    assertEquals(half.argDict("fc1_weight").dtype, DType.Float16)
    assertEquals(half.gradDict("fc1_weight").dtype, DType.Float16)
    assertEquals(half.gradDict("data"), null)
    half.argDict("data").set(1f)
    for (_ <- 1 to 2) {
      half.forward(isTrain = true)
      half.backward(NDArray.ones(Shape(8, 4), dtype = DType.Float16))
    }
    assertEquals(half.gradDict("fc1_bias").toArray.toSeq, Seq.fill(4)(16f))
    assert(fullyConnected.simpleBind(cpu, "null", shapes).gradDict.values.forall(_ == null))
    val lookup = Symbol.api.Embedding(data = Symbol.Variable("data"), input_dim = 5, output_dim = 2, sparse_grad = true)
    val sparse = lookup.simpleBind(cpu, "write", Map("data" -> Shape(3)))
    assert(sparse.gradDict.values.filter(_ != null).forall(_.sparseFormat == SparseFormat.DEFAULT))
  }

  test("the form with shapes refuses unknown names, requests and shapes that stay unknown") {
    def message(attempt: => Executor): String = intercept[MXNetError](attempt).getMessage
    val symbol = fullyConnected
    val shapes = Map("data" -> Shape(8, 3))
    val unknownName = message(symbol.simpleBind(cpu, "write", shapes + ("dta" -> Shape(8, 3))))
    assert(unknownName.contains("no argument 'dta'") && unknownName.contains("fc1_weight"), unknownName)
    val unknownRequest = message(symbol.simpleBind(cpu, "wrte", shapes))
    assert(unknownRequest.contains("'wrte' is not one of null, write, add"), unknownRequest)
    val unknownShape = message(symbol.simpleBind(cpu, "write", Map("fc1_bias" -> Shape(4))))
    assert(unknownShape.contains("give the shape of data"), unknownShape)
    val unknownType = message(symbol.simpleBind(cpu, "write", shapes, Map("dta" -> DType.Float16)))
    assert(unknownType.contains("no argument 'dta'"), unknownType)
    val executor = symbol.simpleBind(cpu, "write", shapes)
    symbol.dispose()
    assertEquals(executor.argDict("fc1_weight").shape, Shape(4, 3))
  }

  test("gradients come from the store, or are created with the argument's shape") {
    val mine = NDArray.zeros(4, 3)
    val executor = net.simpleBind(cpu, Map("data" -> data), Map("fc1_weight" -> mine), noRequests, noArrays)
    assert(executor.gradDict("fc1_weight") eq mine)
    net.listArguments().foreach { name =>
      assertEquals(executor.gradDict(name).shape, executor.argDict(name).shape, name)
    }
  }

  test("no gradient for names that end with data or label, one for all others, short names too") {
    val (w, bias) = (Symbol.Variable("fc1"), Symbol.Variable("bias"))
    val layer = Symbol.api.FullyConnected(Symbol.Variable("my_data"), w, bias, num_hidden = 2, name = "layer")
    val out = Symbol.api.LinearRegressionOutput(layer, Symbol.Variable("label"), name = "out")
    val executor = out.simpleBind(cpu, Map("my_data" -> NDArray.ones(3, 5)))
    val zero = executor.gradDict.map { case (name, array) => name -> array.toArray.toSeq }
    executor.forward(isTrain = true)
    executor.backward()
    val changed = executor.gradDict.filter { case (name, array) => array.toArray.toSeq != zero(name) }.keySet
    assertEquals(changed, Set("fc1", "bias"))
  }

  test("a given request applies, also for data") {
    val requests = Map("data" -> "write", "fc1_weight" -> "null", "fc1_bias" -> "add")
    val arrays = Map("data" -> data, "fc1_weight" -> NDArray.ones(4, 3))
    val executor = fullyConnected.simpleBind(cpu, arrays, noArrays, requests, noArrays)
    (1 to 2).foreach { _ =>
      executor.forward(isTrain = true)
      executor.backward(NDArray.ones(8, 4))
    }
    assertEquals(executor.gradDict("data").toArray.toSet, Set(4f))
    assertEquals(executor.gradDict("fc1_weight").toArray.toSet, Set(0f))
    assertEquals(executor.gradDict("fc1_bias").toArray.toSet, Set(16f))
  }

  test("the form with shapes has gradients only for what is learned") {
    val executor = net.simpleBind(cpu, "write", Map("data" -> Shape(8, 3)))
    val without = executor.gradDict.collect { case (name, null) => name }.toSet
    assertEquals(without, Set("data", "softmax_label"))
    assert(net.simpleBind(cpu, "null", Map("data" -> Shape(8, 3))).gradDict.values.forall(_ == null))
  }

  test("auxiliary states are used as given, or drawn from the normal distribution") {
    val mine = NDArray.zeros(4)
    val executor = net.simpleBind(cpu, Map("data" -> data), noArrays, noRequests, Map("bn_moving_mean" -> mine))
    assert(executor.auxDict("bn_moving_mean") eq mine)
    val wide = Symbol.api.BatchNorm(data = Symbol.Variable("data"), name = "bn")
    val (mean, deviation) =
      moments(wide.simpleBind(cpu, Map("data" -> NDArray.ones(1, 10000))).auxDict("bn_moving_var"))
    assertEqualsDouble(mean, 0.0, 0.05)
    assertEqualsDouble(deviation, 1.0, 0.05)
  }

  test("arguments are bound in the order of a depth-first visit, by name where maps are given") {
    val (a, b) = (Symbol.Variable("a"), Symbol.Variable("b"))
    val graph = (b - a) * b
    assertEquals(graph.listArguments(), IndexedSeq("b", "a"))
    val (first, second) = (NDArray.full(Shape(1), 5f), NDArray.full(Shape(1), 2f))
    Seq(graph.bind(cpu, Seq(first, second)), graph.simpleBind(cpu, Map("a" -> second, "b" -> first))).foreach {
      executor =>
        executor.forward()
        assertEquals(executor.outputs(0).toScalar, 15f)
    }
  }

  test("the parameters of FullyConnected follow from its input") {
    val (args, outs, _) = fullyConnected.inferShape(Map("data" -> Shape(8, 3, 5)))
    assertEquals(args, IndexedSeq(Shape(8, 3, 5), Shape(4, 15), Shape(4)))
    assertEquals(outs, IndexedSeq(Shape(8, 4)))
  }

  test("three inputs, or two without a bias; unknown data stays unknown; the output's batch is the data's") {
    val noBias = Symbol.api.FullyConnected(data = Symbol.Variable("data"), num_hidden = 4, no_bias = true, name = "fc1")
    assertEquals(noBias.listArguments(), IndexedSeq("data", "fc1_weight"))
    assertEquals(fullyConnected.listArguments(), IndexedSeq("data", "fc1_weight", "fc1_bias"))
    val inputs = Seq("a", "b", "c").map(Symbol.Variable(_))
    val error = intercept[MXNetError] {
      Symbol.FullyConnected("fc")(inputs: _*)(Map("num_hidden" -> 4, "no_bias" -> true))
    }
    assert(error.getMessage.contains("FullyConnected"), error.getMessage)
    assertEquals(fullyConnected.inferShape(Map("fc1_bias" -> Shape(4)))._1, null)
    val sum = fullyConnected + Symbol.Variable("other")
    val (args, _, _) = sum.inferShape(Map("data" -> Shape(0, 3), "other" -> Shape(8, 4)))
    assertEquals(args.head, Shape(8, 3))
  }

  test("shapes that contradict each other: operator, node, index of the argument, both shapes") {
    val arrays = Map("data" -> data, "fc1_weight" -> NDArray.ones(4, 7))
    val message = intercept[MXNetError](fullyConnected.simpleBind(cpu, arrays)).getMessage
    val parts =
      Seq("FullyConnected", "fc1", "argument 1 (weight)", "Shape inconsistent, Provided=[4,7], inferred shape=[4,3]")
    parts.foreach(part => assert(message.contains(part), message))
  }

  test("an unknown rank and unknown dimensions take what is inferred; known ones must agree") {
    def weight(shape: Shape): Option[Shape] =
      try Some(fullyConnected.inferShape(Map("data" -> Shape(8, 3), "fc1_weight" -> shape))._1(1))
      catch { case _: MXNetError => None }
    assertEquals(weight(Shape()), Some(Shape(4, 3)))
    assertEquals(weight(Shape(0, 3)), Some(Shape(4, 3)))
    assertEquals(weight(Shape(0, 0)), Some(Shape(4, 3)))
    assertEquals(weight(Shape(4, 3)), Some(Shape(4, 3)))
    assertEquals(weight(Shape(4, 2)), None)
    assertEquals(weight(Shape(4)), None)
  }

  test("the shapes of given gradients and auxiliary states must be the inferred ones") {
    val grad = intercept[MXNetError] {
      net.simpleBind(cpu, Map("data" -> data), Map("fc1_weight" -> NDArray.ones(2, 2)), noRequests, noArrays)
    }
    assert(grad.getMessage.contains("'fc1_weight': Shape inconsistent, Provided=[2,2], inferred shape=[4,3]"))
    val aux = intercept[MXNetError] {
      net.simpleBind(cpu, Map("data" -> data), noArrays, noRequests, Map("bn_moving_var" -> NDArray.ones(2)))
    }
    assert(aux.getMessage.contains("'bn_moving_var': Shape inconsistent, Provided=[2], inferred shape=[4]"))
    val bound = intercept[MXNetError] {
      fullyConnected.bind(cpu, Map("data" -> data, "fc1_weight" -> NDArray.ones(4, 7), "fc1_bias" -> NDArray.ones(4)))
    }
    assert(bound.getMessage.contains("Provided=[4,7], inferred shape=[4,3]"), bound.getMessage)
  }

  test("types: inputs are float32 unless said otherwise, parameters follow") {
    val shapes = Map("data" -> Shape(8, 3))
    val wide = fullyConnected.simpleBind(cpu, "write", shapes, Map("data" -> DType.Float64))
    assertEquals(wide.argDict.values.map(_.dtype).toSet, Set(DType.Float64))
    assertEquals(wide.gradDict("fc1_weight").dtype, DType.Float64)
    val descs = IndexedSeq(DataDesc("data", Shape(8, 3), DType.Float64))
    assertEquals(fullyConnected.simpleBind(cpu, "write", descs).argDict("fc1_bias").dtype, DType.Float64)
    assertEquals(fullyConnected.simpleBind(cpu, "write", shapes).argDict("fc1_bias").dtype, DType.Float32)
    val typed = fullyConnected.simpleBind(cpu, Map("data" -> NDArray.ones(Shape(8, 3), dtype = DType.Float64)))
    assertEquals(typed.argDict("fc1_weight").dtype, DType.Float64)
  }
}
