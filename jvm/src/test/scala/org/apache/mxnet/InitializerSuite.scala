package org.apache.mxnet

class InitializerSuite extends munit.FunSuite {
  private def filled(initializer: Initializer, name: String, shape: Shape): Array[Float] = {
    val array = NDArray.array(Array.fill(shape.product)(7f), shape)
    initializer(name, array)
    array.toArray
  }

  test("the name of a parameter decides how it is initialized") {
    val initializer = new Uniform()
    val zeros = Seq("fc_bias", "bn_beta", "bn_moving_mean", "bn_moving_var", "x_moving_avg")
    zeros.foreach(name => assertEquals(filled(initializer, name, Shape(3)).toSeq, Seq(0f, 0f, 0f), name))
    assertEquals(filled(initializer, "bn_gamma", Shape(2)).toSeq, Seq(1f, 1f))
    val error = intercept[IllegalArgumentException](filled(initializer, "mystery", Shape(2)))
    assert(error.getMessage.contains("mystery of shape (2)"), error.getMessage)
  }

  test("a bilinear kernel for upsampling") {
    // x = mx.nd.zeros((1, 1, 4, 4)); mx.init.Bilinear()._init_weight("up", x)
    val expected = Seq(0.0625f, 0.1875f, 0.1875f, 0.0625f, 0.1875f, 0.5625f, 0.5625f, 0.1875f)
    val kernel = filled(new Uniform(), "upsampling_weight", Shape(1, 1, 4, 4)).toSeq
    assertEquals(kernel, expected ++ expected.reverse)
    assert(
      intercept[IllegalArgumentException](filled(new Uniform(), "upsampling_weight", Shape(4))).getMessage
        .contains("4 dimensions")
    )
  }

  private def statistics(values: Array[Float]): (Float, Float, Double) = {
    val mean = values.map(_.toDouble).sum / values.length
    (values.min, values.max, math.sqrt(values.map(v => (v - mean) * (v - mean)).sum / values.length))
  }

  test("uniform and normal weights have the given range and deviation, and depend on the seed alone") {
    Random.seed(1)
    val uniform = filled(new Uniform(0.5f), "fc_weight", Shape(100, 100))
    val (min, max, deviation) = statistics(uniform)
    assert(min >= -0.5f && min < -0.49f && max <= 0.5f && max > 0.49f, s"$min $max")
    assertEqualsDouble(deviation, 0.5 / math.sqrt(3), 0.01)
    Random.seed(1)
    assertEquals(filled(new Uniform(0.5f), "fc_weight", Shape(100, 100)).toSeq, uniform.toSeq)
    assertEqualsDouble(statistics(filled(new Normal(0.1f), "fc_weight", Shape(100, 100)))._3, 0.1, 0.005)
  }

  test("Xavier scales with fan-in and fan-out") {
    val shape = Shape(50, 20, 3, 3) // fan-out 50, fan-in 180
    def bound(initializer: Xavier): Float = filled(initializer, "conv_weight", shape).map(math.abs(_)).max
    val cases = Seq(
      new Xavier() -> math.sqrt(3 / 115.0),
      new Xavier(factorType = "in", magnitude = 2) -> math.sqrt(2 / 180.0),
      new Xavier(factorType = "out") -> math.sqrt(3 / 50.0)
    )
    cases.foreach { case (initializer, scale) =>
      val largest = bound(initializer)
      assert(largest <= scale.toFloat && largest > scale.toFloat * 0.99f, s"$largest $scale")
    }
    val gaussian = statistics(filled(new Xavier("gaussian", "in", 2), "conv_weight", shape))._3
    assertEqualsDouble(gaussian, math.sqrt(2 / 180.0), 0.003)
    assert(intercept[IllegalArgumentException](new Xavier(rndType = "normal")).getMessage.contains("not normal"))
    assert(intercept[IllegalArgumentException](new Xavier(factorType = "both")).getMessage.contains("not both"))
  }

  test("Mixed uses the first pattern that matches") {
    val mixed = new Mixed(List("conv", ".*"), List(new Uniform(0f), new Normal(1f)))
    assert(filled(mixed, "conv_weight", Shape(4)).forall(_ == 0f))
    assert(filled(mixed, "fc_weight", Shape(4)).exists(_ != 0f))
    val error =
      intercept[IllegalArgumentException](filled(new Mixed(List("conv"), List(new Uniform())), "fc_weight", Shape(1)))
    assert(error.getMessage.contains("none of the patterns conv"), error.getMessage)
    assert(
      intercept[IllegalArgumentException](new Mixed(List("a"), Nil)).getMessage
        .contains("1 patterns but 0 initializers")
    )
  }
}
