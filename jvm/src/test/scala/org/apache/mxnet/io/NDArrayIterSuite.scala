package org.apache.mxnet.io

import org.apache.mxnet._

class NDArrayIterSuite extends munit.FunSuite {
  private def rows(count: Int, columns: Int = 2): NDArray =
    NDArray.array(Array.tabulate(count * columns)(_.toFloat), Shape(count, columns))

  private def numbers(count: Int): NDArray = NDArray.array(Array.tabulate(count)(_.toFloat), Shape(count))

  private def iter(count: Int, batch: Int, last: String, shuffle: Boolean = false): NDArrayIter =
    new NDArrayIter(IndexedSeq(rows(count)), IndexedSeq(numbers(count)), batch, shuffle, last)

  /** Labels, padding and indices of each batch of a pass; checks that data and labels match. */
  private def pass(data: NDArrayIter): Seq[(Seq[Float], Int)] = data.map { batch =>
    val labels = batch.label.head.toArray.toSeq
    assertEquals(batch.data.head.toArray.toSeq, labels.flatMap(label => Seq(2 * label, 2 * label + 1)))
    assertEquals(batch.index.map(_.toFloat), labels.toIndexedSeq)
    batch.dispose()
    (labels, batch.pad)
  }.toSeq

  test("pad fills the last batch from the start and says so") {
    val data = iter(5, 2, "pad")
    val expected = Seq((Seq(0f, 1f), 0), (Seq(2f, 3f), 0), (Seq(4f, 0f), 1))
    assertEquals(pass(data), expected)
    assert(!data.hasNext)
    intercept[NoSuchElementException](data.next())
    data.reset()
    assertEquals(pass(data), expected)
  }

  test("discard drops the last batch") {
    val data = iter(5, 2, "discard")
    assertEquals(pass(data), Seq((Seq(0f, 1f), 0), (Seq(2f, 3f), 0)))
    assertEquals(data.numData, 4)
  }

  test("roll_over fills the last batch from the start, where the next pass continues") {
    val data = iter(5, 2, "roll_over")
    assertEquals(pass(data), Seq((Seq(0f, 1f), 0), (Seq(2f, 3f), 0), (Seq(4f, 0f), 0)))
    data.reset()
    assertEquals(pass(data), Seq((Seq(1f, 2f), 0), (Seq(3f, 4f), 0)))
    data.hardReset()
    assertEquals(pass(data).head, (Seq(0f, 1f), 0))
  }

  test("a batch larger than the data repeats them") {
    assertEquals(pass(iter(2, 5, "pad")), Seq((Seq(0f, 1f, 0f, 1f, 0f), 3)))
  }

  test("shuffling keeps data and labels together, depends on the seed, and changes with each pass") {
    def passes(seed: Int): Seq[Seq[Float]] = {
      Random.seed(seed)
      val data = iter(50, 10, "pad", shuffle = true)
      Seq.fill(2) {
        val labels = pass(data).flatMap(_._1)
        data.reset()
        labels
      }
    }
    val both = passes(1)
    both.foreach(labels => assertEquals(labels.sorted, Seq.tabulate(50)(_.toFloat)))
    assertNotEquals(both(0), both(1))
    assertNotEquals(both(0), Seq.tabulate(50)(_.toFloat))
    assertEquals(passes(1), both)
    assertNotEquals(passes(2), both)
  }

  test("names, shapes and types are provided") {
    val data = new NDArrayIter(IndexedSeq(rows(4), rows(4, 3)), IndexedSeq(numbers(4)), 2, labelName = "softmax_label")
    assertEquals(
      data.provideDataDesc.map(d => (d.name, d.shape)),
      IndexedSeq("data_0" -> Shape(2, 2), "data_1" -> Shape(2, 3))
    )
    assertEquals(data.provideLabel.toSeq, Seq("softmax_label" -> Shape(2)))
    assertEquals(data.batchSize, 2)
    val built = new NDArrayIter.Builder()
      .addData("x", rows(4))
      .addLabelWithDesc(DataDesc("y", Shape(4), DType.Float32, "N"), numbers(4))
      .setBatchSize(4)
      .setLastBatchHandle("discard")
      .build()
    assertEquals(built.provideData.toSeq, Seq("x" -> Shape(4, 2)))
    assertEquals(built.provideLabelDesc, IndexedSeq(DataDesc("y", Shape(4), DType.Float32, "N")))
  }

  test("bad input names the array") {
    def message(body: => Any): String = intercept[IllegalArgumentException](body).getMessage
    val wrong = message(new NDArrayIter(IndexedSeq(rows(4)), IndexedSeq(numbers(3)), 2))
    assert(wrong.contains("label has 3 instances (shape (3)) but data has 4"), wrong)
    val nan = NDArray.array(Array(0f, Float.NaN), Shape(2))
    val bad = message(new NDArrayIter(IndexedSeq(rows(2)), IndexedSeq(nan), 1))
    assert(bad.contains("label label of shape (2) is NaN at element 1"), bad)
    assert(message(iter(4, 0, "pad")).contains("dataBatchSize is 0"))
    assert(message(iter(4, 8, "discard")).contains("all of which discard would drop"))
    assert(message(iter(4, 2, "keep")).contains("must be one of pad, discard, roll_over"))
    assert(message(new NDArrayIter(IndexedSeq.empty[NDArray])).contains("data is empty"))
  }

  test("ResizeIter gives a fixed number of batches") {
    val resized = new ResizeIter(iter(4, 2, "pad"), 5)
    assertEquals(resized.map(_.label.head.toArray.head).toSeq, Seq(0f, 2f, 0f, 2f, 0f))
    intercept[NoSuchElementException](resized.next())
    resized.reset()
    assertEquals(resized.next().label.head.toArray.head, 0f)
    assertEquals(resized.getLabel().head.toArray.head, 0f)
    assertEquals(resized.provideData.toSeq, Seq("data" -> Shape(2, 2)))
    val going = new ResizeIter(iter(4, 2, "pad"), 1, resetInternal = false)
    going.next()
    going.reset()
    assertEquals(going.next().label.head.toArray.head, 2f)
  }

  test("PrefetchingIter joins iterators and renames what they give") {
    val joined = new PrefetchingIter(
      IndexedSeq(iter(4, 2, "pad"), iter(4, 2, "pad")),
      IndexedSeq(Map("data" -> "left"), Map("data" -> "right")),
      IndexedSeq(Map("label" -> "a"), Map("label" -> "b"))
    )
    assertEquals(joined.provideData.toSeq, Seq("left" -> Shape(2, 2), "right" -> Shape(2, 2)))
    assertEquals(joined.provideLabelDesc.map(_.name), IndexedSeq("a", "b"))
    for (_ <- 1 to 2) {
      val firsts = joined.map(_.label.map(_.toArray.head)).toSeq
      assertEquals(firsts, Seq(IndexedSeq(0f, 0f), IndexedSeq(2f, 2f)))
      joined.reset()
    }
    joined.dispose()
  }

  test("PrefetchingIter throws the errors of its threads in the reader") {
    val broken = new ResizeIter(iter(4, 2, "pad"), 1) {
      override def next(): DataBatch = throw new IllegalStateException("broken disk")
    }
    val prefetching = new PrefetchingIter(IndexedSeq(broken))
    assertEquals(intercept[IllegalStateException](prefetching.hasNext).getMessage, "broken disk")
    prefetching.dispose()
    val unlinked = new ResizeIter(iter(4, 2, "pad"), 1) {
      override def next(): DataBatch = throw new NoClassDefFoundError("users.Decoder")
    }
    val failing = new PrefetchingIter(IndexedSeq(unlinked))
    // `intercept` does not catch fatal errors.
    val error =
      try Right(failing.hasNext)
      catch { case error: NoClassDefFoundError => Left(error.getMessage) }
    assertEquals(error, Left("users.Decoder"))
    failing.dispose()
    val uneven = new PrefetchingIter(IndexedSeq(iter(2, 2, "pad"), iter(4, 2, "pad")))
    uneven.next()
    assert(intercept[IllegalArgumentException](uneven.hasNext).getMessage.contains("different numbers of batches"))
    uneven.dispose()
  }
}
