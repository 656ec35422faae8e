package org.apache.mxnet.udf

import java.util.concurrent.ConcurrentLinkedQueue

import org.apache.mxnet._

/** User-defined operators of the released package: `CustomOp`, `CustomOpProp`, `Operator.register`. */
class CustomOpSuite extends munit.FunSuite {
  private val cpu = Context.cpu()

  private def custom(data: Symbol, opType: String, params: (String, Any)*): Symbol =
    Symbol.Custom(name = opType)(data)(Map[String, Any]("op_type" -> opType) ++ params)

  test("a softmax loss, as in the released examples, in forward and backward") {
    Operator.register("custom_softmax", new SoftmaxProp)
    val net = custom(Symbol.Variable("data"), "custom_softmax")
    assertEquals(net.listArguments(), IndexedSeq("data", "custom_softmax_label"))
    assertEquals(net.inferShape(Map("data" -> Shape(2, 3)))._1(1), Shape(2))
    val scores = NDArray.array(Array(1f, 2f, 3f, 0f, 0f, 0f), Shape(2, 3))
    val label = NDArray.array(Array(2f, 0f), Shape(2))
    val gradients = Map("data" -> NDArray.zeros(2, 3))
    val executor = net.bind(cpu, Map("data" -> scores, "custom_softmax_label" -> label), gradients)
    executor.forward(isTrain = true)
    executor.backward()
    val reference = NDArray.api.SoftmaxActivation(executor.argDict("data")).head.toArray
    executor.outputs(0).toArray.lazyZip(reference).foreach((a, b) => assertEqualsFloat(a, b, 1e-6f))
    val expected = reference.clone()
    expected(2) -= 1f
    expected(3) -= 1f
    executor.gradDict("data").toArray.lazyZip(expected).foreach((a, b) => assertEqualsFloat(a, b, 1e-6f))
  }

  test("an inference that returns null is named") {
    class WithoutShapes extends FactorProp {
      override def inferShape(inShape: Array[Shape]): (Array[Shape], Array[Shape], Array[Shape]) = null
    }
    Operator.register("custom_without_shapes", new WithoutShapes)
    val net = custom(Symbol.Variable("x"), "custom_without_shapes", "factor" -> 2)
    val error = intercept[MXNetError](net.inferShape(Map("x" -> Shape(2))))
    assert(error.getMessage.contains("custom_without_shapes: inferShape returned null"), error.getMessage)
  }

  test("every node has properties of its own, and every executor an operator of its own") {
    Operator.register("custom_factor", new FactorProp)
    val x = Symbol.Variable("x")
    val net = custom(x, "custom_factor", "factor" -> 2) + Symbol.Custom(name = "other")(x)(
      Map[String, Any]("op_type" -> "custom_factor", "factor" -> 10)
    )
    val gradient = NDArray.zeros(2)
    FactorProp.created.clear()
    val executor = net.bind(cpu, Map("x" -> NDArray.ones(2)), Map("x" -> gradient))
    (1 to 2).foreach { _ =>
      executor.forward(isTrain = true)
      executor.backward(NDArray.ones(2))
    }
    assertEquals(executor.outputs(0).toArray.toSeq, Seq(12f, 12f))
    assertEquals(gradient.toArray.toSeq, Seq(12f, 12f))
    assertEquals(FactorProp.created.size, 2)
  }

  test("on arrays, with autograd, and with an error in backward") {
    Operator.register("custom_factor", new FactorProp)
    val x = NDArray.ones(2)
    Autograd.attachGradient(x)
    def call(factor: String): NDArray =
      Autograd.record()(NDArray.Custom(Map[String, Any]("op_type" -> "custom_factor", "factor" -> factor))(x).head)
    Autograd.backward(call("3"))
    assertEquals(Autograd.gradient(x).toArray.toSeq, Seq(3f, 3f))
    val error = intercept[MXNetError](Autograd.backward(call("-1")))
    assert(error.getMessage.contains("custom_factor") && error.getMessage.contains("negative"), error.getMessage)
    assert(error.getCause.isInstanceOf[IllegalStateException])
    val unknown = intercept[MXNetError](NDArray.Custom(Map[String, Any]("op_type" -> "of_nobody"))(x))
    assert(unknown.getMessage.contains("'of_nobody' is not registered"), unknown.getMessage)
  }

  test("assign knows the requests") {
    val op = new FactorProp().createOperator("cpu(0)", Array(), Array())
    val target = NDArray.ones(1)
    Seq("write" -> 2f, "add" -> 4f, "null" -> 4f, "inplace" -> 2f).foreach { case (req, expected) =>
      op.assign(target, req, NDArray.ones(1) * 2f)
      assertEquals((req, target.toScalar), (req, expected))
    }
    intercept[MXNetError](op.assign(target, "sum", target))
  }
}

/** Softmax with the gradient of the cross entropy. */
class SoftmaxProp(needTopGrad: Boolean = false) extends CustomOpProp(needTopGrad) {
  override def listArguments(): Array[String] = Array("data", "label")
  override def inferShape(inShape: Array[Shape]): (Array[Shape], Array[Shape], Array[Shape]) =
    (Array(inShape(0), Shape(inShape(0)(0))), Array(inShape(0)), null)
  override def createOperator(ctx: String, inShapes: Array[Array[Int]], inDtypes: Array[Int]): CustomOp =
    new SingleOutputOp(
      inputs => NDArray.api.SoftmaxActivation(inputs(0)),
      (_, inputs, y) => y - NDArray.api.one_hot(inputs(1), depth = y.shape(1))
    )
}

/** x times a factor; negative factors have no gradient. */
class FactorProp extends CustomOpProp(true) {
  override def createOperator(ctx: String, inShapes: Array[Array[Int]], inDtypes: Array[Int]): CustomOp = {
    val factor = kwargs.getOrElse("factor", "1").toFloat
    FactorProp.created.add(factor)
    def gradient(dy: NDArray): NDArray =
      if (factor < 0) throw new IllegalStateException("negative") else dy * factor
    new ElementwiseOp(_ * factor, (dy, _) => gradient(dy))
  }
}

object FactorProp {
  val created = new ConcurrentLinkedQueue[Float]
}
