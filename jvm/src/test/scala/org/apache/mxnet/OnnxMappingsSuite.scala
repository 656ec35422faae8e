package org.apache.mxnet

import java.nio.file.{Files, Path}

import org.apache.mxnet.udf.Scale

/** Rules and processes that a program adds, and export hooks. */
class OnnxMappingsSuite extends munit.FunSuite {
  private val path = "jvm/src/test/resources/hooks.onnx"
  private val input = Array(1f, -1f, 0.5f, 2f, 4f, -4f)
  private val inputs = Map("x" -> Shape(2, 3))

  /** The operators of hooks.onnx that the table does not have. */
  private val operators = """
    domain "org.example"
    operator TestScale(X) -> (Y) factor: float = 1.0
    operator Squash(X, bias) -> (Y) power: int = 1
    """

  private val own = operators + """
    rule raised(x: tensor, n: int) -> tensor = if n == 1 then x else if n == 2 then square(x) else x
    TestScale(X) -> _npi_multiply(X, factor)
    Squash(X, bias) -> _npi_add(raised(X, power), bias)
    domain ""
    Clip(X) [6..10] -> _npi_minimum(_npi_maximum(X, min), max)
    """

  private def clipped(x: Float): Float = math.max(-4f, math.min(4f, x * 2.5f))

  private def run(model: ImportedModel, name: String = "x"): Seq[Float] = {
    val executor = model.simpleBind(Context.cpu(), Map(name -> Shape(2, 3)))
    executor.argDict(name).set(input)
    executor.forward(isTrain = false)
    executor.outputs(0).toArray.toSeq
  }

  private def withFile[T](ending: String)(body: Path => T): T = {
    val file = Files.createTempFile("mappings", ending)
    try body(file)
    finally Files.delete(file)
  }

  private def message(body: => Any): String = intercept[MXNetError](body).getMessage

  test("rules and processes are listed with their signatures") {
    val rules = Onnx.mappings.rules.map(rule => rule.name -> rule).toMap
    val lookup = rules("default_to")
    assertEquals(lookup.inputs.length, 2)
    assert(lookup.output.nonEmpty && lookup.description.nonEmpty && !lookup.isAdded)
    assert(rules.values.exists(_.isReversible))
    val leaky = Onnx.mappings.processes.filter(process => process.name == "LeakyRelu" && process.since == 6).head
    assert(leaky.isImport && leaky.isExport && !leaky.isAdded)
    assertEquals((leaky.operator, leaky.domain, leaky.until), ("LeakyRelu", "", None: Option[Int]))
    assert(leaky.text.contains("LeakyReLU(X") && leaky.file.endsWith(".map") && leaky.line > 0, leaky.toString)
    assert(Nnef.mappings.processes.exists(_.operator == "conv"))
  }

  test("operators, rules and processes of a program map a model that the table cannot") {
    val hidden = ImportHook.prepare(_.withOpset(6))
    val mappings = Onnx.mappings.withText(own, "own.map")
    val options = ImportOptions().withMappings(mappings).onNode("clip", hidden)
    assertEquals(Onnx.check(path, options), IndexedSeq.empty)
    val bias = Seq(0.5f, -0.5f, 1f)
    val expected = input.toSeq.zipWithIndex.map { case (x, i) => math.max(0f, clipped(x) * clipped(x) + bias(i % 3)) }
    assertEquals(run(Onnx.importModel(path, options)), expected)
    val added = mappings.processes.filter(_.isAdded)
    assertEquals(added.map(_.name), IndexedSeq("TestScale", "Squash", "Clip"))
    assertEquals((added.head.domain, added.head.file, added.head.line), ("org.example", "own.map", 7))
    assertEquals(added(2).text, "Clip(X) [6..10] -> _npi_minimum(_npi_maximum(X, min), max)")
    val rule = mappings.rules.filter(_.isAdded).head
    assertEquals((rule.name, rule.inputs, rule.output), ("raised", IndexedSeq("x: tensor", "n: int"), "tensor"))
    withFile(".map") { file =>
      Files.writeString(file, own)
      val fromFile = options.withMappings(Onnx.mappings.withFile(file.toString))
      assertEquals(run(Onnx.importModel(path, fromFile)), expected)
    }
  }

  test("a named process maps a sequence of operators to one of ours") {
    val sequence = operators + """
      rule doubled(x: number) -> number = x * 2
      squashed: Squash(TestScale(X, factor: f), bias) -> _npi_multiply(X, doubled(f))
        unused power
      TestScale(X) -> _npi_multiply(X, factor)
    """
    // Removes the clip between the two, so that they are adjacent.
    val options =
      ImportOptions()
        .withMappings(Onnx.mappings.withText(sequence))
        .onNode(
          "squash",
          ImportHook.prepare(node => node.withInputs("scaled", "bias"))
        )
        .onNode(
          "clip",
          ImportHook.prepare(
            _.withOperator("Identity")
              .withoutAttribute("min")
              .withoutAttribute("max")
              .withInputs("bias")
          )
        )
    val model = Onnx.importModel(path, options)
    assertEquals(run(model), input.toSeq.map(x => math.max(0f, x * 5f)))
    assert(!model.symbol.toJson.contains("\"scale\""), "the inner operator is part of the sequence")
  }

  test("the example of the documentation is loaded and maps the operator that it is about") {
    val page = Files.readString(Path.of("docs/onnx.md"))
    val text = page.split("withText\\(\"\"\"").apply(1).split("\"\"\"").head
    val mappings = Onnx.mappings.withText(text)
    assertEquals(mappings.processes.filter(_.isAdded).map(_.name), IndexedSeq("twice", "Squash"))
    assertEquals(mappings.rules.filter(_.isAdded).map(_.name), IndexedSeq("raised"))
    val left = Onnx.check(path, ImportOptions().withMappings(mappings)).map(_.location)
    assert(left.exists(_.contains("TestScale")) && !left.exists(_.contains("Squash")), left.toString)
  }

  test("mistakes in mappings are errors with line and column when they are loaded") {
    def wrong(text: String): String = message(Onnx.mappings.withText(text, "my.map"))
    assert(wrong("Relu(X) ->\n  relo(X)").contains("my.map:2:3: 'relo' is neither a rule nor an operator"))
    assert(wrong("Relu(X) -> relu(X").contains("my.map:1:18"))
    assert(wrong("rule relu(x) = x").contains("my.map:1:6: 'relu' is the name of an operator"))
    assert(wrong("rule default_to(x) = x").contains("my.map:1:6: a rule default_to already exists"))
    assert(wrong("rule again(x) = again(x)").contains("my.map:1:17: 'again' is neither a rule nor an operator"))
    assert(wrong("rule one(x) = y").contains("'y' is not an argument of the rule one"))
    assert(wrong("operator Relu(X) -> (Y)").contains("my.map:1:10: the framework already has an operator Relu"))
    assert(wrong("domain \"a\"\nSwirl(X) -> relu(X)").contains("my.map:2:1: the framework has no operator Swirl"))
    assert(
      wrong("rule f(x) = x\nRelu(X) -> relu(f(X, X))").contains("my.map:2:17: 2 arguments for the rule f(x) -> any")
    )
    assert(message(Onnx.mappings.withFile("nowhere.map")).contains("nowhere.map"))
    val nnef = ImportOptions().withMappings(Nnef.mappings)
    assert(message(Onnx.importModel(path, nnef)).contains("for NNEF"))
    // Kinds are checked when a rule is applied.
    val kinds = operators + "rule f(x: text) = x\nTestScale(X) -> _npi_multiply(X, f(factor))"
    val options = ImportOptions().withMappings(Onnx.mappings.withText(kinds))
    val problem = Onnx.check(path, options).find(_.location.contains("TestScale")).get
    assert(problem.message.contains("rule f(x: text) -> any: argument 1 (x) is a float, not a text"), problem.toString)
  }

  private def network: Symbol = {
    val scaled = new Scale(2.5f)(Symbol.Variable("x"))
    Symbol.api.relu(data = scaled, name = "top")
  }
  private val relu = input.toSeq.map(x => math.max(0f, x * 2.5f))

  test("a user-defined operator is written as one of a domain of its own, and read again") {
    withFile(".onnx") { file =>
      val options = ExportOptions(inputs = inputs).userOperator("org.example.TestScale", classOf[Scale])
      Onnx.exportModel(network, Map.empty, file.toString, options)
      val again = ImportOptions().userOperator("org.example.TestScale", classOf[Scale])
      assertEquals(run(Onnx.importModel(file.toString, again)), relu)
      // Other programs see the property as an attribute.
      val seen = ImportHook.replace { node =>
        assertEquals(
          (node.domain, node.operator, node.attributes),
          ("org.example", "TestScale", Map[String, Any]("factor" -> 2.5))
        )
        node.input(0) * node.number("factor").toFloat
      }
      assertEquals(
        run(Onnx.importModel(file.toString, ImportOptions().onOperator("org.example.TestScale", seen))),
        relu
      )
    }
  }

  test("a hook writes a user-defined operator by others, or one node as an operator of ONNX") {
    withFile(".onnx") { file =>
      val composed = ExportHook.compose { node =>
        assertEquals(
          (node.operator, node.tensor(0).shape),
          ("test_scale", Some(IndexedSeq(2, 3)): Option[IndexedSeq[Int]])
        )
        val by = node.constant(NDArray.array(Array(node.number("factor").toFloat), Shape(1)))
        Symbol.api.broadcast_mul(lhs = node.input(0), rhs = by)
      }
      val options = ExportOptions(inputs = inputs).onOperator("test_scale", composed)
      Onnx.exportModel(network, Map.empty, file.toString, options)
      assertEquals(Onnx.check(file.toString), IndexedSeq.empty)
      assertEquals(run(Onnx.importModel(file.toString)), relu)
      val negated = options.onNode("top", ExportHook.write(_.withOperator("Neg")))
      Onnx.exportModel(network, Map.empty, file.toString, negated)
      assertEquals(run(Onnx.importModel(file.toString)), input.toSeq.map(_ * -2.5f))
    }
  }

  test("processes of a program export, to domains of its own too") {
    withFile(".onnx") { file =>
      val text =
        "domain \"org.example\"\noperator Tanhed@2(X) -> (Y) gain: float = 1.0\nTanhed(X) [1..] <-> _mul_scalar(X, scalar: gain)"
      val mappings = Onnx.mappings.withText(text)
      val net = Symbol.Variable("x") * 3f
      Onnx.exportModel(net, Map.empty, file.toString, ExportOptions(inputs = inputs).withMappings(mappings))
      assert(Onnx.check(file.toString).exists(_.location.contains("org.example.Tanhed")))
      assertEquals(
        run(Onnx.importModel(file.toString, ImportOptions().withMappings(mappings))),
        input.toSeq.map(_ * 3f)
      )
    }
  }

  test("an operator that cannot be written is an error that names no other and says what to do") {
    withFile(".onnx") { file =>
      def failed(options: ExportOptions): String =
        message(Onnx.exportModel(network, Map.empty, file.toString, options.copy(inputs = inputs)))
      val plain = failed(ExportOptions())
      assert(plain.contains("1 problem") && plain.contains("'test_scale' is a user-defined operator"), plain)
      assert(!plain.contains("top"), plain)
      assert(failed(ExportOptions().onNode("nowhere", ExportHook.compose(_.input(0)))).nonEmpty)
      val scale = ExportOptions()
      assert(
        failed(scale.onOperator("test_scale", ExportHook.compose(_ => Symbol.Variable("z")))).contains("variable 'z'")
      )
      assert(failed(scale.onOperator("test_scale", ExportHook.write(_.withOperator("Nothing")))).contains("Nothing"))
      val failure = new IllegalStateException("not today")
      val error = intercept[MXNetError](
        Onnx.exportModel(
          network,
          Map.empty,
          file.toString,
          scale.onOperator("test_scale", ExportHook.compose(_ => throw failure))
        )
      )
      assertEquals(error.getCause, failure: Throwable)
      assert(error.getMessage.contains("test_scale"), error.getMessage)
      assert(message(ExportHook.user("Swirl")).contains("no domain"))
    }
  }
}
