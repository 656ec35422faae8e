package org.apache.mxnet

import java.nio.ByteBuffer

import org.apache.mxnet.optimizer._

class SerializerSuite extends munit.FunSuite {
  private val serializer = Serializer.getSerializer

  test("values are restored with type and content, also from text") {
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

  test("what is serializable in MXNet can be used in closures of Spark") {
    val values =
      Seq(Shape(2, 3), Shape(), Context.gpu(1), DType.Int32, DataDesc("data", Shape(2, 3), DType.UInt8, "NC"))
    values.foreach(value => assertEquals(JavaSerialization.copyOf(value), value))
    val optimizer = new SGD(0.4f, 0.9f, lrScheduler = new FactorScheduler(4, 0.5f))
    optimizer.setSymbol(Symbol.Variable("weight"))
    (0 until 3).foreach { _ =>
      val copy = JavaSerialization.copyOf(optimizer)
      assertEquals(parametersAfter(copy), parametersAfter(optimizer))
    }
  }

  /** Two parameters after some steps. */
  private def parametersAfter(optimizer: Optimizer): Seq[Float] = (0 to 1).flatMap { index =>
    Random.seed(index)
    val weight = NDArray.array(Array(1f, -2f), Shape(2))
    val state = optimizer.createState(index, weight)
    (0 until 3).foreach { _ =>
      optimizer.update(index, weight, NDArray.array(Array(0.5f, 0.25f), Shape(2)), state)
    }
    weight.toArray.toSeq
  }

  test("optimizers of the library are restored with their numbers, schedule and multipliers") {
    val optimizers = Seq(new SGD(0.1f, 0.9f, 0.0005f), new Adam(0.02f, clipGradient = 2f), new AdaGrad(0.3f)) ++
      Seq(new AdaDelta(0.8f), new RMSProp(0.3f), new NAG(0.1f, 0.5f), new SGLD(0.1f), new DCASGD(0.1f, 0.5f))
    val schedule = new FactorScheduler(2, 0.5f)
    (optimizers :+ new SGD(0.4f, lrScheduler = schedule)).foreach { optimizer =>
      optimizer.setIdx2Name(Map(0 -> "fc_weight", 1 -> "fc_bias"))
      optimizer.setLrMult(Map(Left(0) -> 0.5f, Right("fc_bias") -> 2f))
      optimizer.setRescaleGrad(0.25f)
      val copy = serializer.deserialize[Optimizer](serializer.serialize(optimizer))
      assertEquals(copy.getClass.getName, optimizer.getClass.getName)
      assertEquals(parametersAfter(copy), parametersAfter(optimizer))
    }
    val momentum = classOf[SGD].getDeclaredField("momentum")
    momentum.setAccessible(true)
    val copy = serializer.deserialize[Optimizer](serializer.serialize[Optimizer](optimizers.head))
    assertEquals(momentum.get(copy), 0.9f)
    val error = intercept[MXNetError](serializer.serialize[Optimizer](new SGD(0.1f) {})).getMessage
    assert(error.contains("no other can be written"), error)
  }

  test("other values, other types and damaged bytes are errors, and nothing in the bytes is run") {
    def message(body: => Any): String = intercept[MXNetError](body).getMessage
    assert(message(serializer.serialize(new Object)).contains("java.lang.Object cannot be serialized"))
    val bytes = serializer.serialize("text")
    assert(message(serializer.deserialize[Shape](bytes)).contains("contain a java.lang.String"))
    assert(message(serializer.deserialize[String](ByteBuffer.wrap(bytes.array.dropRight(1)))).contains("end too early"))
    assert(
      message(serializer.deserialize[String](ByteBuffer.wrap(Array[Byte](1, 2, 3, 4, 5)))).contains("not written by")
    )
    assert(message(Serializer.decodeBase64String("?")).contains("not Base64"))
  }
}
