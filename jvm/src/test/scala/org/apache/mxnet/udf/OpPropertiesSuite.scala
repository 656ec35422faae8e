package org.apache.mxnet.udf

import org.apache.mxnet._
import org.apache.mxnet.internal.userop.OpProperties

/** C55: properties of operators as text and back. */
class OpPropertiesSuite extends munit.FunSuite {

  private def roundTrip(properties: Map[String, Any]): Map[String, Any] =
    OpProperties.fromJson("op", OpProperties.toJson("op", properties))

  /** Arrays as sequences and with their types, so that they can be compared. */
  private def comparable(value: Any): Any = value match {
    case array: Array[_]               => (array.getClass.getName, array.toSeq.map(comparable))
    case items: collection.Seq[_]      => (items.toString.takeWhile(_ != '('), items.map(comparable).toVector)
    case items: java.util.List[_]      => ("java", items.toString)
    case option: Option[_]             => option.map(comparable)
    case map: Map[_, _]                => map.map { case (key, inner) => key -> comparable(inner) }
    case map: java.util.Map[_, _]      => ("java", map.toString)
    case number: Double                => ("double", java.lang.Double.doubleToLongBits(number))
    case number: Float                 => ("float", java.lang.Float.floatToIntBits(number))
    case scalar: Any if scalar != null => (scalar.getClass.getName, scalar)
    case nothing                       => nothing
  }

  test("options, sequences and sets come back, also within each other") {
    val saved = Map[String, Any](
      "some" -> Some(3),
      "none" -> None,
      "list" -> List(0.5f, 1f),
      "seq" -> Vector(Some("a"), None),
      "set" -> Set(Shape(2, 3)),
      "map" -> Map("k" -> Seq(1L)),
      "pair" -> ((3, Some(3))),
      "triple" -> ((1f, "a", Seq(2))),
      "javaOption" -> java.util.Optional.of(1.5),
      "javaNone" -> java.util.Optional.empty[String](),
      "javaSet" -> java.util.Set.of("only")
    )
    assertEquals(roundTrip(saved), saved)
    val error = intercept[MXNetError](OpProperties.toJson("op", Map("bad" -> Seq(new Object))))
    assert(error.getMessage.contains("property 'bad(0)' is a java.lang.Object"), error.getMessage)
  }

  test("every kind of field comes back with its type and content") {
    val op = new Properties
    val saved = op.propertiesForFunction()
    assertEquals(
      saved.keySet -- Set("fixed"),
      Set(
        "flag",
        "byte",
        "short",
        "char",
        "int",
        "long",
        "float",
        "double",
        "nan",
        "infinite",
        "text",
        "nothing",
        "shape",
        "scalar",
        "dtype",
        "flags",
        "floats",
        "empty",
        "chars",
        "texts",
        "shapes",
        "matrix",
        "map",
        "javaMap",
        "list",
        "vector",
        "range",
        "arraySeq",
        "buffer",
        "javaList",
        "some",
        "none",
        "constants"
      )
    )
    val restored = roundTrip(saved)
    assertEquals(comparable(restored), comparable(saved))
    val other = new Properties
    saved.keySet.foreach(name => assert(restored.contains(name), name))
    other.flag = false
    other.floats = null
    other.map = Map.empty
    other.some = None
    other.list = Nil
    other.setPropertiesForFunction(restored)
    assertEquals(comparable(other.propertiesForFunction()), comparable(saved))
    assertEquals((other.flag, other.floats.toSeq, other.shape), (op.flag, op.floats.toSeq, op.shape))
  }

  test("what cannot be saved, and what does not fit, are errors that say so") {
    val unsaved = intercept[MXNetError](new Unsaved()(Symbol.Variable("x")))
    assert(unsaved.getMessage.contains("property 'thread' is a java.lang.Thread"), unsaved.getMessage)
    val scale = new Scale(1f)
    val unknown = intercept[MXNetError](scale.setPropertiesForFunction(Map("size" -> 1)))
    assert(unknown.getMessage.contains("no property 'size'; the fields of"), unknown.getMessage)
    val unfit = intercept[MXNetError](scale.setPropertiesForFunction(Map("factor" -> "2")))
    assert(unfit.getMessage.contains("is a String, but the field"), unfit.getMessage)
    intercept[MXNetError](OpProperties.toJson("op", Map("m" -> Map(1 -> 2))))
    intercept[MXNetError](OpProperties.toJson("op", null))
  }

  test("damaged and hostile texts are errors, and name no class that is loaded") {
    val texts = Seq(
      "{",
      "[]",
      "7",
      """{"a": 1}""",
      """{"a": {"int": "x"}}""",
      """{"a": {"int": "1", "b": "2"}}""",
      """{"a": {"java.lang.Runtime": "1"}}""",
      """{"a": {"int[]": "1,,2"}}""",
      """{"a": {"float[][]": ["1", 2]}}""",
      """{"a": {"byte": "300"}}""",
      """{"a": {"shape": "1,x"}}""",
      """{"a": {"dtype": "float7"}}""",
      """{"a": {"char": "70000"}}""",
      """{"a": {"string[]": "x"}}""",
      """{"a": {"map": "x"}}""",
      """{"a": {"option": [1, 2]}}""",
      """{"a": {"option": [{"int": "1"}, {"int": "2"}]}}""",
      """{"a": {"tuple": [{"int": "1"}]}}""",
      """{"a": {"java-optional": "1"}}""",
      """{"a": {"java-set": [1]}}""",
      """{"a": {"list": [1]}}""",
      """{"a": {"list": "1"}}""",
      """{"a": {"range": "1,2,0,true"}}""",
      """{"a": {"range": "1,2"}}"""
    )
    texts.foreach { text =>
      val error = intercept[MXNetError](OpProperties.fromJson("op", text))
      assert(error.getMessage.nonEmpty, text)
    }
  }

  test("names and texts of any characters") {
    val strange = "\u0000\"\\\u2028\ud83d\ude00"
    assertEquals(roundTrip(Map(strange -> strange)), Map[String, Any](strange -> strange))
  }
}
