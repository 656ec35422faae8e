package org.apache.mxnet

import java.io.{ByteArrayOutputStream, PrintStream}

class CallbackSuite extends munit.FunSuite {

  /** A metric whose value the test sets. */
  private class Fixed(value: Float) extends EvalMetric("accuracy") {
    override def update(labels: IndexedSeq[NDArray], preds: IndexedSeq[NDArray]): Unit = ()
    override def get: (Array[String], Array[Float]) = (Array("accuracy"), Array(value))
  }

  private def lines(validation: Boolean)(use: Callback.Progress => Unit): Seq[String] = {
    val bytes = new ByteArrayOutputStream()
    use(new Callback.Progress(batchSize = 32, numEpoch = 10, validation, new PrintStream(bytes, true)))
    bytes.toString.linesIterator.toSeq
  }

  test("progress prints a line for each epoch and keeps what happened") {
    val printed = lines(validation = false) { progress =>
      for (epoch <- 0 to 1) {
        (0 to 9).foreach(batch => progress.invoke(epoch, batch, new Fixed(0.5f + epoch * 0.25f)))
        progress.invoke(epoch, null, Map.empty, Map.empty)
      }
      assertEquals(progress.history.map(_.train), IndexedSeq(Seq("accuracy" -> 0.5f), Seq("accuracy" -> 0.75f)))
      assert(progress.history.forall(record => record.samplesPerSecond > 0 && record.seconds > 0))
    }
    assertEquals(printed.length, 2)
    val form = """epoch  2/10  accuracy 0\.7500  [\d,]+ samples/s  \d+\.\d\d s  \d+ s left"""
    assert(printed(1).matches(form), printed(1))
  }

  test("with validation the line comes after it and has both metrics, even if they are one object") {
    val metric = new Fixed(0.5f)
    val printed = lines(validation = true) { progress =>
      progress.invoke(0, 0, metric)
      progress.invoke(0, null, Map.empty, Map.empty)
      assert(progress.history.isEmpty)
      progress.evalEnd.invoke(0, 3, new Fixed(0.25f))
      assertEquals(progress.history.head.validation, Seq("accuracy" -> 0.25f))
    }
    assert(printed.head.startsWith("epoch  1/10  accuracy 0.5000  validation accuracy 0.2500"), printed.head)
  }
}
