package org.apache.mxnet

import java.nio.ByteBuffer

class SerializerSuite extends munit.FunSuite {
  private val serializer = Serializer.getSerializer

  test("values come back with type and content, also as text") {
    val values = Seq[Any](
      null,
      true,
      3,
      4L,
      0.5f,
      0.25,
      "Grüße",
      Some("x"),
      None,
      (1, "a"),
      Seq(Seq(1), Seq(2)),
      Set(1, 2),
      Map("k" -> 2.5f),
      Shape(2, 3)
    )
    values.foreach { value =>
      val text = Serializer.encodeBase64String(serializer.serialize[Any](value))
      assertEquals(serializer.deserialize[Any](Serializer.decodeBase64String(text)), value)
    }
    val array = NDArray.array(Array(1f, 2f), Shape(2))
    assertEquals(serializer.deserialize[NDArray](serializer.serialize(array)), array)
    assertEquals(serializer.deserialize[Array[Float]](serializer.serialize(Array(1f, 2f))).toSeq, Seq(1f, 2f))
  }

  test("other values, other types and damaged bytes are errors, and nothing in the bytes is run") {
    def message(body: => Any): String = intercept[MXNetError](body).getMessage
    assert(message(serializer.serialize(new Object)).contains("java.lang.Object cannot be written"))
    val bytes = serializer.serialize("text")
    assert(message(serializer.deserialize[Shape](bytes)).contains("hold a java.lang.String"))
    assert(message(serializer.deserialize[String](ByteBuffer.wrap(bytes.array.dropRight(1)))).contains("end too early"))
    assert(
      message(serializer.deserialize[String](ByteBuffer.wrap(Array[Byte](1, 2, 3, 4, 5)))).contains("not written by")
    )
    assert(message(Serializer.decodeBase64String("?")).contains("no Base64"))
  }
}
