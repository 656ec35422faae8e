package org.apache.mxnet

import java.nio.charset.StandardCharsets.ISO_8859_1
import java.nio.file.{Files, Path}

import org.apache.mxnet.module.{FitParams, Module}
import org.apache.mxnet.optimizer.SGD

class OnnxSuite extends munit.FunSuite {
  private val cpu = Context.cpu()
  private val image = Map("data" -> Shape(2, 1, 8, 8))

  private def network: Symbol = {
    val data = Symbol.Variable("data")
    val features =
      Symbol.api.Convolution(data = data, kernel = Shape(3, 3), num_filter = 4, pad = Shape(1, 1), name = "conv")
    val normal = Symbol.api.BatchNorm(data = features, fix_gamma = false, name = "norm")
    val active = Symbol.api.Activation(data = normal, act_type = "relu", name = "active")
    val pooled =
      Symbol.api.Pooling(data = active, kernel = Shape(2, 2), stride = Shape(2, 2), pool_type = "max", name = "pool")
    Symbol.api.FullyConnected(data = Symbol.api.Flatten(data = pooled), num_hidden = 3, name = "scores")
  }

  /** A bound network with random parameters and input. */
  private def bound: Executor = {
    Random.seed(11)
    val executor = network.simpleBind(cpu, "null", image)
    val states = executor.auxDict.values.map(array => array -> 0.5f)
    (executor.argDict.values.map(_ -> -1f) ++ states).foreach { case (array, low) =>
      NDArray.random.uniform(low = low, high = 1f, shape = array.shape, out = array)
    }
    executor
  }

  private def withFile[T](body: Path => T): T = {
    val file = Files.createTempFile("model", ".onnx")
    try body(file)
    finally Files.delete(file)
  }

  private def exported(file: Path, executor: Executor): Unit =
    Onnx.exportModel(network, executor.argDict - "data" ++ executor.auxDict, file.toString, inputs = image)

  private def outputs(executor: Executor): Seq[Float] = {
    executor.forward(isTrain = false)
    executor.outputs(0).toArray.toSeq
  }

  private def assertClose(found: Seq[Float], expected: Seq[Float]): Unit = {
    assertEquals(found.length, expected.length)
    found.zip(expected).foreach { case (a, b) =>
      assert(math.abs(a - b) <= 1e-5f * (1 + math.abs(b)), s"$found $expected")
    }
  }

  /** The file with a string replaced by another of the same length. */
  private def damage(file: Path, text: String, by: String): Unit = {
    val content = new String(Files.readAllBytes(file), ISO_8859_1)
    assert(content.contains(text))
    Files.write(file, content.replace(text, by).getBytes(ISO_8859_1))
  }

  test("a network that was exported comes back with its parameters, and computes the same") {
    withFile { file =>
      val executor = bound
      exported(file, executor)
      assertEquals(Onnx.check(file.toString), IndexedSeq.empty)
      val model = Onnx.importModel(file.toString)
      assertEquals(model.inputs, IndexedSeq(ModelInput("data", "float32", Some(IndexedSeq("2", "1", "8", "8")))))
      assert(model.toString.startsWith("<ImportedModel data: float32 (2,1,8,8) -> "), model.toString)
      val again = model.simpleBind(cpu, image)
      again.argDict("data").set(executor.argDict("data"))
      assertClose(outputs(again), outputs(executor))
      val fromMemory = Onnx.importModel(Files.readAllBytes(file))
      assertEquals(fromMemory.symbol.listArguments(), model.symbol.listArguments())
      assertEquals(fromMemory.outputs, model.outputs)
    }
  }

  test("an imported network is fine-tuned and saved like any other") {
    withFile { file =>
      exported(file, bound)
      val model = Onnx.importModel(file.toString)
      val executor = model.simpleBind(cpu, image, "write")
      executor.argDict("data").set(1f)
      executor.forward(isTrain = true)
      executor.backward(NDArray.ones(executor.outputs(0).shape))
      val gradients = executor.gradDict.values.filter(_ != null).map(_.toArray)
      assert(gradients.exists(_.exists(_ != 0f)))
      val prefix = file.toString.stripSuffix(".onnx")
      model.save(prefix, epoch = 3)
      val (symbol, args, _) = Model.loadCheckpoint(prefix, 3)
      assertEquals(symbol.listArguments(), model.symbol.listArguments())
      args.foreach { case (name, array) => assertEquals(array.toArray.toSeq, model.argParams(name).toArray.toSeq) }
      Seq(s"$prefix-symbol.json", s"$prefix-0003.params").foreach(name => Files.delete(Path.of(name)))
    }
  }

  /** Digits in batches of 27, which divides the number of test images. */
  private def digits(part: String): DataIter = IO.MNISTIter(
    Map(
      "image" -> s"data/digits/$part-images-idx3-ubyte",
      "label" -> s"data/digits/$part-labels-idx1-ubyte",
      "batch_size" -> "27",
      "shuffle" -> "False",
      "silent" -> "True",
      "data_name" -> "image",
      "label_name" -> "softmax_label"
    )
  )

  test("a model of PyTorch is fine-tuned with Module, exported, and comes back") {
    val model = Onnx.importModel("jvm/src/test/resources/digits.onnx")
    assertEquals(model.inputs, IndexedSeq(ModelInput("image", "float32", Some(IndexedSeq("batch", "1", "8", "8")))))
    val network = Symbol.api.SoftmaxOutput(data = model.symbol, name = "softmax")
    val module = new Module(network, dataNames = IndexedSeq("image"), labelNames = IndexedSeq("softmax_label"))
    val (train, test) = (digits("train"), digits("t10k"))
    module.bind(train.provideDataDesc, Some(train.provideLabelDesc))
    module.initParams(argParams = model.argParams, auxParams = model.auxParams)
    val before = module.score(test, new Accuracy).get._2.head
    assertEqualsFloat(before, 0.8114f, 1e-4f, "PyTorch's accuracy")
    module.fit(train, None, 10, new FitParams().setOptimizer(new SGD(0.05f, momentum = 0.9f)))
    val after = module.score(test, new Accuracy).get._2.head
    assert(after > 0.89f, s"accuracy $before, then $after")
    withFile { file =>
      val (args, aux) = module.getParams
      Onnx.exportModel(model.symbol, args ++ aux, file.toString, inputs = Map("image" -> Shape(-1, 1, 8, 8)))
      val again = Onnx.importModel(file.toString)
      test.reset()
      val batch = test.next().data(0)
      def scores(imported: ImportedModel, args: Map[String, NDArray], aux: Map[String, NDArray]): Seq[Float] = {
        val executor = imported.simpleBind(cpu, Map("image" -> batch.shape))
        executor.copyParamsFrom(args, aux)
        executor.argDict("image").set(batch)
        outputs(executor)
      }
      assertClose(scores(again, again.argParams, again.auxParams), scores(model, args, aux))
    }
  }

  test("check and import list each node that cannot be mapped") {
    withFile { file =>
      exported(file, bound)
      damage(file, "Relu", "Rely")
      val problems = Onnx.check(file.toString)
      assertEquals(problems.length, 1)
      assert(problems.head.location.contains("Rely"), problems.head.toString)
      val error = intercept[MXNetError](Onnx.importModel(file.toString))
      assert(error.getMessage.contains("Rely"), error.getMessage)
    }
  }

  test("damaged, missing and impossible models are errors, and the next one works") {
    withFile { file =>
      exported(file, bound)
      val bytes = Files.readAllBytes(file)
      for (length <- Seq(0, 1, 7, bytes.length / 2, bytes.length - 1))
        intercept[MXNetError](Onnx.importModel(bytes.take(length)))
      intercept[MXNetError](Onnx.importModel(null: Array[Byte]))
      intercept[MXNetError](Onnx.importModel(bytes, ImportOptions(externalData = true)))
      intercept[MXNetError](Onnx.importModel(s"$file.missing"))
      val opset = intercept[MXNetError](Onnx.exportModel(network, Map.empty, file.toString, opset = 99))
      assert(opset.getMessage.contains("99"), opset.getMessage)
      val custom = Symbol.api.Correlation(data1 = Symbol.Variable("a"), data2 = Symbol.Variable("b"), name = "match")
      val refused = intercept[MXNetError](Onnx.exportModel(custom, Map.empty, file.toString))
      assert(refused.getMessage.contains("match"), refused.getMessage)
      assertEquals(Onnx.importModel(bytes).outputs.length, 1)
    }
  }
}
