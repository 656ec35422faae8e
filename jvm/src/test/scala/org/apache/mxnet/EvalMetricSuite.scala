package org.apache.mxnet

/** Values of MXNet 1.9.1: `m = mx.metric.X(); m.update([l], [p]); m.get()` with the arrays below. */
class EvalMetricSuite extends munit.FunSuite {
  private def vector(values: Float*): NDArray = NDArray.array(values.toArray, Shape(values.length))

  private def matrix(columns: Int)(values: Float*): NDArray =
    NDArray.array(values.toArray, Shape(values.length / columns, columns))

  private val labels = IndexedSeq(vector(1, 2, 1, 0))
  private val preds = IndexedSeq(matrix(3)(0.3f, 0.7f, 0.0f, 0.1f, 0.2f, 0.7f, 0.5f, 0.4f, 0.1f, 0.2f, 0.5f, 0.3f))

  private def value(metric: EvalMetric, label: IndexedSeq[NDArray], pred: IndexedSeq[NDArray]): Float = {
    metric.update(label, pred)
    metric.get._2.head
  }

  test("classification") {
    assertEquals(value(new Accuracy(), labels, preds), 0.5f)
    assertEquals(value(new TopKAccuracy(2), labels, preds), 0.75f)
    assertEqualsFloat(value(new CrossEntropy(), labels, preds), 0.8097696f, 1e-6f)
    assertEqualsFloat(value(new Perplexity(), labels, preds), 2.2473902f, 1e-5f)
    assertEqualsFloat(value(new Perplexity(null), labels, preds), 2.2473902f, 1e-5f)
    assertEqualsFloat(value(new Perplexity(Some(1)), labels, preds), 2.6726124f, 1e-5f)
    val binary = matrix(2)(0.3f, 0.7f, 0.9f, 0.1f, 0.4f, 0.6f, 0.2f, 0.8f)
    assertEqualsFloat(value(new F1(), IndexedSeq(vector(1, 0, 0, 1)), IndexedSeq(binary)), 0.8f, 1e-6f)
  }

  test("regression") {
    val label = IndexedSeq(vector(1, 2, 3, 4))
    val pred = IndexedSeq(matrix(1)(1.5f, 1, 3, 6))
    assertEquals(value(new MAE(), label, pred), 0.875f)
    assertEquals(value(new MSE(), label, pred), 1.3125f)
    assertEqualsFloat(value(new RMSE(), label, pred), 1.145644f, 1e-6f)
  }

  test("batches accumulate until the reset") {
    val metric = new Accuracy()
    metric.update(labels, preds)
    metric.update(IndexedSeq(vector(1)), IndexedSeq(matrix(3)(0, 1, 0)))
    assertEquals(metric.get._2.toSeq, Seq(0.6f))
    metric.reset()
    assert(metric.get._2.head.isNaN)
  }

  test("classes on axis 1 of more than two dimensions, and predictions that are classes already") {
    val scores = NDArray.array(Array(0f, 1f, 2f, 1f, 0f, 3f), Shape(1, 2, 3)) // classes on axis 1: 1 0 1
    assertEqualsFloat(value(new Accuracy(), IndexedSeq(matrix(3)(1, 1, 1)), IndexedSeq(scores)), 2f / 3, 1e-6f)
    assertEquals(value(new Accuracy(), IndexedSeq(vector(1, 2)), IndexedSeq(vector(1, 0))), 0.5f)
  }

  test("top k counts at most the classes there are; a label that is not a class is a miss") {
    assertEquals(value(new TopKAccuracy(5), labels, preds), 1f)
    assertEquals(value(new TopKAccuracy(2), IndexedSeq(vector(9, 9, 9, 9)), preds), 0f)
  }

  test("composite and custom metrics") {
    val composite = new CompositeEvalMetric()
    composite.add(new Accuracy())
    composite.add(new CustomMetric((label, pred) => label.shape(0).toFloat + pred.shape(1), "sizes"))
    composite.update(labels, preds)
    val (names, values) = composite.get()
    assertEquals(names.toSeq, Seq("accuracy", "sizes"))
    assertEquals(values.toSeq, Seq(0.5f, 7f))
    assert(composite.getMetric(0).isInstanceOf[Accuracy])
    val error = intercept[IllegalArgumentException](composite.getMetric(2))
    assert(error.getMessage.contains("has 2 metrics"), error.getMessage)
  }

  test("bad input: numbers and shapes that do not fit, NaN labels, labels that are not classes") {
    def message(metric: EvalMetric, label: IndexedSeq[NDArray], pred: IndexedSeq[NDArray]): String =
      intercept[IllegalArgumentException](metric.update(label, pred)).getMessage
    assert(message(new Accuracy(), labels, IndexedSeq.empty).contains("1 label arrays but 0 prediction arrays"))
    assert(message(new Accuracy(), IndexedSeq(vector(1, 2)), preds).contains("(2)"))
    val nan = message(new Accuracy(), IndexedSeq(vector(1, Float.NaN, 1, 0)), preds)
    assert(nan.contains("metric accuracy: element 1 of label 0 (shape (4)) is NaN"), nan)
    assert(message(new MSE(), IndexedSeq(vector(1)), preds).contains("differ in their number of elements"))
    assert(message(new CrossEntropy(), IndexedSeq(vector(1, 2, 3, 0)), preds).contains("label 2 is 3.0"))
    assert(message(new F1(), labels, preds).contains("at most 2 labels"))
    assert(intercept[IllegalArgumentException](new TopKAccuracy(1)).getMessage.contains("use Accuracy"))
  }
}
