package users

import org.apache.mxnet._
import org.apache.mxnet.infer.Predictor
import org.apache.mxnet.io.{NDArrayIter, ResizeIter}
import org.apache.mxnet.module.{BucketingModule, FitParams, Module}
import org.apache.mxnet.optimizer._

/** Programs with a scope or collector for each step: objects that live longer keep the arrays that a step creates. */
class StepScopesSuite extends munit.FunSuite with TemporaryFiles {
  private type Step = (=> Unit) => Unit

  private val kinds = Seq[(String, Step)](
    "ResourceScope" -> (body => ResourceScope.using()(body)),
    "NDArrayCollector" -> (body => NDArrayCollector.auto().withScope(body))
  )

  private def testInSteps(name: String)(program: Step => Unit): Unit =
    kinds.foreach { case (kind, step) => test(s"$name, in steps of $kind")(program(step)) }

  private def network(units: Int = 3): Symbol = {
    val total = Symbol.api.sum(Some(Symbol.Variable("data")), axis = Some(Shape(1)), keepdims = Some(true))
    val scores = Symbol.api.FullyConnected(Some(total), num_hidden = units, name = "fc")
    Symbol.api.SoftmaxOutput(Some(scores), name = "softmax")
  }

  private def batch(size: Int, width: Int = 4, key: AnyRef = null): DataBatch = new DataBatch(
    IndexedSeq(NDArray.ones(size, width)),
    IndexedSeq(NDArray.zeros(size)),
    IndexedSeq.empty,
    0,
    key,
    IndexedSeq(DataDesc("data", Shape(size, width))),
    IndexedSeq(DataDesc("softmax_label", Shape(size)))
  )

  private def iterator: NDArrayIter =
    new NDArrayIter(IndexedSeq(NDArray.ones(8, 4)), IndexedSeq(NDArray.zeros(8)), 4, labelName = "softmax_label")

  private def bind(module: Module): Unit = {
    val first = batch(4)
    module.bind(first.provideDataDesc, Some(first.provideLabelDesc))
    module.initParams()
  }

  private def train(module: Module, size: Int = 4): Unit = {
    module.forwardBackward(batch(size))
    module.update()
  }

  private def assertTrained(module: Module): Unit =
    assert(module.getParams._1("fc_bias").toArray.head > 0f, "the bias of the only label has not grown")

  testInSteps("the states of every optimizer") { step =>
    val optimizers = Seq[Optimizer](
      new SGD(0.1f, momentum = 0.9f),
      new NAG(0.1f, momentum = 0.9f),
      new Adam(0.1f),
      new RMSProp(0.1f),
      new AdaGrad(0.1f),
      new AdaDelta(),
      new DCASGD(0.1f, momentum = 0.5f)
    )
    optimizers.foreach { optimizer =>
      val module = new Module(network())
      bind(module)
      module.initOptimizer(optimizer = optimizer)
      for (_ <- 0 until 3) step(train(module))
      assertTrained(module)
    }
  }

  testInSteps("a module that is bound, and gets parameters, optimizer and store") { step =>
    val module = new Module(network(), contexts = Array(Context.cpu(0), Context.cpu(1)))
    step {
      bind(module)
      module.initOptimizer("device", new Adam(0.1f))
    }
    for (_ <- 0 until 3) step(train(module))
    assertTrained(module)
  }

  testInSteps("batches of other sizes") { step =>
    val module = new Module(network())
    bind(module)
    module.initOptimizer(optimizer = new Adam(0.1f))
    for (size <- Seq(4, 6, 6, 4, 3)) step {
      train(module, size)
      assertEquals(module.getOutputsMerged().head.shape, Shape(size, 3))
    }
    assertTrained(module)
    for (_ <- 0 until 2) step(assertEquals(module.predict(batch(5)).head.shape, Shape(5, 3)))
  }

  testInSteps("training and scoring") { step =>
    val module = new Module(network())
    step(module.fit(iterator, numEpoch = 1, fitParams = new FitParams().setOptimizer(new Adam(0.1f))))
    step(assertEquals(module.score(iterator, new Accuracy).get._2.toSeq, Seq(1f)))
    module.fit(iterator, numEpoch = 1)
    assertTrained(module)
  }

  testInSteps("new buckets") { step =>
    val module = new BucketingModule(
      _ => (network(), IndexedSeq("data"), IndexedSeq("softmax_label")),
      defaultBucketKey = Int.box(5)
    )
    val first = batch(4, 5)
    module.bind(first.provideDataDesc, Some(first.provideLabelDesc))
    module.initParams()
    module.initOptimizer(optimizer = new Adam(0.1f))
    for (width <- Seq(5, 3, 2, 3, 5)) step {
      module.forwardBackward(batch(4, width, Int.box(width)))
      module.update()
    }
    assert(module.getParams._1("fc_bias").toArray.head > 0f)
  }

  testInSteps("FeedForward") { step =>
    val model = new FeedForward(network(), numEpoch = 1, optimizer = new Adam(0.1f))
    step(model.fit(iterator, iterator))
    for (_ <- 0 until 2) step(assertEquals(model.predict(iterator).head.shape, Shape(8, 3)))
    model.fit(iterator, null)
    assert(model.getArgParams("fc_bias").toArray.head > 0f)
  }

  testInSteps("a predictor, also for other batch sizes") { step =>
    val module = new Module(network())
    bind(module)
    val prefix = temporaryFolder("steps").resolve("net").toString
    module.saveCheckpoint(prefix, 0)
    var predictor: Predictor = null
    step { predictor = new Predictor(prefix, IndexedSeq(DataDesc("data", Shape(1, 4), layout = Layout.NT))) }
    for (size <- Seq(1, 2, 2, 1))
      step(assertEquals(predictor.predictWithNDArray(IndexedSeq(NDArray.ones(size, 4))).head.shape, Shape(size, 3)))
    assertEquals(predictor.predict(IndexedSeq(Array(1f, 2f, 3f, 4f))).head.length, 3)
  }

  testInSteps("the optimizer of a store, and an updater") { step =>
    val store = KVStore.create("local")
    step(store.setOptimizer(new Adam(0.1f)))
    step(store.init("0", NDArray.zeros(2)))
    for (_ <- 0 until 3) step(store.push("0", NDArray.ones(2)))
    val value = NDArray.ones(2)
    store.pull("0", value)
    assert(value.toArray.forall(_ < 0f))
    val updater = Optimizer.getUpdater(new Adam(0.1f))
    for (_ <- 0 until 3) step(updater.update(0, NDArray.ones(2), value))
    assert(value.toArray.forall(_ < -0.5f), value)
  }

  /** Uses what a scope and a collector return. */
  private def assertKept[A](make: => A)(use: A => Any): Unit = {
    use(ResourceScope.using()(make))
    use(NDArrayCollector.auto().withScope(make))
  }

  test("a scope returns modules that can be used and trained further") {
    def trained(module: Module): Module = {
      module.fit(iterator, numEpoch = 1, fitParams = new FitParams().setOptimizer(new Adam(0.1f)))
      module
    }
    Seq(1, 2).foreach { numDevices =>
      assertKept(trained(new Module(network(), contexts = Array.tabulate(numDevices)(Context.cpu(_))))) { module =>
        assertTrained(module)
        assertEquals(module.predict(batch(6)).head.shape, Shape(6, 3))
        module.fit(iterator, numEpoch = 1)
      }
    }
    assertKept {
      val model = new FeedForward(network(), numEpoch = 1)
      model.fit(iterator, null)
      model
    } { model =>
      assertEquals(model.predict(iterator).head.shape, Shape(8, 3))
      model.fit(iterator, null)
    }
  }

  test("a scope returns batches, iterators, arrays of the Java API and Java collections") {
    assertKept(batch(2))(made => assertEquals(made.data.head.toArray.sum + made.label.head.toArray.sum, 8f))
    def sumOf(data: DataIter): Float = {
      data.reset()
      data.map(_.data.head.toArray.sum).sum
    }
    val arrays = NDArray.ones(8, 4)
    def shuffled = new NDArrayIter(IndexedSeq(arrays + 1), IndexedSeq.empty, 4, shuffle = true)
    assertKept[DataIter](shuffled)(data => assertEquals(sumOf(data), 64f))
    assertKept[DataIter](new ResizeIter(shuffled, 3))(data => assertEquals(sumOf(data), 96f))
    assertKept(org.apache.mxnet.javaapi.NDArray.ones(org.apache.mxnet.javaapi.Context.cpu, Array(2))) { array =>
      assertEquals(array.toArray.toSeq, Seq(1f, 1f))
    }
    assertKept(java.util.Arrays.asList(arrays + 1, arrays))(list => assertEquals(list.get(0).toArray.sum, 64f))
    assertKept(java.util.Collections.singletonMap("sum", arrays + 1))(map =>
      assertEquals(map.get("sum").toArray.sum, 64f)
    )
  }

  test("the scope in which a module was created frees its arrays") {
    var kept = Seq.empty[NDArray]
    ResourceScope.using() {
      val module = new Module(network())
      bind(module)
      module.initOptimizer(optimizer = new Adam)
      for (size <- Seq(4, 6)) ResourceScope.using()(train(module, size))
      kept = module.getParams._1.values.toSeq
      assert(kept.nonEmpty && kept.forall(!_.isDisposed))
    }
    assert(kept.forall(_.isDisposed))
  }
}
