package org.apache.mxnet.internal.util

import org.apache.mxnet.MXNetError

class JsonSuite extends munit.FunSuite {
  test("values of every kind") {
    val text =
      " {\"a\": [1, -2.5e2, true, false, null], \"b\": {\"c\": \"x\\n\\\"\\u00e4\"}, \"empty\": [], \"none\": {}} "
    val expected = Map(
      "a" -> Vector[Any](1.0, -250.0, true, false, null),
      "b" -> Map("c" -> "x\n\"ä"),
      "empty" -> Vector.empty,
      "none" -> Map.empty
    )
    assertEquals(Json.parse(text), expected: Any)
  }

  test("errors name the position and what is expected there") {
    val cases = Seq(
      "" -> "character 0: expected a value",
      "[1, 2" -> "character 5: expected ','",
      "{\"a\" 1}" -> "expected ':'",
      "[1] x" -> "character 4: expected the end",
      "\"abc" -> "a closing quote",
      "\"\\u12\"" -> "four hexadecimal digits",
      "nul" -> "expected null",
      "[1e]" -> "character 1: expected a value"
    )
    cases.foreach { case (text, message) =>
      val error = intercept[MXNetError](Json.parse(text))
      assert(error.getMessage.contains(message), s"$text: ${error.getMessage}")
    }
  }
}
