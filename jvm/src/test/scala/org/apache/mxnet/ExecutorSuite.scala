package org.apache.mxnet

import java.util.concurrent.{Callable, CountDownLatch, Executors}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

class ExecutorSuite extends munit.FunSuite {
  private val cpu = Context.cpu()
  private lazy val (x, y) = (Symbol.Variable("x"), Symbol.Variable("y"))
  private lazy val product = Symbol.api.elemwise_mul(x, y, name = "product")

  private def vector(values: Float*): NDArray = NDArray.array(values.toArray, Shape(values.length))

  private def values(array: NDArray): Seq[Float] = array.toArray.toSeq

  private def arguments: Map[String, NDArray] = Map("x" -> vector(2, 3), "y" -> vector(5, 7))

  private def gradients: Map[String, NDArray] = Map("x" -> NDArray.zeros(2), "y" -> NDArray.zeros(2))

  test("forward and backward of a product") {
    val executor = product.bind(cpu, arguments, gradients)
    executor.forward(isTrain = true)
    assertEquals(values(executor.outputs(0)), Seq(10f, 21f))
    executor.backward(vector(1, 10))
    assertEquals(values(executor.gradDict("x")), Seq(5f, 70f))
    assertEquals(values(executor.gradDict("y")), Seq(2f, 30f))
    executor.backward(Array(vector(1, 1)))
    assertEquals(values(executor.gradDict("x")), Seq(5f, 7f))
  }

  test("what is written into an argument counts at the next run; outputs keep their identity") {
    val executor = product.bind(cpu, arguments)
    executor.forward()
    val output = executor.outputs(0)
    executor.argDict("x").set(1f)
    executor.forward(isTrain = false, "y" -> vector(8, 9))
    assertEquals(values(output), Seq(8f, 9f))
  }

  test("gradient requests: write, add, null, for all, in order and by name") {
    def twice(executor: Executor): Seq[Option[Seq[Float]]] = {
      (1 to 2).foreach { _ =>
        executor.forward(isTrain = true)
        executor.backward(vector(1, 1))
      }
      Seq("x", "y").map(name => Option(executor.gradDict(name)).map(values))
    }
    val (none, group) = (Seq.empty[NDArray], Map.empty[String, Context])
    def bound(request: String) = product.bind(cpu, arguments, gradients, request, none, group, null)
    assertEquals(twice(bound("write")), Seq(Some(Seq(5f, 7f)), Some(Seq(2f, 3f))))
    assertEquals(twice(bound("add")), Seq(Some(Seq(10f, 14f)), Some(Seq(4f, 6f))))
    assertEquals(twice(bound("null")), Seq(Some(Seq(0f, 0f)), Some(Seq(0f, 0f))))
    val inOrder = product.bind(cpu, arguments, gradients, Seq("add", "null"), none, group, null)
    assertEquals(twice(inOrder), Seq(Some(Seq(10f, 14f)), Some(Seq(0f, 0f))))
    val byName = product.bind(cpu, arguments, gradients, Map("y" -> "add"), none, group, null)
    assertEquals(twice(byName), Seq(Some(Seq(0f, 0f)), Some(Seq(4f, 6f))))
    val one = product.bind(cpu, arguments, Map("x" -> NDArray.zeros(2)))
    assertEquals(twice(one), Seq(Some(Seq(5f, 7f)), None))
  }

  test("arrays are given in order or by name, with the same result") {
    val (args, grads) = (Seq(vector(2), vector(5)), Seq(NDArray.zeros(1), NDArray.zeros(1)))
    val (argMap, gradMap) = (Seq("x", "y").zip(args).toMap, Seq("x", "y").zip(grads).toMap)
    val (aux, auxMap) = (Seq.empty[NDArray], Map.empty[String, NDArray])
    val executors = Seq(
      product.bind(cpu, args, grads),
      product.bind(cpu, argMap, gradMap),
      product.bind(cpu, argMap, grads),
      product.bind(cpu, args, gradMap),
      product.bind(cpu, args, grads, "write", aux, null, null),
      product.bind(cpu, args, grads, "write", auxMap, null, null),
      product.bind(cpu, args, gradMap, "write", aux, null, null),
      product.bind(cpu, args, gradMap, "write", auxMap, null, null),
      product.bind(cpu, argMap, grads, "write", aux, null, null),
      product.bind(cpu, argMap, grads, "write", auxMap, null, null),
      product.bind(cpu, argMap, gradMap, "write", aux, null, null),
      product.bind(cpu, argMap, gradMap, "write", auxMap, null, null),
      product.bind(cpu, args, grads, Seq("write", "write"), auxMap, null, null),
      product.bind(cpu, argMap, gradMap, Seq("write", "write"), aux, null, null),
      product.bind(cpu, args, gradMap, Map("x" -> "write", "y" -> "write"), aux, null, null),
      product.bind(cpu, argMap, grads, Map("x" -> "write", "y" -> "write"), auxMap, null, null)
    )
    executors.foreach { executor =>
      grads.foreach(_.set(0f))
      executor.forward(isTrain = true)
      executor.backward(vector(1))
      assertEquals((values(executor.outputs(0)), grads.map(_.toScalar)), (Seq(10f), Seq(5f, 2f)))
    }
    Seq(product.bind(cpu, args), product.bind(cpu, argMap)).foreach { executor =>
      executor.forward()
      assertEquals(values(executor.outputs(0)), Seq(10f))
      assertEquals(executor.gradDict, Map[String, NDArray]("x" -> null, "y" -> null))
    }
  }

  test("auxiliary states are updated by the backward pass in training") {
    val norm = Symbol.api.BatchNorm(data = x, fix_gamma = false, momentum = 0.5f, name = "bn")
    val args = Map("x" -> NDArray.array(Array(1f, 3f), Shape(2, 1)), "bn_gamma" -> vector(1), "bn_beta" -> vector(0))
    val aux = Map("bn_moving_mean" -> vector(0), "bn_moving_var" -> vector(1))
    val grads = args.map { case (name, array) => name -> NDArray.zeros(array.shape) }
    val executor = norm.bind(cpu, args, grads, "write", aux, null, null)
    executor.forward(isTrain = true)
    assertEquals(executor.auxDict("bn_moving_mean").toScalar, 0f)
    executor.backward(NDArray.ones(2, 1))
    assertEquals(executor.auxDict.keySet, aux.keySet)
    assertEqualsFloat(executor.auxDict("bn_moving_mean").toScalar, 1f, 1e-6f)
    assert(executor.auxDict("bn_moving_mean") eq aux("bn_moving_mean"))
    executor.copyParamsFrom(Map("bn_beta" -> vector(4)), Map("bn_moving_mean" -> vector(2)))
    assertEquals((args("bn_beta").toScalar, aux("bn_moving_mean").toScalar), (4f, 2f))
  }

  test("copyParamsFrom converts types, and refuses unknown names unless it is told not to") {
    val executor = product.bind(cpu, arguments)
    executor.copyParamsFrom(Map("x" -> NDArray.full(Shape(2), 4.0)))
    assertEquals(values(executor.argDict("x")), Seq(4f, 4f))
    val extra = Map("z" -> vector(1, 1))
    val error = intercept[MXNetError](executor.copyParamsFrom(extra))
    assert(error.getMessage.contains("no argument 'z'"), error.getMessage)
    executor.copyParamsFrom(extra, allowExtraParams = true)
  }

  test("reshape shares parameters and runs with the new shape") {
    val fc = Symbol.api.FullyConnected(data = Symbol.Variable("data"), num_hidden = 2, name = "fc")
    val executor = fc.simpleBind(cpu, "write", Map("data" -> Shape(4, 3)))
    executor.argDict("fc_weight").set(2f)
    val smaller = executor.reshape(kwargs = Map("data" -> Shape(2, 3)))
    smaller.forward(isTrain = false, "data" -> NDArray.ones(2, 3))
    assertEquals((smaller.outputs(0).shape, values(smaller.outputs(0))), (Shape(2, 2), Seq.fill(4)(6f)))
    executor.argDict("fc_weight").set(1f)
    smaller.forward()
    assertEquals(values(smaller.outputs(0)), Seq.fill(4)(3f))
    executor.argDict("data").set(0f)
    smaller.argDict("data").set(7f)
    assertEquals(values(executor.argDict("data")), Seq.fill(6)(7f) ++ Seq.fill(6)(0f))
    smaller.argDict("data").set(1f)
    val larger = executor.reshape(allowUpSizing = true, kwargs = Map("data" -> Shape(8, 3)))
    larger.forward()
    assertEquals(larger.outputs(0).shape, Shape(8, 2))
    intercept[MXNetError](executor.reshape(kwargs = Map("data" -> Shape(8, 3))))
    val shared = smaller.argDict("fc_weight")
    smaller.dispose()
    assert(shared.isDisposed)
    executor.forward(isTrain = false, "data" -> NDArray.ones(4, 3))
    assertEquals(values(executor.outputs(0)), Seq.fill(8)(3f))
  }

  test("disposing frees the outputs, not the arrays it was bound to, and twice is harmless") {
    val args = arguments
    val executor = product.bind(cpu, args)
    executor.forward()
    val output = executor.outputs(0)
    executor.dispose()
    executor.dispose()
    assertEquals((output.isDisposed, args("x").isDisposed), (true, false))
    assert(intercept[MXNetError](executor.forward()).getMessage.startsWith("Executor: it was used after dispose()"))
  }

  test("an executor that a scope returns keeps its arrays") {
    val executor = ResourceScope.using() {
      val bound = product.bind(cpu, arguments)
      bound.forward()
      bound
    }
    executor.forward()
    assertEquals(values(executor.outputs(0)), Seq(10f, 21f))
  }

  private def bound: Executor = product.simpleBind(cpu, "write", Map("x" -> Shape(2)))

  test("arrays asked for within other scopes belong to the executor's scope") {
    val scope = new ResourceScope
    val executor = bound
    ResourceScope.using()(NDArrayCollector.auto().withScope {
      executor.argDict.size + executor.gradDict.size + executor.outputs.length
    })
    val kept = Seq(executor.argDict("x"), executor.gradDict("x"), executor.outputs(0))
    assertEquals(kept.map(_.isDisposed), Seq(false, false, false))
    assert(kept.forall(scope.contains) && scope.contains(executor.symbol))
    executor.argDict("x").set(3f)
    executor.argDict("y").set(4f)
    executor.forward()
    assertEquals(values(executor.outputs(0)), Seq(12f, 12f))
    scope.close()
    assertEquals(kept.map(_.isDisposed), Seq(true, true, true))
  }

  test("arrays of an executor that a scope returns are created later, outside of the scope") {
    val outer = new ResourceScope
    val executor = ResourceScope.using()(bound)
    assert(outer.contains(executor.argDict("x")) && outer.contains(executor.outputs(0)))
    outer.close()
    assert(intercept[MXNetError](executor.argArrays(0).toArray).getMessage.contains("used after the ResourceScope"))
  }

  test("a collector gets the arrays of an executor that is bound in its scope") {
    val collector = NDArrayCollector.manual()
    val executor = collector.withScope(bound)
    assertEquals(collector.size, 0) // The result keeps its arrays.
    assertEquals(collector.withScope(bound.outputs.length), 1)
    assertEquals(collector.size, 5) // Two arguments with gradients, and the output.
    assertEquals(values(executor.argDict("x")), Seq(0f, 0f))
  }

  test("arrays outlive the executor, and its outputs can be disposed again") {
    val executor = bound
    val x = executor.argDict("x")
    executor.dispose()
    x.set(2f)
    assertEquals(values(x), Seq(2f, 2f))
    executor.outputs.foreach(_.dispose())
    assert(intercept[MXNetError](executor.outputs(0).toArray).getMessage.contains("after dispose()"))
    assert(intercept[MXNetError](executor.gradArrays).getMessage.contains("after dispose()"))
  }

  test("threads that ask for arrays at the same time get the same ones") {
    val pool = Executors.newFixedThreadPool(8)
    try
      for (_ <- 1 to 50) {
        val executor = bound
        val start = new CountDownLatch(8)
        val asks: Seq[Callable[Seq[AnyRef]]] = Seq.fill(8)(() => {
          start.countDown()
          start.await()
          Seq(executor.outputs(0), executor.symbol) ++ executor.argArrays ++ executor.gradArrays
        })
        val found = pool.invokeAll(asks.asJava).asScala.map(_.get).toSeq
        assert(found.forall(_.lazyZip(found.head).forall(_ eq _)))
      }
    finally pool.shutdown()
  }

  test("a monitor sees every node, with its values, and what it throws reaches the caller") {
    val net = Symbol.api.Activation(data = product, act_type = "relu", name = "act")
    val executor = net.bind(cpu, Map("x" -> vector(-2, 3), "y" -> vector(5, 7)))
    val seen = mutable.LinkedHashMap.empty[String, Seq[Float]]
    executor.setMonitorCallback { (name, handle) =>
      val array = NDArray.fromHandle(handle, writable = false)
      seen(name) = values(array)
      array.dispose()
    }
    executor.forward()
    assertEquals(seen.toMap, Map("product_output" -> Seq(-10f, 21f), "act_output" -> Seq(0f, 21f)))
    executor.setMonitorCallback((name, _) => throw new IllegalStateException(s"at $name"))
    val error = intercept[IllegalStateException](executor.forward())
    assertEquals(error.getMessage, "at product_output")
    executor.setMonitorCallback(null)
    executor.forward()
    assertEquals(values(executor.outputs(0)), Seq(0f, 21f))
  }

  test("Monitor reports every interval-th batch") {
    val monitor = new Monitor(2)
    val executor = product.bind(cpu, arguments)
    monitor.install(executor)
    val reports = (1 to 3).map { _ =>
      monitor.tic()
      executor.forward()
      monitor.toc().toSeq
    }
    assertEquals(reports.map(_.nonEmpty), Seq(true, false, true))
    val (_, name, value) = reports.head.head
    assertEquals(name, "product_output")
    assertEqualsDouble(value.toDouble, math.sqrt((100 + 441) / 2.0), 1e-3)
    assertEquals(reports.head.map(_._2), Seq("product_output", "x", "y"))
  }

  test("Monitor reports every output that MXNet 1.9.1 reports, under its names") {
    val hidden = Symbol.api.FullyConnected(Symbol.Variable("data"), num_hidden = 6, name = "fc")
    val normalized = Symbol.api.BatchNorm(hidden, name = "bn")
    val dropped = Symbol.api.Dropout(Symbol.api.Activation(normalized, act_type = "relu", name = "act"), name = "drop")
    val halves = Symbol.api.SliceChannel(dropped, num_outputs = 2, name = "sc")
    val layer = Symbol.api.LayerNorm(halves.get(0), name = "ln")
    val top = Symbol.api.topk(halves.get(1), k = 2, ret_typ = "both", name = "tk")
    val net = Symbol.Group(Symbol.api.SoftmaxOutput(layer, name = "softmax"), top.get(0))
    val executor = net.simpleBind(cpu, "write", Map("data" -> Shape(2, 3)))
    val monitor = new Monitor(1)
    monitor.install(executor)
    monitor.tic()
    executor.forward(isTrain = true)
    val outputs = Seq("fc_output", "bn_output", "bn_mean", "bn_var", "act_output", "drop_output", "drop_mask") ++
      Seq("sc_output0", "sc_output1", "ln_output", "ln_mean", "ln_std", "softmax_output", "tk_output0", "tk_output1")
    assertEquals(monitor.toc().map(_._2).toSeq, outputs ++ net.listArguments())
  }

  test("parts of a graph are bound to the devices of their groups, which must exist") {
    val first = AttrScope(Map("ctx_group" -> "one")).withScope(Symbol.api.elemwise_add(x, x, name = "first"))
    val second = AttrScope(Map("ctx_group" -> "two")).withScope(first * 3)
    val group = Map("one" -> Context.cpu(0), "two" -> Context.cpu(1))
    val none = Map.empty[String, NDArray]
    val executor = second.bind(cpu, Map("x" -> vector(2)), none, "null", none, group, null)
    executor.forward()
    assertEquals(values(executor.outputs(0)), Seq(12f))
    val missing = Map("one" -> Context.cpu(0), "two" -> Context.gpu(0))
    val error = intercept[MXNetError](second.bind(cpu, Map("x" -> vector(2)), none, "null", none, missing, null))
    assert(error.getMessage.contains("gpu"), error.getMessage)
  }

  test("debugStr names the nodes") {
    val text = product.bind(cpu, arguments).debugStr
    assert(text.contains("product"), text)
  }
}
