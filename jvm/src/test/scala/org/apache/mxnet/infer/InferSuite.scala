package org.apache.mxnet.infer

import java.awt.Color
import java.io._
import java.nio.file.{Files, Paths}
import javax.imageio.ImageIO

import scala.jdk.CollectionConverters._

import org.apache.mxnet.JavaSerialization.copyOf
import org.apache.mxnet._
import org.apache.mxnet.examples.java.Serve

/** Prediction with networks from files. */
class InferSuite extends munit.FunSuite with TrainedNetworks {
  test("a predictor gives what a bound module gives, for batches of any size, as numbers and as arrays") {
    val (symbol, args, _) = Model.loadCheckpoint(mlp, 0)
    val predictor = mlpPredictor(batch = 2)
    Seq(1, 2, 3, 7, 2).foreach { count =>
      val input = NDArray.array(rows(count, count), Shape(count, 6))
      val executor = symbol.simpleBind(Context.cpu(), "null", Map("data" -> Shape(count, 6)))
      executor.copyParamsFrom(args)
      executor.forward(isTrain = false, "data" -> input)
      val expected = executor.outputs.head.toArray.toSeq
      assertEquals(predictor.predictWithNDArray(IndexedSeq(input)).head.toArray.toSeq, expected)
      assertEquals(predictor.predictWithNDArray(IndexedSeq(input)).head.shape, Shape(count, 4))
      assertEquals(predictor.predict(IndexedSeq(rows(count, count))).head.toSeq, expected)
      val doubles: Array[Double] = predictor.predict(IndexedSeq(rows(count, count).map(_.toDouble))).head
      assertEquals(doubles.map(_.toFloat).toSeq, expected)
    }
    assertEquals(predictor.outputShapes.toSeq, Seq("softmax_output" -> Shape(2, 4)))
  }

  test("the shape of a constant that does not follow from the inputs comes from the file") {
    val sum = Symbol.api.broadcast_add(lhs = Symbol.Variable("data"), rhs = Symbol.Variable("constant"), name = "sum")
    val prefix = save("constant", sum, Map("constant" -> NDArray.array(Array(1f, 2f, 3f), Shape(1, 3))))
    val predictor = new Predictor(prefix, IndexedSeq(DataDesc("data", Shape(1, 3), layout = Layout.NT)))
    assertEquals(predictor.outputShapes.toSeq, Seq("sum_output" -> Shape(1, 3)))
    assertEquals(predictor.predict(IndexedSeq(Array(1f, 1f, 1f))).head.toSeq, Seq(2f, 3f, 4f))
  }

  test("null inputs and images are errors that name the argument") {
    val predictor = mlpPredictor(batch = 1)
    def refuses(part: String)(body: => Any): Unit = {
      val message = intercept[MXNetError](body).getMessage
      assert(message.contains(part), message)
    }
    refuses("Predictor.predict: input is null")(predictor.predict[Float](null))
    refuses("predictWithNDArray: inputBatch(0) is null")(predictor.predictWithNDArray(IndexedSeq(null)))
    refuses("img is null")(ImageClassifier.reshapeImage(null, 2, 2))
    val inputs = IndexedSeq(DataDesc("data", Shape(1, 3, 2, 4), layout = Layout.NCHW))
    refuses("inputBatch(0) is null")(new ImageClassifier(colors, inputs).classifyImage(null))
  }

  test("a failed prediction does not cost an executor") {
    val predictor = mlpPredictor(batch = 1)
    predictor.predict(IndexedSeq(rows(1, 1)))
    val tracked = NativeResourceRef.refMap.size
    (1 to 5).foreach { _ =>
      intercept[IllegalArgumentException](predictor.predict(IndexedSeq(Array.fill(6)(1))))
    }
    assertEquals(NativeResourceRef.refMap.size, tracked)
  }

  test("the executors of shapes that were not used recently are freed") {
    val predictor = mlpPredictor(batch = 1)
    def predict(batch: Int): Unit =
      predictor.predictWithNDArray(IndexedSeq(NDArray.ones(batch, 6))).foreach(_.dispose())
    (2 to 20).foreach(predict)
    val before = Base._LIB.memoryInUse()
    (21 to 40).foreach(predict)
    // Larger batches need more memory, but only as many executors as before.
    assert(Base._LIB.memoryInUse() < 3 * before, s"${Base._LIB.memoryInUse()} bytes after $before")
  }

  test("64 threads that share a predictor get the bits that one gets") {
    val predictor = mlpPredictor(batch = 1)
    def predict(seed: Int): Seq[Float] = predictor.predict(IndexedSeq(rows(1 + seed % 5, seed))).head.toSeq
    val expected = (0 until 200).map(predict)
    val seeds = Seq.fill(5)(0 until 200).flatten
    seeds.zip(inThreads(64, seeds)(predict)).foreach { case (seed, answer) =>
      assertEquals(answer, expected(seed), s"seed $seed")
    }
  }

  test("threads that share a module take turns") {
    val (symbol, args, aux) = Model.loadCheckpoint(mlp, 0)
    val shared = new org.apache.mxnet.module.Module(symbol)
    shared.bind(IndexedSeq(DataDesc("data", Shape(2, 6))), forTraining = false)
    shared.initParams(argParams = args, auxParams = aux)
    def predict(seed: Int): Seq[Float] = {
      val batch = new DataBatch(IndexedSeq(NDArray.array(rows(2, seed), Shape(2, 6))), IndexedSeq.empty, null, 0)
      shared.predict(batch).head.toArray.toSeq
    }
    val expected = (0 until 20).map(predict)
    val seeds = Seq.fill(10)(0 until 20).flatten
    assertEquals(inThreads(16, seeds)(predict), seeds.map(expected))
  }

  test("a predictor made in a scope outlives it, and several devices take turns") {
    val predictor = ResourceScope.using() {
      val contexts = Array(Context.cpu(0), Context.cpu(1))
      new Predictor(mlp, IndexedSeq(DataDesc("data", Shape(1, 6), layout = Layout.NT)), contexts)
    }
    val answers = Seq.fill(4)(ResourceScope.using()(predictor.predict(IndexedSeq(rows(1, 9))).head.toSeq))
    assertEquals(answers.distinct.size, 1)
  }

  test("inputs that do not fit the network are errors that say what does") {
    val predictor = mlpPredictor(batch = 1)
    def message(body: => Any): String = intercept[IllegalArgumentException](body).getMessage
    assert(
      message(predictor.predict(IndexedSeq(Array(1f, 2f)))).contains("has 2 numbers; an instance of (1,6) takes 6")
    )
    assert(message(predictor.predictWithNDArray(IndexedSeq(NDArray.zeros(2, 5)))).contains("must be (2,6)"))
    assert(message(predictor.predict(IndexedSeq.empty[Array[Float]])).contains("0 inputs were given"))
    assert(message(new Predictor(mlp, IndexedSeq(DataDesc("x", Shape(1, 6))))).contains("no input 'x'"))
    val wrongShape = message(new Predictor(mlp, IndexedSeq(DataDesc("data", Shape(1, 7)))))
    assert(
      wrongShape.contains("'fc1_weight' has the shape (5,6) in the file, but the inputs require (5,7)"),
      wrongShape
    )
    assert(
      intercept[MXNetError](new Predictor("no/such/model", IndexedSeq(DataDesc("x", Shape(1))))).getMessage
        .contains("no/such/model-symbol.json")
    )
  }

  test("classes of an image, of a file and of a batch, all or the likeliest") {
    val classifier =
      new ImageClassifier(colors, IndexedSeq(DataDesc("data", Shape(1, 3, 2, 4), layout = Layout.NCHW)))
    val (red, blue) = (image(Color.RED), image(Color.BLUE, 40, 20))
    assertEquals(classifier.classifyImage(red).head.map(_._1), IndexedSeq("red", "green", "blue"))
    assertEquals(classifier.classifyImage(red, Some(1)).head.map(_._1), IndexedSeq("red"))
    assertEquals(classifier.classifyImageBatch(Seq(blue, red), Some(1)).map(_.head._1), IndexedSeq("blue", "red"))
    val file = folder.resolve("blue.png")
    ImageIO.write(blue, "png", file.toFile)
    val loaded = ImageClassifier.loadInputBatch(List(file.toString))
    assertEquals(classifier.classifyImageBatch(loaded, Some(2)).map(_.map(_._1).head), IndexedSeq("blue"))
    val pixels = ImageClassifier.bufferedImageToPixels(red, Shape(3, 2, 4))
    assertEquals(pixels.toArray.toSeq, Seq.fill(8)(255f) ++ Seq.fill(16)(0f))
    val each = classifier.classify(IndexedSeq(pixels.toArray), Some(1))
    assertEquals(each.head._1, "red")
    intercept[IllegalArgumentException](ImageClassifier.loadImageFromFile("no/such/image.png"))
  }

  test("objects of an image and of a batch, in Scala and in Java") {
    val desc = DataDesc("data", Shape(1, 3, 2, 4), layout = Layout.NCHW)
    val found = new ObjectDetector(detector, IndexedSeq(desc))
    def shown(objects: IndexedSeq[(String, Array[Float])]) = objects.map { case (name, box) => (name, box.toSeq) }
    val green = ("green", Seq(0.6f, 0.1f, 0.2f, 0.3f, 0.4f))
    val blue = ("blue", Seq(0.9f, 0.5f, 0.5f, 0.7f, 0.8f))
    assertEquals(shown(found.imageObjectDetect(image(Color.RED)).head), IndexedSeq(green, blue))
    assertEquals(shown(found.imageObjectDetect(image(Color.RED), Some(1)).head), IndexedSeq(blue))
    val two = found.imageBatchObjectDetect(Seq(image(Color.RED), image(Color.BLUE)), Some(2))
    assertEquals(two.map(shown), IndexedSeq.fill(2)(IndexedSeq(blue, green)))

    val inJava = new org.apache.mxnet.infer.javaapi.ObjectDetector(
      detector,
      Seq(org.apache.mxnet.javaapi.DataDesc.fromDataDesc(desc)).asJava,
      Seq(org.apache.mxnet.javaapi.Context.cpu).asJava,
      0
    )
    val best = inJava.imageObjectDetect(image(Color.RED), 1).get(0).get(0)
    assertEquals((best.getClassName, best.getProbability), ("blue", 0.9f))
    assertEquals(Seq(best.getXMin, best.getYMin, best.getXMax, best.getYMax), Seq(0.5f, 0.5f, 0.7f, 0.8f))
  }

  test("predictors are serialized by content, or by path") {
    val away = temporaryFolder("infer-away")
    def moved(prefix: String): String = {
      val name = Paths.get(prefix).getFileName.toString
      Seq("-symbol.json", "-0000.params").foreach(end => Files.copy(Paths.get(prefix + end), away.resolve(name + end)))
      away.resolve(name).toString
    }
    val plain = IndexedSeq(DataDesc("data", Shape(2, 6), layout = Layout.NT))
    val images = IndexedSeq(DataDesc("data", Shape(1, 3, 2, 4), layout = Layout.NCHW))
    val predictor = new Predictor(moved(mlp), plain)
    Files.write(away.resolve("synset.txt"), Seq("red", "green", "blue").asJava)
    val classifier = new ImageClassifier(moved(colors), images)
    val found = new ObjectDetector(moved(detector), images)
    val inJava = new org.apache.mxnet.infer.javaapi.Predictor(predictor)
    val input = IndexedSeq(rows(2, 3))
    def answers(p: Predictor, c: ImageClassifier, d: ObjectDetector): Seq[Any] = Seq(
      p.predict(input).map(_.toSeq),
      c.classifyImage(image(Color.RED)),
      d.imageObjectDetect(image(Color.RED)).map(_.map { case (name, box) => (name, box.toSeq) })
    )
    val expected = answers(predictor, classifier, found)
    val byPath = new Predictor(mlp, plain).serializeByPath(true)
    assertEquals(copyOf(byPath).predict(input).map(_.toSeq), predictor.predict(input).map(_.toSeq))
    val lost = new Predictor(away.resolve("mlp").toString, plain).serializeByPath(true)
    TemporaryFiles.delete(away)
    assertEquals(answers(copyOf(predictor), copyOf(classifier), copyOf(found)), expected)
    assertEquals(copyOf(inJava).predict(input.toArray).map(_.toSeq).toSeq, predictor.predict(input).map(_.toSeq))
    intercept[MXNetError](copyOf(lost))
    class Own extends Predictor(mlp, plain)
    assert(intercept[NotSerializableException](copyOf(new Own)).getMessage.contains("Own"))
  }

  test("the Java example serves requests from several threads") {
    val predictor = Serve.load(mlp, 0, "data", 6)
    val requests = (0 until 20).map(rows(1, _))
    val expected = requests.map { request =>
      val numbers = predictor.predict(Array(request)).head
      numbers.indexOf(numbers.max)
    }
    assertEquals(Serve.classes(predictor, requests.asJava, 8).asScala.map(_.intValue).toSeq, expected)
    val boxed = predictor.predict(Seq(requests.head.toSeq.map(Float.box).asJava).asJava).get(0).asScala
    assertEquals(boxed.map(_.floatValue).toSeq, predictor.predict(Array(requests.head)).head.toSeq)
  }
}
