package org.apache.mxnet

import java.nio.file.{Files, Path}

import org.apache.mxnet.io.ResizeIter
import org.apache.mxnet.module.SequentialModule
import org.apache.mxnet.optimizer.SGD

/** Invalid input raises an exception that names the mistake, and the JVM continues. */
class BadInputSuite extends munit.FunSuite {
  private val cpu = Context.cpu()
  private val file = FunFixture[Path](_ => Files.createTempFile("mxnet-bad", ".bin"), Files.deleteIfExists(_))

  /** Expects an [[MXNetError]] whose message contains all of these parts, and an engine that still works. */
  private def fails(parts: String*)(body: => Any)(implicit at: munit.Location): Unit = {
    val message = intercept[MXNetError](body).getMessage
    parts.foreach(part => assert(message.contains(part), s"'$part' is not in: $message"))
    assertEquals((NDArray.ones(1) + 1f).toScalar, 2f)
  }

  private def fullyConnected: Symbol =
    Symbol.api.FullyConnected(data = Symbol.Variable("data"), num_hidden = 4, name = "fc")

  test("wrong shape: arithmetic, copies, elements, views") {
    fails("Provided=[3]", "inferred shape=[2]", "argument 1 (rhs)")(NDArray.ones(2) + NDArray.ones(3))
    fails("[2]", "[3]")(NDArray.ones(2).copyTo(NDArray.ones(3)))
    fails("3 values", "(2)")(NDArray.ones(2).set(Array(1f, 2f, 3f)))
    fails("3 values")(NDArray.array(Array(1f, 2f, 3f), Shape(2)))
    fails("7")(NDArray.ones(2, 3).reshape(Array(7)))
    fails("5")(NDArray.ones(2).slice(1, 5))
    fails("2")(NDArray.ones(2).at(2))
    fails("(3)")(NDArray.ones(3).T)
    fails("the elements at depth")(NDArray.toNDArray(Array(Array(1f), Array(1f, 2f))))
    fails("String")(NDArray.toNDArray(Array("a")))
  }

  test("wrong type: operands that differ") {
    fails("float32", "float64")(NDArray.ones(2) + NDArray.ones(Shape(2), dtype = DType.Float64))
    fails("unknown")(NDArray.zeros(Shape(2), dtype = DType.Unknown))
  }

  test("negative and impossible dimensions") {
    fails("(-2,3)", "negative")(NDArray.zeros(Shape(-2, 3)))
    fails("-2")(NDArray.empty(-2, 3))
    intercept[Throwable](NDArray.empty(Shape(Int.MaxValue, Int.MaxValue, Int.MaxValue)).set(0f)) match {
      case _: MXNetError =>
      case other         => fail(s"not an MXNetError: $other")
    }
  }

  test("null among positional arguments and among arrays to save") {
    fails("dot", "argument 0 of 2 is null")(NDArray.dot(null, NDArray.ones(1)))
    fails("NDArray.save", "data(1) is null")(NDArray.save("unused", List(NDArray.ones(1), null)))
  }

  test("a device that does not exist") {
    fails("gpu")(NDArray.zeros(Shape(2), Context.gpu(0)))
  }

  test("unknown operator, unknown and missing parameter, wrong value") {
    fails("no_such_operator")(NDArray.genericNDArrayFunctionInvoke("no_such_operator", Seq(NDArray.ones(1))))
    fails("no_such_operator")(Symbol.createSymbolGeneral("no_such_operator", "x", null, Nil, null))
    fails("Activation", "act_type")(NDArray.Activation(NDArray.ones(1)))
    fails("Activation", "gelu")(NDArray.Activation(Map("act_type" -> "gelu"))(NDArray.ones(1)))
    fails("color")(NDArray.Activation(Map("act_type" -> "relu", "color" -> "red"))(NDArray.ones(1)))
    fails("num_hidden")(Symbol.FullyConnected("fc")(Symbol.Variable("x"))())
    fails("num_hidden", "many")(Symbol.FullyConnected("fc")(Symbol.Variable("x"))(Map("num_hidden" -> "many")))
    fails("relu", "3 values", "none")(NDArray.relu(NDArray.ones(1), 1, 2, 3))
    fails("expand_dims", "2 values", "at most axis")(NDArray.expand_dims(NDArray.ones(1), 0, 1))
    fails("out must be")(NDArray.relu(Map("out" -> "here"))(NDArray.ones(1)))
  }

  test("wrong number of inputs") {
    fails("elemwise_add")(NDArray.elemwise_add(NDArray.ones(1)))
    fails("relu")(NDArray.relu(NDArray.ones(1), NDArray.ones(1)))
  }

  test("wrong names: arguments, outputs, attributes") {
    fails("fc_wight")(fullyConnected.inferShape(Map("fc_wight" -> Shape(4, 3))))
    fails("wight")(Symbol.FullyConnected("fc")()(Map("wight" -> Symbol.Variable("w"), "num_hidden" -> 4)))
    fails("the name is null or empty")(Symbol.Variable(""))
    fails("lr_mult", "__lr_mult__")(Symbol.Variable("x", kwargs = Map("lr_mult" -> "1")))
  }

  test("missing arguments, too many arrays, wrong requests at bind") {
    fails("no array for 'fc_weight'")(fullyConnected.bind(cpu, Map("data" -> NDArray.ones(2, 3))))
    fails("args has 1 arrays", "takes 3")(fullyConnected.bind(cpu, Seq(NDArray.ones(2, 3))))
    val arrays = Seq(NDArray.ones(2, 3), NDArray.ones(4, 3), NDArray.ones(4))
    val none = Seq.empty[NDArray]
    fails("'sometimes'", "'data'")(fullyConnected.bind(cpu, arrays, none, "sometimes", none, null, null))
    fails("gradsReq has 1")(fullyConnected.bind(cpu, arrays, none, Seq("write"), none, null, null))
    val misshapen = Seq(NDArray.ones(2, 3), NDArray.ones(4, 9), NDArray.ones(4))
    fails("fc", "[4,9]", "[4,3]")(fullyConnected.bind(cpu, misshapen))
  }

  test("wrong arrays at a run") {
    val executor = fullyConnected.simpleBind(cpu, "write", Map("data" -> Shape(2, 3)))
    fails("'data'", "(5,3)", "(2,3)")(executor.forward(isTrain = false, "data" -> NDArray.ones(5, 3)))
    fails("no argument 'dta'")(executor.forward(isTrain = false, "dta" -> NDArray.ones(2, 3)))
    fails("Executor.forward", "'data' of kwargs is null")(executor.forward(isTrain = false, "data" -> null))
    fails("'fc_bias'")(executor.copyParamsFrom(Map("fc_bias" -> NDArray.ones(5))))
    executor.forward(isTrain = true)
    fails("shape mismatch")(executor.backward(Array(NDArray.ones(3, 4))))
  }

  test("names that the dictionaries of an executor do not have") {
    val executor = fullyConnected.simpleBind(cpu, "write", Map("data" -> Shape(2, 3)))
    fails("Executor.argDict", "no argument 'dta'", "data, fc_weight, fc_bias")(executor.argDict("dta"))
    fails("Executor.gradDict", "no argument 'fc_wight'")(executor.gradDict("fc_wight"))
    fails("Executor.auxDict", "no auxiliary state 'mean'")(executor.auxDict("mean"))
    assertEquals(executor.argDict.get("dta"), None)
    assertEquals(executor.argDict.keySet, Set("data", "fc_weight", "fc_bias"))
  }

  test("null that would otherwise be noticed only later") {
    fails("IO.CSVIter", "params is null")(IO.CSVIter(null))
    fails("Image", "filename is null")(Image.imRead(null))
    fails("CustomMetric", "fEval is null")(new CustomMetric(null, "mine"))
    fails("CompositeEvalMetric.add", "metric is null")(new CompositeEvalMetric().add(null))
    fails("ResizeIter", "dataIter is null")(new ResizeIter(null, 3))
    fails("SequentialModule.add", "module is null")(new SequentialModule().add(null))
    fails("FeedForward.newBuilder", "modelDef is null")(FeedForward.newBuilder(null: Symbol))
    fails("MXRecordIO.pack", "header is null")(MXRecordIO.pack(null, "text"))
    fails("MXRecordIO.pack", "the label of the header is null")(
      MXRecordIO.pack(MXRecordIO.IRHeader(0, null, 0, 0), "text")
    )
  }

  test("a missing file of optimizer states") {
    val store = KVStore.create("local")
    store.setOptimizer(new SGD(momentum = 0.9f))
    val message = intercept[java.io.IOException](store.loadOptimizerStates("/no/such.states")).getMessage
    assert(message.startsWith("there is no file /no/such.states; check its name"), message)
  }

  test("use after dispose, and disposing twice") {
    val array = NDArray.ones(2)
    array.dispose()
    array.dispose()
    fails("NDArray of shape (2): it was used after dispose()")(array.toArray)
    fails("NDArray of shape (2): it was used after dispose()")(array + 1f)
    fails("NDArray of shape (2): it was used after dispose()")(NDArray.ones(2) + array)
    fails("NDArray of shape (2): it was used after dispose()")(NDArray.relu(array))
    assertEquals(array.toString, "<NDArray, disposed>")
    assert(array != NDArray.ones(2))
    val symbol = fullyConnected
    symbol.dispose()
    symbol.dispose()
    fails("Symbol: it was used after dispose()")(symbol.listArguments())
    fails("Symbol: it was used after dispose()")(symbol.simpleBind(cpu, "write", Map("data" -> Shape(2, 3))))
    assertEquals(symbol.toString, "<Symbol, disposed>")
    val executor = fullyConnected.simpleBind(cpu, "write", Map("data" -> Shape(2, 3)))
    executor.dispose()
    executor.dispose()
    fails("Executor: it was used after dispose()")(executor.forward())
  }

  test("handles that are null, foreign or freed are refused by the engine") {
    val lib = Base._LIB
    fails()(lib.ndarrayShape(0L))
    fails()(lib.ndarrayShape(123456789L))
    val handle = lib.ndarrayCreate(Array(2L), 1, 0, false, 0)
    lib.ndarrayFree(handle)
    fails()(lib.ndarrayShape(handle))
    fails()(lib.ndarrayFree(handle))
    val variable = lib.symbolCreateVariable("x")
    fails()(lib.ndarrayShape(variable))
    lib.symbolFree(variable)
    lib.ndarrayFree(0L)
  }

  test("null where there must be something") {
    val lib = Base._LIB
    fails()(lib.opHandle(null))
    fails()(lib.ndarrayCreate(null, 1, 0, false, 0))
    fails()(lib.imperativeInvoke(lib.opHandle("relu"), null, null, null, null))
    fails()(lib.ndarraySetFloats(0L, 0L, null, 0, 0))
    fails()(lib.symbolFromJson(null))
  }

  test("ranges outside an array") {
    val array = NDArray.ones(4)
    val lib = Base._LIB
    fails()(lib.ndarraySetFloats(array.handle, 3L, Array(1f, 2f), 0, 2))
    fails()(lib.ndarrayGetFloats(array.handle, 0L, new Array[Float](2), 1, 2))
    fails()(lib.ndarrayGetFloats(array.handle, -1L, new Array[Float](2), 0, 2))
    fails()(lib.ndarrayGetFloats(array.handle, 0L, new Array[Float](2), 0, -1))
    assertEquals(array.toArray.toSeq, Seq.fill(4)(1f))
  }

  test("an array that must not be written to") {
    val array = NDArray.ones(2)
    val fixed = new NDArray(Base._LIB.ndarraySlice(array.handle, 0L, 2L), writable = false)
    fails("read-only")(fixed += 1f)
    fails("read-only")(fixed.set(1f))
    fails("read-only")(fixed.set(Array(1f, 2f)))
    fails("read-only")(fixed.slice(0, 1) *= 2f)
    assertEquals(array.toArray.toSeq, Seq(1f, 1f))
  }

  test("missing files") {
    fails("/no/such.params")(NDArray.load("/no/such.params"))
    fails("/no/such.json")(Symbol.load("/no/such.json"))
    fails("/no/such/file")(NDArray.save("/no/such/file", Seq(NDArray.ones(1))))
    fails("/no/such/file")(fullyConnected.save("/no/such/file"))
  }

  file.test(".params files that are truncated anywhere, or garbage") { path =>
    val arrays = Map("arg:a" -> NDArray.ones(3), "aux:b" -> NDArray.zeros(Shape(2, 2), dtype = DType.Float64))
    NDArray.save(path.toString, arrays)
    val whole = Files.readAllBytes(path)
    (0 until whole.length).foreach { length =>
      Files.write(path, whole.take(length))
      intercept[MXNetError](NDArray.load(path.toString))
    }
    Files.write(path, "these are not arrays, but long enough to look like some".getBytes("UTF-8"))
    fails(path.getFileName.toString)(NDArray.load(path.toString))
    Files.write(path, whole)
    assertEquals(NDArray.load2Map(path.toString), arrays)
  }

  test("truncated bytes of an array") {
    val whole = NDArray.ones(3).serialize()
    (0 until whole.length).foreach(length => intercept[MXNetError](NDArray.deserialize(whole.take(length))))
    assertEquals(NDArray.deserialize(whole), NDArray.ones(3))
  }

  test("truncated JSON, or JSON that does not describe a graph") {
    val json = fullyConnected.toJson
    (0 until json.length - 1 by 7).foreach(length => intercept[MXNetError](Symbol.loadJson(json.take(length))))
    fails()(Symbol.loadJson("[]"))
    fails()(Symbol.loadJson("""{"nodes": [], "arg_nodes": [0], "heads": [[5, 0, 0]]}"""))
    fails("no_such_operator")(Symbol.loadJson(json.replace("FullyConnected", "no_such_operator")))
    fails()(Symbol.loadJson("[" * 100000))
    assertEquals(Symbol.loadJson(json).toJson, json)
  }

  test("settings of classes that do not call the engine") {
    fails("0 batches")(new Monitor(0))
    fails("needs a shape")(Random.uniform(0f, 1f))
    fails("(2)", "(3)")(Random.normal(0f, 1f, Shape(2), out = NDArray.zeros(3)))
  }

  test("a NaN in a label is an ordinary number to operators") {
    val loss = Symbol.api.SoftmaxOutput(Symbol.Variable("data"), Symbol.Variable("label"), name = "softmax")
    val label = NDArray.array(Array(Float.NaN, 1f), Shape(2))
    val executor = loss.simpleBind(cpu, Map("data" -> NDArray.ones(2, 3), "label" -> label))
    executor.forward(isTrain = true)
    executor.backward()
    executor.outputs(0).toArray.foreach(p => assertEqualsFloat(p, 1f / 3, 1e-6f))
  }
}
