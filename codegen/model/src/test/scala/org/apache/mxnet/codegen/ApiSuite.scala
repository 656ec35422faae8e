package org.apache.mxnet.codegen

class ApiSuite extends munit.FunSuite {
  private def named(names: String*): Seq[Operator] = names.map(Operator(_, "", Nil))

  test("the untyped functions are the public operators, Custom included") {
    val functions = Api.functions(named("relu", "_internal", "_contrib_fft", "Custom"), isContrib = false)
    assertEquals(functions.map(_._1), Seq("relu", "Custom"))
  }

  test("with isContrib they include the contrib operators, under both names unless the short one is taken") {
    val functions = Api.functions(named("relu", "_internal", "_contrib_fft", "_contrib_relu"), isContrib = true)
    assertEquals(
      functions.map { case (name, operator) => name -> operator.name },
      Seq(
        "relu" -> "relu",
        "_contrib_fft" -> "_contrib_fft",
        "_contrib_relu" -> "_contrib_relu",
        "fft" -> "_contrib_fft"
      )
    )
  }

  test("the typesafe functions are the public operators, or with isContrib the contrib ones without prefix") {
    val operators = named("relu", "_internal", "_contrib_fft", "Custom")
    assertEquals(Api.symbols(operators, isContrib = false).map(_.name), Seq("relu"))
    assertEquals(
      Api.ndarrays(operators, isContrib = true).map(f => f.name -> f.operator.name),
      Seq("fft" -> "_contrib_fft")
    )
  }

  test("random functions know the operator for numbers and the one for inputs") {
    val normal = RandomSignature.symbols(Released.operators).find(_.name == "normal").get
    assertEquals(normal.sampler.map(_.scalar.map(_.name)), Some(Some("_random_normal")))
    assertEquals(normal.sampler.map(_.array.map(_.name)), Some(Some("_sample_normal")))
    assertEquals(
      normal.parameters.take(2).map(p => (p.name, p.argument, p.scala.text)),
      Seq(("mu", "loc", "org.apache.mxnet.Opt[T]"), ("sigma", "scale", "org.apache.mxnet.Opt[T]"))
    )
  }
}
