package org.apache.mxnet

import java.util.concurrent.TimeUnit

import org.apache.mxnet.module.Module
import org.apache.mxnet.udf.Scale

/** Found on the class path, for an operator that no other test uses. */
@ImportHookRule(opNames = Array("org.example.Found"))
class FoundHook extends ImportHook {
  override def before(node: ModelNode): Array[Symbol] = Array(node.input(0) * 3f)
}

/** A user-defined operator that models may use. */
@UserDefinedOp
@ImportHookRule(opNames = Array("org.example.Power"))
class FoundOperator extends UserDefinedCustomOp {
  var power: Int = 1
  def opName: String = "test_found_operator"
  override def exec(context: OpContext): Unit = context.map(0, 0)(x => math.pow(x, power).toFloat)
}

/** Fields of several types, whose sum is added to the input. */
class Listed extends UserDefinedCustomOp {
  var axes: Array[Int] = Array.empty
  var ratios: Seq[Float] = Nil
  var padding: (Int, Int) = (0, 0)
  var limit: Option[Int] = None
  var unit: TimeUnit = TimeUnit.DAYS
  def opName: String = "test_listed"
  override def exec(context: OpContext): Unit = context.map(0, 0) { x =>
    x - axes.indexOf(1) + ratios.sum + padding._1 + padding._2 + limit.getOrElse(0) + unit.name.indexOf('R')
  }
}

class OnnxHooksSuite extends munit.FunSuite with TemporaryFiles {
  private val path = "jvm/src/test/resources/hooks.onnx"
  private val input = Array(1f, -1f, 0.5f, 2f, 4f, -4f)

  /** The expected result: x * 2.5, clipped to [-4, 4], then `squash` of two numbers, at least 0. */
  private def expected(squash: (Float, Float) => Float): Seq[Float] = {
    val bias = Seq(0.5f, -0.5f, 1f)
    input.toSeq.zipWithIndex.map { case (x, i) =>
      math.max(0f, squash(math.max(-4f, math.min(4f, x * 2.5f)), bias(i % 3)))
    }
  }

  private val squash = ImportHook.replace { node =>
    assertEquals(node.integer("power"), 2L)
    assertEquals(node.tensor(1).value.map(_.toArray.toSeq), Some(Seq(0.5f, -0.5f, 1f)))
    assertEquals(node.tensor(0).dtype, DType.Float32)
    assertEquals(node.tensor(0).shape, Some(IndexedSeq(-1, 3)))
    Symbol.api.broadcast_mul(lhs = node.input(0), rhs = node.input(1), name = "product")
  }
  private val oldClip = ImportHook.prepare(_.withOpset(6))

  private val options = ImportOptions()
    .userOperator("org.example.TestScale", classOf[Scale])
    .onNode("clip", oldClip)
    .onOperator("org.example.Squash", squash)

  private def run(model: ImportedModel): Seq[Float] = {
    val executor = model.simpleBind(Context.cpu(), Map("x" -> Shape(2, 3)))
    executor.argDict("x").set(input)
    executor.forward(isTrain = false)
    executor.outputs(0).toArray.toSeq
  }

  test(
    "operators of other domains are mapped by hooks and to user-defined operators, and older nodes are upgraded"
  ) {
    val model = Onnx.importModel(path, options)
    assertEquals(run(model), expected(_ * _))
    assertEquals(Onnx.check(path, options), IndexedSeq.empty)
    assert(model.symbol.toJson.contains("test_scale"))
    assertEquals(model.argParams.keySet, Set("bias", "gain"))
    // After saving and loading, the user-defined operator is found again.
    val again = Symbol.loadJson(model.symbol.toJson)
    assertEquals(again.listArguments(), model.symbol.listArguments())
  }

  test("without hooks every operator without a process is listed") {
    val problems = Onnx.check(path).map(_.location)
    assert(problems.exists(_.contains("TestScale 'scale'")), problems.toString)
    assert(problems.exists(_.contains("Clip 'clip'")), problems.toString)
    assert(problems.exists(_.contains("Squash 'squash'")), problems.toString)
  }

  test(
    "hooks by the name of the node come before those by operator, those before the process, and `after` sees the outputs"
  ) {
    var seen = Seq.empty[String]
    def noting(what: String, made: ModelNode => Array[Symbol]): ImportHook = new ImportHook {
      override def before(node: ModelNode): Array[Symbol] = {
        seen :+= s"$what before"
        made(node)
      }
      override def after(node: ModelNode, outputs: Array[Symbol]): Array[Symbol] = {
        seen :+= s"$what after"
        Array(outputs(0) + (if (what == "name") 1f else 10f))
      }
    }
    val all = options
      .onOperator("Relu", noting("operator", node => Array(node.input(0) * 100f)))
      .onNode("relu", noting("name", _ => null))
    assertEquals(run(Onnx.importModel(path, all)), input.indices.map(i => unclipped(i) * 100f + 11f))
    assertEquals(seen, Seq("name before", "operator before", "operator after", "name after"))
    seen = Nil
    val byName = options
      .onOperator("Relu", noting("operator", node => Array(node.input(0) * 100f)))
      .onNode("relu", noting("name", node => Array(node.input(0) * -1f)))
    assertEquals(run(Onnx.importModel(path, byName)), input.indices.map(i => unclipped(i) * -1f + 11f))
    assertEquals(seen, Seq("name before", "operator after", "name after"))
    val untouched = options.onOperator("Relu", new ImportHook {})
    assertEquals(run(Onnx.importModel(path, untouched)), expected(_ * _))
  }

  test("the symbols that `after` gets survive the garbage collector") {
    val collecting = new ImportHook {
      override def after(node: ModelNode, outputs: Array[Symbol]): Array[Symbol] = {
        // Twice, so that the cleaner has freed the handles of collected symbols.
        (1 to 2).foreach { _ =>
          System.gc()
          Thread.sleep(50)
          NativeResourceRef.freeCollected()
        }
        Array(outputs(0) + 1f)
      }
    }
    assertEquals(
      run(Onnx.importModel(path, options.onNode("relu", collecting))),
      expected(_ * _).map(_ + 1f)
    )
  }

  private def unclipped(i: Int): Float = math.max(-4f, math.min(4f, input(i) * 2.5f)) * Seq(0.5f, -0.5f, 1f)(i % 3)

  test("a hook may rewrite a node with constants, add constants, and leave nodes out") {
    val prepared = ImportHook.prepare { node =>
      node.withOperator("Add").withoutAttribute("power").withInput(1, NDArray.array(Array(7f), Shape(1)))
    }
    val added =
      ImportHook.replace(node => Symbol.api.broadcast_add(node.input(0), node.constant(NDArray.ones(Shape(1, 3)))))
    val model = Onnx.importModel(
      path,
      options
        .copy(operatorHooks = IndexedSeq.empty)
        .onNode("scale", added)
        .onOperator("org.example.Squash", prepared)
        .skipNodes("relu")
    )
    assertEquals(run(model), input.toSeq.map(x => math.max(-4f, math.min(4f, x + 1f)) + 7f))
    assertEquals(model.argParams.size, 3)
    assert(!model.symbol.toJson.contains("\"relu\""))
  }

  test("what a hook throws names node and operator, with the exception as cause") {
    val failure = new IllegalStateException("no squashing today")
    val failing =
      options.copy(operatorHooks = options.operatorHooks.init).onNode("squash", ImportHook.replace(_ => throw failure))
    val error = intercept[MXNetError](Onnx.importModel(path, failing))
    Seq("squash", "Squash", "no squashing today").foreach(part =>
      assert(error.getMessage.contains(part), error.getMessage)
    )
    assertEquals(error.getCause, failure: Throwable)
    assert(intercept[MXNetError](Onnx.check(path, failing)).getCause eq failure)
    def message(hook: ImportHook): String =
      intercept[MXNetError](
        Onnx.importModel(path, failing.copy(nodeHooks = options.nodeHooks).onNode("squash", hook))
      ).getMessage
    assert(message(ImportHook.replace(_ => null)).contains("returned null"))
    assert(message(ImportHook.replace(node => node.input(5))).contains("it has no input 5"))
    assert(message(ImportHook.replace(node => Symbol.Variable(node.text("power")))).contains("'power' is 2, not text"))
    val none = new ImportHook { override def before(node: ModelNode): Array[Symbol] = Array.empty }
    assert(message(none).contains("returns 0 outputs"))
    val missing = intercept[MXNetError](Onnx.importModel(path, options.onNode("nowhere", ImportHook.skip)))
    assert(missing.getMessage.contains("no node 'nowhere'"), missing.getMessage)
  }

  test("hooks and user-defined operators are found by annotation, unless they are switched off") {
    val base = options.copy(operatorHooks = options.operatorHooks.init).skip("Relu")
    def as(operator: String): ImportOptions =
      base.onNode("squash", ImportHook.prepare(_.withOperator("org.example", operator).withInputs("clipped")))
    val clipped = input.toSeq.map(x => math.max(-4f, math.min(4f, x * 2.5f)))
    val plain = base.onNode(
      "squash",
      ImportHook.prepare(_.withOperator("org.example", "Found").withoutAttribute("power").withInputs("clipped"))
    )
    assertEquals(run(Onnx.importModel(path, plain)), clipped.map(_ * 3f))
    assertEquals(run(Onnx.importModel(path, as("Power"))), clipped.map(x => x * x))
    val off = intercept[MXNetError](Onnx.importModel(path, as("Found").withoutAnnotatedHooks()))
    assert(off.getMessage.contains("Found"), off.getMessage)
  }

  test("a module binds a model with a parameter without dimensions") {
    val model = Onnx.importModel(path, options)
    assertEquals(model.argParams("gain").shape, Shape())
    val module = new Module(model.symbol, dataNames = IndexedSeq("x"), labelNames = IndexedSeq.empty)
    module.bind(forTraining = false, inputsNeedGrad = false, forceRebind = false, DataDesc("x", Shape(2, 3)))
    module.initParams(argParams = model.argParams, auxParams = model.auxParams)
    val batch = new DataBatch(IndexedSeq(NDArray.array(input, Shape(2, 3))), IndexedSeq.empty, null, 0)
    assertEquals(module.predict(batch).head.toArray.toSeq, expected(_ * _))
  }

  test("lists, options and names in attributes set the fields of user-defined operators, also of exported ones") {
    val op = new Listed
    op.axes = Array(1, 0)
    op.ratios = Seq(0.5f, 0.25f)
    op.padding = (1, 2)
    op.limit = Some(7)
    op.unit = TimeUnit.HOURS
    val symbol = op.named("listed", Symbol.Variable("x"))
    val file = temporaryFolder("listed").resolve("listed.onnx").toString
    val exported = ExportOptions().withInput("x", Shape(2, 3)).userOperator("org.example.Listed", classOf[Listed])
    Onnx.exportModel(symbol, Map.empty[String, NDArray], file, exported)
    val model = Onnx.importModel(file, ImportOptions().userOperator("org.example.Listed", classOf[Listed]))
    val executor = model.simpleBind(Context.cpu(), Map("x" -> Shape(2, 3)))
    executor.argDict("x").set(1f)
    executor.forward()
    assertEquals(executor.outputs(0).toArray.toSeq.distinct, Seq(1f + 0.75f + 3f + 7f + 3f))
  }

  test("Java maps nodes to operators in Java, and binds models") {
    val symbol = new users.JavaPolynomial(2.0, 1f, 0f, 3f).named("p", Symbol.Variable("x"))
    val file = temporaryFolder("java").resolve("polynomial.onnx").toString
    assertEquals(JavaImport.exportedAndRun(symbol, file).toSeq, Seq(2f, 8f, 26f))
  }

  test("Java imports with hooks") {
    assertEquals(run(JavaImport.of(path)), input.toSeq.map(x => math.max(-4f, math.min(4f, x * 2.5f)) * 2f))
  }
}
