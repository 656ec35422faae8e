package org.apache.mxnet.codegen

import CToScalaUtils.{argumentCleaner, typeConversion}

class TypeConversionSuite extends munit.FunSuite {
  private val Symbol = "org.apache.mxnet.Symbol"
  private val Shape = "org.apache.mxnet.Shape"
  private val Float = "org.apache.mxnet.Base.MXFloat"

  private def table(name: String)(rows: (String, String)*): Unit = test(name) {
    rows.foreach { case (cpp, scala) => assertEquals(typeConversion(cpp), scala, cpp) }
  }

  table("shapes")("Shape(tuple)" -> Shape, "ShapeorNone" -> Shape)
  table("one input")("Symbol" -> Symbol, "NDArray" -> Symbol, "NDArray-or-Symbol" -> Symbol)
  table("many inputs")(
    Seq("Symbol[]", "NDArray[]", "NDArray-or-Symbol[]", "SymbolorSymbol[]").map(_ -> s"Array[$Symbol]"): _*
  )
  table("float")("float" -> Float, "real_t" -> Float, "floatorNone" -> Float)
  table("int")("int" -> "Int", "intorNone" -> "Int", "int(non-negative)" -> "Int")
  table("long")("long" -> "Long", "long(non-negative)" -> "Long")
  table("double")("double" -> "Double", "doubleorNone" -> "Double")
  table("string and boolean")("string" -> "String", "boolean" -> "Boolean")
  table("types that the documents leave open")(
    "tupleof<float>" -> s"org.apache.mxnet.TupleOf[$Float]",
    "tupleof<double>" -> "org.apache.mxnet.TupleOf[scala.Double]",
    "tupleof<long>" -> "org.apache.mxnet.TupleOf[scala.Long]",
    "tupleof<int>" -> "org.apache.mxnet.TupleOf[scala.Int]",
    "tupleof<Shape(tuple)>" -> s"org.apache.mxnet.TupleOf[$Shape]",
    "booleanorNone" -> "Boolean",
    "ptr" -> "Any",
    "" -> "Any"
  )

  test("over arrays the same types name NDArray") {
    assertEquals(typeConversion("NDArray-or-Symbol", "", ScalaType.NDArray), "org.apache.mxnet.NDArray")
    assertEquals(typeConversion("NDArray-or-Symbol[]", "", ScalaType.NDArray), "Array[org.apache.mxnet.NDArray]")
  }

  test("an unknown type is refused with its name and the whole type string") {
    val error = intercept[IllegalArgumentException](argumentCleaner("quaternion, required"))
    assertEquals(error.getMessage, "Invalid type for args: quaternion, quaternion, required")
    val element = intercept[IllegalArgumentException](argumentCleaner("tuple of <quaternion>, required"))
    assertEquals(element.getMessage, "Invalid type for args: quaternion, tuple of <quaternion>, required")
  }

  test("whitespace does not count, and an enumeration is a string that keeps its values") {
    assertEquals(argumentCleaner(" int  (non-negative) ,\toptional , default = 1"), ("Int", true))
    val stype = "{'csr', 'default', 'row_sparse'}, optional, default='default'"
    assertEquals(argumentCleaner(stype), ("String", true))
    assertEquals(
      ParsedType(stype),
      ParsedType(ArgumentType.Enumeration(Seq("csr", "default", "row_sparse")), optional = true, Some("default"))
    )
    assertEquals(
      ParsedType("{None, 'fastest', 'off'},optional, default='None'").argumentType,
      ArgumentType.Enumeration(Seq("None", "fastest", "off"))
    )
  }

  test("three fields and more are optional with a default") {
    assertEquals(argumentCleaner("float, optional, default=0.5"), (Float, true))
    assertEquals(
      argumentCleaner("tuple of <float>, optional, default=[0.1,0.1,0.2]"),
      (typeConversion("tupleof<float>"), true)
    )
    assertEquals(ParsedType("Shape(tuple), optional, default=[0,1]").default, Some("[0,1]"))
    intercept[IllegalArgumentException](argumentCleaner("float, required, default=0.5"))
    intercept[IllegalArgumentException](argumentCleaner("float, optional, 0.5"))
  }

  test("one or two fields are required, but one input may always be left out") {
    assertEquals(argumentCleaner("NDArray-or-Symbol"), (Symbol, true))
    assertEquals(argumentCleaner("Symbol, required"), (Symbol, true))
    assertEquals(argumentCleaner("NDArray-or-Symbol[]"), (s"Array[$Symbol]", false))
    assertEquals(argumentCleaner("int, required"), ("Int", false))
    assertEquals(argumentCleaner("string"), ("String", false))
    assertEquals(argumentCleaner("{'relu', 'tanh'}, required"), ("String", false))
  }

  test("a string without any field is refused") {
    val error = intercept[IllegalArgumentException](argumentCleaner(","))
    assertEquals(error.getMessage, "Unrecognized arg field: ,, 0")
  }

  test("every type string of MXNet 1.9.1 has a Scala type and an optionality") {
    val strings = Released.operators.flatMap(_.arguments).map(_.typeText).distinct
    assert(strings.size == 156, s"only ${strings.size} type strings")
    val found = strings.map(text => skeleton(text) -> argumentCleaner(text)).toSet
    assertEquals(found.groupBy(_._1).filter(_._2.size > 1), Map.empty[String, Set[(String, (String, Boolean))]])
    val expected = expectedBySkeleton
    val actual = found.map { case (text, (scala, optional)) => s"$text -> $scala, $optional" }
    assertNoDiff(actual.toSeq.sorted.mkString("\n"), expected.sorted.mkString("\n"))
  }

  /** A type string without its values and default. */
  private def skeleton(text: String): String =
    text.replaceAll("\\s+", "").replaceAll("\\{.*\\}", "{}").replaceAll("(?s)default=.*", "default=")

  private def expectedBySkeleton: Seq[String] = {
    val inputs = Seq(
      s"NDArray -> $Symbol, true",
      s"NDArray-or-Symbol -> $Symbol, true",
      s"NDArray-or-Symbol[] -> Array[$Symbol], false",
      s"Symbol -> $Symbol, true",
      s"SymbolorSymbol[] -> Array[$Symbol], false"
    )
    val settings = Seq(
      "" -> "Any",
      "Shape(tuple)" -> Shape,
      "boolean" -> "Boolean",
      "double" -> "Double",
      "float" -> Float,
      "int" -> "Int",
      "int(non-negative)" -> "Int",
      "long" -> "Long",
      "string" -> "String",
      "tupleof<float>" -> s"org.apache.mxnet.TupleOf[$Float]",
      "{}" -> "String",
      "floatorNone" -> Float,
      "intorNone" -> "Int"
    )
    val both = settings.flatMap { case (cpp, scala) =>
      Seq(s"$cpp,optional,default= -> $scala, true", s"$cpp,required -> $scala, false")
    }
    inputs ++ both ++ Seq(
      s"ShapeorNone,optional,default= -> $Shape, true",
      "booleanorNone,optional,default= -> Boolean, true",
      "doubleorNone,optional,default= -> Double, true",
      "long(non-negative),optional,default= -> Long, true",
      "tupleof<double>,optional,default= -> org.apache.mxnet.TupleOf[scala.Double], true",
      s"tupleof<Shape(tuple)>,required -> org.apache.mxnet.TupleOf[$Shape], false",
      "tupleof<long>,required -> org.apache.mxnet.TupleOf[scala.Long], false",
      "ptr,required -> Any, false",
      s"float -> $Float, false",
      "int -> Int, false",
      s"real_t -> $Float, false",
      "string -> String, false"
    )
  }

  test("the released package's own conversions, for Scala and Java") {
    import org.apache.mxnet.utils.CToScalaUtils.argumentCleaner
    val (scala, java) = ("org.apache.mxnet.Symbol", "org.apache.mxnet.javaapi.NDArray")
    assertEquals(argumentCleaner("data", "NDArray-or-Symbol", scala, isJava = false), (scala, true))
    assertEquals(argumentCleaner("data", "NDArray-or-Symbol", java, isJava = true), (java, false))
    assertEquals(
      argumentCleaner("k", "Shape(tuple), required", java, isJava = true),
      ("org.apache.mxnet.javaapi.Shape", false)
    )
    assertEquals(
      argumentCleaner("p", "float, optional, default=0.5", java, isJava = true),
      ("java.lang.Float", true)
    )
    assertEquals(argumentCleaner("n", "int, required", scala, isJava = false), ("Int", false))
    intercept[IllegalArgumentException](argumentCleaner("n", "quaternion, required", scala, isJava = false))
  }
}
