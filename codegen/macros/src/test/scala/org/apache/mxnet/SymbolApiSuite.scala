package org.apache.mxnet

import scala.collection.mutable

class SymbolApiSuite extends munit.FunSuite {
  private val x = Symbol.variable("x")
  private val y = Symbol.variable("y")

  test("Activation is usable as the document writes it, and without Some") {
    val written =
      Symbol.api.Activation(data = Some(x), act_type = "relu", name = Some("a"), attr = Some(Map("k" -> "v")))
    val plain = Symbol.api.Activation(data = x, act_type = "relu", name = "a", attr = Map("k" -> "v"))
    val expected = Call("Activation", "a", Map("k" -> "v"), Nil, Map("data" -> x, "act_type" -> "relu"))
    assertEquals(written.call, expected)
    assertEquals(plain.call, expected)
  }

  test("what is absent is not passed on, what is required always is") {
    val expected = Call("Activation", "", Map.empty, Seq(), Map("act_type" -> "tanh"))
    assertEquals(Symbol.api.Activation(act_type = "tanh").call, expected)
    assertEquals(Symbol.api.Activation(data = None, act_type = "tanh", name = null, attr = null).call, expected)
    assertEquals(Symbol.api.Activation(null, "tanh", None, None).call, expected)
  }

  test("a null for a required argument is refused by name") {
    val error = intercept[IllegalArgumentException](Symbol.api.Activation(data = x, act_type = null))
    assertEquals(error.getMessage, "Activation: argument 'act_type' is required and was null")
  }

  test("the untyped form takes (name, attr)(args)(kwargs)") {
    val call = Symbol.Activation("a", Map("k" -> "v"))(x)(Map("act_type" -> "relu")).call
    assertEquals(call, Call("Activation", "a", Map("k" -> "v"), Seq(x), Map("act_type" -> "relu")))
    assertEquals(Symbol.Activation()()().call, Call("Activation", null, null, Seq(), null))
  }

  test("its defaults are null, and it passes its arguments on as they are") {
    assertEquals(Symbol.Concat(name = "c")(x, y)().call, Call("Concat", "c", null, Seq(x, y), null))
    assertEquals(Symbol.Custom(name = "c")(x)(Map("op_type" -> "mine")).call.operator, "Custom")
  }

  test("inputs of a variadic operator go by position, and are counted") {
    assertEquals(
      Symbol.api.Concat(data = Array(x, y), dim = 1, name = "c").call,
      Call("Concat", "c", Map.empty, Seq(x, y), Map("num_args" -> 2, "dim" -> 1))
    )
    assertEquals(Symbol.api.Concat(Array(x, y), 2, Some(0)).call.named, Map[String, Any]("num_args" -> 2, "dim" -> 0))
    assertEquals(Symbol.api.add_n(args = Array(x, y)).call.positional, Seq[Any](x, y))
  }

  test("an Int literal, a Double and options of them reach a Float argument") {
    def slope(symbol: Symbol): Any = symbol.call.named("slope")
    assertEquals(slope(Symbol.api.LeakyReLU(data = x, slope = 1)), 1.0f: Any)
    assertEquals(slope(Symbol.api.LeakyReLU(data = x, slope = 0.5)), 0.5f: Any)
    assertEquals(slope(Symbol.api.LeakyReLU(data = x, slope = Some(1))), 1.0f: Any)
    assertEquals(slope(Symbol.api.LeakyReLU(data = x, slope = Some(0.25f))), 0.25f: Any)
    assertEquals(Symbol.api.LeakyReLU(data = x, slope = None).call.named.get("slope"), None)
    assertEquals(Symbol.api.clip(data = x, a_min = 0, a_max = 1).call.named("a_max"), 1.0f: Any)
  }

  test("Int, Long, Double, Boolean and String arguments") {
    val call = Symbol.api
      .Convolution(
        data = x,
        kernel = new Shape(3, 3),
        num_filter = 8,
        workspace = 512,
        no_bias = true,
        layout = "NCHW",
        name = "conv"
      )
      .call
    assertEquals(
      call.named - "kernel",
      Map[String, Any](
        "data" -> x,
        "num_filter" -> 8,
        "workspace" -> 512L,
        "no_bias" -> true,
        "layout" -> "NCHW"
      )
    )
    assertEquals(
      Symbol.api.BatchNorm(data = x, eps = 1, momentum = 0.5).call.named - "data",
      Map[String, Any](
        "eps" -> 1.0,
        "momentum" -> 0.5f
      )
    )
  }

  test("a tuple argument takes a sequence, an array, a tuple and a text") {
    def rates(lrs: TupleOf[Float]): String =
      Symbol.api.multi_sgd_update(Array(x, y), lrs, wds = 0).call.named("lrs").toString
    assertEquals(rates(Seq(0.5f, 0.25f)), "(0.5,0.25)")
    assertEquals(rates(Seq(0.5, 0.25)), "(0.5,0.25)")
    assertEquals(rates(Array(1, 2)), "(1.0,2.0)")
    assertEquals(rates((0.5f, 0.25)), "(0.5,0.25)")
    assertEquals(rates("(0.5, 0.25)"), "(0.5,0.25)")
    assertEquals(rates(0.5f), "(0.5)")
    val optional = contrib.Symbol.api.MultiBoxPrior(data = x, sizes = Some(Seq(0.5f)), ratios = (1f, 2f)).call.named
    assertEquals((optional("sizes").toString, optional("ratios").toString), ("(0.5)", "(1.0,2.0)"))
    val error = intercept[MXNetError](rates("(0.5, half)"))
    assertEquals(error.getMessage, "'(0.5, half)' is not a tuple of float, such as (1,2): 'half' is not a float")
  }

  test("a wrong literal does not compile, and the message lists the values") {
    val message = "'rel' is not one of the values this argument takes: relu, sigmoid, softrelu, softsign, tanh"
    val required = compileErrors("""Symbol.api.Activation(data = x, act_type = "rel")""")
    assert(required.contains(message), required)
    val optional = compileErrors("""Symbol.api.LeakyReLU(data = x, act_type = "rel")""")
    assert(optional.contains("'rel' is not one of the values this argument takes: elu, gelu"), optional)
    val option = compileErrors("""Symbol.api.LeakyReLU(data = x, act_type = Some("rel"))""")
    assert(option.contains("'rel' is not one of the values this argument takes: elu, gelu"), option)
  }

  test("any other text is passed on, and the operator checks it") {
    val known = "TANH".toLowerCase
    assertEquals(Symbol.api.Activation(data = x, act_type = known).call.named("act_type"), "tanh": Any)
    val wrong = known.drop(1)
    assertEquals(Symbol.api.Activation(data = x, act_type = wrong).call.named("act_type"), "anh": Any)
    assertEquals(Symbol.api.LeakyReLU(data = x, act_type = Some(wrong)).call.named("act_type"), "anh": Any)
    assertEquals(Symbol.api.LeakyReLU(data = x, act_type = Option(wrong)).call.named("act_type"), "anh": Any)
  }

  test("the signature of a function is its operator's, so a wrong name or type does not compile") {
    assert(compileErrors("""Symbol.api.Activation(dat = x, act_type = "relu")""").nonEmpty)
    assert(compileErrors("""Symbol.api.Activation(data = 1, act_type = "relu")""").nonEmpty)
    assert(compileErrors("""Symbol.api.FullyConnected(data = x, num_hidden = "8")""").nonEmpty)
    assert(compileErrors("""Symbol.api.FullyConnected(data = x)""").contains("num_hidden"))
  }

  test("Custom takes the user's own settings") {
    val call = Symbol.api.Custom("mine", mutable.Map("data" -> x, "alpha" -> 2), name = "c").call
    assertEquals(call, Call("Custom", "c", Map.empty, Nil, Map("data" -> x, "alpha" -> 2, "op_type" -> "mine")))
  }

  test("contrib operators, untyped under both names and typesafe") {
    assertEquals(contrib.Symbol._contrib_fft()(x)().call.operator, "_contrib_fft")
    assertEquals(contrib.Symbol.fft()(x)().call.operator, "_contrib_fft")
    assertEquals(contrib.Symbol.Activation()(x)().call.operator, "Activation")
    assertEquals(
      contrib.Symbol.api.fft(data = x, compute_size = 128).call.named,
      Map[String, Any]("data" -> x, "compute_size" -> 128)
    )
  }

  test("the declared signature of the untyped functions is the old one") {
    val declared = classOf[SymbolBase].getMethods.find(_.getName == "Activation").get
    assertEquals(
      declared.getGenericParameterTypes
        .map(_.getTypeName)
        .toSeq
        .map(_.replaceAll("java.lang.|scala.collection.immutable.", "")),
      Seq("String", "Map<String, String>", "Seq<org.apache.mxnet.Symbol>", "Map<String, Object>")
    )
  }
}
