package org.apache.mxnet.javaapi

import scala.jdk.CollectionConverters._

import org.apache.mxnet.examples.java.LinearRegression

/** Runs Java programs that use the Java API. */
class JavaApiSuite extends munit.FunSuite {
  test("arithmetic and comparison") {
    assertEquals(JavaPrograms.arithmetic().toSeq, Seq(21f, 43f, 32.5f))
    assertEquals(JavaPrograms.comparisons().toSeq, Seq(1f, 1f, 3f))
  }

  test("generated functions: all arguments, an object of arguments, several inputs and outputs") {
    assertEquals(JavaPrograms.activation().toSeq, Seq(2f, 0.5f, 1f))
    assertEquals(JavaPrograms.parameters().toSeq, Seq(25f, 7f, 7f))
    assertEquals(JavaPrograms.several().toSeq, Seq(2f, 9f, 12f))
    assertEquals(JavaPrograms.withoutConditionalInputs().toSeq, Seq(0.5f, 2f, -0.5f))
  }

  test("shapes, views and types") {
    assertEquals(
      JavaPrograms.shapes().asScala.toSeq.map(_.toString),
      Seq("(2,3)", "3.0", "3", "3", "int32", "cpu", "true", "1")
    )
  }

  test("an absent input is an error that names the operator") {
    assert(JavaPrograms.missing().contains("dot"), JavaPrograms.missing())
  }

  test("null is an error that names function and argument") {
    assertEquals(
      JavaPrograms.nulls().asScala.toSeq,
      Seq(
        "_plus: an operand is null; give an array",
        "_power: an operand is null; give an array",
        "NDArray.set: other is null; give a value",
        "dot: the object with the parameters is null; give a dotParam",
        "DataDesc: name is null; give a value",
        "NDArray.empty: shape is null; give a value",
        "Shape: dims is null; give a value",
        "Shape: dims(1) is null; give a value",
        "Predictor: inputDescriptors is null; give a value",
        "Predictor: inputDescriptors(0) is null; give a value",
        "ObjectDetector: inputDescriptors(0) is null; give a value"
      )
    )
  }

  test("the example fits a line") {
    val line = LinearRegression.fit(Array(0f, 1f, 2f, 3f), Array(1f, 3f, 5f, 7f), 500, 0.3f)
    assertEqualsFloat(line(0), 2f, 1e-3f)
    assertEqualsFloat(line(1), 1f, 1e-3f)
  }
}
