package org.apache.mxnet.codegen

import java.nio.file.Files

class BaseClassesSuite extends munit.FunSuite {
  private val relu = Operator(
    "relu",
    "Rectifier, costs $5 */ @throws.",
    Seq(
      Argument("data", "NDArray-or-Symbol", "The input."),
      Argument("mode", "{'a', 'b'}, optional, default='a'", "How.")
    )
  )

  private def source(api: Api): String =
    BaseClasses.sources(Seq(relu)).collectFirst { case (`api`, text) => text }.get

  test("the typesafe functions are written with ScalaDoc into abstract classes") {
    assertNoDiff(
      source(Api.NDArrayApi),
      """package org.apache.mxnet
        |
        |import org.apache.mxnet.EngineDefault._
        |
        |/** The typesafe operators over arrays: `NDArray.api`. */
        |abstract class NDArrayAPIBase private[mxnet] {
        |
        |  /**
        |   * Rectifier, costs &#36;5 *&#47; &#64;throws.
        |   * @param data The input
        |   * @param mode How; one of a, b; default a
        |   * @param out array that receives the result
        |   */
        |  def relu(data: org.apache.mxnet.NDArray, mode: org.apache.mxnet.Opt[org.apache.mxnet.literal.OneOf["a|b"]] = "a", out: org.apache.mxnet.Opt[org.apache.mxnet.NDArray] = Opt.absent): org.apache.mxnet.NDArrayFuncReturn
        |}
        |""".stripMargin
    )
  }

  test("the untyped functions keep (name, attr)(args)(kwargs)") {
    val declaration =
      "def relu(name: scala.Predef.String = null, attr: Map[scala.Predef.String, scala.Predef.String] = null)" +
        "(args: org.apache.mxnet.Symbol*)(kwargs: Map[scala.Predef.String, Any] = null): org.apache.mxnet.Symbol"
    assert(source(Api.SymbolFunctions).contains(declaration), source(Api.SymbolFunctions))
  }

  test("the arguments of a Java function with several optional ones go into an object") {
    val softmax =
      relu.copy(name = "soft", arguments = relu.arguments :+ Argument("axis", "int, optional, default='-1'", ""))
    val text = BaseClasses.sources(Seq(softmax)).collectFirst { case (Api.JavaParams, text) => text }.get
    assert(text.contains("class softParam(data: org.apache.mxnet.javaapi.NDArray) {"), text)
    assert(text.contains("def setAxis(axis: java.lang.Integer): softParam = { this.axis = axis; this }"), text)
    assert(text.contains("def getOut(): org.apache.mxnet.javaapi.NDArray = this.out"), text)
  }

  test("the object of a Java function has a constructor without inputs that a setting makes unnecessary") {
    val settings = Seq("axis" -> "int, optional, default='-1'", "use_length" -> "boolean, optional, default=0")
    val length = Argument("length", "NDArray-or-Symbol", "")
    val soft = relu.copy(
      name = "soft",
      arguments = (relu.arguments :+ length) ++ settings.map { case (name, text) => Argument(name, text, "") }
    )
    val text = BaseClasses.sources(Seq(soft)).collectFirst { case (Api.JavaParams, text) => text }.get
    val ndarray = "org.apache.mxnet.javaapi.NDArray"
    assert(text.contains(s"class softParam(data: $ndarray, length: $ndarray) {"), text)
    assert(text.contains(s"def this(data: $ndarray) = this(data, null)"), text)
  }

  test("files are written once, and left alone while their text stays the same") {
    val folder = Files.createTempDirectory("bases")
    val files = BaseClasses.write(Seq(relu), folder)
    assertEquals(files.size, 12)
    val old = java.nio.file.attribute.FileTime.fromMillis(1000000000000L)
    files.foreach(Files.setLastModifiedTime(_, old))
    BaseClasses.write(Seq(relu.copy(description = "Another text.")), folder)
    val changed = files.filter(Files.getLastModifiedTime(_) != old).map(_.getFileName.toString)
    assert(changed.contains("SymbolAPIBase.scala"), changed)
    assert(!changed.contains("SymbolRandomAPIBase.scala"), changed)
  }
}
