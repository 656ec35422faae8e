package org.apache.mxnet

import org.apache.mxnet.internal.operators.NativeOp

/** Names, attributes, contexts, layouts and types, which do not need the engine. */
class NamesSuite extends munit.FunSuite {

  test("NameManager counts for each hint and keeps given names") {
    val names = new NameManager
    assertEquals(names.get(None, "activation"), "activation0")
    assertEquals(names.get(None, "activation"), "activation1")
    assertEquals(names.get(None, "convolution"), "convolution0")
    assertEquals(names.get(Some("mine"), "activation"), "mine")
    assertEquals(names.counter.toMap, Map("activation" -> 2, "convolution" -> 1))
  }

  test("NameManager.withScope holds inside, for this thread, also when the body fails") {
    val outer = NameManager.current
    val inner = new NameManager
    inner.withScope {
      assert(NameManager.current eq inner)
      @volatile var seenElsewhere: NameManager = null
      val thread = new Thread(() => seenElsewhere = NameManager.current)
      thread.start()
      thread.join()
      assert(seenElsewhere eq outer)
    }
    intercept[IllegalStateException](inner.withScope(throw new IllegalStateException))
    assert(NameManager.current eq outer)
  }

  test("NameManager gives a name once when threads compete") {
    val names = new NameManager
    val results = new java.util.concurrent.ConcurrentLinkedQueue[String]
    val threads = Seq.fill(4)(new Thread(() => (1 to 500).foreach(_ => results.add(names.get(None, "x")))))
    threads.foreach(_.start())
    threads.foreach(_.join())
    assertEquals(results.toArray.toSet.size, 2000)
  }

  test("AttrScope: inner scopes inherit, the user has the last word") {
    AttrScope(Map("a" -> "1", "b" -> "1")).withScope {
      AttrScope(Map("b" -> "2")).withScope {
        assertEquals(AttrScope.current.get(None), Map("a" -> "1", "b" -> "2"))
        assertEquals(AttrScope.current.get(Some(Map("a" -> "3"))), Map("a" -> "3", "b" -> "2"))
      }
      assertEquals(AttrScope.current.get(None), Map("a" -> "1", "b" -> "1"))
    }
    assertEquals(AttrScope.current.get(None), Map.empty[String, String])
    assertEquals(AttrScope().get(Some(null)), Map.empty[String, String])
  }

  test("Context: names, codes, equality") {
    assertEquals(Context.cpu(), new Context("cpu", 0))
    assertEquals(Context.cpu(1).toString, "cpu(1)")
    assertNotEquals(Context.cpu(0), Context.cpu(1))
    assertNotEquals(Context.cpu(0), Context.gpu(0))
    assertEquals(new Context(Context.gpu(2)), Context.gpu(2))
    assertEquals((Context.gpu(2).deviceTypeid, Context.gpu(2).deviceType, Context.gpu(2).deviceId), (2, "gpu", 2))
    assertEquals(Context.fromCodes(1L << 32 | 3L), Context.cpu(3))
    val several: Array[Context] = Context.cpu(1)
    assertEquals(several.toSeq, Seq(Context.cpu(1)))
  }

  test("Context: withScope sets the default of this thread") {
    assertEquals(Context.defaultCtx, Context.cpu(0))
    Context.cpu(1).withScope(assertEquals(Context.defaultCtx, Context.cpu(1)))
    assertEquals(Context.defaultCtx, Context.cpu(0))
  }

  test("Context: an unknown device type and a negative id are errors") {
    assert(intercept[MXNetError](new Context("tpu")).getMessage.contains("cpu, cpu_pinned, gpu"))
    assert(intercept[MXNetError](Context.cpu(-1)).getMessage.contains("-1"))
  }

  test("DType: flags, names, sizes") {
    val flags = Seq(DType.Float32, DType.Float64, DType.Float16, DType.UInt8, DType.Int32, DType.Int8, DType.Int64)
    assertEquals(flags.map(_.id), Seq(0, 1, 2, 3, 4, 5, 6))
    assertEquals(flags.map(_.toString).take(4), Seq("float32", "float64", "float16", "uint8"))
    assertEquals(flags.map(DType.numOfBytes), Seq(4, 8, 2, 1, 4, 1, 8))
    assertEquals(DType.fromName("int64"), DType.Int64)
    assert(intercept[MXNetError](DType.fromName("float8")).getMessage.contains("float8"))
    assert(intercept[MXNetError](DType.fromId(99)).getMessage.contains("99"))
    assert(intercept[MXNetError](DType.numOfBytes(DType.Unknown)).getMessage.contains("unknown"))
  }

  test("Layout: the names of axes") {
    assertEquals(Seq(Layout.NCHW, Layout.NTC, Layout.NT, Layout.N), Seq("NCHW", "NTC", "NT", "N"))
  }

  test("MX_PRIMITIVES: lifts, order, negation") {
    import MX_PRIMITIVES._
    val values: Seq[MX_PRIMITIVE_TYPE] = Seq(FloatToMX_Float(2.5f), DoubleToMX_Double(0.1), IntToMX_Float(1))
    assertEquals(values.min.toString, "0.1")
    assertEquals((-values.head).toString, "-2.5")
    assert(values.head > values(2))
    assertEquals(MX_DoubleToDouble(new MX_Double(0.1)), 0.1)
    assertEquals(MX_FloatToFloat(new MX_FLOAT(0.5f)), 0.5f)
    assertEquals(Seq[Any](1f, 1d, "1").map(isValidMxPrimitiveType), Seq(true, true, false))
  }

  test("NativeOp.render: parameters as operators read them") {
    val rendered = Seq[Any](Shape(2, 2), (3, 3), Seq(1, 2), Array(0.5f, 1f), Some(7), None, true, "relu", DType.Int8)
    assertEquals(
      rendered.map(NativeOp.render),
      Seq("(2,2)", "(3,3)", "(1,2)", "(0.5,1.0)", "7", "None", "true", "relu", "int8")
    )
    assertEquals(Seq[Any](Float.NegativeInfinity, Double.PositiveInfinity).map(NativeOp.render), Seq("-inf", "inf"))
  }

  test("NDArrayInternal: elements of every type") {
    def read(dtype: DType.DType, bytes: Int*): NDArrayInternal = new NDArrayInternal(bytes.map(_.toByte).toArray, dtype)
    assertEquals(read(DType.Float32, 0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0).toFloatArray.toSeq, Seq(1f, -2f))
    assertEquals(read(DType.Float64, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f).toDoubleArray.toSeq, Seq(1.5))
    assertEquals(
      read(DType.Float16, 0x00, 0x3c, 0x01, 0x00, 0x00, 0xfc).toDoubleArray.toSeq,
      Seq(1.0, math.pow(2, -24), Double.NegativeInfinity)
    )
    assertEquals(read(DType.BFloat16, 0x80, 0x3f).toFloatArray.toSeq, Seq(1f))
    assertEquals(read(DType.UInt8, 255, 1).toIntArray.toSeq, Seq(255, 1))
    assertEquals(read(DType.Int8, 255, 1).toIntArray.toSeq, Seq(-1, 1))
    assertEquals(read(DType.Int32, 1, 0, 0, 0x80).toLongArray.toSeq, Seq(Int.MinValue + 1L))
    assertEquals(
      read(DType.Int64, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f).toLongArray.toSeq,
      Seq(Long.MaxValue)
    )
    assertEquals(read(DType.Bool, 1, 0).toByteArray.toSeq, Seq[Byte](1, 0))
    assert(intercept[MXNetError](read(DType.Int32, 1, 2, 3)).getMessage.contains("3 bytes"))
  }
}
