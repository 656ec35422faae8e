package org.apache.mxnet

import scala.annotation.nowarn
import scala.collection.mutable.ArrayBuffer

import org.apache.mxnet.internal.util.NullChecks.requireNonNull

/** A measure of how well predictions fit labels, accumulated over batches.
  *
  * @param name name under which the value is reported
  */
abstract class EvalMetric(protected val name: String) {

  /** Number of instances (samples or batches, as the metric counts) since the last reset. */
  protected var numInst: Int = 0

  /** Sum of the metric over these instances. */
  protected var sumMetric: Double = 0.0d

  /** Adds one batch.
    *
    * @param labels the labels, one array for each output
    * @param preds the predictions, in the same order
    * @throws IllegalArgumentException if the numbers of arrays or their sizes differ, or a label is NaN
    */
  def update(labels: IndexedSeq[NDArray], preds: IndexedSeq[NDArray]): Unit

  /** Discards all batches. */
  def reset(): Unit = {
    numInst = 0
    sumMetric = 0.0d
  }

  /** Names and values; a value is NaN before the first update. */
  def get: (Array[String], Array[Float]) = (Array(name), Array((sumMetric / numInst).toFloat))

  private[mxnet] def requireSameNumber(labels: IndexedSeq[NDArray], preds: IndexedSeq[NDArray]): Unit = {
    requireNonNull(s"metric $name", "labels" -> labels, "preds" -> preds)
    require(
      labels.length == preds.length,
      s"metric $name: ${labels.length} label arrays but ${preds.length} prediction arrays; " +
        "give one label array for each output"
    )
  }

  /** Calls `f` with the values of each pair of label and prediction, checked for number and for NaN labels. */
  private[mxnet] def foreachPair(labels: IndexedSeq[NDArray], preds: IndexedSeq[NDArray])(
      f: (EvalMetric.Values, EvalMetric.Values) => Unit
  ): Unit = {
    requireSameNumber(labels, preds)
    var i = 0
    while (i < labels.length) {
      val label = new EvalMetric.Values(labels(i))
      label.requireNoNaN(name, i)
      f(label, new EvalMetric.Values(preds(i)))
      i += 1
    }
  }
}

private[mxnet] object EvalMetric {

  /** An array's shape and values on the JVM, copied once. */
  final class Values(array: NDArray) {
    val shape: Shape = array.shape
    val data: Array[Float] = array.toArray

    def size: Int = data.length

    def requireNoNaN(metric: String, index: Int): Unit = {
      val bad = data.indexWhere(_.isNaN)
      require(
        bad < 0,
        s"metric $metric: element $bad of label $index (shape $shape) is NaN; remove or replace it in the data"
      )
    }

    /** The class of each instance: the value itself if the shape is that of the label, else the index of the maximum
      * along axis 1.
      */
    def classes(label: Values, metric: String): Array[Float] =
      if (shape == label.shape) data
      else {
        val found = argmaxAxis1
        require(
          found.length == label.size,
          s"metric $metric: predictions of shape $shape give ${found.length} classes " +
            s"but labels of shape ${label.shape} are ${label.size}"
        )
        found
      }

    private def argmaxAxis1: Array[Float] = {
      require(shape.length >= 2, s"predictions of shape $shape have no class axis: expected (batch, classes, ...)")
      val classes = shape(1)
      val inner = shape.toArray.drop(2).product
      val result = new Array[Float](shape(0) * inner)
      var i = 0
      while (i < result.length) {
        val base = (i / inner) * classes * inner + i % inner
        var best = 0
        var c = 1
        while (c < classes) {
          if (data(base + c * inner) > data(base + best * inner)) best = c
          c += 1
        }
        result(i) = best.toFloat
        i += 1
      }
      result
    }
  }

  /** Checks that labels and predictions have the same number of elements. */
  def requireSameSize(metric: String, label: Values, pred: Values): Unit =
    require(
      label.size == pred.size,
      s"metric $metric: labels of shape ${label.shape} and predictions of shape ${pred.shape} " +
        "differ in their number of elements"
    )

  /** Checks that predictions have a row of class scores for each label. */
  def requireClassScores(metric: String, label: Values, pred: Values): Unit =
    require(
      pred.shape.length == 2 && pred.shape(0) == label.size,
      s"metric $metric: predictions must have the shape (batch, classes) with a batch of ${label.size} as the labels, " +
        s"not ${pred.shape}"
    )

  /** Mean over the elements of a function of the difference label - prediction. */
  def meanOfDifferences(metric: String, label: Values, pred: Values)(f: Float => Float): Double = {
    requireSameSize(metric, label, pred)
    var sum = 0.0
    var i = 0
    while (i < label.size) {
      sum += f(label.data(i) - pred.data(i))
      i += 1
    }
    sum / label.size
  }
}

/** Several metrics that are updated together; [[get]] returns the names and values of all of them. */
class CompositeEvalMetric extends EvalMetric("composite") {
  private val metrics = ArrayBuffer.empty[EvalMetric]

  /** Adds a metric. */
  def add(metric: EvalMetric): Unit = {
    requireNonNull("CompositeEvalMetric.add", "metric" -> metric)
    metrics += metric
    ()
  }

  /** The metric at an index, in the order in which they were added. */
  def getMetric(index: Int): EvalMetric = {
    require(
      index >= 0 && index < metrics.length,
      s"metric index $index is out of range: this composite has ${metrics.length} metrics"
    )
    metrics(index)
  }

  override def update(labels: IndexedSeq[NDArray], preds: IndexedSeq[NDArray]): Unit =
    metrics.foreach(_.update(labels, preds))

  override def reset(): Unit = metrics.foreach(_.reset())

  // With parentheses, as in MXNet's Scala package.
  @nowarn("cat=other-nullary-override")
  override def get(): (Array[String], Array[Float]) = {
    val results = metrics.map(_.get)
    (results.flatMap(_._1).toArray, results.flatMap(_._2).toArray)
  }
}

/** Fraction of instances whose predicted class is the label.
  *
  * Predictions have the shape (batch, classes, ...); the predicted class is the index of the largest value along axis 1.
  * Predictions of the same shape as the labels are taken as classes.
  */
class Accuracy extends EvalMetric("accuracy") {
  override def update(labels: IndexedSeq[NDArray], preds: IndexedSeq[NDArray]): Unit =
    foreachPair(labels, preds) { (label, pred) =>
      val predicted = pred.classes(label, name)
      var hits = 0
      var i = 0
      while (i < predicted.length) {
        if (predicted(i).toInt == label.data(i).toInt) hits += 1
        i += 1
      }
      sumMetric += hits
      numInst += predicted.length
    }
}

/** Fraction of instances whose label is among the `topK` classes with the largest predictions.
  *
  * @param topK number of classes that count as a hit, at least 2; limited to the number of classes
  */
class TopKAccuracy(topK: Int) extends EvalMetric("top_k_accuracy") {
  require(topK > 1, s"topK is $topK; it must be at least 2. For the best class only, use Accuracy")

  override def update(labels: IndexedSeq[NDArray], preds: IndexedSeq[NDArray]): Unit =
    foreachPair(labels, preds) { (label, pred) =>
      EvalMetric.requireClassScores(name, label, pred)
      val classes = pred.shape(1)
      var i = 0
      while (i < label.size) {
        if (rank(pred.data, i * classes, classes, label.data(i).toInt) < topK) sumMetric += 1
        i += 1
      }
      numInst += label.size
    }

  /** The rank of class `target` by decreasing prediction, from 0; of equal predictions the higher class comes first. */
  private def rank(data: Array[Float], start: Int, classes: Int, target: Int): Int =
    if (target < 0 || target >= classes) classes
    else {
      val value = data(start + target)
      var before = 0
      var c = 0
      while (c < classes) {
        val other = data(start + c)
        if (other > value || (other == value && c > target)) before += 1
        c += 1
      }
      if (classes <= topK) 0 else before
    }
}

/** Harmonic mean of precision and recall of a binary classification, averaged over batches.
  *
  * Labels are 0 or 1, and 1 is the positive class. Predictions have the shape (batch, 2).
  */
class F1 extends EvalMetric("f1") {
  override def update(labels: IndexedSeq[NDArray], preds: IndexedSeq[NDArray]): Unit =
    foreachPair(labels, preds) { (label, pred) =>
      val predicted = pred.classes(label, name)
      val values = label.data.distinct
      require(
        values.length <= 2,
        s"metric $name: binary classification has at most 2 labels, but ${values.length} occur: " +
          values.take(5).mkString(", ")
      )
      def count(predictedClass: Float, trueClass: Float): Int =
        predicted.indices.count(i => predicted(i) == predictedClass && label.data(i) == trueClass)
      val truePositives = count(1, 1).toDouble
      val falsePositives = count(1, 0)
      val falseNegatives = count(0, 1)
      val precision = F1.ratio(truePositives, truePositives + falsePositives)
      val recall = F1.ratio(truePositives, truePositives + falseNegatives)
      sumMetric += F1.ratio(2 * precision * recall, precision + recall)
      numInst += 1
    }
}

private object F1 {
  def ratio(numerator: Double, denominator: Double): Double = if (denominator > 0) numerator / denominator else 0.0
}

/** Exponential of the mean negative log-likelihood of the labels, averaged over batches.
  *
  * @param ignoreLabel label to ignore, usually that of padding; None or null ignores no label
  * @param axis the class axis of the predictions; -1 is the last
  */
class Perplexity(ignoreLabel: Option[Int] = None, axis: Int = -1) extends EvalMetric("Perplexity") {
  private val ignored = Option(ignoreLabel).flatten

  override def update(labels: IndexedSeq[NDArray], preds: IndexedSeq[NDArray]): Unit = {
    var loss = 0.0
    var count = 0
    foreachPair(labels, preds) { (label, pred) =>
      val dims = pred.shape.toArray
      val classAxis = if (axis < 0) axis + dims.length else axis
      require(
        classAxis >= 0 && classAxis < dims.length && label.size == pred.size / dims(classAxis),
        s"metric $name: labels of shape ${label.shape} do not fit predictions of shape ${pred.shape} " +
          s"with the classes on axis $axis"
      )
      val classes = dims(classAxis)
      val inner = dims.drop(classAxis + 1).product
      var i = 0
      while (i < label.size) {
        val target = label.data(i).toInt
        if (!ignored.contains(target)) {
          val picked = math.min(math.max(target, 0), classes - 1)
          val probability = pred.data((i / inner) * classes * inner + picked * inner + i % inner)
          loss -= math.log(math.max(1e-10f, probability))
          count += 1
        }
        i += 1
      }
    }
    if (count > 0) {
      sumMetric += math.exp(loss / count)
      numInst += 1
    }
  }
}

/** Mean over the instances of `-log(p + eps)`, where p is the probability predicted for the label.
  *
  * @param eps added to the probability, so that the logarithm is finite
  */
class CrossEntropy(eps: Float = 1e-12f) extends EvalMetric("cross-entropy") {
  override def update(labels: IndexedSeq[NDArray], preds: IndexedSeq[NDArray]): Unit =
    foreachPair(labels, preds) { (label, pred) =>
      EvalMetric.requireClassScores(name, label, pred)
      val classes = pred.shape(1)
      var i = 0
      while (i < label.size) {
        val target = label.data(i).toInt
        require(
          target >= 0 && target < classes,
          s"metric $name: label $i is ${label.data(i)}, which is not a class of predictions of shape ${pred.shape}"
        )
        sumMetric -= math.log(pred.data(i * classes + target).toDouble + eps)
        i += 1
      }
      numInst += label.size
    }
}

/** Mean absolute error, averaged over batches. Labels and predictions have the same number of elements. */
class MAE extends EvalMetric("mae") {
  override def update(labels: IndexedSeq[NDArray], preds: IndexedSeq[NDArray]): Unit =
    foreachPair(labels, preds) { (label, pred) =>
      sumMetric += EvalMetric.meanOfDifferences(name, label, pred)(d => math.abs(d))
      numInst += 1
    }
}

/** Mean squared error, averaged over batches. Labels and predictions have the same number of elements. */
class MSE extends EvalMetric("mse") {
  override def update(labels: IndexedSeq[NDArray], preds: IndexedSeq[NDArray]): Unit =
    foreachPair(labels, preds) { (label, pred) =>
      sumMetric += EvalMetric.meanOfDifferences(name, label, pred)(d => d * d)
      numInst += 1
    }
}

/** Square root of the mean squared error, averaged over batches. Labels and predictions have the same number of elements.
  */
class RMSE extends EvalMetric("rmse") {
  override def update(labels: IndexedSeq[NDArray], preds: IndexedSeq[NDArray]): Unit =
    foreachPair(labels, preds) { (label, pred) =>
      sumMetric += math.sqrt(EvalMetric.meanOfDifferences(name, label, pred)(d => d * d))
      numInst += 1
    }
}

/** A metric given by a function of one label array and one prediction array.
  *
  * @param fEval returns the value of one pair
  * @param name name under which the mean of the values is reported
  */
class CustomMetric(fEval: (NDArray, NDArray) => Float, name: String) extends EvalMetric(name) {
  requireNonNull("CustomMetric", "fEval" -> fEval, "name" -> name)

  override def update(labels: IndexedSeq[NDArray], preds: IndexedSeq[NDArray]): Unit = {
    requireSameNumber(labels, preds)
    labels.lazyZip(preds).foreach { (label, pred) =>
      sumMetric += fEval(label, pred)
      numInst += 1
    }
  }
}
