package org.apache.mxnet.codegen

import Released.ReleasedParameter

class SignatureSuite extends munit.FunSuite {
  private def shown(signature: Signature): Seq[String] =
    signature.parameters.map(p =>
      s"${p.name}: ${p.scala.text.replace("org.apache.mxnet.", "").replace("java.lang.", "").replace("scala.", "")}"
    )

  test("Activation takes what the document shows, absent ones as Opt") {
    assertEquals(
      shown(Signature.symbol("Activation", Released.operator("Activation"))),
      Seq(
        "data: Opt[Symbol]",
        "act_type: literal.OneOf[\"relu|sigmoid|softrelu|softsign|tanh\"]",
        "name: Opt[String]",
        "attr: Opt[collection.immutable.Map[String, String]]"
      )
    )
  }

  test("over arrays an input is required, and out receives the result") {
    assertEquals(
      shown(Signature.ndarray("clip", Released.operator("clip"))),
      Seq("data: NDArray", "a_min: Base.MXFloat", "a_max: Base.MXFloat", "out: Opt[NDArray]")
    )
  }

  test("the number of inputs may be left out") {
    val concat = Signature.symbol("Concat", Released.operator("Concat"))
    assertEquals(shown(concat).take(3), Seq("data: Array[Symbol]", "num_args: Opt[Int]", "dim: Opt[Int]"))
    assertEquals(concat.variadic, true)
  }

  test("nothing that a user can pass is Any") {
    val operators = Released.operators
    val all =
      Seq(true, false).flatMap(contrib => Api.symbols(operators, contrib) ++ Api.ndarrays(operators, contrib)) ++
        RandomSignature.symbols(operators) ++ RandomSignature.ndarrays(operators)
    assert(all.size > 700, s"only ${all.size} functions")
    for (signature <- all; parameter <- signature.parameters)
      assert(!parameter.scala.text.matches(".*\\bAny\\b.*"), s"${signature.name}: ${parameter.name}")
  }

  test("arguments that are Scala keywords get the names of the released package") {
    assertEquals(Seq("var", "type", "val", "data").map(Signature.safeName), Seq("vari", "typeOf", "val_", "data"))
  }

  test("an argument that the metadata does not describe is refused by name") {
    val operator = Operator("mystery", "", Seq(Argument("p", "ptr, required", "")))
    val error = intercept[IllegalArgumentException](Signature.symbol("mystery", operator))
    assertEquals(error.getMessage, "mystery: 'ptr, required' does not say what argument 'p' takes")
  }

  test("ScalaDoc says of a parameter what it means, its values, its range and its default") {
    def described(typeText: String, description: String): String = {
      val argument = Argument("p", typeText, description)
      Signature.parameter(Operator("o", "", Seq(argument)), argument, ScalaType.Symbol).description
    }
    assertEquals(
      described("float, optional, default=0.5", "The probability. Range: from 0 to 1."),
      "The probability. Range: from 0 to 1; default 0.5"
    )
    assertEquals(described("int (non-negative), required", "The size."), "The size; at least 0")
    assertEquals(described("{'a', 'b'}, optional, default='a'", "The kind."), "The kind; one of a, b; default a")
  }

  test("Symbol.api accepts every call that the released package accepted") {
    accepts("Symbol.api", Api.symbols(Released.operators, isContrib = false))
  }

  test("NDArray.api accepts every call that the released package accepted") {
    accepts("NDArray.api", Api.ndarrays(Released.operators, isContrib = false))
  }

  test("Symbol.random accepts every call that the released package accepted") {
    accepts("Symbol.random", RandomSignature.symbols(Released.operators))
  }

  test("NDArray.random accepts every call that the released package accepted") {
    accepts("NDArray.random", RandomSignature.ndarrays(Released.operators))
  }

  test("javaapi.NDArray has the functions of the released package, with the same types") {
    val ours = Api.javas(Released.operators).map { signature =>
      signature.name -> signature.declared.map { case (name, scala) => s"$name: ${simple(scala)}" }
    }
    val released = Released.functions("javaapi.NDArray").map { case (name, parameters) =>
      name -> parameters.map(parameter => s"${parameter.name}: ${parameter.scala.replace("Array[", "")}")
    }
    assertEquals(ours.map(_._1).toSet, released.keySet)
    for ((name, parameters) <- ours) assertEquals(parameters, released(name), name)
  }

  test("a parameter object has the required arguments in its constructor and setters for the others") {
    val (constructor, settable) = JavaSignature(Released.operator("Pooling")).parameters.partition(!_.optional)
    assertEquals(constructor.map(_.name), Seq("data"))
    assertEquals(settable.map(_.name).take(3), Seq("kernel", "pool_type", "global_pool"))
  }

  test("the untyped functions, contrib ones included, are there under all released names") {
    for ((of, isContrib) <- Seq("" -> false, "contrib." -> true); kind <- Seq("NDArray", "Symbol")) {
      val ours = Api.functions(Released.operators, isContrib).map(_._1).toSet
      assertEquals(Released.functions(s"$of$kind (legacy)").keySet -- ours, Set.empty[String])
    }
  }

  /** The same functions with the same parameters in the same order, whose types accept what the released ones accepted. */
  private def accepts(of: String, ours: Seq[Signature]): Unit = {
    val released = Released.functions(of)
    assertEquals(ours.map(_.name).toSet, released.keySet)
    for (signature <- ours) {
      val theirs = released(signature.name)
      assertEquals(signature.parameters.map(_.name), theirs.map(_.name), signature.name)
      for ((our, their) <- signature.parameters.zip(theirs)) {
        val what = s"$of.${signature.name}, ${our.name}: ${our.scala.text} for $their"
        assert(our.optional || !their.hasDefault, what)
        assert(takes(our.scala, their), what)
      }
    }
  }

  private def takes(our: ScalaType, their: ReleasedParameter): Boolean = {
    val Optional = "Option\\[(.*)\\]".r
    (our, their.scala) match {
      case (Applied("org.apache.mxnet.Opt", inner), Optional(text)) => takesValue(inner, text)
      case (Applied("org.apache.mxnet.Opt", inner), text)           => takesValue(inner, text)
      case (other, text)                                            => takesValue(other, text)
    }
  }

  private def takesValue(our: ScalaType, theirs: String): Boolean = (our, theirs) match {
    case (Applied("org.apache.mxnet.TupleOf", _), "Any")          => true
    case (Applied("org.apache.mxnet.literal.OneOf", _), "String") => true
    case (ScalaType.Attributes, "Map[String,String]")             => true
    case (ScalaType.Float, "Float")                               => true
    // The `_like` functions also had the type parameter for numbers, although numbers could not be passed.
    case (ScalaType.Float | ScalaType.Int, "T")  => true
    case (Applied("scala.Array", element), text) => text == s"Array[${simple(element)}]"
    case (other, text)                           => simple(other) == text
  }

  private object Applied {
    def unapply(scala: ScalaType): Option[(String, ScalaType)] = scala match {
      case ClassType(path, arguments @ _*) if arguments.size == 1 => Some((path, arguments.head))
      case _                                                      => None
    }
  }

  private def simple(scala: ScalaType): String = scala.text.split('.').last
}
