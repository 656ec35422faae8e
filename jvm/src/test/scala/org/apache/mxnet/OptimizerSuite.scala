package org.apache.mxnet

import org.apache.mxnet.optimizer._

/** Weights after three updates, as MXNet 1.9.1 computes them by
  * `u = mx.optimizer.get_updater(opt); opt.rescale_grad = 0.5; w = mx.nd.array(start); for g in gradients: u(0,
  * mx.nd.array(g), w)`.
  */
class OptimizerSuite extends munit.FunSuite {
  private val shape = Shape(2, 3)
  private val start = Array(1f, -2f, 3f, 0.5f, 0.25f, -0.125f)
  private val gradients =
    Seq(Array(0.5f, -1f, 2f, 4f, -8f, 0f), Array(1f, 1f, -1f, 0.1f, 0.2f, 0.3f), Array(-0.5f, 0.25f, 0f, 2f, -1f, 1f))

  private def trained(optimizer: Optimizer): Seq[Float] = {
    optimizer.setRescaleGrad(0.5f)
    val updater = Optimizer.getUpdater(optimizer)
    val weight = NDArray.array(start, shape)
    gradients.foreach(values => updater.update(0, NDArray.array(values, shape), weight))
    weight.toArray.toSeq
  }

  private def assertClose(actual: Seq[Float], expected: Seq[Double], tolerance: Double = 2e-6): Unit =
    actual
      .lazyZip(expected)
      .foreach((a, e) => assert(math.abs(a - e) <= tolerance * math.max(1, math.abs(e)), s"$actual is not $expected"))

  test("SGD without momentum") {
    val expected = Seq(0.947103, -2.006556, 2.941159, 0.1939063, 0.6884612, -0.1896104)
    assertClose(trained(new SGD(0.1f, wd = 0.01f)), expected)
  }

  test("SGD with momentum, and with clipped gradients") {
    val expected = Seq(0.8567897, -1.96093, 2.807514, -0.1535378, 1.362089, -0.2027844)
    assertClose(trained(new SGD(0.1f, momentum = 0.9f, wd = 0.01f)), expected)
    val clipped = Seq(0.8567897, -1.96093, 2.915762, 0.2653303, 0.4419807, -0.2027844)
    assertClose(trained(new SGD(0.1f, momentum = 0.9f, wd = 0.01f, clipGradient = 0.6f)), clipped)
  }

  test("Adam, and with clipped gradients") {
    assertClose(trained(new Adam(0.1f)), Seq(0.7614715, -1.920397, 2.852777, 0.2549756, 0.4730064, -0.2771255), 1e-5)
    val clipped = Seq(0.7614715, -1.920397, 2.89324, 0.2419991, 0.4765899, -0.2771255)
    assertClose(trained(new Adam(0.1f, clipGradient = 0.6f)), clipped, 1e-5)
  }

  test("Adam's weight decay is decoupled from the gradient") {
    val weight = NDArray.array(start, shape)
    Optimizer.getUpdater(new Adam(0.1f, wd = 0.5f)).update(0, NDArray.zeros(shape), weight)
    assertClose(weight.toArray.toSeq, start.toSeq.map(_ * 0.95))
  }

  test("NAG") {
    val expected = Seq(0.826025, -1.9873, 2.7916, -0.39135, 1.6935, -0.26065)
    assertClose(trained(new NAG(0.1f, momentum = 0.9f, wd = 0f)), expected)
    // Decay is part of the gradient, as in MXNet's Scala package: v = 0.9 v + (g / 2 + 0.01 w), w -= 0.1 (g / 2 + 0.01 w + 0.9 v).
    val decayed = Seq(0.8184277, -1.971564, 2.768343, -0.3932913, 1.687411, -0.2595915)
    assertClose(trained(new NAG(0.1f, momentum = 0.9f, wd = 0.01f)), decayed)
  }

  test("AdaGrad") {
    val expected = Seq(0.8486745, -1.982254, 2.935886, 0.3514945, 0.3589538, -0.3203078)
    assertClose(trained(new AdaGrad(0.1f, wd = 0.01f)), expected)
  }

  test("AdaDelta") {
    val expected = Seq(0.9130999, -1.968544, 2.903193, 0.4003907, 0.2974755, -0.2240784)
    assertClose(trained(new AdaDelta(rho = 0.5f, epsilon = 1e-3f, wd = 0.01f)), expected, 1e-5)
  }

  test("RMSProp") {
    val expected = Seq(-0.8305202, -1.449749, 2.147029, -0.9834756, 1.531044, -1.403438)
    assertClose(
      trained(new RMSProp(0.1f)),
      expected,
      2e-4
    ) // the variance of few gradients is a small difference of large numbers
  }

  test("DCASGD") {
    val expected = Seq(0.9471416, -2.006605, 2.941262, 0.1939295, 0.6884559, -0.1895955)
    assertClose(trained(new DCASGD(0.1f, wd = 0.01f)), expected)
    // Without compensation and decay, this is SGD with momentum.
    assertClose(
      trained(new DCASGD(0.1f, momentum = 0.9f, lamda = 0f)),
      trained(new SGD(0.1f, 0.9f, wd = 0f)).map(_.toDouble)
    )
  }

  test("SGLD takes half a step and adds noise of variance lr") {
    Random.seed(3)
    val size = Shape(100, 100)
    val weight = NDArray.ones(size)
    Optimizer.getUpdater(new SGLD(0.04f, wd = 0f)).update(0, NDArray.ones(size), weight)
    val values = weight.toArray.map(_.toDouble)
    val mean = values.sum / values.length
    assertEqualsDouble(mean, 0.98, 0.01)
    assertEqualsDouble(math.sqrt(values.map(v => (v - mean) * (v - mean)).sum / values.length), 0.2, 0.01)
  }

  test("SGLD leaves a parameter with learning rate 0 as it is") {
    val frozen = new SGLD(0.04f)
    frozen.setLrMult(Map(Left(0) -> 0f))
    val weight = NDArray.ones(3)
    Optimizer.getUpdater(frozen).update(0, NDArray.ones(3), weight)
    assertEquals(weight, NDArray.ones(3))
  }

  test("learning rate and weight decay of single parameters") {
    val optimizer = new SGD(1f, wd = 0.5f)
    optimizer.setIdx2Name(Map(0 -> "fc_weight", 1 -> "fc_bias", 2 -> "slow_weight"))
    optimizer.setLrMult(Map(Right("slow_weight") -> 0.5f))
    def step(index: Int, gradient: Float): Float = {
      val weight = NDArray.ones(1)
      Optimizer.getUpdater(optimizer).update(index, NDArray.array(Array(gradient), Shape(1)), weight)
      weight.toScalar
    }
    assertEquals(step(0, 0.25f), 0.25f) // 1 - (0.25 + 0.5)
    assertEquals(step(1, 0.25f), 0.75f) // a bias does not decay
    assertEquals(step(2, 0.25f), 0.625f) // half the rate
    optimizer.setWdMult(Map(Left(0) -> 0f))
    assertEquals(step(0, 0.25f), 0.75f)
  }

  test("a schedule changes the rate of all parameters after its step") {
    val optimizer = new SGD(1f, wd = 0f, lrScheduler = new FactorScheduler(1, 0.5f))
    val updater = Optimizer.getUpdater(optimizer)
    val weights = Seq.fill(2)(NDArray.zeros(1))
    val one = NDArray.ones(1)
    val seen = (1 to 3).map { _ =>
      weights.indices.foreach(i => updater.update(i, one, weights(i)))
      weights.map(_.toScalar)
    }
    assertEquals(seen, IndexedSeq(Seq(-1f, -1f), Seq(-1.5f, -1.5f), Seq(-1.75f, -1.75f)))
  }

  test("states survive serialization: training continues as if it had not stopped") {
    def cached(updater: MXKVStoreUpdater): MXKVStoreCachedStates = updater match {
      case states: MXKVStoreCachedStates => states
      case _                             => fail("the updater keeps no states")
    }
    val optimizers: Seq[() => Optimizer] =
      Seq(
        () => new SGD(0.1f, 0.9f),
        () => new Adam(0.1f),
        () => new RMSProp(0.1f),
        () => new DCASGD(0.1f, 0.9f),
        () => new SGD(0.1f)
      )
    optimizers.foreach { make =>
      val whole = NDArray.array(start, shape)
      val parts = NDArray.array(start, shape)
      val straight = Optimizer.getUpdater(make())
      gradients.foreach(values => straight.update(5, NDArray.array(values, shape), whole))
      val first = Optimizer.getUpdater(make())
      first.update(5, NDArray.array(gradients(0), shape), parts)
      val second = Optimizer.getUpdater(make())
      cached(second).deserializeState(cached(first).serializeState())
      gradients.drop(1).foreach(values => second.update(5, NDArray.array(values, shape), parts))
      assertEquals(parts.toArray.toSeq, whole.toArray.toSeq, make().getClass.getSimpleName)
    }
  }

  test("bytes that are not states are errors") {
    val updater = Optimizer.getUpdater(new SGD(0.1f, 0.9f)) match {
      case states: MXKVStoreUpdater with MXKVStoreCachedStates => states
      case _                                                   => fail("the updater keeps no states")
    }
    assert(
      intercept[MXNetError](updater.deserializeState(Array[Byte](1, 2, 3, 4))).getMessage
        .contains("not optimizer states")
    )
    assert(intercept[MXNetError](updater.deserializeState(Array.empty[Byte])).getMessage.contains("truncated"))
    updater.update(0, NDArray.ones(1), NDArray.ones(1))
    val bytes = updater.serializeState()
    assert(intercept[MXNetError](updater.deserializeState(bytes.dropRight(1))).getMessage.contains("truncated"))
  }

  test("a state of another optimizer is refused by name") {
    val weight = NDArray.ones(1)
    val error = intercept[IllegalArgumentException](new Adam().update(0, weight, weight, null))
    assert(error.getMessage.contains("the state of Adam is a pair of arrays"), error.getMessage)
    val missing = intercept[IllegalArgumentException](new SGD(0.1f, 0.9f).update(0, weight, weight, null))
    assert(missing.getMessage.contains("has no state"), missing.getMessage)
  }

  test("states outlive the scope of the first update and go with the updater") {
    val updater = Optimizer.getUpdater(new SGD(1f, 0.5f, wd = 0f))
    val weight = NDArray.zeros(1)
    (1 to 2).foreach(_ => ResourceScope.using() { updater.update(0, NDArray.ones(1), weight) })
    assertEquals(weight.toScalar, -2.5f)
    updater.dispose()
    updater.dispose()
  }
}
