package org.apache.mxnet.codegen

class DefaultTextSuite extends munit.FunSuite {
  private def shown(typeText: String): Option[String] = {
    val argument = Argument("p", typeText, "")
    Signature.parameter(Operator("o", "", Seq(argument)), argument, ScalaType.Symbol).default
  }

  test("the engine's defaults are written as Scala values") {
    assertEquals(shown("boolean, optional, default=0"), Some("false"))
    assertEquals(shown("int, optional, default='-1'"), Some("-1"))
    assertEquals(shown("long (non-negative), optional, default=1024"), Some("1024L"))
    assertEquals(shown("float, optional, default=0.899999976"), Some("0.9f"))
    assertEquals(shown("double, optional, default=0.0010000000474974513"), Some("0.0010000000474974513"))
    assertEquals(shown("string, optional, default=''"), Some("\"\""))
    assertEquals(shown("Shape(tuple), optional, default=[0,0]"), Some("Shape(0, 0)"))
    assertEquals(shown("tuple of <float>, optional, default=[0.1,0.2]"), Some("Seq(0.1f, 0.2f)"))
    assertEquals(shown("{'first', 'last'},optional, default='first'"), Some("\"first\""))
    assertEquals(shown("{None, 'float32'},optional, default='None'"), Some("\"None\""))
  }

  test("where the engine has no value there is none") {
    assertEquals(shown("int or None, optional, default='None'"), None)
    assertEquals(shown("Shape or None, optional, default=None"), None)
    assertEquals(shown("int, required"), None)
  }

  test("all but the arguments whose default is None show one") {
    val absent = for {
      signature <- Api.symbols(Released.operators, isContrib = false)
      parameter <- signature.parameters if parameter.optional && parameter.default.isEmpty
      argument <- signature.operator.arguments.find(_.name == parameter.argument)
      default <- ParsedType(argument.typeText).default if default != "None" && parameter.role == Role.Setting
    } yield s"${signature.name}: ${parameter.name} = $default"
    assertEquals(absent, Nil)
  }
}
