package org.apache.mxnet

import java.nio.file.Path

import org.apache.mxnet.NDArrayConversions._
import org.apache.mxnet.internal.memory.NDArrayOrigin

class NDArraySuite extends munit.FunSuite with TemporaryFiles {
  private val folder = FunFixture[Path](_ => temporaryFolder("ndarray"), _ => ())

  private def vector(values: Float*): NDArray = NDArray.array(values.toArray, Shape(values.length))

  private def values(array: NDArray): Seq[Float] = array.toArray.toSeq

  test("zeros, ones, full, empty: shape, type, context, elements") {
    assertEquals(values(NDArray.zeros(2, 2)), Seq.fill(4)(0f))
    assertEquals(values(NDArray.ones(Shape(3))), Seq.fill(3)(1f))
    assertEquals(values(NDArray.ones(Context.cpu(1), 2)), Seq(1f, 1f))
    assertEquals(values(NDArray.full(Shape(2), 2.5f)), Seq(2.5f, 2.5f))
    assertEquals(
      Seq(NDArray.full(Shape(2), 2.5f), NDArray.full(Shape(2), 2), NDArray.full(Shape(2), 2f, Context.cpu()))
        .map(_.dtype)
        .distinct,
      Seq(DType.Float32)
    )
    val precise = NDArray.full(Shape(2), 0.1)
    assertEquals((precise.dtype, precise.toFloat64Array.toSeq), (DType.Float64, Seq(0.1, 0.1)))
    val typed = NDArray.zeros(Shape(2, 3), Context.cpu(1), DType.Int32)
    assertEquals((typed.shape, typed.dtype, typed.context, typed.size), (Shape(2, 3), DType.Int32, Context.cpu(1), 6))
    assertEquals(NDArray.empty(Shape(4, 5), dtype = DType.Float16).dtype, DType.Float16)
    assertEquals(Seq(NDArray.empty(2, 3), NDArray.empty(Context.cpu(), 2, 3)).map(_.shape).distinct, Seq(Shape(2, 3)))
  }

  test("array and set: 32 and 64 bits, and conversion to the array's type") {
    assertEquals(values(vector(1, 2, 3)), Seq(1f, 2f, 3f))
    assertEquals(NDArray.array(Array(0.1, 0.2), Shape(2)).toFloat64Array.toSeq, Seq(0.1, 0.2))
    val bytes = NDArray.empty(Shape(2), dtype = DType.UInt8)
    bytes.set(Array(7f, 250f))
    assertEquals(values(bytes), Seq(7f, 250f))
    assertEquals(bytes.internal.getRaw.toSeq, Seq(7.toByte, 250.toByte))
    bytes.set(3f)
    assertEquals(values(bytes), Seq(3f, 3f))
    val target = NDArray.zeros(2)
    assert(target.set(vector(4, 5)) eq target)
    assertEquals(values(target.set(Array(1.5, 2.5))), Seq(1.5f, 2.5f))
  }

  test("toNDArray: nested Java arrays") {
    val matrix = NDArray.toNDArray(Array(Array(1f, 2f), Array(3f, 4f)))
    assertEquals((matrix.shape, matrix.dtype, values(matrix)), (Shape(2, 2), DType.Float32, Seq(1f, 2f, 3f, 4f)))
    val cube = NDArray.toNDArray(Array(Array(Array(0.5), Array(1.5))))
    assertEquals((cube.shape, cube.dtype, cube.toFloat64Array.toSeq), (Shape(1, 2, 1), DType.Float64, Seq(0.5, 1.5)))
  }

  test("arithmetic and comparison of arrays, into new ones") {
    val (a, b) = (Seq(1f, -2f, 3f, 0.5f), Seq(2f, -2f, 0.25f, -4f))
    val (x, y) = (vector(a: _*), vector(b: _*))
    def check(result: NDArray, f: (Float, Float) => Float): Unit =
      assertEquals(values(result), a.lazyZip(b).map(f))
    def truth(f: (Float, Float) => Boolean): (Float, Float) => Float = (l, r) => if (f(l, r)) 1f else 0f
    check(x + y, _ + _)
    check(x - y, _ - _)
    check(x * y, _ * _)
    check(x / y, _ / _)
    check(x % y, (l, r) => { val m = l % r; if (m != 0 && (m < 0) != (r < 0)) m + r else m })
    check(x > y, truth(_ > _))
    check(x >= y, truth(_ >= _))
    check(x < y, truth(_ < _))
    check(x <= y, truth(_ <= _))
    check(NDArray.equal(x, y), truth(_ == _))
    check(NDArray.notEqual(x, y), truth(_ != _))
    check(NDArray.maximum(x, y), math.max)
    check(NDArray.minimum(x, y), math.min)
    assertEquals(values(vector(2, 3) ** vector(3, 2)), Seq(8f, 9f))
    assertEquals(values(NDArray.power(vector(2, 3), vector(3, 2))), Seq(8f, 9f))
    assertEquals((values(x), values(y)), (a, b))
  }

  test("arithmetic and comparison with scalars, on either side") {
    val x = vector(1, 2, 4)
    assertEquals(values(x + 1), Seq(2f, 3f, 5f))
    assertEquals(values(x - 1f), Seq(0f, 1f, 3f))
    assertEquals(values(x * 2d), Seq(2f, 4f, 8f))
    assertEquals(values(x / 2), Seq(0.5f, 1f, 2f))
    assertEquals(values(x ** 2), Seq(1f, 4f, 16f))
    assertEquals(values(x % 3), Seq(1f, 2f, 1f))
    assertEquals(values(-x), Seq(-1f, -2f, -4f))
    assertEquals(values(1f + x), Seq(2f, 3f, 5f))
    assertEquals(values(1f - x), Seq(0f, -1f, -3f))
    assertEquals(values(2 * x), Seq(2f, 4f, 8f))
    assertEquals(values(4d / x), Seq(4f, 2f, 1f))
    assertEquals(values(2f ** x), Seq(2f, 4f, 16f))
    assertEquals(values(x > 2), Seq(0f, 0f, 1f))
    assertEquals(values(x >= 2), Seq(0f, 1f, 1f))
    assertEquals(values(x < 2), Seq(1f, 0f, 0f))
    assertEquals(values(x <= 2), Seq(1f, 1f, 0f))
    assertEquals(values(2f > x), Seq(1f, 0f, 0f))
    assertEquals(values(2f <= x), Seq(0f, 1f, 1f))
    assertEquals(values(NDArray.maximum(3f, x)), Seq(3f, 3f, 4f))
    assertEquals(values(NDArray.minimum(x, 3f)), Seq(1f, 2f, 3f))
    assertEquals(values(NDArray.power(2f, x)), Seq(2f, 4f, 16f))
    assertEquals(values(NDArray.equal(x, 2f)), Seq(0f, 1f, 0f))
    assertEquals(values(NDArray.notEqual(x, 2f)), Seq(1f, 0f, 1f))
  }

  test("in-place operators write into the array and return it") {
    val x = vector(1, 2)
    val same = x
    assert((x += vector(1, 1)) eq same)
    assertEquals(values(x), Seq(2f, 3f))
    x -= 1f
    x *= vector(4, 4)
    x /= 2
    assertEquals(values(x), Seq(2f, 4f))
    x **= 2
    x %= 5
    assertEquals(values(x), Seq(4f, 1f))
    x += 1
    x -= vector(1, 0)
    x *= 2
    x /= vector(2, 1)
    x %= vector(3, 3)
    x **= vector(1, 2)
    assertEquals(values(x), Seq(1f, 1f))
  }

  test("slice, at and reshape share memory") {
    val x = NDArray.array(Array.tabulate(6)(_.toFloat), Shape(3, 2))
    assertEquals((x.slice(1, 3).shape, values(x.slice(1, 3))), (Shape(2, 2), Seq(2f, 3f, 4f, 5f)))
    assertEquals(values(x.slice((0, 1))), Seq(0f, 1f))
    assertEquals(x.slice(2).shape, Shape(1, 2))
    assertEquals((x.at(2).shape, values(x.at(2))), (Shape(2), Seq(4f, 5f)))
    assertEquals(x.reshape(Array(2, 3)).shape, Shape(2, 3))
    assertEquals(x.reshape(Array(-1)).shape, Shape(6))
    assertEquals(x.reshape(Shape(6, 1)).shape, Shape(6, 1))
    assertEquals(x.reshape(Array(-1L, 0L), Some(true)).shape, Shape(3, 2))
    x.at(0).set(9f)
    x.slice(1) += 10f
    x.reshape(Array(6)).slice(5) *= 0f
    assertEquals(values(x), Seq(9f, 9f, 12f, 13f, 4f, 0f))
  }

  test("T, asType, copy, copyTo, asInContext") {
    val x = NDArray.array(Array(1f, 2f, 3f, 4f, 5f, 6f), Shape(2, 3))
    assertEquals((x.T.shape, values(x.T)), (Shape(3, 2), Seq(1f, 4f, 2f, 5f, 3f, 6f)))
    assert(x.asType(DType.Float32) eq x)
    assertEquals((x / 2).asType(DType.Int32).toArray.toSeq, Seq(0f, 1f, 1f, 2f, 2f, 3f))
    val copy = x.copy()
    x.set(0f)
    assertEquals(values(copy), Seq(1f, 2f, 3f, 4f, 5f, 6f))
    val wide = NDArray.zeros(Shape(2, 3), dtype = DType.Float64)
    assert(copy.copyTo(wide) eq wide)
    assertEquals(wide.toFloat64Array.toSeq, Seq(1d, 2d, 3d, 4d, 5d, 6d))
    assert(x.asInContext(Context.cpu(0)) eq x)
    val elsewhere = copy.asInContext(Context.cpu(1))
    assertEquals((elsewhere.context, values(elsewhere)), (Context.cpu(1), values(copy)))
    assertEquals(copy.copyTo(Context.cpu(1)).context, Context.cpu(1))
  }

  test("arange, concatenate, onehotEncode") {
    assertEquals(values(NDArray.arange(3f)), Seq(0f, 1f, 2f))
    assertEquals(values(NDArray.arange(1f, Some(3f), 0.5f)), Seq(1f, 1.5f, 2f, 2.5f))
    val repeated = NDArray.arange(0f, Some(2f), repeat = 2, dType = DType.Int32)
    assertEquals((repeated.dtype, values(repeated)), (DType.Int32, Seq(0f, 0f, 1f, 1f)))
    val (a, b) = (NDArray.ones(1, 2), NDArray.zeros(2, 2))
    assertEquals(values(NDArray.concatenate(a, b)), Seq(1f, 1f, 0f, 0f, 0f, 0f))
    assertEquals(NDArray.concatenate(Seq(b, b), axis = 1).shape, Shape(2, 4))
    assert(NDArray.concatenate(Seq(a), alwaysCopy = false) eq a)
    val out = NDArray.empty(2, 3)
    assert(NDArray.onehotEncode(vector(2, 0), out) eq out)
    assertEquals(values(out), Seq(0f, 0f, 1f, 1f, 0f, 0f))
  }

  test("toScalar and toFloat64Scalar") {
    assertEquals(vector(2.5f).toScalar, 2.5f)
    assertEquals(NDArray.full(Shape(1), 0.1).toFloat64Scalar, 0.1)
    val error = intercept[IllegalArgumentException](NDArray.ones(1, 1).toScalar)
    assert(error.getMessage.contains("The current array is not a scalar: its shape is (1,1)"), error.getMessage)
  }

  test("a null operand or input is an error that names operator and input") {
    val (x, missing) = (vector(1), null: NDArray)
    def message(body: => Any): String = intercept[MXNetError](body).getMessage
    assert(
      message(x + missing).contains("elemwise_add") || message(x + missing).contains("_plus"),
      message(x + missing)
    )
    assert(message(x += missing).contains("an operand is null"))
    assert(message(NDArray.maximum(missing, x)).contains("an operand is null"))
    assert(message(NDArray.Concat(Array(x, missing))).contains("Concat: input 1 of 2"))
    val typed = intercept[IllegalArgumentException](NDArray.api.Concat(Array(x, missing)))
    assert(typed.getMessage.contains("Concat: input 1 of 2 is null"), typed.getMessage)
    val symbol = intercept[MXNetError](Symbol.Concat("joined")(Symbol.Variable("x"), null)())
    assert(symbol.getMessage.contains("input 1 of 2 of 'joined' is null"), symbol.getMessage)
  }

  test("an axis of None, where that means all elements, is not the default axis") {
    val x = NDArray.array(Array(3f, 1f, 4f, 1f, 5f, 9f), Shape(2, 3))
    assertEquals(values(NDArray.api.sort(x, axis = None)), Seq(1f, 1f, 3f, 4f, 5f, 9f))
    assertEquals(values(NDArray.api.sort(x)), Seq(1f, 3f, 4f, 1f, 5f, 9f))
    assertEquals(values(NDArray.api.argsort(x, axis = None)), Seq(1f, 3f, 0f, 2f, 4f, 5f))
    assertEquals(values(NDArray.api.topk(x, axis = None, k = 2, ret_typ = "value")), Seq(9f, 5f))
    assertEquals(values(NDArray.api.topk(x, axis = null, k = 1, ret_typ = "value")), Seq(4f, 9f))
    val axis: Option[Int] = Some(0)
    assertEquals(values(NDArray.api.sort(x, axis = axis)), Seq(1f, 1f, 4f, 3f, 5f, 9f))
    val symbols = Seq[Symbol => Symbol](
      Symbol.api.sort(_, axis = None),
      Symbol.api.argsort(_, axis = None),
      Symbol.api.topk(_, axis = None, k = 2, ret_typ = "value")
    )
    val shapes = symbols.map(_(Symbol.Variable("x")).inferShape(Map("x" -> Shape(2, 3)))._2.head)
    assertEquals(shapes, Seq(Shape(6), Shape(6), Shape(2)))
    // None is omitted if it is the default, or if the argument has no value None.
    assertEquals(values(NDArray.api.sum(x, axis = None)), Seq(23f))
  }

  test("generated functions: positional, named, out, several outputs") {
    val x = vector(-1, 2)
    assertEquals(values(NDArray.relu(x)), Seq(0f, 2f))
    assertEquals(values(NDArray.Activation(Map("act_type" -> "relu"))(x)), Seq(0f, 2f))
    assertEquals(values(NDArray.clip(x, -0.5, 1)), Seq(-0.5f, 1f))
    assertEquals(values(NDArray.api.relu(x)), Seq(0f, 2f))
    val out = NDArray.empty(2)
    val returned = NDArray.relu(Map("out" -> out))(x)
    assert(returned.get eq out)
    assertEquals(values(out), Seq(0f, 2f))
    assert(NDArray.api.relu(x, out = Some(out)).head eq out)
    val parts = NDArray.SliceChannel(Map("num_outputs" -> 2, "axis" -> 0))(vector(5, 6))
    assertEquals((values(parts(0)), values(parts(1))), (Seq(5f), Seq(6f)))
    assertEquals(values(NDArray.Concat(Map("dim" -> 0))(parts)), Seq(5f, 6f))
    assertEquals(values(parts + 1f), Seq(6f))
    assertEquals(values(1f - parts), Seq(-4f))
    assert(intercept[MXNetError](parts.get).getMessage.contains("exactly one output, there are 2"))
    assert(intercept[MXNetError](parts(2)).getMessage.contains("no output 2"))
  }

  folder.test("save and load, with and without names") { directory =>
    val file = directory.resolve("arrays.params").toString
    val (a, b) = (vector(1, 2), NDArray.full(Shape(2, 1), 0.1))
    NDArray.save(file, Map("arg:a" -> a, "aux:b" -> b))
    assertEquals(NDArray.load2Map(file), Map("arg:a" -> a, "aux:b" -> b))
    NDArray.save(file, Seq(a, b))
    assertEquals(NDArray.load2Array(file).toSeq, Seq(a, b))
    assertEquals(NDArray.load(file)._1.length, 0)
    assert(intercept[MXNetError](NDArray.load2Map(file)).getMessage.contains("have no names"))
  }

  test("serialize and deserialize keep type, shape and elements") {
    Seq(vector(1, 2).reshape(Array(1, 2)), NDArray.full(Shape(2), 0.1), NDArray.zeros(Shape(3), dtype = DType.Int8))
      .foreach(array => assertEquals(NDArray.deserialize(array.serialize()), array))
  }

  test("equality looks at type, shape and elements") {
    val x = vector(1, 2)
    assertEquals(x, vector(1, 2))
    assertEquals(x.hashCode, vector(1, 2).hashCode)
    assertNotEquals(x, vector(1, 3))
    assertNotEquals(x, x.reshape(Array(2, 1)))
    assertNotEquals(x, x.asType(DType.Float64))
    assertEquals(vector(Float.NaN), vector(Float.NaN))
    val big = NDArray.zeros(Shape(1), dtype = DType.Int64)
    assertNotEquals(big, big + 1)
    assert(!x.equals("x"))
  }

  test("toString shows elements, shape, context and type") {
    val text = NDArray.array(Array(1f, 2f, 3f, 4f), Shape(2, 2)).toString
    assertEquals(text, "[\n [1.0,2.0]\n [3.0,4.0]\n]\n<NDArray (2,2) cpu(0) float32>")
    assertEquals(vector(1, 2).toString, "[1.0,2.0]\n<NDArray (2) cpu(0) float32>")
    val cube = NDArray.arange(0f, Some(4f)).reshape(Array(1, 2, 2)).toString
    assertEquals(cube.linesIterator.toSeq.init, Seq("[", " [", "  [0.0,1.0]", "  [2.0,3.0]", " ]", "]"))
  }

  test("toString shows 64-bit numbers, and integers that 32-bit floating point lacks") {
    assertEquals(NDArray.full(Shape(1), 1e300).toString, "[1.0E300]\n<NDArray (1) cpu(0) float64>")
    val count = NDArray.full(Shape(1), 16777217.0).asType(DType.Int32)
    assertEquals(count.toString, "[1.6777217E7]\n<NDArray (1) cpu(0) int32>")
  }

  test("toString shortens long rows and large arrays") {
    val row = NDArray.arange(0f, Some(1001f)).toString
    val (front, back) = ((0 until 10).map(_.toFloat), (991 until 1000).map(_.toFloat))
    assertEquals(row.linesIterator.next(), s"[${front.mkString(",")} ... ${back.mkString(",")}]")
    val table = NDArray.zeros(30000, 4).toString
    assertEquals(table.linesIterator.toSeq.init, Seq("[", " [0.0,0.0,0.0,0.0]", "", " ... with length 30000", "]"))
  }

  test("disposeDeps disposes what an array was computed from, also through temporaries") {
    val (a, b) = (vector(1), vector(2))
    val sum = a + b
    val result = (sum * 2f).disposeDeps()
    assertEquals(Seq(a, b, sum).map(_.isDisposed), Seq(true, true, true))
    assertEquals(values(result), Seq(6f))
    val (c, d) = (vector(1), vector(2))
    (c + d).disposeDepsExcept(c)
    assertEquals((c.isDisposed, d.isDisposed), (false, true))
    val (e, f, g) = (vector(1), vector(2), vector(3))
    val kept = e + f
    val left = (e + f + kept + g).disposeDepsExcept(kept)
    assertEquals(
      Seq(e, f, kept, g).map(_.isDisposed),
      Seq(false, false, false, true),
      "what is kept was computed of e and f"
    )
    assertEquals(left.dependencies.keySet, Set(e, f, kept).map(_.handle))
  }

  test("a history that grows in a loop is forgotten where its arrays are gone") {
    var x = vector(0)
    (1 to 1000).foreach { _ =>
      val next = x + 1
      x.dispose()
      x = next
    }
    assertEquals(values(x), Seq(1000f))
    assert(NDArrayOrigin.liveArrays(x.inputs).isEmpty)
  }

  test("NDArrayCollector.auto disposes temporaries, not the result") {
    val (a, b) = (vector(1), vector(2))
    var temporary: NDArray = null
    val result = NDArrayCollector.auto().withScope {
      temporary = a + b
      temporary * 2f
    }
    assertEquals((temporary.isDisposed, a.isDisposed, values(result)), (true, false, Seq(6f)))
  }

  test("NDArrayCollector.manual keeps what it collected until clear") {
    val collector = NDArrayCollector.manual()
    val made = collector.withScope {
      vector(1)
      Seq(vector(2), vector(3))
    }
    assertEquals(collector.size, 1)
    var seen = 0
    collector.foreach(array => { assert(!array.isDisposed); seen += 1 })
    collector.clear()
    assertEquals((seen, collector.size, made.exists(_.isDisposed)), (1, 0, false))
  }

  test("ResourceScope frees temporaries and keeps results of functions") {
    val x = vector(-1, 2)
    var temporary: NDArray = null
    val result = ResourceScope.using() {
      temporary = x * 2f
      NDArray.relu(temporary)
    }
    assertEquals((temporary.isDisposed, x.isDisposed, values(result)), (true, false, Seq(0f, 4f)))
  }

  test("threads may share arrays") {
    val shared = vector(0)
    val threads = Seq.fill(4)(new Thread(() => (1 to 250).foreach(_ => shared += 1f)))
    threads.foreach(_.start())
    threads.foreach(_.join())
    assertEquals(values(shared), Seq(1000f))
  }

  test("temporaries are collected while native calls use them") {
    val x = NDArray.ones(1000)
    (1 to 3000).foreach { i =>
      val sum = ((x + 1f) * (x + 2f)).toArray
      if (i % 500 == 0) System.gc()
      assertEquals(sum(999), 6f)
    }
  }

  test("large arrays that nobody uses or disposes are collected before they pile up") {
    val before = Base._LIB.memoryInUse()
    val most = (1 to 400).map { _ =>
      NDArray.empty(1 << 20)
      Base._LIB.memoryInUse() - before
    }.max
    assert(most < (1L << 30), s"$most bytes of ${400L << 22} were in use at once")
  }

  test("random numbers follow the seed and their distribution") {
    Random.seed(17)
    val first = Random.uniform(-1f, 3f, Shape(10000)).toArray
    Random.seed(17)
    val second = Random.uniform(-1f, 3f, Shape(10000)).toArray
    assertEquals(first.toSeq, second.toSeq)
    assert(first.forall(v => v >= -1f && v < 3f))
    assertEqualsDouble(first.map(_.toDouble).sum / first.length, 1.0, 0.05)
    val out = NDArray.empty(10000)
    assert(Random.normal(2f, 3f, out = out) eq out)
    val numbers = out.toFloat64Array
    val mean = numbers.sum / numbers.length
    assertEqualsDouble(mean, 2.0, 0.15)
    assertEqualsDouble(math.sqrt(numbers.map(v => (v - mean) * (v - mean)).sum / numbers.length), 3.0, 0.15)
  }
}
