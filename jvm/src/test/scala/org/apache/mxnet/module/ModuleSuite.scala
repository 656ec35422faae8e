package org.apache.mxnet.module

import org.apache.mxnet._
import org.apache.mxnet.io.NDArrayIter
import org.apache.mxnet.optimizer.{Adam, SGD}

class ModuleSuite extends munit.FunSuite with TemporaryFiles {
  private val classes = 3
  private val features = 4
  private val count = 90

  /** Points around three centers, labeled with the index of their center. */
  private def points: (Array[Float], Array[Float]) = {
    val random = new scala.util.Random(5)
    val labels = Array.tabulate(count)(i => (i % classes).toFloat)
    val data = labels.flatMap(label =>
      Array.tabulate(features)(j => (if (j == label.toInt) 2f else 0f) + random.nextGaussian().toFloat * 0.3f)
    )
    (data, labels)
  }

  private def data(batch: Int = 10, last: String = "pad"): NDArrayIter = {
    val (values, labels) = points
    new NDArrayIter(
      IndexedSeq(NDArray.array(values, Shape(count, features))),
      IndexedSeq(NDArray.array(labels, Shape(count))),
      batch,
      shuffle = false,
      last,
      labelName = "softmax_label"
    )
  }

  private def network: Symbol = {
    val hidden = Symbol.api.FullyConnected(data = Symbol.Variable("data"), num_hidden = 8, name = "fc1")
    val active = Symbol.api.Activation(data = hidden, act_type = "tanh", name = "act")
    Symbol.api.SoftmaxOutput(
      data = Symbol.api.FullyConnected(data = active, num_hidden = classes, name = "fc2"),
      name = "softmax"
    )
  }

  private def params(optimizer: Optimizer = new SGD(0.5f, momentum = 0.9f)): FitParams =
    new FitParams().setInitializer(new Xavier()).setOptimizer(optimizer)

  private def trained(
      contexts: Array[Context] = Array(Context.cpu()),
      kvStore: String = "local",
      epochs: Int = 5
  ): Module = {
    Random.seed(11)
    val module = new Module(network, contexts = contexts)
    module.fit(data(), None, epochs, params().setKVStore(kvStore))
    module
  }

  private def accuracy(module: BaseModule): Float = module.score(data(), new Accuracy()).get._2.head

  private def values(module: BaseModule): Map[String, Seq[Float]] =
    module.getParams._1.map { case (name, array) => name -> array.toArray.toSeq }

  private def temporary: String = temporaryFolder("module").resolve("model").toString

  private def assertClose(a: Map[String, Seq[Float]], b: Map[String, Seq[Float]]): Unit = {
    assertEquals(a.keySet, b.keySet)
    for ((name, left) <- a) left.lazyZip(b(name)).foreach((x, y) => assertEqualsFloat(x, y, 1e-4f, name))
  }

  test("fit learns, and the same seed gives the same bits") {
    val module = trained()
    assertEquals(accuracy(module), 1f)
    assertEquals(values(trained()), values(module))
  }

  test("one step of SGD is what the gradient says") {
    val module = new Module(network)
    val iter = data()
    module.bind(iter.provideDataDesc, Some(iter.provideLabelDesc))
    Random.seed(1)
    module.initParams(new Xavier())
    module.initOptimizer(optimizer = new SGD(1f, wd = 0f))
    val before = values(module)
    val batch = iter.next()
    module.forwardBackward(batch)
    module.update()
    val after = values(module)

    val executor =
      network.simpleBind(Context.cpu(), "write", Map("data" -> Shape(10, features), "softmax_label" -> Shape(10)))
    before.foreach { case (name, content) => executor.argDict(name).set(content.toArray) }
    executor.forward(isTrain = true, "data" -> batch.data.head, "softmax_label" -> batch.label.head)
    executor.backward()
    val expected = before.map { case (name, content) =>
      name -> content.lazyZip(executor.gradDict(name).toArray).map((w, g) => w - g / 10)
    }
    assertClose(after, expected)
  }

  test("two devices learn what one learns, by each kind of store") {
    val one = values(trained())
    Seq("local", "device", "local_allreduce_cpu").foreach { store =>
      assertClose(values(trained(Array(Context.cpu(0), Context.cpu(1)), store)), one)
    }
  }

  test("predict drops padding and joins the batches") {
    val module = trained()
    val whole = module.predict(data(90)).head
    val parts = module.predict(data(20)).head // the last batch is padded
    assertEquals(whole.shape, Shape(count, classes))
    assertEquals(parts.shape, whole.shape)
    whole.toArray.lazyZip(parts.toArray).foreach((a, b) => assertEqualsFloat(a, b, 1e-5f))
    assertEquals(
      module.predictEveryBatch(data(20), numBatch = 2).map(_.head.shape),
      IndexedSeq.fill(2)(Shape(20, classes))
    )
    val sums = whole.toArray.grouped(classes).map(_.sum)
    sums.foreach(sum => assertEqualsFloat(sum, 1f, 1e-5f))
  }

  test("score does not count padding") {
    var rows = 0
    val counter = new CustomMetric((label, _) => { rows += label.shape(0); 0f }, "rows")
    trained(epochs = 1).score(data(20), counter)
    assertEquals(rows, count)
  }

  test("a checkpoint gives the same predictions, and training continues with the optimizer's states") {
    val prefix = temporary
    val module = trained()
    module.saveCheckpoint(prefix, 5, saveOptStates = true)
    val before = module.predict(data()).head.toArray.toSeq

    val loaded = Module.loadCheckpoint(prefix, 5, loadOptimizerStates = true)
    val iter = data()
    loaded.bind(iter.provideDataDesc, Some(iter.provideLabelDesc))
    assertEquals(loaded.predict(data()).head.toArray.toSeq, before)
    loaded.fit(data(), None, 6, params().setBeginEpoch(5))
    module.fit(data(), None, 6, params().setBeginEpoch(5))
    assertEquals(values(loaded), values(module))
  }

  test("MXNet's checkpoint of LeNet is loaded and predicts") {
    val module = Module.loadCheckpoint("tests/oracle/fixtures/lenet", 30)
    module.bind(forTraining = false, inputsNeedGrad = false, forceRebind = false, DataDesc("data", Shape(2, 1, 8, 8)))
    val output = module.predict(new DataBatch(IndexedSeq(NDArray.zeros(2, 1, 8, 8)), IndexedSeq.empty, null, 0)).head
    assertEquals(output.shape, Shape(2, 10))
    output.toArray.grouped(10).foreach(row => assertEqualsFloat(row.sum, 1f, 1e-5f))
  }

  test("a batch of another size rebinds the module, and back again") {
    val module = trained()
    val one = new DataBatch(IndexedSeq(NDArray.ones(1, features)), IndexedSeq.empty, null, 0)
    val ten = new DataBatch(IndexedSeq(NDArray.ones(10, features)), IndexedSeq.empty, null, 0)
    val expected = module.predict(ten).head.toArray.take(classes).toSeq
    for (_ <- 1 to 3) {
      module.predict(one).head.toArray.toSeq.lazyZip(expected).foreach((a, b) => assertEqualsFloat(a, b, 1e-6f))
      assertEquals(module.dataShapes.head.shape, Shape(1, features))
      assertEquals(module.predict(ten).head.shape, Shape(10, classes))
    }
    module.reshape(
      IndexedSeq(DataDesc("data", Shape(5, features))),
      Some(IndexedSeq(DataDesc("softmax_label", Shape(5))))
    )
    assertEquals(module.outputShapes, IndexedSeq("softmax_output" -> Shape(5, classes)))
  }

  test("fixed parameters stay, the others change") {
    Random.seed(2)
    val module = new Module.Builder(network).setFixedParamNames("fc1_weight").build()
    val iter = data()
    module.bind(iter.provideDataDesc, Some(iter.provideLabelDesc))
    module.initParams(new Xavier())
    val before = values(module)
    module.fit(data(), None, 1, params(new Adam(0.1f)))
    val after = values(module)
    assertEquals(after("fc1_weight"), before("fc1_weight"))
    assertNotEquals(after("fc2_weight"), before("fc2_weight"))
  }

  test("gradients of the inputs come in the order of the network's arguments") {
    val sum = Symbol.Variable("b") + Symbol.Variable("a") * 2f
    val module = new Module(Symbol.MakeLoss()(sum)(), IndexedSeq("a", "b"), IndexedSeq.empty)
    val descs = IndexedSeq(DataDesc("a", Shape(1, 2)), DataDesc("b", Shape(1, 2)))
    module.bind(descs, inputsNeedGrad = true)
    module.initParams()
    module.forwardBackward(
      new DataBatch(IndexedSeq(NDArray.ones(1, 2), NDArray.ones(1, 2)), IndexedSeq.empty, null, 0)
    )
    assertEquals(module.getSymbol.listArguments(), IndexedSeq("b", "a"))
    assertEquals(module.getInputGradsMerged().map(_.toArray.toSeq), IndexedSeq(Seq(1f, 1f), Seq(2f, 2f)))
  }

  test("gradients of the inputs, and gradients that are added up") {
    Random.seed(3)
    val module = new Module(network)
    val iter = data()
    module.bind(iter.provideDataDesc, Some(iter.provideLabelDesc), inputsNeedGrad = true, gradReq = "add")
    module.initParams(new Xavier())
    val batch = iter.next()
    module.forwardBackward(batch)
    val once = module.getInputGradsMerged().head.toArray.toSeq
    assert(once.exists(_ != 0f))
    module.forwardBackward(batch)
    module
      .getInputGradsMerged()
      .head
      .toArray
      .toSeq
      .lazyZip(once)
      .foreach((two, one) => assertEqualsFloat(two, 2 * one, 1e-5f))
  }

  test("the callbacks of fit are called with epochs and batches") {
    val seen = scala.collection.mutable.ArrayBuffer.empty[String]
    val callbacks = params()
      .setBatchEndCallback((epoch, batch, _) => if (batch == 8) seen += s"batch $epoch $batch")
      .setEpochEndCallback((epoch, _, args, _) => seen += s"epoch $epoch ${args.keys.toSeq.sorted.mkString(" ")}")
      .setEvalEndCallback((epoch, batches, metric) => seen += s"eval $epoch $batches ${metric.get._1.head}")
    new Module(network).fit(data(), Some(data()), 2, callbacks)
    val names = "fc1_bias fc1_weight fc2_bias fc2_weight"
    val expected = (0 to 1).flatMap(e => Seq(s"batch $e 8", s"epoch $e $names", s"eval $e 9 accuracy"))
    assertEquals(seen.toSeq, expected)
  }

  test("initParams: given values, missing and extra ones") {
    val module = new Module(network)
    val iter = data()
    module.bind(iter.provideDataDesc, Some(iter.provideLabelDesc))
    val bias = Map("fc1_bias" -> NDArray.ones(8))
    def message(body: => Any): String = intercept[IllegalArgumentException](body).getMessage
    assert(message(module.initParams(argParams = bias)).contains("no value is given for parameter fc1_weight"))
    val shape = message(module.initParams(argParams = Map("fc1_bias" -> NDArray.ones(7)), allowMissing = true))
    assert(shape.contains("fc1_bias has the shape (7) but the network needs (8)"), shape)
    val tooMany = bias + ("fc9_bias" -> NDArray.ones(8))
    module.initParams(argParams = tooMany, allowMissing = true)
    val (all, none) = (module.getParams._1 + ("fc9_bias" -> NDArray.ones(8)), Map.empty[String, NDArray])
    module.setParams(all, none)
    val extra = message(module.setParams(all, none, allowMissing = true))
    assert(extra.contains("no argument fc9_bias") && extra.contains("allowExtra"), extra)
    module.setParams(all, none, allowMissing = true, allowExtra = true)
    assert(!module.getParams._1.contains("fc9_bias"))
    assertEquals(values(module)("fc1_bias"), Seq.fill(8)(1f))
    module.initParams(new Uniform(0f), forceInit = true)
    assertEquals(values(module)("fc1_bias"), Seq.fill(8)(0f))
  }

  test("wrong names, shapes and orders of calls are errors that say what to do") {
    def message(body: => Any): String = intercept[IllegalArgumentException](body).getMessage
    assert(
      message(new Module(network, IndexedSeq("image")))
        .contains("no argument of that name; its inputs are data, softmax_label")
    )
    val module = new Module(network)
    assert(message(module.forward(data().next())).contains("call bind"))
    val shapes = data()
    val name = message(module.bind(IndexedSeq(DataDesc("x", Shape(10, features)))))
    assert(name.contains("the data are named x but the module expects data"), name)
    val label = message(module.bind(shapes.provideDataDesc, Some(IndexedSeq(DataDesc("label", Shape(10))))))
    assert(label.contains("the labels are named label but the module expects softmax_label"), label)
    val sizes = message(module.bind(shapes.provideDataDesc, Some(IndexedSeq(DataDesc("softmax_label", Shape(9))))))
    assert(sizes.contains("data has the shape (10,4) and softmax_label has (9)"), sizes)
    module.bind(shapes.provideDataDesc, Some(shapes.provideLabelDesc))
    module.initParams()
    assert(message(module.update()).contains("call initOptimizer"))
    assert(message(module.getInputGrads()).contains("inputsNeedGrad"))
    assert(message(module.saveOptimizerStates("x")).contains("call initOptimizer first"))
    assert(message(new Module(network, contexts = Array.empty)).contains("at least one context"))
    val features5 = new DataBatch(IndexedSeq(NDArray.ones(10, 5)), IndexedSeq.empty, null, 0)
    assert(message(module.forward(features5)).contains("fc1_weight has the shape (8,4)"))
    assertEquals(module.predict(shapes.next()).head.shape, Shape(10, classes)) // and still works
  }

  test("further inputs and labels that a batch provides are not parameters") {
    val sum =
      Symbol.api.FullyConnected(data = Symbol.Variable("data"), num_hidden = 2, name = "fc") + Symbol.Variable("begin")
    val loss = Symbol.api.LinearRegressionOutput(data = sum, name = "lro")
    def described(rows: Int) =
      (
        IndexedSeq(DataDesc("data", Shape(rows, 3)), DataDesc("begin", Shape(rows, 2))),
        Some(IndexedSeq(DataDesc("lro_label", Shape(rows, 2))))
      )
    def batch(rows: Int) = new DataBatch(
      IndexedSeq(NDArray.zeros(rows, 3), NDArray.ones(rows, 2) * 4),
      IndexedSeq(NDArray.ones(rows, 2)),
      null,
      0
    )
    val module = new Module(loss)
    val (inputs, labels) = described(3)
    module.bind(inputs, labels)
    module.initParams(new Uniform(0f))
    module.initOptimizer(optimizer = new SGD(0.5f))
    module.forwardBackward(batch(3))
    module.update()
    assertEquals(module.getOutputsMerged().head.toArray.toSeq, Seq.fill(6)(4f))
    assertEquals(values(module), Map("fc_weight" -> Seq.fill(6)(0f), "fc_bias" -> Seq.fill(2)(-0.75f)))
    module.forward(batch(5)) // another batch size
    assertEquals(module.getOutputsMerged().head.toArray.toSeq, Seq.fill(10)(3.25f))

    val prefix = temporary
    module.saveCheckpoint(prefix, 1)
    val loaded = Module.loadCheckpoint(prefix, 1)
    loaded.bind(inputs, labels)
    loaded.forward(batch(3))
    assertEquals(loaded.getOutputsMerged().head.toArray.toSeq, Seq.fill(6)(3.25f))
    val incomplete = intercept[IllegalArgumentException] {
      Module.loadCheckpoint(prefix, 1).bind(inputs.take(1), labels)
    }
    assert(incomplete.getMessage.contains("has no values for begin"), incomplete.getMessage)
  }

  test("buckets take initial states that the generator of networks does not name") {
    def generate(key: AnyRef): (Symbol, IndexedSeq[String], IndexedSeq[String]) = {
      val steps = Symbol.api.sum(data = Symbol.Variable("data"), axis = Shape(1), keepdims = true)
      val last = Symbol.api.FullyConnected(data = steps + Symbol.Variable("init_h"), num_hidden = 2, name = "fc")
      (Symbol.api.SoftmaxOutput(data = last, name = "softmax"), IndexedSeq("data"), IndexedSeq("softmax_label"))
    }
    def batch(length: Int) = new DataBatch(
      IndexedSeq(NDArray.ones(4, length), NDArray.ones(4, 1)),
      IndexedSeq(NDArray.zeros(4)),
      null,
      0,
      Int.box(length),
      IndexedSeq(DataDesc("data", Shape(4, length)), DataDesc("init_h", Shape(4, 1))),
      IndexedSeq(DataDesc("softmax_label", Shape(4)))
    )
    val module = new BucketingModule(generate, Int.box(5))
    module.bind(batch(5).provideDataDesc, Some(batch(5).provideLabelDesc))
    module.initParams()
    module.initOptimizer(optimizer = new SGD(0.1f))
    for (_ <- 0 until 20; length <- Seq(5, 2)) {
      module.forwardBackward(batch(length))
      module.update()
    }
    assertEquals(values(module).keySet, Set("fc_weight", "fc_bias"))
    assert(module.getOutputsMerged().head.toArray.head > 0.9f)
  }

  test("null among parameters, data of a batch and generators of networks is named") {
    val module = new Module(network)
    module.bind(data().provideDataDesc, Some(data().provideLabelDesc))
    module.initParams()
    val (args, aux) = module.getParams
    def message(body: => Any): String = intercept[RuntimeException](body).getMessage
    val name = args.keys.head
    assert(message(module.setParams(args.updated(name, null), aux)).contains(s"parameter $name is null"))
    assert(message(module.forward(new DataBatch(null, null, null, 0))).contains("data of the batch is null"))
    val oneNull = IndexedSeq[NDArray](null)
    assert(message(module.forward(new DataBatch(oneNull, null, null, 0))).contains("data of the batch(0) is null"))
    assert(message(new BucketingModule(null, Int.box(1))).contains("symGen is null"))
  }

  test("a missing checkpoint is named") {
    val error = intercept[MXNetError](Module.loadCheckpoint("no/such/model", 3))
    assert(error.getMessage.contains("no/such/model-symbol.json"), error.getMessage)
  }

  test("BucketingModule shares parameters among networks") {
    def unrolled(key: AnyRef): (Symbol, IndexedSeq[String], IndexedSeq[String]) = {
      val length = key.asInstanceOf[Integer].intValue
      val shared = Symbol.Variable("fc_weight")
      val bias = Symbol.Variable("fc_bias")
      val steps = (1 to length).foldLeft(Symbol.Variable("data")) { (state, i) =>
        Symbol.api.FullyConnected(data = state, weight = shared, bias = bias, num_hidden = features, name = s"step$i")
      }
      (Symbol.api.SoftmaxOutput(data = steps, name = "softmax"), IndexedSeq("data"), IndexedSeq("softmax_label"))
    }
    val module = new BucketingModule(unrolled, Int.box(2))
    val shapes = IndexedSeq(DataDesc("data", Shape(10, features)))
    val labels = IndexedSeq(DataDesc("softmax_label", Shape(10)))
    module.bind(shapes, Some(labels))
    Random.seed(4)
    module.initParams(new Xavier())
    module.initOptimizer(optimizer = new SGD(0.1f))
    val source = data().next()
    def batch(key: Int) = new DataBatch(source.data, source.label, source.index, 0, Int.box(key), shapes, labels)
    val before = values(module)
    Seq(1, 2, 3).foreach { key =>
      module.forwardBackward(batch(key))
      module.update()
    }
    assertEquals(module.getSymbol.listOutputs(), IndexedSeq("softmax_output"))
    assertNotEquals(values(module), before)

    // The first bucket uses the parameters that the third one has changed.
    val (args, aux) = module.getParams
    val alone = new Module(unrolled(Int.box(1))._1)
    alone.bind(shapes, Some(labels), forTraining = false)
    alone.initParams(argParams = args, auxParams = aux)
    module.forward(batch(1), isTrain = false)
    assertEquals(module.getOutputsMerged().head.toArray.toSeq, alone.predict(batch(1)).head.toArray.toSeq)
  }

  test("SequentialModule trains modules in a row as one network") {
    val hidden = Symbol.api.Activation(
      data = Symbol.api.FullyConnected(data = Symbol.Variable("data"), num_hidden = 8, name = "fc1"),
      act_type = "tanh",
      name = "act"
    )
    val output = Symbol.api.SoftmaxOutput(
      data = Symbol.api.FullyConnected(data = Symbol.Variable("features"), num_hidden = classes, name = "fc2"),
      name = "softmax"
    )
    Random.seed(11)
    val chain = new SequentialModule()
      .add(new Module(hidden, labelNames = IndexedSeq.empty))
      .add(new Module(output, IndexedSeq("features")), "take_labels" -> true, "auto_wiring" -> true)
    chain.fit(data(), None, 5, params())
    assertEquals(accuracy(chain), 1f)
    assertClose(values(chain), values(trained()))
    val error = intercept[IllegalArgumentException](new SequentialModule().add(chain, "take_label" -> true))
    assert(error.getMessage.contains("take_labels and auto_wiring"), error.getMessage)
  }
}
