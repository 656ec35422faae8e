package org.apache.mxnet.infer

import java.awt.Color
import java.nio.file.Files

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.mxnet._
import org.apache.mxnet.module.{BaseModule, Module}

/** Programs can extend the predictors like those of the released package: overridden methods are called. */
class ExtensionSuite extends munit.FunSuite with TrainedNetworks {
  private val descs = IndexedSeq(DataDesc("data", Shape(2, 6), layout = Layout.NT))
  private val images = IndexedSeq(DataDesc("data", Shape(1, 3, 2, 4), layout = Layout.NCHW))

  private def message(body: => Any): String = intercept[IllegalArgumentException](body).getMessage

  /** A module with given answers, which records the batch sizes that it is bound for. */
  private class StubModule(answer: Shape => NDArray) extends Module(Symbol.Variable("data")) {
    val bound: mutable.Buffer[Int] = mutable.Buffer.empty

    override def bind(
        dataShapes: IndexedSeq[DataDesc],
        labelShapes: Option[IndexedSeq[DataDesc]],
        forTraining: Boolean,
        inputsNeedGrad: Boolean,
        forceRebind: Boolean,
        sharedModule: Option[BaseModule],
        gradReq: String
    ): Unit = bound += dataShapes.head.shape(0)

    override def predict(evalData: DataIter, numBatch: Int, reset: Boolean): IndexedSeq[NDArray] =
      IndexedSeq(answer(evalData.next().data.head.shape))
  }

  private class StubPredictor(inputs: IndexedSeq[DataDesc]) extends Predictor("no/such/model", inputs) {
    lazy val stub: StubModule = new StubModule(shape => NDArray.ones(shape) * 3f)

    override def loadModule(): Module = stub

    def describedAs: (Int, Int, IndexedSeq[Shape]) = (batchIndex, batchSize, iDescriptors.map(_.shape))
  }

  test("the module that a subclass loads gives the answers, bound for each batch size and back") {
    val predictor = new StubPredictor(descs)
    assertEquals(predictor.predict(IndexedSeq(rows(1, 4))).map(_.toSeq), IndexedSeq(Seq.fill(6)(3f)))
    assertEquals(predictor.stub.bound.toSeq, Seq(1, 2))
    val outputs = predictor.predictWithNDArray(IndexedSeq(NDArray.ones(5, 6)))
    assertEquals(outputs.map(_.shape), IndexedSeq(Shape(5, 6)))
    assertEquals(predictor.stub.bound.toSeq, Seq(1, 2, 5, 2))
    predictor.predictWithNDArray(IndexedSeq(NDArray.ones(2, 6)))
    assertEquals(predictor.stub.bound.length, 4)
  }

  test("the batch axis is the letter N, the first axis without a layout, and added to a layout without N") {
    def described(shape: Shape, layout: String) =
      new StubPredictor(IndexedSeq(DataDesc("data", shape, layout = layout))).describedAs
    assertEquals(described(Shape(4, 3, 2, 2), Layout.NCHW), (0, 4, IndexedSeq(Shape(4, 3, 2, 2))))
    assertEquals(described(Shape(5, 2), "TN"), (1, 2, IndexedSeq(Shape(5, 2))))
    assertEquals(described(Shape(7, 3, 2, 2), Layout.UNDEFINED), (0, 7, IndexedSeq(Shape(7, 3, 2, 2))))
    assertEquals(described(Shape(3, 2, 2), "CHW"), (0, 1, IndexedSeq(Shape(1, 3, 2, 2))))
    val unequal = IndexedSeq(DataDesc("data", Shape(1, 3)), DataDesc("more", Shape(2, 3)))
    assert(message(new StubPredictor(unequal)).contains("have the batch sizes 1, 2; give them the same"))
  }

  test("inputs described as CHW, as NCHW and without a layout give the same bits") {
    def scores(shape: Shape, layout: String): Seq[Seq[Float]] = {
      val predictor = new Predictor(colors, IndexedSeq(DataDesc("data", shape, layout = layout)))
      val pixels = Array.tabulate(48)(i => (i * 37 % 256).toFloat)
      val batch = NDArray.array(pixels, Shape(2, 3, 2, 4))
      Seq(
        predictor.predict(IndexedSeq(pixels)).head.toSeq,
        predictor.predict(IndexedSeq(pixels.take(24))).head.toSeq ++
          predictor.predict(IndexedSeq(pixels.drop(24))).head.toSeq,
        predictor.predictWithNDArray(IndexedSeq(batch)).head.toArray.toSeq
      )
    }
    val all = scores(Shape(1, 3, 2, 4), Layout.NCHW) ++ scores(Shape(3, 2, 4), "CHW") ++
      scores(Shape(2, 3, 2, 4), Layout.UNDEFINED)
    assertEquals(all.distinct, Seq(all.head))
  }

  test("inputs of unequal batch sizes are refused, each with its name") {
    val sum = Symbol.Variable("data") + Symbol.Variable("more")
    val prefix = save("sum", sum, Map.empty)
    val predictor = new Predictor(prefix, IndexedSeq(DataDesc("data", Shape(1, 3)), DataDesc("more", Shape(1, 3))))
    assertEquals(predictor.predict(IndexedSeq(Array(1f, 2f, 3f), Array(4f, 5f, 6f))).head.toSeq, Seq(5f, 7f, 9f))
    assert(message(predictor.predict(IndexedSeq(Array.fill(3)(1f), Array.fill(6)(1f)))).contains("have 1, 2 instances"))
    val arrays = IndexedSeq(NDArray.ones(2, 3), NDArray.ones(1, 3))
    assert(message(predictor.predictWithNDArray(arrays)).contains("'more' has the shape (1,3); with 2 instances"))
  }

  test("a subclass may change the module that the package loads, before and after") {
    def halve(module: Module): Unit = {
      val (args, aux) = module.getParams
      module.setParams(args.map { case (name, array) => name -> array * 0.5f }, aux)
    }
    class Halved extends Predictor(mlp, descs) {
      override def loadModule(): Module = {
        val module = super.loadModule()
        halve(module)
        module
      }
    }
    class Later extends Predictor(mlp, descs) { def halveNow(): Unit = halve(mod) }
    val (symbol, args, _) = Model.loadCheckpoint(mlp, 0)
    def expected(factor: Float): Seq[Float] = {
      val executor = symbol.simpleBind(Context.cpu(), "null", Map("data" -> Shape(2, 6)))
      executor.copyParamsFrom(args.map { case (name, array) => name -> array * factor })
      executor.forward(isTrain = false, "data" -> NDArray.array(rows(2, 8), Shape(2, 6)))
      executor.outputs.head.toArray.toSeq
    }
    def answer(predictor: Predictor): Seq[Float] = predictor.predict(IndexedSeq(rows(2, 8))).head.toSeq
    assertEquals(answer(new Halved), expected(0.5f))
    val later = new Later
    assertEquals(answer(later), expected(1f))
    later.halveNow()
    assertEquals(answer(later), expected(0.5f))
    assertEquals(later.outputShapes, IndexedSeq("softmax_output" -> Shape(2, 4)))
  }

  test("64 threads that share a predictor with a module of its own get the bits that one gets") {
    class Own extends Predictor(mlp, descs) {
      override def loadModule(): Module = super.loadModule()
    }
    val predictor = ResourceScope.using()(new Own)
    def predict(seed: Int): Seq[Float] =
      ResourceScope.using()(predictor.predict(IndexedSeq(rows(1 + seed % 3, seed))).head.toSeq)
    val expected = (0 until 64).map(predict)
    assertEquals(inThreads(64, 0 until 64)(predict), expected)
  }

  private val scores = Array(0.98f, 0.97f, 0.96f, 0.99f)

  /** Returns the same scores for every instance. */
  private class FixedScores(numbers: Array[Float], shape: Shape) extends PredictBase {
    override def predict[T](input: IndexedSeq[Array[T]]): IndexedSeq[Array[T]] =
      IndexedSeq(numbers.asInstanceOf[Array[T]])

    override def predictWithNDArray(input: IndexedSeq[NDArray]): IndexedSeq[NDArray] = {
      val batch = input.head.shape(0)
      IndexedSeq(NDArray.array(Array.fill(batch)(numbers).flatten, Shape(batch) ++ shape))
    }

    override def outputShapes: IndexedSeq[(String, Shape)] = IndexedSeq("out" -> (Shape(1) ++ shape))
  }

  private lazy val named: String = {
    val folder = temporaryFolder("infer-names")
    Files.write(folder.resolve("synset.txt"), Seq("a", "", "c", "d", "", "").asJava)
    folder.resolve("model").toString
  }

  private class StubClassifier(prefix: String) extends Classifier(prefix, descs) {
    override def getPredictor(): PredictBase = new FixedScores(scores, Shape(4))

    def names: IndexedSeq[String] = synset
  }

  test("a classifier uses the predictor of a subclass, and more classes than there are give all, the likeliest first") {
    val classifier = new StubClassifier(named)
    val sorted = IndexedSeq("d" -> 0.99f, "a" -> 0.98f, "" -> 0.97f, "c" -> 0.96f)
    assertEquals(classifier.classify(IndexedSeq(rows(1, 1)), Some(10)), sorted)
    assertEquals(classifier.classify(IndexedSeq(rows(1, 1))).map(_._2), scores.toIndexedSeq)
    val three = classifier.classifyWithNDArray(IndexedSeq(NDArray.ones(3, 6)), Some(10))
    assertEquals(three, IndexedSeq.fill(3)(sorted))
    assertEquals(classifier.classifyWithNDArray(IndexedSeq(NDArray.ones(1, 6))).head.map(_._1), classifier.names)
  }

  test("the names of the classes are the lines of synset.txt beside the network, or what a subclass reads") {
    assertEquals(new StubClassifier(named).names, IndexedSeq("a", "", "c", "d"))
    val file = Files.createTempFile("classes", ".txt").toFile
    try {
      Files.write(file.toPath, Seq("x").asJava)
      class Elsewhere extends StubClassifier("no/such/model") {
        override def getSynsetFilePath(modelPathPrefix: String): String = file.getPath
      }
      class Parsed extends Elsewhere {
        override def readSynsetFile(synsetFilePath: String): IndexedSeq[String] =
          IndexedSeq("one", "two", "three", synsetFilePath)
      }
      assertEquals(new Elsewhere().names, IndexedSeq("x"))
      assertEquals(new Elsewhere().synsetFilePath, file.getPath)
      assert(message(new Elsewhere().classify(IndexedSeq(rows(1, 1)))).contains("returns 4 scores"))
      assertEquals(new Parsed().classify(IndexedSeq(rows(1, 1)), Some(1)), IndexedSeq(file.getPath -> 0.99f))
    } finally { val _ = file.delete() }
    assert(message(new StubClassifier("no/such/model")).contains("synset.txt; put the names of the classes there"))
  }

  private class StubImageClassifier(prefix: String) extends ImageClassifier(prefix, images) {
    override def getPredictor(): PredictBase = new FixedScores(scores, Shape(4))

    def described: (String, Seq[Int]) = (inputLayout, Seq(batch, channel, height, width))
  }

  test("an image classifier uses the predictor of a subclass for images of any size") {
    val classifier = new StubImageClassifier(named)
    assertEquals(classifier.described, ("NCHW", Seq(1, 3, 2, 4)))
    assertEquals(classifier.classifyImage(image(Color.RED, 40, 70), Some(2)).head.map(_._1), IndexedSeq("d", "a"))
    val pair = Seq(image(Color.RED), image(Color.BLUE))
    assertEquals(classifier.classifyImageBatch(pair, Some(4), DType.Float64).map(_.length), IndexedSeq(4, 4))
  }

  private class StubObjectDetector(rows: Array[Float]) extends ObjectDetector(named, images) {
    override def getImageClassifier(
        modelPathPrefix: String,
        inputDescriptors: IndexedSeq[DataDesc],
        contexts: Array[Context],
        epoch: Option[Int]
    ): ImageClassifier = new ImageClassifier(modelPathPrefix, inputDescriptors, contexts, epoch) {
      override def getPredictor(): PredictBase = new FixedScores(rows, Shape(3, 6))
    }
  }

  test("an object detector uses the image classifier of a subclass") {
    val boxes = Seq(Array(0.4f, 0.1f, 0.2f, 0.3f, 0.4f), Array(0.8f, 0f, 0f, 1f, 1f), Array(0.6f, 0f, 0f, 0.5f, 0.5f))
    val detector = new StubObjectDetector((3f +: boxes(0)) ++ (0f +: boxes(1)) ++ (2f +: boxes(2)))
    def shown(found: IndexedSeq[(String, Array[Float])]) = found.map { case (name, box) => (name, box.toSeq) }
    val sorted = IndexedSeq("a" -> boxes(1).toSeq, "c" -> boxes(2).toSeq, "d" -> boxes(0).toSeq)
    assertEquals(shown(detector.imageObjectDetect(image(Color.RED), Some(9)).head), sorted)
    val two = detector.imageBatchObjectDetect(Seq(image(Color.RED), image(Color.RED, 9, 9)), Some(1))
    assertEquals(two.map(shown), IndexedSeq.fill(2)(sorted.take(1)))
    val row = NDArray.array((-1f +: boxes(0)) ++ (2f +: boxes(2)), Shape(2, 6))
    assertEquals(shown(detector.sortAndReformat(row, None)), IndexedSeq(sorted(1)))
  }

  test("a network whose output has no rows of objects is refused as a detector") {
    assert(
      message(new ObjectDetector(colors, images)).contains("output has the shape (1,3); expected (batch, objects, 6)")
    )
  }

  test("arrays may have other lengths than described if the check is disabled") {
    val total = Symbol.api.sum(Some(Symbol.Variable("data")), axis = Some(Shape(1)))
    val predictor = new Predictor(save("total", total, Map.empty), descs)
    assert(message(predictor.predictWithNDArray(IndexedSeq(NDArray.ones(2, 9)))).contains("must be (2,6)"))
    System.setProperty("mxnet.disableShapeCheck", "true")
    try {
      val outputs = Seq(9, 6, 9).map(length => predictor.predictWithNDArray(IndexedSeq(NDArray.ones(2, length))).head)
      assertEquals(outputs.map(_.toArray.toSeq), Seq(Seq(9f, 9f), Seq(6f, 6f), Seq(9f, 9f)))
    } finally { val _ = System.clearProperty("mxnet.disableShapeCheck") }
  }

  test("resizing takes the nearest pixel, and images of other kinds give red, green and blue") {
    val striped = new java.awt.image.BufferedImage(4, 2, java.awt.image.BufferedImage.TYPE_3BYTE_BGR)
    Seq(0x102030, 0x405060, 0x708090, 0xa0b0c0).zipWithIndex.foreach { case (rgb, x) =>
      (0 until 2).foreach(y => striped.setRGB(x, y, rgb))
    }
    val small = ImageClassifier.reshapeImage(striped, 2, 1)
    val pixels = ImageClassifier.bufferedImageToPixels(small, Shape(3, 1, 2)).toArray.map(_.toInt).toSeq
    assertEquals(pixels, Seq(0x40, 0xa0, 0x50, 0xb0, 0x60, 0xc0))
  }

  test("a handler runs code in a thread of its own, nested calls in the same, and throws what the code throws") {
    val handler = MXNetHandler()
    def current: Thread = Thread.currentThread
    val (outer, inner) = handler.execute((current, handler.execute(current)))
    assert(outer ne current)
    assertEquals(inner, outer)
    assertEquals(
      intercept[IllegalStateException](handler.execute[Int](throw new IllegalStateException("no"))).getMessage,
      "no"
    )
    val pool = new MXNetThreadPoolHandler(2)
    try assert(pool.execute(current) ne outer)
    finally pool.executor.shutdown()
    intercept[IllegalArgumentException](new MXNetThreadPoolHandler(0))
  }
}
