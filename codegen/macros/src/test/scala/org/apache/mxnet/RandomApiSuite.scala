package org.apache.mxnet

class RandomApiSuite extends munit.FunSuite {
  private val shape = new Shape(2)
  private val x = Symbol.variable("x")
  private val a = new NDArray

  test("numbers draw from one distribution, under that operator's names") {
    val call = Symbol.random.normal(mu = 0.5f, sigma = 2f, shape = shape, name = "n").call
    assertEquals(call, Call("_random_normal", "n", Map.empty, Nil, Map("loc" -> 0.5f, "scale" -> 2f, "shape" -> shape)))
    assertEquals(
      NDArray.random.normal(mu = Some(1), sigma = Some(2)).call,
      Call("_random_normal", null, null, Nil, Map("loc" -> 1, "scale" -> 2))
    )
    assertEquals(NDArray.random.uniform(low = 0f, high = 1f).call.named, Map[String, Any]("low" -> 0f, "high" -> 1f))
  }

  test("symbols and arrays draw from one distribution per element") {
    assertEquals(
      Symbol.random.normal(mu = Some(x), sigma = Some(x)).call,
      Call("_sample_normal", "", Map.empty, Nil, Map("mu" -> x, "sigma" -> x))
    )
    assertEquals(
      NDArray.random.gamma(alpha = a, beta = a, shape = shape).call,
      Call("_sample_gamma", null, null, Seq(a, a), Map("shape" -> shape))
    )
  }

  test("a call that says nothing of the parameters draws from one distribution") {
    assertEquals(Symbol.random.uniform(shape = shape).call.operator, "_random_uniform")
    assertEquals(NDArray.random.randint(low = 0, high = 10).call.named, Map[String, Any]("low" -> 0L, "high" -> 10L))
    assertEquals(NDArray.random.randint[Float](0L, 10L, dtype = "int64").call.operator, "_random_randint")
  }

  test("operators that exist in one form only") {
    assertEquals(NDArray.random.multinomial(data = a, get_prob = true).call.operator, "_sample_multinomial")
    assertEquals(
      NDArray.random.unique_zipfian(range_max = 100).call,
      Call("_sample_unique_zipfian", null, null, Nil, Map("range_max" -> 100))
    )
    assertEquals(
      Symbol.random.normal_like(mu = 1, data = x).call,
      Call("_random_normal_like", "", Map.empty, Nil, Map("loc" -> 1f, "data" -> x))
    )
    assertEquals(NDArray.random.pdf_normal(sample = a, mu = a, sigma = a).call.positional, Seq[Any](a, a, a))
  }

  test("parameters of another type do not compile") {
    val error = compileErrors("""Symbol.random.normal(mu = "0.5")""")
    assert(error.contains("parameters of a random symbol are Float, Int or Symbol, not String"), error)
  }
}
