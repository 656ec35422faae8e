package org.apache.mxnet

class AutogradSuite extends munit.FunSuite {
  private def vector(values: Float*): NDArray = NDArray.array(values.toArray, Shape(values.length))

  private def gradientOf(array: NDArray): Seq[Float] = Autograd.gradient(array).toArray.toSeq

  test("the gradient of a recorded computation") {
    val x = vector(1, -2, 3)
    Autograd.attachGradient(x)
    val y = Autograd.record()(x * x + x * 3f)
    Autograd.backward(y)
    assertEquals(gradientOf(x), Seq(5f, -1f, 9f))
  }

  test("gradients of heads, requests, and a tape that is kept") {
    val (x, w) = (vector(1, 2), vector(3, 4))
    Autograd.attachGradient(x, "add")
    Autograd.attachGradient(w)
    val y = Autograd.record()(x * w)
    Autograd.backward(Seq(y), Seq(vector(1, 10)), retainGraph = true)
    Autograd.backward(Seq(y), Seq(vector(1, 10)))
    assertEquals((gradientOf(x), gradientOf(w)), (Seq(6f, 80f), Seq(1f, 20f)))
  }

  test("modes hold only inside their block, and operations in `pause` are not recorded") {
    val x = vector(2)
    Autograd.attachGradient(x)
    assertEquals((Autograd.isRecording, Autograd.isTraining), (false, false))
    val y = Autograd.record() {
      assertEquals((Autograd.isRecording, Autograd.isTraining), (true, true))
      val factor = Autograd.pause() {
        assertEquals((Autograd.isRecording, Autograd.isTraining), (false, false))
        x * 1f
      }
      x * factor
    }
    assertEquals((Autograd.isRecording, Autograd.isTraining), (false, false))
    Autograd.backward(y)
    assertEquals(gradientOf(x), Seq(2f))
  }

  test("mistakes are errors that say what to do") {
    assert(intercept[MXNetError](Autograd.gradient(vector(1))).getMessage.contains("has no gradient"))
    assert(intercept[MXNetError](Autograd.attachGradient(vector(1), "sum")).getMessage.contains("'sum'"))
    assert(intercept[MXNetError](Autograd.markVariables(Seq(vector(1)), Nil)).getMessage.contains("1 variables"))
    intercept[MXNetError](Autograd.backward(vector(1)))
  }
}
