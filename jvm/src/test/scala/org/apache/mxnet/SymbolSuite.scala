package org.apache.mxnet

import java.nio.file.{Files, Path}

import org.apache.mxnet.SymbolConversions._

class SymbolSuite extends munit.FunSuite {
  private val file = FunFixture[Path](_ => Files.createTempFile("mxnet-symbol", ".json"), Files.deleteIfExists(_))

  private def mlp: Symbol = {
    val data = Symbol.Variable("data")
    val hidden = Symbol.api.FullyConnected(data = data, num_hidden = 16, name = "fc1")
    val active = Symbol.api.Activation(data = hidden, act_type = "relu", name = "act")
    Symbol.api.SoftmaxOutput(
      data = Symbol.api.FullyConnected(data = active, num_hidden = 10, name = "fc2"),
      name = "sm"
    )
  }

  private val mlpArguments =
    IndexedSeq("data", "fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias", "sm_label")

  test("names of operators and of files do not depend on the locale") {
    val before = java.util.Locale.getDefault
    try
      for (locale <- Seq("tr", "ar-EG-u-nu-arab")) {
        java.util.Locale.setDefault(java.util.Locale.forLanguageTag(locale))
        val data = Symbol.Variable("data")
        val named = (new NameManager).withScope(Symbol.api.IdentityAttachKLSparseReg(data = data))
        assertEquals(named.listOutputs(), IndexedSeq("identityattachklsparsereg0_output"))
        assertEquals(Model.paramsFile("net", 7), "net-0007.params")
      }
    finally java.util.Locale.setDefault(before)
  }

  /** The value of a symbol over scalars. */
  private def evaluate(symbol: Symbol, inputs: (String, Float)*): Float = {
    val args = inputs.map { case (name, value) => name -> NDArray.array(Array(value), Shape(1)) }.toMap
    val executor = symbol.bind(Context.cpu(), args)
    executor.forward()
    executor.outputs(0).toScalar
  }

  test("arguments and outputs are listed in topological order") {
    assertEquals(mlp.listArguments(), mlpArguments)
    assertEquals(mlp.listOutputs(), IndexedSeq("sm_output"))
    assertEquals(mlp.listAuxiliaryStates(), IndexedSeq.empty[String])
    val norm = Symbol.api.BatchNorm(data = Symbol.Variable("x"), name = "bn")
    assertEquals(norm.listArguments(), IndexedSeq("x", "bn_gamma", "bn_beta"))
    assertEquals(norm.listAuxiliaryStates(), IndexedSeq("bn_moving_mean", "bn_moving_var"))
    assertEquals(norm.listOutputs(), IndexedSeq("bn_output"))
  }

  test("an operator without a name gets its lower-case name and a number") {
    (new NameManager).withScope {
      val x = Symbol.Variable("x")
      assertEquals(Symbol.Activation()(x)(Map("act_type" -> "relu")).listOutputs(), IndexedSeq("activation0_output"))
      assertEquals(Symbol.api.Activation(data = x, act_type = "tanh").listOutputs(), IndexedSeq("activation1_output"))
      assertEquals((x + x).listOutputs(), IndexedSeq("_plus0_output"))
      assertEquals((x + 1).listOutputs(), IndexedSeq("_plusscalar0_output"))
      assertEquals(Symbol.Activation("")(x)(Map("act_type" -> "relu")).listOutputs(), IndexedSeq("activation2_output"))
    }
  }

  test("a variable carries its attributes") {
    val variable = Symbol.Variable(
      "w",
      attr = Map("mood" -> "angry"),
      shape = Shape(2, 3),
      lrMult = Some(0.5f),
      wdMult = Some(0f),
      dType = DType.Float64,
      kwargs = Map("__init__" -> "zeros")
    )
    assertEquals(variable.attr("mood"), Some("angry"))
    assertEquals(variable.attr("__shape__"), Some("(2,3)"))
    assertEquals(variable.attr("__lr_mult__"), Some("0.5"))
    assertEquals(variable.attr("__wd_mult__"), Some("0.0"))
    assertEquals(variable.attr("__dtype__"), Some("1"))
    assertEquals(variable.attr("__init__"), Some("zeros"))
    assertEquals(variable.attr("nothing"), None)
    assertEquals(variable.listAttr().get("mood"), Some("angry"))
    assertEquals((variable * 2).inferShape()._2, IndexedSeq(Shape(2, 3)))
  }

  test("an attribute that a saved graph could not hold is an error; all others are read again") {
    val error = intercept[MXNetError](
      Symbol.FullyConnected("fc", attr = Map("mood" -> "angry"))(Symbol.Variable("data"))(Map("num_hidden" -> 2))
    )
    assert(error.getMessage.contains("FullyConnected: Cannot find argument 'mood'"), error.getMessage)
    assert(error.getMessage.contains("as in __mood__"), error.getMessage)
    val attributes = Map("__mood__" -> "calm", "ctx_group" -> "a", "lr_mult" -> "2")
    val layer = Symbol.FullyConnected("fc", attr = attributes)(Symbol.Variable("data"))(Map("num_hidden" -> 2))
    val relu = Symbol.relu("relu", attr = Map("mood" -> "any"))(layer)()
    val read = Symbol.loadJson(relu.toJson)
    assertEquals(read.toJson, relu.toJson)
    assertEquals((read.attr("mood"), read.attrMap()("fc").get("__mood__")), (Some("any"), Some("calm")))
  }

  test("attribute scopes reach variables and operators") {
    val symbol = AttrScope(Map("__group__" -> "4", "__data__" -> "great")).withScope {
      val data = Symbol.Variable("data", attr = Map("__data__" -> "mine"))
      Symbol.FullyConnected("fc1", Map("__extra__" -> "1"))(data)(Map("num_hidden" -> 10))
    }
    val attributes = symbol.attrMap()
    assertEquals(attributes("data"), Map("__group__" -> "4", "__data__" -> "mine"))
    assertEquals(attributes("fc1").get("__group__"), Some("4"))
    assertEquals(attributes("fc1").get("__extra__"), Some("1"))
    assertEquals(attributes("fc1").get("num_hidden"), Some("10"))
  }

  test("inputs are given by position or by name, never both") {
    val (a, b) = (Symbol.Variable("a"), Symbol.Variable("b"))
    val named = Symbol.FullyConnected("fc")()(Map("data" -> a, "weight" -> b, "num_hidden" -> 3))
    assertEquals(named.listArguments(), IndexedSeq("a", "b", "fc_bias"))
    val listed = Symbol.FullyConnected("fc")(a, b)(Map("num_hidden" -> 3))
    assertEquals(listed.listArguments(), IndexedSeq("a", "b", "fc_bias"))
    val error = intercept[MXNetError](Symbol.FullyConnected("fc")(a)(Map("weight" -> b, "num_hidden" -> 3)))
    assert(error.getMessage.contains("all inputs by position or all by name"), error.getMessage)
  }

  test("an operator of any number of inputs counts them, and takes them by position only") {
    val (a, b) = (Symbol.Variable("a"), Symbol.Variable("b"))
    val joined = Symbol.Concat("joined")(a, b)(Map("dim" -> 0))
    assertEquals(joined.attr("num_args"), Some("2"))
    assertEquals(joined.inferShape(Map("a" -> Shape(1, 2), "b" -> Shape(3, 2)))._2, IndexedSeq(Shape(4, 2)))
    assertEquals(Symbol.api.Concat(Array(a, b), 2, name = "c").listArguments(), IndexedSeq("a", "b"))
    val error = intercept[MXNetError](Symbol.createFromNamedSymbols("Concat")(Map("arg0" -> a, "arg1" -> b)))
    assert(error.getMessage.contains("by position"), error.getMessage)
  }

  test("createFrom… in all their forms") {
    val x = Symbol.Variable("x")
    val params = Map("act_type" -> "relu")
    val symbols = Seq(
      Symbol.createFromListedSymbols("Activation", "r")(Array(x), params),
      Symbol.createFromNamedSymbols("Activation", "r")(Map("data" -> x), params),
      Symbol.createFromNamedSymbolsNoCheck("Activation", "r")(params + ("data" -> x)),
      Symbol.createFromListedSymbolsNoCheck("Activation", "r")(Array(x), params)
    )
    assertEquals(symbols.map(_.toJson).distinct.size, 1)
    assertEquals(evaluate(symbols.head, "x" -> -3f), 0f)
  }

  test("arithmetic of symbols") {
    val (x, y) = (Symbol.Variable("x"), Symbol.Variable("y"))
    val cases = Seq(
      (x + y) -> 5f,
      (x - y) -> -1f,
      (x * y) -> 6f,
      (x / y) -> 2f / 3f,
      (x % y) -> 2f,
      (x ** y) -> 8f,
      (x > y) -> 0f,
      (x >= y) -> 0f,
      (x < y) -> 1f,
      (x <= y) -> 1f,
      Symbol.pow(x, y) -> 8f,
      Symbol.max(x, y) -> 3f,
      Symbol.min(x, y) -> 2f,
      Symbol.equal(x, y) -> 0f,
      Symbol.notEqual(x, y) -> 1f,
      Symbol.greater(x, y) -> 0f,
      Symbol.greaterEqual(x, y) -> 0f,
      Symbol.lesser(x, y) -> 1f,
      Symbol.lesserEqual(x, y) -> 1f
    )
    cases.foreach { case (symbol, expected) =>
      assertEqualsFloat(evaluate(symbol, "x" -> 2f, "y" -> 3f), expected, 1e-6f, symbol.toString)
    }
  }

  test("arithmetic of symbols and numbers, on either side") {
    val x = Symbol.Variable("x")
    val cases = Seq(
      (x + 3) -> 5f,
      (x - 3f) -> -1f,
      (x * 3d) -> 6f,
      (x / 4) -> 0.5f,
      (x % 3) -> 2f,
      (x ** 3) -> 8f,
      -x -> -2f,
      (x > 2) -> 0f,
      (x >= 2) -> 1f,
      (x < 2) -> 0f,
      (x <= 2) -> 1f,
      (3 + x) -> 5f,
      (3 - x) -> 1f,
      (3f * x) -> 6f,
      (3d / x) -> 1.5f,
      (3 % x) -> 1f,
      (3 ** x) -> 9f,
      (3 > x) -> 1f,
      (3 >= x) -> 1f,
      (3 < x) -> 0f,
      (3 <= x) -> 0f,
      Symbol.pow(3f, x) -> 9f,
      Symbol.max(x, 3) -> 3f,
      Symbol.max(1.5f, x) -> 2f,
      Symbol.min(x, 3) -> 2f,
      Symbol.min(1.5d, x) -> 1.5f,
      Symbol.equal(2, x) -> 1f,
      Symbol.notEqual(x, 2) -> 0f,
      Symbol.greater(3, x) -> 1f,
      Symbol.greaterEqual(2, x) -> 1f,
      Symbol.lesser(3, x) -> 0f,
      Symbol.lesserEqual(x, 1) -> 0f
    )
    cases.foreach { case (symbol, expected) =>
      assertEqualsFloat(evaluate(symbol, "x" -> 2f), expected, 1e-6f, symbol.toString)
    }
    assert(intercept[MXNetError](x + "one").getMessage.contains("must be a Symbol or a number"))
  }

  test("zeros, ones and arange") {
    def elements(symbol: Symbol): Seq[Float] = {
      val executor = symbol.bind(Context.cpu(), Map.empty[String, NDArray])
      executor.forward()
      executor.outputs(0).toArray.toSeq
    }
    assertEquals(elements(Symbol.zeros(Shape(2, 1))), Seq(0f, 0f))
    assertEquals(elements(Symbol.ones(Shape(2))), Seq(1f, 1f))
    assertEquals(elements(Symbol.arange(3f)), Seq(0f, 1f, 2f))
    assertEquals(elements(Symbol.arange(1f, Some(2f), 0.5f, repeat = 2)), Seq(1f, 1f, 1.5f, 1.5f))
  }

  test("inferShape: by name, by position, packed, and from descriptions") {
    val expected = IndexedSeq(Shape(32, 64), Shape(16, 64), Shape(16), Shape(10, 16), Shape(10), Shape(32))
    val (args, outs, aux) = mlp.inferShape(Map("data" -> Shape(32, 64)))
    assertEquals(args, expected)
    assertEquals(outs, IndexedSeq(Shape(32, 10)))
    assertEquals(aux, IndexedSeq.empty[Shape])
    assertEquals(mlp.inferShape(Shape(32, 64))._1, expected)
    assertEquals(mlp.inferShape(Shape(32, 64), null, null, Shape(10, 16), null, Shape(32))._1, expected)
    assertEquals(mlp.inferShape(Array("data"), Array(0, 2), Array(32, 64))._1, expected)
    assertEquals(mlp.inferShape(IndexedSeq(DataDesc("data", Shape(32, 64))))._1, expected)
  }

  test("inferShape: what is not determined is null, or partial") {
    val (args, outs, aux) = mlp.inferShape(Map("fc2_bias" -> Shape(10)))
    assert(args == null && outs == null && aux == null)
    val partial = IndexedSeq(Shape(0, 64), Shape(16, 64), Shape(16), Shape(10, 16), Shape(10), Shape(0))
    assertEquals(mlp.inferShapePartial(Map("data" -> Shape(0, 64)))._1, partial)
    assertEquals(mlp.inferShapePartial(Map.empty)._1, mlpArguments.map(_ => Shape()).toIndexedSeq)
  }

  test("inferType: by name and by position") {
    val (args, outs, _) = mlp.inferType(Map("data" -> DType.Float64))
    assertEquals(args.toSet, Set(DType.Float64))
    assertEquals(outs, Seq(DType.Float64))
    assertEquals(mlp.inferType(DType.Float32)._1.toSet, Set(DType.Float32))
    assertEquals((Symbol.Variable("a") + Symbol.Variable("b")).inferTypePartial(Map.empty)._1.toSet, Set(DType.Unknown))
  }

  test("getInternals, get, Group") {
    val internals = mlp.getInternals()
    assert(internals.listOutputs().containsSlice(Seq("fc1_output", "act_output")), internals.listOutputs().toString)
    assertEquals(internals.get("fc1_output").listArguments(), IndexedSeq("data", "fc1_weight", "fc1_bias"))
    assertEquals(internals.get(0).listOutputs(), IndexedSeq("data"))
    val group = Symbol.Group(internals.get("fc1_output"), internals.get("act_output"))
    assertEquals(group.listOutputs(), IndexedSeq("fc1_output", "act_output"))
    assert(intercept[MXNetError](internals.get("nothing")).getMessage.contains("fc1_output"))
    assert(intercept[MXNetError](group.get(2)).getMessage.nonEmpty)
  }

  test("apply replaces variables by symbols, in a copy") {
    val first = Symbol.FullyConnected("fc1")(Symbol.Variable("data"))(Map("num_hidden" -> 4))
    val second = Symbol.FullyConnected("fc2")(Symbol.Variable("input"))(Map("num_hidden" -> 2))
    val composed = second("both", Map("input" -> first))
    assertEquals(composed.listArguments(), IndexedSeq("data", "fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias"))
    assertEquals(second.listArguments(), IndexedSeq("input", "fc2_weight", "fc2_bias"))
    assertEquals(mlp.clone().toJson, mlp.toJson)
  }

  file.test("JSON: text and file, both ways") { path =>
    val symbol = mlp
    assertEquals(Symbol.loadJson(symbol.toJson).toJson, symbol.toJson)
    symbol.save(path.toString)
    val loaded = Symbol.load(path.toString)
    assertEquals(loaded.listArguments(), mlpArguments)
    assertEquals(loaded.toJson, symbol.toJson)
  }

  test("debugStr and toString name the nodes") {
    assert(Seq("fc1", "act", "sm").forall(mlp.debugStr.contains(_)), mlp.debugStr)
    assertEquals(mlp.toString, "<Symbol sm_output>")
  }
}
