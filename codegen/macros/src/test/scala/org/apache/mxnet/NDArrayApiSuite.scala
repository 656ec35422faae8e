package org.apache.mxnet

class NDArrayApiSuite extends munit.FunSuite {
  private val a = new NDArray
  private val b = new NDArray

  test("NDArray.api passes inputs by position and settings by name") {
    assertEquals(NDArray.api.relu(a).call, Call("relu", null, null, Seq(a), Map.empty))
    assertEquals(
      NDArray.api.clip(data = a, a_min = 0, a_max = 6f).call,
      Call("clip", null, null, Seq(a), Map("a_min" -> 0f, "a_max" -> 6f))
    )
  }

  test("out receives the result") {
    assertEquals(NDArray.api.relu(a, out = b).call.named, Map[String, Any]("out" -> b))
    assertEquals(NDArray.api.relu(a, Some(b)).call.named, Map[String, Any]("out" -> b))
    assertEquals(NDArray.api.relu(a, None).call.named, Map.empty[String, Any])
  }

  test("a result is an argument, bare and in Some") {
    val result = NDArray.api.relu(a)
    assertEquals(NDArray.api.relu(result).call.positional, Seq[Any](result.first))
    assertEquals(NDArray.api.relu(a, out = result).call.named("out"), result.first: Any)
    assertEquals(NDArray.api.relu(a, out = Some(result)).call.named("out"), result.first: Any)
  }

  test("an input that the operator does without is left out, or null") {
    val call = NDArray.api.FullyConnected(data = a, weight = b, num_hidden = 4, no_bias = true).call
    assertEquals(call.positional, Seq[Any](a, b))
    assertEquals(call.named, Map[String, Any]("num_hidden" -> 4, "no_bias" -> true))
    assertEquals(NDArray.api.FullyConnected(a, b, null, 4, no_bias = true).call, call)
    assertEquals(NDArray.api.softmax(a).call.positional, Seq[Any](a))
    assertEquals(NDArray.api.softmax(a, b, use_length = true).call.positional, Seq[Any](a, b))
    assertEquals(NDArray.api.LeakyReLU(a, slope = 0.5f).call.positional, Seq[Any](a))
    assert(compileErrors("NDArray.api.dot(a)").contains("rhs"))
  }

  test("a variadic operator counts its inputs") {
    val call = NDArray.api.Concat(data = Array(a, b), dim = 0).call
    assertEquals(call, Call("Concat", null, null, Seq(a, b), Map("num_args" -> 2, "dim" -> 0)))
  }

  test("the untyped forms are (kwargs)(args) and (args)") {
    assertEquals(NDArray.clip(Map("a_min" -> 0))(a).call, Call("clip", null, null, Seq(a), Map("a_min" -> 0)))
    assertEquals(NDArray.clip(a, 0, 6).call, Call("clip", null, null, Seq(a, 0, 6), null))
    assertEquals(NDArray.sum(a).call, Call("sum", null, null, Seq(a), null))
  }

  test("contrib operators over arrays") {
    assertEquals(contrib.NDArray._contrib_fft(a).call.operator, "_contrib_fft")
    assertEquals(contrib.NDArray.fft(a).call.operator, "_contrib_fft")
    assertEquals(contrib.NDArray.api.fft(a, compute_size = 128).call.named, Map[String, Any]("compute_size" -> 128))
  }

  test("a wrong literal does not compile") {
    val error = compileErrors("""NDArray.api.Cast(a, dtype = "float23")""")
    assert(error.contains("'float23' is not one of the values this argument takes: "), error)
    assert(error.contains("float32"), error)
  }
}
