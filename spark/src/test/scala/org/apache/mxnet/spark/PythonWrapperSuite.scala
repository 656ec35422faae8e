package org.apache.mxnet.spark

import java.nio.file.{Files, Paths}

import munit.FunSuite
import org.apache.spark.ml.param.Params

/** The Python wrapper has the parameters of the stages. `spark/python/test_model.py` also compares the defaults and runs it. */
class PythonWrapperSuite extends FunSuite {
  private val source = Files.readString(Paths.get("spark/python/ferromx_spark/__init__.py"))

  /** The source of a class and its base class. */
  private def bodies(name: String): String =
    source.split("(?m)^class ").filter(body => body.startsWith(s"$name(") || body.startsWith("_Stage(")).mkString

  private def check(name: String, stage: Params): Unit = {
    val body = bodies(name)
    val own = """(?m)^    (\w+) = Param\(Params\._dummy\(\), "(\w+)",""".r.findAllMatchIn(body).toSeq
    own.foreach(found => assertEquals(found.group(1), found.group(2)))
    val shared = """\bHas([A-Z]\w+)\b""".r
      .findAllMatchIn(body)
      .map(found => s"${found.group(1).head.toLower}${found.group(1).tail}")
    assertEquals((own.map(_.group(1)) ++ shared).sorted, stage.params.toSeq.map(_.name))
    val constructor =
      """(?s)def __init__\((.*?)\):""".r.findFirstMatchIn(body.substring(body.indexOf(s"$name("))).get.group(1)
    val arguments = """(?m)^        (\w+)=""".r.findAllMatchIn(constructor).map(_.group(1)).toSeq
    assertEquals(arguments.sorted, stage.params.toSeq.map(_.name), "arguments of the constructor")
  }

  test("the parameters of MXNetModel")(check("MXNetModel", new MXNetModel))

  test("the parameters of MXNetEstimator")(check("MXNetEstimator", new MXNetEstimator))
}
