package users

import java.awt.image.BufferedImage
import java.nio.file.{Files, Path}

import org.apache.mxnet._
import org.apache.mxnet.DType.DType
import org.apache.mxnet.infer.ImageClassifier
import org.apache.mxnet.io.{NDArrayIter, PrefetchingIter, ResizeIter}
import org.apache.mxnet.module.{BucketingModule, FitParams, Module, SequentialModule}
import org.apache.mxnet.optimizer.{Adam, RMSProp, SGD}
import org.slf4j.LoggerFactory

import scala.collection.immutable.ListMap
import scala.collection.mutable
import scala.jdk.CollectionConverters._

/** Programs of users of the released Scala package, outside its packages: they compile and run.
  */
class ReleasedProgramsSuite extends munit.FunSuite with TemporaryFiles {
  private val folder = FunFixture[Path](_ => temporaryFolder("programs"), _ => ())
  private val logger = LoggerFactory.getLogger(classOf[ReleasedProgramsSuite])

  /** Two clusters of points. */
  private def points(count: Int): (NDArray, NDArray) = {
    val random = new scala.util.Random(1)
    val labels = Array.tabulate(count)(i => (i % 2).toFloat)
    val values = labels.flatMap(label => Array.fill(4)(label * 2 - 1 + random.nextGaussian().toFloat * 0.3f))
    (NDArray.array(values, Shape(count, 4)), NDArray.array(labels, Shape(count)))
  }

  private def iterator(count: Int = 64, batch: Int = 16): NDArrayIter = {
    val (data, label) = points(count)
    new NDArrayIter(
      IndexedSeq(data),
      IndexedSeq(label),
      batch,
      false,
      "pad",
      dataName = "data",
      labelName = "softmax_label"
    )
  }

  private def mlp: Symbol = {
    val data = Symbol.Variable("data")
    val fc1 = Symbol.FullyConnected(name = "fc1")()(Map("data" -> data, "num_hidden" -> 16))
    val act1 = Symbol.Activation(name = "relu1")()(Map("data" -> fc1, "act_type" -> "relu"))
    val fc2 = Symbol.FullyConnected(name = "fc2")()(Map("data" -> act1, "num_hidden" -> 2))
    Symbol.SoftmaxOutput(name = "softmax")()(Map("data" -> fc2))
  }

  folder.test("1. LeNet on files of digits, by FeedForward's builder") { directory =>
    val data = Symbol.Variable("data")
    val conv1 = Symbol.Convolution()()(Map("data" -> data, "kernel" -> "(3, 3)", "num_filter" -> 8))
    val tanh1 = Symbol.Activation()()(Map("data" -> conv1, "act_type" -> "tanh"))
    val pool1 =
      Symbol.Pooling()()(Map("data" -> tanh1, "pool_type" -> "max", "kernel" -> "(2, 2)", "stride" -> "(2, 2)"))
    val flatten = Symbol.Flatten()()(Map("data" -> pool1))
    val fc = Symbol.FullyConnected()()(Map("data" -> flatten, "num_hidden" -> 10))
    val lenet = Symbol.SoftmaxOutput(name = "softmax")()(Map("data" -> fc))
    val train = IO.MNISTIter(
      Map(
        "image" -> "data/digits/train-images-idx3-ubyte",
        "label" -> "data/digits/train-labels-idx1-ubyte",
        "data_shape" -> "(1, 8, 8)",
        "label_name" -> "softmax_label",
        "batch_size" -> "50",
        "shuffle" -> "1",
        "flat" -> "0",
        "silent" -> "0",
        "seed" -> "10"
      )
    )
    val model = FeedForward
      .newBuilder(lenet)
      .setContext(Array(Context.cpu()))
      .setNumEpoch(4)
      .setOptimizer(new SGD(learningRate = 0.1f, momentum = 0.9f, wd = 0.00001f))
      .setInitializer(new Xavier(factorType = "in", magnitude = 2.34f))
      .setTrainData(train)
      .setBatchEndCallback(new Callback.Speedometer(50, 10))
      .setEpochEndCallback(new EpochEndCallback {
        override def invoke(
            epoch: Int,
            symbol: Symbol,
            argParams: Map[String, NDArray],
            auxStates: Map[String, NDArray]
        ): Unit = Model.saveCheckpoint(directory.resolve("lenet").toString, epoch + 1, symbol, argParams, auxStates)
      })
      .build()
    train.reset()
    val probArrays = model.predict(train)
    assertEquals(probArrays.length, 1)
    val py = NDArray.argmax_channel(probArrays(0))
    train.reset()
    val labels = train.flatMap(_.label(0).copy().toArray).toArray
    val correct = labels.zip(py.toArray).count { case (label, found) => label == found }
    assert(correct > 0.9 * labels.length, s"$correct of ${labels.length}")
    assert(Files.exists(directory.resolve("lenet-0004.params")))
  }

  test("2. Module with its steps written out") {
    Random.seed(2)
    val train = iterator()
    val mod = new Module(mlp, contexts = Array(Context.cpu(0)))
    mod.bind(dataShapes = train.provideDataDesc, labelShapes = Some(train.provideLabelDesc))
    mod.initParams(new Uniform(0.1f))
    mod.initOptimizer(optimizer = new SGD(learningRate = 0.5f, momentum = 0.9f))
    val metric = new Accuracy()
    for (epoch <- 0 until 5) {
      while (train.hasNext) {
        val batch = train.next()
        mod.forward(batch)
        mod.updateMetric(metric, batch.label)
        mod.backward()
        mod.update()
      }
      val (name, value) = metric.get
      name.zip(value).foreach { case (n, v) => logger.info(s"Epoch $epoch, $n = $v") }
      metric.reset()
      train.reset()
    }
    assertEquals(mod.score(train, metric).get._2(0), 1f)
    val outputs = mod.predict(train)(0)
    assertEquals(outputs.shape, Shape(64, 2))
  }

  /** Sentences bucketed by length, as in the released example. */
  private class SentenceIter(sentences: Seq[Array[Float]], buckets: IndexedSeq[Int], override val batchSize: Int)
      extends DataIter {
    private val plan = buckets.flatMap { length =>
      sentences.filter(_.length == length).grouped(batchSize).filter(_.length == batchSize).map(length -> _)
    }
    private var index = 0
    override val defaultBucketKey: AnyRef = buckets.max.asInstanceOf[AnyRef]
    private def shapes(name: String, length: Int) = ListMap(name -> Shape(batchSize, length))
    override def provideData: ListMap[String, Shape] = shapes("data", buckets.max)
    override def provideLabel: ListMap[String, Shape] = shapes("softmax_label", buckets.max)
    override def provideDataDesc: IndexedSeq[DataDesc] = provideData.map { case (n, s) => DataDesc(n, s) }.toIndexedSeq
    override def provideLabelDesc: IndexedSeq[DataDesc] = provideLabel.map { case (n, s) =>
      DataDesc(n, s)
    }.toIndexedSeq
    override def reset(): Unit = index = 0
    override def hasNext: Boolean = index < plan.length
    override def next(): DataBatch = {
      val (length, rows) = plan(index)
      index += 1
      val data = NDArray.array(rows.flatten.toArray, Shape(batchSize, length))
      val label = NDArray.array(rows.flatMap(r => r.drop(1) :+ r.head).toArray, Shape(batchSize, length))
      new DataBatch(
        IndexedSeq(data),
        IndexedSeq(label),
        getIndex(),
        getPad(),
        length.asInstanceOf[AnyRef],
        shapes("data", length),
        shapes("softmax_label", length)
      )
    }
    override def getData(): IndexedSeq[NDArray] = IndexedSeq.empty
    override def getLabel(): IndexedSeq[NDArray] = IndexedSeq.empty
    override def getIndex(): IndexedSeq[Long] = IndexedSeq(0L)
    override def getPad(): Int = 0
  }

  private case class LSTMState(c: Symbol, h: Symbol)
  private case class LSTMParam(i2hWeight: Symbol, i2hBias: Symbol, h2hWeight: Symbol, h2hBias: Symbol)

  private def lstm(numHidden: Int, inData: Symbol, prev: LSTMState, param: LSTMParam, seq: Int): LSTMState = {
    val i2h = Symbol.FullyConnected(s"t${seq}_i2h")()(
      Map("data" -> inData, "weight" -> param.i2hWeight, "bias" -> param.i2hBias, "num_hidden" -> numHidden * 4)
    )
    val h2h = Symbol.FullyConnected(s"t${seq}_h2h")()(
      Map("data" -> prev.h, "weight" -> param.h2hWeight, "bias" -> param.h2hBias, "num_hidden" -> numHidden * 4)
    )
    val gates = i2h + h2h
    val slices = Symbol.SliceChannel(s"t${seq}_slice")(gates)(Map("num_outputs" -> 4))
    val inGate = Symbol.Activation()()(Map("data" -> slices.get(0), "act_type" -> "sigmoid"))
    val inTransform = Symbol.Activation()()(Map("data" -> slices.get(1), "act_type" -> "tanh"))
    val forgetGate = Symbol.Activation()()(Map("data" -> slices.get(2), "act_type" -> "sigmoid"))
    val outGate = Symbol.Activation()()(Map("data" -> slices.get(3), "act_type" -> "sigmoid"))
    val nextC = (forgetGate * prev.c) + (inGate * inTransform)
    LSTMState(nextC, outGate * Symbol.Activation()()(Map("data" -> nextC, "act_type" -> "tanh")))
  }

  private def unrolled(length: Int, vocabulary: Int, hidden: Int): Symbol = {
    val data = Symbol.Variable("data")
    val embed = Symbol.Embedding("embed")()(
      Map(
        "data" -> data,
        "input_dim" -> vocabulary,
        "weight" -> Symbol.Variable("embed_weight"),
        "output_dim" -> hidden
      )
    )
    val words = Symbol.SliceChannel()(embed)(Map("axis" -> 1, "num_outputs" -> length, "squeeze_axis" -> true))
    val param = LSTMParam(
      Symbol.Variable("l0_i2h_weight"),
      Symbol.Variable("l0_i2h_bias"),
      Symbol.Variable("l0_h2h_weight"),
      Symbol.Variable("l0_h2h_bias")
    )
    val zero = words.get(0) * 0f
    var state = LSTMState(zero, zero)
    val hiddens = (0 until length).map { t =>
      state = lstm(hidden, words.get(t), state, param, t)
      state.h
    }
    val all = Symbol.Concat()(hiddens: _*)(Map("dim" -> 0))
    val pred = Symbol.FullyConnected("pred")()(
      Map(
        "data" -> all,
        "num_hidden" -> vocabulary,
        "weight" -> Symbol.Variable("cls_weight"),
        "bias" -> Symbol.Variable("cls_bias")
      )
    )
    val label = Symbol.transpose()(Symbol.Variable("softmax_label"))()
    val flat = Symbol.Reshape()()(Map("data" -> label, "target_shape" -> "(0,)"))
    Symbol.SoftmaxOutput("softmax")()(Map("data" -> pred, "label" -> flat))
  }

  test("3. an LSTM, unrolled by hand, in buckets") {
    Random.seed(3)
    val sentences = Seq.tabulate(48)(i => Array.tabulate(if (i % 2 == 0) 3 else 5)(t => ((i + t) % 4).toFloat))
    val train = new SentenceIter(sentences, IndexedSeq(3, 5), 8)
    def symGen(key: AnyRef): (Symbol, IndexedSeq[String], IndexedSeq[String]) =
      (unrolled(key.asInstanceOf[Int], 4, 8), IndexedSeq("data"), IndexedSeq("softmax_label"))
    val model = new BucketingModule(symGen, defaultBucketKey = train.defaultBucketKey, contexts = Array(Context.cpu()))
    val fitParams = new FitParams()
    fitParams.setEvalMetric(new CustomMetric((label, pred) => perplexity(label, pred), name = "perplexity"))
    fitParams.setKVStore("device")
    fitParams.setOptimizer(new Adam(learningRate = 0.05f))
    fitParams.setInitializer(new Xavier(factorType = "in", magnitude = 2.34f))
    fitParams.setBatchEndCallback(new Callback.Speedometer(8, 50))
    model.fit(trainData = train, numEpoch = 12, fitParams = fitParams)
    train.reset()
    val metric = new CustomMetric((label, pred) => perplexity(label, pred), name = "perplexity")
    // The words 0 1 2 3 repeat, so every word but the first of a sentence can be predicted.
    assert(model.score(train, metric).get._2(0) < 1.7f, metric.get._2(0).toString)
  }

  private def perplexity(label: NDArray, pred: NDArray): Float = {
    val (rows, length) = (label.shape(0), label.shape(1))
    val labels = label.toArray.grouped(length).toArray.transpose.flatten
    val values = pred.toArray.grouped(pred.shape(1)).toArray
    val loss = labels.zip(values).map { case (l, p) => -math.log(math.max(1e-10, p(l.toInt).toDouble)) }.sum
    math.exp(loss / (rows * length)).toFloat
  }

  private class UsersSoftmax extends CustomOp {
    override def forward(
        sTrain: Boolean,
        req: Array[String],
        inData: Array[NDArray],
        outData: Array[NDArray],
        aux: Array[NDArray]
    ): Unit = {
      val xShape = inData(0).shape
      val x = inData(0).toArray.grouped(xShape(1)).toArray
      val yArr = x.map { row =>
        val max = row.max
        val tmp = row.map(e => Math.exp(e.toDouble - max).toFloat)
        val sum = tmp.sum
        tmp.map(_ / sum)
      }.flatten
      val y = NDArray.empty(xShape, outData(0).context)
      y.set(yArr)
      this.assign(outData(0), req(0), y)
      y.dispose()
    }

    override def backward(
        req: Array[String],
        outGrad: Array[NDArray],
        inData: Array[NDArray],
        outData: Array[NDArray],
        inGrad: Array[NDArray],
        aux: Array[NDArray]
    ): Unit = {
      val l = inData(1).toArray.map(_.toInt)
      val oData = outData(0).toArray
      val yArr =
        oData.grouped(outData(0).shape(1)).zip(l.iterator).flatMap { case (row, t) => row(t) -= 1f; row }.toArray
      val y = NDArray.empty(outData(0).shape, outData(0).context)
      y.set(yArr)
      this.assign(inGrad(0), req(0), y)
      y.dispose()
    }
  }

  private class UsersSoftmaxProp(needTopGrad: Boolean = false) extends CustomOpProp(needTopGrad) {
    override def listArguments(): Array[String] = Array("data", "label")
    override def listOutputs(): Array[String] = Array("output")
    override def inferShape(
        inShape: Array[Shape]
    ): (Array[Shape], Array[Shape], Array[Shape]) = {
      val dataShape = Shape(inShape(0)(0), inShape(0)(1))
      val labelShape = Shape(inShape(0)(0))
      (Array(dataShape, labelShape), Array(dataShape), null)
    }
    override def inferType(inType: Array[DType]): (Array[DType], Array[DType], Array[DType]) =
      (inType, Array(inType(0)), null)
    override def createOperator(ctx: String, inShapes: Array[Array[Int]], inDtypes: Array[Int]): CustomOp =
      new UsersSoftmax
  }

  test("4. a custom operator as the loss") {
    Random.seed(4)
    Operator.register("users_softmax", new UsersSoftmaxProp)
    val data = Symbol.Variable("data")
    val label = Symbol.Variable("softmax_label")
    val fc = Symbol.FullyConnected("fc1")()(Map("data" -> data, "num_hidden" -> 2))
    val net = Symbol.Custom("softmax")()(Map("data" -> fc, "label" -> label, "op_type" -> "users_softmax"))
    val executor = net.simpleBind(Context.cpu(), "write", Map("data" -> Shape(16, 4), "softmax_label" -> Shape(16)))
    executor.argDict("fc1_weight").set(Array.fill(8)(0.01f))
    executor.argDict("fc1_bias").set(0f)
    val lr = 0.01f
    val iter = iterator()
    val opt = new SGD(learningRate = lr, rescaleGradOf(16))
    val params = executor.argDict.toSeq.filter(_._1.startsWith("fc1"))
    val states = params.map { case (_, array) => opt.createState(0, array) }
    for (_ <- 0 until 30) {
      iter.reset()
      iter.foreach { batch =>
        executor.argDict("data").set(batch.data(0))
        executor.argDict("softmax_label").set(batch.label(0))
        executor.forward(isTrain = true)
        executor.backward()
        params.zip(states).zipWithIndex.foreach { case (((name, array), state), i) =>
          opt.update(i, array, executor.gradDict(name), state)
        }
      }
    }
    iter.reset()
    val batch = iter.next()
    executor.argDict("data").set(batch.data(0))
    executor.forward(isTrain = false)
    val found = NDArray.argmax_channel(executor.outputs(0)).toArray
    assertEquals(found.toSeq, batch.label(0).toArray.toSeq)
  }

  private def rescaleGradOf(batch: Int): Float = 0.5f / batch

  test("5. two modules against each other, as in a GAN") {
    Random.seed(5)
    val (batch, noise) = (16, 3)
    val generator = Symbol.FullyConnected("g")()(Map("data" -> Symbol.Variable("rand"), "num_hidden" -> 2))
    val d1 = Symbol.FullyConnected("d1")()(Map("data" -> Symbol.Variable("data"), "num_hidden" -> 8))
    val d2 = Symbol.FullyConnected("d2")()(
      Map(
        "data" -> Symbol.LeakyReLU("dact")()(Map("data" -> d1, "act_type" -> "leaky", "slope" -> 0.2f)),
        "num_hidden" -> 1
      )
    )
    val discriminator =
      Symbol.LogisticRegressionOutput("dloss")()(Map("data" -> d2, "label" -> Symbol.Variable("label")))
    val modG = new Module(symbolVar = generator, dataNames = IndexedSeq("rand"), labelNames = null)
    modG.bind(IndexedSeq(DataDesc("rand", Shape(batch, noise))), labelShapes = None, forTraining = true)
    modG.initParams(initializer = new Normal(0.1f))
    modG.initOptimizer(optimizer = new Adam(learningRate = 0.02f, wd = 0f, beta1 = 0.5f))
    val modD = new Module(discriminator, labelNames = IndexedSeq("label"))
    modD.bind(
      IndexedSeq(DataDesc("data", Shape(batch, 2))),
      labelShapes = Some(IndexedSeq(DataDesc("label", Shape(batch)))),
      inputsNeedGrad = true
    )
    modD.initParams(initializer = new Normal(0.1f))
    modD.initOptimizer(optimizer = new Adam(learningRate = 0.02f, wd = 0f, beta1 = 0.5f))
    val ones = NDArray.ones(Shape(batch))
    val zeros = NDArray.zeros(Shape(batch))
    for (_ <- 0 until 150) {
      val rbatch =
        new DataBatch(IndexedSeq(Random.normal(0f, 1f, Shape(batch, noise))), IndexedSeq.empty, IndexedSeq(0L), 0)
      modG.forward(rbatch, isTrain = Some(true))
      val outG = modG.getOutputsMerged()(0).copy()
      modD.forward(new DataBatch(IndexedSeq(outG), IndexedSeq(zeros), null, 0), isTrain = Some(true))
      modD.backward()
      modD.update()
      val real = Random.normal(3f, 0.1f, Shape(batch, 2))
      modD.forward(new DataBatch(IndexedSeq(real), IndexedSeq(ones), null, 0), isTrain = Some(true))
      modD.backward()
      modD.update()
      modD.forward(new DataBatch(IndexedSeq(outG), IndexedSeq(ones), null, 0), isTrain = Some(true))
      modD.backward()
      modG.backward(Array(modD.getInputGradsMerged()(0)))
      modG.update()
    }
    val made = modG.getOutputsMerged()(0).toArray
    assert(made.sum / made.length > 1f, s"mean ${made.sum / made.length}")
  }

  test("6. a KVStore with an updater") {
    val kv = KVStore.create("local")
    kv.setUpdater(new MXKVStoreUpdater {
      override def update(key: Int, input: NDArray, stored: NDArray): Unit = {
        stored += input * 2
      }
      override def dispose(): Unit = {}
    })
    val shape = Shape(2, 1)
    val out = NDArray.empty(shape)
    kv.init("3", NDArray.ones(shape) * 4)
    kv.pull("3", out)
    assert(out.toArray === Array(4f, 4f))
    kv.push("3", Array(NDArray.ones(shape), NDArray.ones(shape)))
    kv.pull("3", out)
    assert(out.toArray === Array(8f, 8f))
    kv.init(Array("5", "7"), Array(NDArray.zeros(shape), NDArray.ones(shape)))
    val outs = Array(NDArray.empty(shape), NDArray.empty(shape))
    kv.pull(Array("5", "7"), outs)
    assertEquals(outs.map(_.toArray(0)).toSeq, Seq(0f, 1f))
    assertEquals((kv.`type`, kv.rank, kv.numWorkers), ("local", 0, 1))
    kv.dispose()
  }

  implicit private class ArrayEquality(val left: Array[Float]) {
    def ===(right: Array[Float]): Boolean = left.sameElements(right)
  }

  folder.test("7. data iterators, one in another") { directory =>
    val rows = (0 until 6).map(i => s"$i,${i * 2}").mkString("\n")
    val file = Files.write(directory.resolve("rows.csv"), rows.getBytes)
    val csv = IO.CSVIter(Map("data_csv" -> file.toString, "data_shape" -> "(2,)", "batch_size" -> "3"))
    assertEquals(csv.map(_.data(0).copy().shape).toSeq, Seq(Shape(3, 2), Shape(3, 2)))
    csv.reset()
    val resized = new ResizeIter(iterator(), 3)
    var count = 0
    while (resized.hasNext) {
      resized.next()
      count += 1
    }
    assertEquals(count, 3)
    val fetched = new PrefetchingIter(
      IndexedSeq(iterator(), iterator()),
      IndexedSeq(Map("data" -> "data1"), Map("data" -> "data2")),
      IndexedSeq(Map("softmax_label" -> "label1"), Map("softmax_label" -> "label2"))
    )
    assertEquals(fetched.provideData.keys.toSeq, Seq("data1", "data2"))
    assertEquals(fetched.next().label.length, 2)
    fetched.dispose()
    val pack = IO.CSVPack(Map("data_csv" -> file.toString, "data_shape" -> "(2,)", "batch_size" -> "2"))
    assertEquals(pack.iterator.map(_ => 1).sum, 3)
    val desc = new DataDesc("data", Shape(2, 3), DType.Float32, Layout.UNDEFINED)
    assertEquals(DataDesc.getBatchAxis(Some("NCHW")), 0)
    assertEquals(desc.toString, "DataDesc[data,(2,3),float32,__undef__]")
  }

  folder.test("8. inference with images") { directory =>
    val net = Symbol.softmax()(Symbol.mean()(Symbol.Variable("data"))(Map("axis" -> "(2, 3)")) * 0.01f)()
    Model.saveCheckpoint(directory.resolve("net").toString, 7, net, Map.empty, Map.empty)
    Files.write(directory.resolve("synset.txt"), Seq("n01 red", "n02 green", "n03 blue").asJava)
    val inputShape = Shape(1, 3, 5, 4)
    val inputDescriptor = IndexedSeq(DataDesc("data", inputShape, DType.Float32, "NCHW"))
    val classifier =
      new ImageClassifier(directory.resolve("net").toString, inputDescriptor, Array(Context.cpu()), Some(7))
    val image = new BufferedImage(8, 8, BufferedImage.TYPE_INT_RGB)
    for (x <- 0 until 8; y <- 0 until 8) image.setRGB(x, y, 0x00ff00)
    val output = classifier.classifyImage(image, Some(2))
    assertEquals(output(0)(0)._1, "n02 green")
    assertEquals(output(0).length, 2)
  }

  /** Classifies images, given the network's input format and class names. */
  private class Describing(prefix: String, inputs: IndexedSeq[DataDesc]) extends ImageClassifier(prefix, inputs) {
    def description: String =
      s"$inputLayout $inputShape of ${synset.mkString(", ")}: ${predictor.outputShapes.mkString}"
  }

  folder.test("14. a classifier of one's own on the released one") { directory =>
    Files.write(directory.resolve("synset.txt"), Seq("dark", "light").asJava)
    val prefix = directory.resolve("sum").toString
    val sums = Symbol.api.sum(Some(Symbol.Variable("data")), axis = Some(Shape(2, 3)))
    Model.saveCheckpoint(prefix, 0, sums, Map.empty[String, NDArray], Map.empty[String, NDArray])
    val inputs = IndexedSeq(DataDesc("data", Shape(1, 3, 2, 2), DType.Float32, Layout.NCHW))
    val described = new Describing(prefix, inputs).description
    assert(described.startsWith("NCHW (1,3,2,2) of dark, light: (sum"), described)
    assert(described.endsWith("_output,(1,3))"), described)
  }

  test("9. an image changed by its gradient, with arrays and an optimizer of one's own") {
    val image = Random.uniform(0f, 1f, Shape(1, 3, 6, 6))
    val conv = Symbol.Convolution("conv")()(
      Map("data" -> Symbol.Variable("img"), "kernel" -> "(3, 3)", "num_filter" -> 4, "pad" -> "(1, 1)")
    )
    val style = Symbol.Reshape()()(Map("data" -> conv, "shape" -> "(4, -1)"))
    val gram = Symbol.FullyConnected()()(Map("data" -> style, "weight" -> style, "no_bias" -> true, "num_hidden" -> 4))
    val out = Symbol.Group(gram, conv)
    val (argShapes, outShapes, _) = out.inferShape(Map("img" -> Shape(1, 3, 6, 6)))
    assertEquals(outShapes, IndexedSeq(Shape(4, 4), Shape(1, 4, 6, 6)))
    val args = out.listArguments().zip(argShapes).map { case (n, s) => n -> Random.uniform(-0.5f, 0.5f, s) }.toMap
    val grads = Map("img" -> NDArray.zeros(Shape(1, 3, 6, 6)))
    val executor = out.bind(Context.cpu(), args, grads, "write", Map.empty[String, NDArray], null, null)
    args("img").set(image)
    executor.forward()
    val target = executor.outputs(0).copy()
    Random.normal(0f, 1f, out = args("img"))
    def loss(): Float = {
      executor.forward(isTrain = true)
      NDArray.sum(NDArray.square(executor.outputs(0) - target)).toScalar
    }
    val first = loss()
    val optimizer = new Adam(learningRate = 0.05f, wd = 0.0001f)
    val state = optimizer.createState(0, args("img"))
    for (_ <- 0 until 60) {
      loss()
      executor.backward(Array((executor.outputs(0) - target) * 2f, NDArray.zeros(executor.outputs(1).shape)))
      val norm = NDArray.norm(grads("img")).toScalar
      if (norm > 10f) grads("img") *= 10f / norm
      optimizer.update(0, args("img"), grads("img"), state)
    }
    assert(loss() < first / 4, s"$first to ${loss()}")
  }

  private class MultiAccuracy(num: Int, name: String) extends EvalMetric("multi-accuracy") {
    private val sums = Array.fill(num)(0f)
    private val counts = Array.fill(num)(0)
    override def update(labels: IndexedSeq[NDArray], preds: IndexedSeq[NDArray]): Unit =
      for (i <- 0 until num) {
        val predLabel = NDArray.argmax_channel(preds(i)).toArray
        labels(i).toArray.zip(predLabel).foreach { case (l, p) => if (l == p) sums(i) += 1 }
        counts(i) += predLabel.length
      }
    override def reset(): Unit = (0 until num).foreach { i => sums(i) = 0f; counts(i) = 0 }
    override def get: (Array[String], Array[Float]) =
      ((0 until num).map(i => s"$name$i").toArray, sums.zip(counts).map { case (s, c) => s / c })
  }

  test("10. two losses, a metric and an iterator of one's own, a monitor and a schedule") {
    Random.seed(10)
    val fc = Symbol.FullyConnected("fc")()(Map("data" -> Symbol.Variable("data"), "num_hidden" -> 2))
    val sm1 = Symbol.SoftmaxOutput("softmax1")()(Map("data" -> fc))
    val sm2 = Symbol.SoftmaxOutput("softmax2")()(Map("data" -> Symbol.negative()(fc)()))
    val net = Symbol.Group(sm1, sm2)
    val (data, label) = points(64)
    val train = new NDArrayIter.Builder()
      .addData("data", data)
      .addLabel("softmax1_label", label)
      .addLabel("softmax2_label", NDArray.ones(64) - label)
      .setBatchSize(16)
      .build()
    val mod = new Module(net, labelNames = IndexedSeq("softmax1_label", "softmax2_label"))
    val metric = new MultiAccuracy(2, "multi-accuracy_")
    val seen = mutable.Set.empty[String]
    val monitor = new Monitor(1, { array => seen += array.shape.toString; NDArray.mean(array) })
    val schedule = new FactorScheduler(step = 4, factor = 0.9f)
    val optimizer = new RMSProp(learningRate = 0.05f, gamma1 = 0.9f, lrScheduler = schedule)
    mod.fit(
      train,
      numEpoch = 4,
      fitParams = new FitParams().setEvalMetric(metric).setOptimizer(optimizer).setMonitor(monitor)
    )
    assertEquals(metric.get._2.toSeq, Seq(1f, 1f))
    assert(seen.contains("(16,2)"), seen.toString)
    assert(schedule.baseLR < 0.05f)
  }

  folder.test("11. modules in a row, checkpoints and a plot of the network") { directory =>
    Random.seed(11)
    val first = Symbol.FullyConnected("fc1")()(Map("data" -> Symbol.Variable("data"), "num_hidden" -> 8))
    val act = Symbol.Activation("act")()(Map("data" -> Symbol.Variable("fc1_output"), "act_type" -> "tanh"))
    val last = Symbol.SoftmaxOutput("softmax")()(
      Map("data" -> Symbol.FullyConnected("fc2")()(Map("data" -> act, "num_hidden" -> 2)))
    )
    val seq = new SequentialModule()
    seq
      .add(new Module(first, labelNames = null))
      .add(new Module(last, dataNames = IndexedSeq("fc1_output")), "take_labels" -> true, "auto_wiring" -> true)
    seq.fit(
      iterator(),
      Some(iterator()),
      numEpoch = 5,
      fitParams = new FitParams().setOptimizer(new SGD(0.2f, momentum = 0.9f))
    )
    assertEquals(seq.score(iterator(), new Accuracy).get._2.head, 1f)
    seq.saveParams(directory.resolve("seq.params").toString)
    assertEquals(NDArray.load2Map(directory.resolve("seq.params").toString).keySet.size, 4)
    val dot = Visualization.plotNetwork(
      symbol = mlp,
      title = "mlp",
      shape = Map("data" -> Shape(1, 4)),
      nodeAttrs = Map("shape" -> "rect", "fixedsize" -> "false")
    )
    assert(dot.toString.nonEmpty)
  }

  /** Returns the same batch repeatedly, as benchmarks do. */
  private class SameBatchIter(count: Int, override val batchSize: Int) extends DataIter {
    private val (points, labels) = ReleasedProgramsSuite.this.points(batchSize)
    private var numGiven = 0
    override def provideDataDesc: IndexedSeq[DataDesc] = IndexedSeq(DataDesc("data", points.shape, layout = "NT"))
    override def provideLabelDesc: IndexedSeq[DataDesc] =
      IndexedSeq(DataDesc("softmax_label", labels.shape, layout = "N"))
    override def provideData: ListMap[String, Shape] = ListMap("data" -> points.shape)
    override def provideLabel: ListMap[String, Shape] = ListMap("softmax_label" -> labels.shape)
    override def reset(): Unit = numGiven = 0
    override def hasNext: Boolean = numGiven < count
    override def next(): DataBatch = {
      if (!hasNext) throw new NoSuchElementException
      numGiven += 1
      new DataBatch(getData(), getLabel(), getIndex(), getPad(), null, null, null)
    }
    override def getData(): IndexedSeq[NDArray] = IndexedSeq(points)
    override def getLabel(): IndexedSeq[NDArray] = IndexedSeq(labels)
    override def getIndex(): IndexedSeq[Long] = IndexedSeq(numGiven.toLong)
    override def getPad(): Int = 0
  }

  test("13. an iterator that gives the same arrays in each batch, also inside other iterators") {
    Random.seed(13)
    ResourceScope.using() {
      val (train, validation) = (new SameBatchIter(20, 16), new SameBatchIter(2, 16))
      val model = new FeedForward(
        mlp,
        Array(Context.cpu(0), Context.cpu(1)),
        numEpoch = 2,
        optimizer = new SGD(0.5f, momentum = 0.9f),
        epochSize = 15
      )
      model.fit(train, validation, new Accuracy)
      assertEquals(model.predict(validation).head.shape, Shape(32, 2))
      val module = new Module(mlp)
      val fitParams = new FitParams().setOptimizer(new SGD(0.5f, momentum = 0.9f))
      module.fit(new ResizeIter(train, 30), Some(validation), numEpoch = 2, fitParams)
      train.reset()
      val ahead = new PrefetchingIter(IndexedSeq(train), null, null)
      assertEquals(module.score(ahead, new Accuracy).get._2.head, 1f)
      ahead.dispose()
      assertEquals(module.predict(validation).head.shape, Shape(32, 2))
    }
  }

  test("15. mutable buffers of arrays, symbols and descriptions, as Scala 2.11 accepted them") {
    val labels = mutable.ListBuffer.empty[NDArray]
    iterator().foreach(labels += _.label(0).copy())
    assertEquals(NDArray.concatenate(labels).shape, Shape(64))
    assertEquals(NDArray.concatenate(labels, axis = 0, alwaysCopy = true).toArray.sum, 32f)
    val parts = mutable.ArrayBuffer(Symbol.Variable("a"), Symbol.Variable("b"))
    assertEquals(Symbol.Group(parts: _*).listOutputs(), IndexedSeq("a", "b"))
    val module = new Module(mlp)
    module.bind(mutable.ListBuffer(DataDesc("data", Shape(16, 4))))
    module.initParams()
    val arrays = mutable.ArrayBuffer(NDArray.ones(16, 4))
    module.forward(new DataBatch(arrays, null, null, 0))
    val metric = new Accuracy()
    metric.update(mutable.ArrayBuffer(NDArray.zeros(16)), module.getOutputsMerged())
    assertEquals(module.getOutputsMerged().head.shape, Shape(16, 2))
    assertEquals(new NDArrayIter(arrays, dataBatchSize = 8).length, 2)
    val executor = Symbol.Variable("data").bind(Context.cpu(), arrays)
    executor.forward()
    assertEquals(executor.outputs.head, arrays.head)
  }

  test("16. mistakes have the classes of errors that programs of MXNet handle") {
    val x = NDArray.ones(2, 2)
    val executor = mlp.simpleBind(Context.cpu(), "write", Map("data" -> Shape(2, 4)))
    val arguments = Seq[() => Any](
      () => x.set(Array(1f)),
      () => x.toScalar,
      () => NDArray.concatenate(x, NDArray.ones(2, 3, 1)),
      () => mlp.bind(Context.cpu(), Seq(x)),
      () => mlp.bind(Context.cpu(), Map("data" -> x)),
      () => mlp.get("other_output"),
      () => executor.forward(isTrain = false, "other" -> x),
      () => executor.forward(isTrain = false, "data" -> x),
      () => executor.copyParamsFrom(Map("other" -> x)),
      () => new Module(mlp).forward(new DataBatch(IndexedSeq(x), null, null, 0)),
      () => new Accuracy().update(IndexedSeq(x), IndexedSeq(x, x)),
      () => new Uniform()("other", x),
      () => Profiler.profilerSetState("pause")
    )
    arguments.foreach(call => intercept[IllegalArgumentException](call()))
    val files = Seq[() => Any](
      () => Module.loadCheckpoint("no/such/model", 1),
      () => Model.loadCheckpoint("no/such/model", 1),
      () => FeedForward.load("no/such/model", 1),
      () => Symbol.load("no/such/model-symbol.json"),
      () => NDArray.load("no/such/model-0001.params")
    )
    files.foreach(call => intercept[MXNetError](call()))
    intercept[NoSuchElementException](iterator(16).drop(1).next())
  }

  test("12. memory handled by hand: scopes, collectors and dispose") {
    val kept = ResourceScope.using() {
      val a = NDArray.ones(2, 2)
      val b = a * 3
      b
    }
    assertEquals(kept.toArray.toSeq, Seq.fill(4)(3f))
    val sum = NDArrayCollector.auto().withScope {
      val x = NDArray.array(Array(1f, 2f), Shape(2))
      x + x
    }
    assertEquals(sum.toArray.toSeq, Seq(2f, 4f))
    val product = (kept * 2 + 1).disposeDepsExcept(kept)
    assertEquals(product.toArray.toSeq, Seq.fill(4)(7f))
    assert(!kept.isDisposed)
    val ctx = Context.cpu(0)
    ctx.withScope(assertEquals(NDArray.zeros(1).context, ctx))
  }
}
