package org.apache.mxnet.udf

import scala.jdk.CollectionConverters._

import users.{JavaPRelu, JavaPolynomial, JavaSum, JavaSwish}

import org.apache.mxnet._

/** Operators in Java, with Java's collections. */
class JavaUserOperatorSuite extends munit.FunSuite {
  private def vector(values: Float*): NDArray = NDArray.array(values.toArray, Shape(values.length))

  /** The outputs and gradients of a symbol for these arguments and head gradients of ones. */
  private def run(symbol: Symbol, args: Map[String, NDArray]): (Seq[Float], Map[String, Seq[Float]]) = {
    val executor = symbol.simpleBind(Context.cpu(), "write", args.map { case (name, array) => name -> array.shape })
    args.foreach { case (name, array) => executor.argDict(name).set(array) }
    executor.forward(isTrain = true)
    executor.backward(executor.outputs.map(output => NDArray.ones(output.shape)))
    val gradients = executor.gradDict.collect { case (name, array) if array != null => name -> array.toArray.toSeq }
    (executor.outputs(0).toArray.toSeq, gradients)
  }

  test("the operator of the design document, in a graph, from a file and on arrays") {
    val sd = SameDiff.create()
    val op = new JavaSum(sd, Array(sd.variable("x"), sd.variable("y")))
    val sum = sd.doUdf(op)(0)
    assertEquals(op.graph(), sd)
    assertEquals(op.outputs.asScala.map(_.listOutputs()).toSeq, Seq(sum.listOutputs()))
    val args = Map("x" -> vector(1, 2), "y" -> vector(10, 20))
    val expected = (Seq(11f, 22f), Map("x" -> Seq(1f, 1f), "y" -> Seq(1f, 1f)))
    assertEquals(run(sum, args), expected)
    assertEquals(run(Symbol.loadJson(sum.toJson), args), expected)
    val on = new JavaSum().invoke(new javaapi.NDArray(vector(1, 2)), new javaapi.NDArray(vector(3, 4)))
    assertEquals(on.asScala.flatMap(_.toArray).toSeq, Seq(4f, 6f))
    GradCheck(new JavaSum().asScala, args.values.toSeq).orThrow()
  }

  test("fields of Java's types are saved and restored") {
    val symbol = new JavaPolynomial(0.5, 1f, 2f, 3f).apply(Symbol.Variable("x"))
    val point = Map("x" -> vector(2, -1))
    assertEquals(run(symbol, point), (Seq(8.5f, 1f), Map("x" -> Seq(7f, -2f))))
    assertEquals(run(Symbol.loadJson(symbol.toJson), point), run(symbol, point))
    val properties = new JavaPolynomial(0.5, 1f, 2f, 3f).propertiesForFunction()
    assertEquals(properties.keySet.asScala.toSet, Set("coefficients", "scale", "limits", "tags"))
    val restored = new JavaPolynomial()
    restored.setPropertiesForFunction(properties)
    assertEquals(
      JavaPolynomial.described(restored.propertiesForFunction()),
      "[1.0, 2.0, 3.0]Optional[0.5]{degree=2}[exact]"
    )
  }

  test("the gradient of the operator in the documentation") {
    GradCheck(new JavaSwish(1.5).asScala, Seq(vector(0.5f, -2f, 3f))).orThrow()
  }

  test("inferred inputs, states and gradients that Java composes") {
    val symbol = new JavaPRelu().named("act", Symbol.Variable("x"))
    assertEquals(symbol.listArguments().toSeq, Seq("x", "act_slope"))
    assertEquals(symbol.listAuxiliaryStates().toSeq, Seq("act_runs"))
    val executor = symbol.simpleBind(Context.cpu(), "write", Map("x" -> Shape(3)))
    executor.argDict("x").set(Array(-2f, 0.5f, 3f))
    executor.argDict("act_slope").set(Array(0.25f))
    for (_ <- 1 to 2) executor.forward(isTrain = true)
    executor.backward(Array(vector(1, 10, 100)))
    assertEquals(executor.outputs(0).toArray.toSeq, Seq(-0.5f, 0.5f, 3f))
    assertEquals(executor.gradDict("x").toArray.toSeq, Seq(0.25f, 10f, 100f))
    assertEquals(executor.gradDict("act_slope").toArray.toSeq, Seq(-2f))
    assertEquals(executor.auxDict("act_runs").toArray.toSeq, Seq(2f))
  }

  test("a missing part of an operator is an error that names it") {
    class Incomplete(name: String) extends javaapi.UserDefinedCustomOp {
      def opName: String = name
    }
    val unusable = intercept[MXNetError](new Incomplete("java_incomplete").apply(Symbol.Variable("x")))
    assert(unusable.getMessage.contains("no constructor without parameters"), unusable.getMessage)
    val empty = intercept[MXNetError](new NothingInJava().invoke(new javaapi.NDArray(vector(1))))
    assert(empty.getMessage.contains("operator java_nothing computes nothing"), empty.getMessage)
    val gradient = intercept[MXNetError](run(new NothingInJava().apply(Symbol.Variable("x")), Map("x" -> vector(1))))
    assert(gradient.getMessage.contains("java_nothing is not differentiable"), gradient.getMessage)
    val missing = intercept[MXNetError](javaapi.UserDefinedCustomOp.register(null))
    assert(missing.getMessage.contains("opClass is null"), missing.getMessage)
  }
}

class NothingInJava extends javaapi.UserDefinedCustomOp {
  def opName: String = "java_nothing"
}
