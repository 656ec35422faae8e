package org.apache.mxnet.io

import java.nio.file.{Files, Path}

import org.apache.mxnet._

class MXDataIterSuite extends munit.FunSuite {
  private val folder = "data/digits"

  private def digits(options: (String, String)*): DataIter = IO.MNISTIter(
    Map(
      "image" -> s"$folder/t10k-images-idx3-ubyte",
      "label" -> s"$folder/t10k-labels-idx1-ubyte",
      "batch_size" -> "33",
      "shuffle" -> "0",
      "silent" -> "1"
    ) ++ options
  )

  test("MNISTIter reads images and labels, pass after pass") {
    val bytes = Files.readAllBytes(Path.of(folder, "t10k-labels-idx1-ubyte")).drop(8).map(_.toFloat).toSeq
    val pixels = Files.readAllBytes(Path.of(folder, "t10k-images-idx3-ubyte")).slice(16, 16 + 64)
    val data = digits("label_name" -> "softmax_label")
    assertEquals(data.provideData.toSeq, Seq("data" -> Shape(33, 1, 8, 8)))
    assertEquals(data.provideLabel.toSeq, Seq("softmax_label" -> Shape(33)))
    for (_ <- 1 to 2) {
      val batches = data.map(batch => (batch.data.head.toArray.take(64).toSeq, batch.label.head.toArray.toSeq)).toSeq
      assertEquals(batches.flatMap(_._2), bytes)
      val expected = pixels.map(pixel => (pixel & 0xff) / 256f).toSeq
      batches.head._1.lazyZip(expected).foreach((actual, pixel) => assertEqualsFloat(actual, pixel, 1e-3f))
      data.reset()
    }
  }

  test("a batch does not change when the iterator advances") {
    val data = digits()
    val first = data.next()
    val before = first.label.head.toArray.toSeq
    data.next()
    assertEquals(first.label.head.toArray.toSeq, before)
  }

  test("a disposed iterator is an error, and frees the batch that it has prefetched") {
    digits() match {
      case iter: MXDataIter =>
        assert(iter.hasNext)
        val before = Base._LIB.memoryInUse()
        iter.dispose()
        iter.dispose()
        assert(Base._LIB.memoryInUse() < before)
        val error = intercept[MXNetError](iter.hasNext)
        assert(error.getMessage.startsWith("MXDataIter: it was used after dispose()"), error.getMessage)
      case other => fail(s"$other is not an iterator of the native library")
    }
  }

  test("shuffling depends on the seed") {
    def labels(seed: Int): Seq[Float] =
      digits("shuffle" -> "1", "seed" -> seed.toString).flatMap(_.label.head.toArray).toSeq
    assertEquals(labels(1), labels(1))
    assertNotEquals(labels(1), labels(2))
  }

  test("a pack is iterated again and again") {
    val pack = IO.MNISTPack(
      Map(
        "image" -> s"$folder/t10k-images-idx3-ubyte",
        "label" -> s"$folder/t10k-labels-idx1-ubyte",
        "batch_size" -> "99",
        "silent" -> "1"
      )
    )
    assertEquals(pack.iterator.length, 3)
    assertEquals(pack.size, 3)
  }

  test("bad input: unknown iterator and parameter, missing and truncated file") {
    val unknown = intercept[IllegalArgumentException](IO.createIterator("NoIter", Map.empty))
    assert(
      unknown.getMessage.contains("there is no data iterator NoIter") && unknown.getMessage.contains("MNISTIter"),
      unknown.getMessage
    )
    assertEquals(digits("color" -> "1").next().data.head.shape, digits().next().data.head.shape)
    assert(intercept[MXNetError](digits("image" -> "no/such/file")).getMessage.contains("no/such/file"))
    val truncated = Files.createTempFile("digits", ".idx")
    Files.write(truncated, Files.readAllBytes(Path.of(folder, "t10k-images-idx3-ubyte")).take(1000))
    assert(intercept[MXNetError](digits("image" -> truncated.toString)).getMessage.contains(truncated.toString))
    Files.delete(truncated)
  }

  test("a batch of LibSVMIter is sparse") {
    val file = Files.createTempFile("mxnet", ".libsvm")
    Files.writeString(file, "1 0:2 2:3\n0 1:5\n")
    val options = Map("data_libsvm" -> file.toString, "data_shape" -> "(3,)", "batch_size" -> "2")
    val data = IO.createIterator("LibSVMIter", options).next().data.head
    assert(data.isSparse)
    assertEquals(data.toArray.toSeq, Seq(2f, 0f, 3f, 0f, 5f, 0f))
    Files.delete(file)
  }
}
