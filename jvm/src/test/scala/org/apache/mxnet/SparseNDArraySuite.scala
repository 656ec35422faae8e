package org.apache.mxnet

/** csr and row_sparse arrays: components, conversions, operators, binding. */
class SparseNDArraySuite extends munit.FunSuite {
  private val cpu = Context.cpu()

  /** 1 0 2 / 0 0 0 / 0 3 0 */
  private def matrix: SparseNDArray =
    SparseNDArray.csrMatrix(Array(1f, 2f, 3f), Array(0f, 2f, 1f), Array(0f, 2f, 2f, 3f), Shape(3, 3), cpu)

  private def rows: SparseNDArray =
    SparseNDArray.rowSparseArray(Array(Array(1f, 2f), Array(3f, 4f)), Array(1f, 3f), Shape(5, 2), cpu)

  private val matrixElements = Seq(1f, 0f, 2f, 0f, 0f, 0f, 0f, 3f, 0f)
  private val rowElements = Seq(0f, 0f, 1f, 2f, 0f, 0f, 3f, 4f, 0f, 0f)

  test("a matrix of compressed sparse rows gives its elements and its parts") {
    val m = matrix
    assert(m.isSparse)
    assertEquals(m.sparseFormat, SparseFormat.CSR)
    assertEquals(m.shape, Shape(3, 3))
    assertEquals(m.toArray.toSeq, matrixElements)
    assertEquals(m.toFloat64Array.toSeq, matrixElements.map(_.toDouble))
    assertEquals(m.getData.toArray.toSeq, Seq(1f, 2f, 3f))
    assertEquals(m.getIndptr.toArray.toSeq, Seq(0f, 2f, 2f, 3f))
    assertEquals(m.getIndices.toArray.toSeq, Seq(0f, 2f, 1f))
  }

  test("a row-sparse array gives its elements and its rows") {
    val r = rows
    assertEquals(r.sparseFormat, SparseFormat.ROW_SPARSE)
    assertEquals(r.toArray.toSeq, rowElements)
    assertEquals(r.getIndices.toArray.toSeq, Seq(1f, 3f))
    assertEquals(r.getData.shape, Shape(2, 2))
    assertEquals(r.toDense.isSparse, false)
    assert(intercept[MXNetError](r.getIndptr).getMessage.contains("must be csr"))
  }

  test("dense arrays become sparse ones and come back") {
    val dense = NDArray.array(rowElements.toArray, Shape(5, 2), cpu)
    assertEquals(dense.toSparse().sparseFormat, SparseFormat.ROW_SPARSE)
    assertEquals(dense.toSparse().getIndices.toArray.toSeq, Seq(1f, 3f))
    val csr = dense.toSparse(Some(SparseFormat.CSR))
    assertEquals(csr.sparseFormat, SparseFormat.CSR)
    assertEquals(csr.getData.toArray.toSeq, Seq(1f, 2f, 3f, 4f))
    assertEquals(csr.toDense.toArray.toSeq, rowElements)
    assert(intercept[MXNetError](dense.toSparse(Some(SparseFormat.DEFAULT))).getMessage.contains("row_sparse or csr"))
  }

  test("rows are retained and cut out") {
    val kept = SparseNDArray.retain(rows, Array(0f, 3f))
    assertEquals(kept.sparseFormat, SparseFormat.ROW_SPARSE)
    assertEquals(kept.toArray.toSeq, Seq(0f, 0f, 0f, 0f, 0f, 0f, 3f, 4f, 0f, 0f))
    assert(intercept[MXNetError](SparseNDArray.retain(matrix, Array(0f))).getMessage.contains("must be row_sparse"))
    val part = matrix.slice(1, 3)
    assertEquals(part.shape, Shape(2, 3))
    assertEquals(part.toArray.toSeq, matrixElements.drop(3))
    assertEquals(matrix.at(0), matrix.toDense.at(0))
  }

  test("rows of a row-sparse array are what those of the dense array are") {
    val (length, dense) = (rows.shape(0), rows.toDense)
    for (start <- 0 until length; end <- start + 1 to length) {
      val part = rows.slice(start, end)
      assertEquals(part.sparseFormat, SparseFormat.ROW_SPARSE)
      assertEquals(
        (part.shape, part.toArray.toSeq),
        (dense.slice(start, end).shape, dense.slice(start, end).toArray.toSeq)
      )
    }
    (0 until length).foreach(i => assertEquals(rows.at(i), dense.at(i)))
    assert(intercept[MXNetError](rows.slice(1, length + 1)).getMessage.contains("give 0 <= start < end"))
  }

  test("operators keep the storage of what they take where zeros stay zeros") {
    val doubled = matrix * 2f
    assertEquals(doubled.sparseFormat, SparseFormat.CSR)
    assertEquals(doubled.toArray.toSeq, matrixElements.map(_ * 2))
    val sum = rows + rows
    assertEquals(sum.sparseFormat, SparseFormat.ROW_SPARSE)
    assertEquals(sum.toArray.toSeq, rowElements.map(_ * 2))
    val product = NDArray.dot(matrix, NDArray.array(Array(1f, 10f, 100f), Shape(3, 1), cpu))
    assertEquals(product.toArray.toSeq, Seq(201f, 0f, 30f))
  }

  test("a linear model is bound to sparse data and gets a row-sparse gradient") {
    val symbol = Symbol.api.dot(lhs = Symbol.Variable("x"), rhs = Symbol.Variable("w"), name = "y")
    val weight = NDArray.array(Array(1f, 10f, 100f), Shape(3, 1), cpu)
    val gradient = NDArray.zeros(3, 1).toSparse()
    val executor =
      symbol.bind(
        cpu,
        Seq(matrix, weight),
        Seq(null, gradient),
        Seq("null", "write"),
        Nil,
        Map.empty[String, Context],
        null
      )
    executor.forward(isTrain = true)
    assertEquals(executor.outputs(0).toArray.toSeq, Seq(201f, 0f, 30f))
    executor.backward(NDArray.ones(3, 1))
    assertEquals(gradient.toArray.toSeq, Seq(1f, 3f, 2f))
    assertEquals(gradient.sparseFormat, SparseFormat.ROW_SPARSE)
  }

  test("simpleBind gives the arrays of a graph that makes sparse arrays") {
    val doubled = Symbol.Variable("x") * Symbol.Variable("y")
    val network = Symbol.api.cast_storage(data = doubled, stype = "row_sparse", name = "cast")
    val executor = network.simpleBind(Context.cpu(), "write", Map("x" -> Shape(2, 2), "y" -> Shape(2, 2)))
    assertEquals(executor.argDict.keySet, Set("x", "y"))
    executor.argDict("x").set(2f)
    executor.argDict("y").set(3f)
    executor.forward(isTrain = true)
    assertEquals(executor.outputs.head.toArray.toSeq, Seq.fill(4)(6f))
    assertEquals(executor.gradDict("x").shape, Shape(2, 2))
  }

  test("parts that do not fit are an error of the first operator that reads them") {
    val wrong = SparseNDArray.csrMatrix(Array(1f, 2f), Array(0f, 7f), Array(0f, 1f, 2f), Shape(2, 3), cpu)
    assert(intercept[MXNetError](wrong.toDense).getMessage.contains("7"))
  }

  test("a disposed array is an error, not a crash") {
    val m = matrix
    m.dispose()
    intercept[MXNetError](m.getData)
    assertEquals(m.toString, "<SparseNDArray, disposed>")
  }
}
