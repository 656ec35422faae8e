package org.apache.mxnet.codegen

import java.nio.file.{Files, Paths}

class MetadataSuite extends munit.FunSuite {
  test("name, description and the arguments' names, types and descriptions are read") {
    val line = """{"name":"relu","desc":"Rectifier.","args":[["data","NDArray-or-Symbol","The input."]]}"""
    assertEquals(
      Metadata.parse(line),
      Operator("relu", "Rectifier.", Seq(Argument("data", "NDArray-or-Symbol", "The input.")))
    )
  }

  test("descriptions may be missing; alias and the count of inputs are read") {
    val line =
      """{"name":"concat","alias_of":"Concat","args":[["data","NDArray-or-Symbol[]"]],"key_var_num_args":"num_args"}"""
    val operator = Metadata.parse(line)
    assertEquals(operator.aliasOf, Some("Concat"))
    assertEquals(operator.countArgument, Some("num_args"))
    assertEquals(operator.arguments.map(_.description), Seq(""))
  }

  test("all operators of MXNet 1.9.1 are read") {
    assertEquals(Released.operators.size, 902)
    assertEquals(Released.operator("add_n").countArgument, Some("num_args"))
  }

  test("a missing file, a broken line and a repeated operator are named") {
    val missing = intercept[IllegalArgumentException](Metadata.read(Paths.get("no-such-file.jsonl")))
    assert(missing.getMessage.contains("no-such-file.jsonl"), missing.getMessage)
    val file = Files.createTempFile("ops", ".jsonl")
    try {
      Files.writeString(file, "{\"name\":\"relu\",\"args\":[]}\n{\"name\":")
      assert(intercept[IllegalArgumentException](Metadata.read(file)).getMessage.contains("line 2"))
      Files.writeString(file, "{\"name\":\"relu\",\"args\":[]}\n{\"name\":\"relu\",\"args\":[]}")
      assert(intercept[IllegalArgumentException](Metadata.read(file)).getMessage.endsWith("more than once: relu"))
    } finally Files.delete(file)
  }
}
