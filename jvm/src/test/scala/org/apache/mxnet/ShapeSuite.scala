package org.apache.mxnet

class ShapeSuite extends munit.FunSuite {
  test("tuples, sequences and arrays convert where a shape is expected") {
    val shapes = Seq[Shape]((2, 3), (2, 3, 4), (2, 3, 4, 5), Seq(2), Vector(2, 3), Array(3, 2))
    assertEquals(shapes.mkString, "(2,3)(2,3,4)(2,3,4,5)(2)(2,3)(3,2)")
    assertEquals(NDArray.zeros((2, 3)).shape, Shape(2, 3))
    assertEquals(NDArray.zeros(2, 3).shape, Shape(2, 3))
    assertEquals(NDArray.zeros(2).shape, Shape(2))
    assertEquals(NDArray.ones(2, 3).reshape(Array(3, 2)).shape, Shape(3, 2))
    val image = NDArray.ones(1, 1, 4, 4)
    assertEquals(
      NDArray.api.Pooling(image, kernel = (2, 2), pool_type = "max", stride = (2, 2)).shape,
      Shape(1, 1, 2, 2)
    )
  }

  private val shape = Shape(2, 3, 4)

  test("dimensions are read by index, as parts and as a whole") {
    assertEquals((shape(0), shape.get(2), shape.head, shape.size, shape.length), (2, 4, 2, 3, 3))
    assertEquals(shape.drop(1), Shape(3, 4))
    assertEquals(shape.slice(1, 2), Shape(3))
    assertEquals(shape ++ Shape(5), Shape(2, 3, 4, 5))
    assertEquals(shape.toVector, Vector(2, 3, 4))
  }

  test("ranges of dimensions are clamped, as those of collections are") {
    for (from <- -1 to 4; end <- -1 to 4) {
      assertEquals(shape.slice(from, end).toVector, shape.toVector.slice(from, end), s"slice($from, $end)")
    }
    for (count <- -1 to 4) assertEquals(shape.drop(count).toVector, shape.toVector.drop(count))
  }

  test("one to four numbers and a sequence give the same shape") {
    val numbers = Vector(Shape(5), Shape(5, 6), Shape(5, 6, 7), Shape(5, 6, 7, 8), Shape(5, 6, 7, 8, 9))
    assertEquals(numbers, (5 to 9).map(last => Shape((5 to last): _*)).toVector)
    val arrays = Vector(NDArray.zeros(1), NDArray.zeros(1, 2), NDArray.zeros(1, 2, 3), NDArray.zeros(1, 2, 3, 4))
    assertEquals(arrays.map(_.shape), (1 to 4).map(last => Shape(1 to last)).toVector)
    assertEquals(
      Seq(NDArray.ones(1, 1, 2, 1), NDArray.ones(1, 2, 1), NDArray.ones(2, 1)).map(_.toArray.sum),
      Seq.fill(3)(2f)
    )
    assertEquals(Seq(2, 3).map(NDArray.ones(_)).map(_.size), Seq(2, 3))
    assertEquals((NDArray.zeros(Shape(0, 2)).shape, NDArray.empty(Shape(3)).dtype), (Shape(0, 2), DType.Float32))
  }

  test("a shape is created from numbers, a collection or an array") {
    val all = Seq(Shape(Seq(2, 3, 4)), Shape(Array(2, 3, 4)), new Shape(2, 3, 4), Shape.create(2, 3, 4))
    all.foreach(assertEquals(_, shape))
    assertEquals(all.map(_.hashCode).distinct, Seq(shape.hashCode))
    assertNotEquals(shape, Shape(2, 3))
  }

  test("the text is what operators read") {
    assertEquals(Seq(Shape(2, 3), Shape(2), Shape()).map(_.toString), Seq("(2,3)", "(2)", "()"))
  }

  test("changing the array of a shape does not change the shape") {
    shape.toArray(0) = 9
    assertEquals(shape(0), 2)
  }

  test("the product counts elements, and one that no JVM array can hold is an error") {
    assertEquals(shape.product, 24)
    assertEquals(Shape().product, 1)
    assertEquals(Shape(0, 5).product, 0)
    val error = intercept[MXNetError](Shape(65536, 65536).product)
    assert(error.getMessage.contains("4294967296 elements"), error.getMessage)
    assert(
      intercept[MXNetError](Shape(Int.MaxValue, Int.MaxValue, Int.MaxValue).product).getMessage.contains("elements")
    )
  }

  test("tuples are shapes") {
    val shapes: Seq[Shape] = Seq((2, 3), (1, 2, 3), (1, 2, 3, 4), (1, 2, 3, 4, 5), (6, 5, 4, 3, 2, 1))
    assertEquals(shapes.map(_.length), Seq(2, 3, 4, 5, 6))
    assertEquals(shapes.last, Shape(6, 5, 4, 3, 2, 1))
    val image = NDArray.ones(1, 1, 2, 2)
    val padded = NDArray.api.pad(image, mode = "constant", pad_width = (0, 0, 0, 0, 1, 1, 2, 2)).head
    assertEquals(padded.shape, Shape(1, 1, 4, 6))
    val volume = image.reshape(Shape(1, 1, 1, 2, 2))
    val more = NDArray.api.pad(volume, mode = "edge", pad_width = (0, 0, 0, 0, 1, 0, 0, 1, 0, 0)).head
    assertEquals(more.shape, Shape(1, 1, 2, 3, 2))
  }

  test("a dimension that does not exist is named") {
    assert(intercept[MXNetError](shape(3)).getMessage.contains("no dimension 3"))
    assert(intercept[MXNetError](Shape().head).getMessage.contains("0 dimensions"))
  }

  test("dimensions of the native interface") {
    assertEquals(Shape.fromLongs(Array(2L, 3L)), Shape(2, 3))
    assertEquals(Shape.fromLongs(null), Shape())
    assert(intercept[MXNetError](Shape.fromLongs(Array(1L << 40))).getMessage.contains("1099511627776"))
  }
}
