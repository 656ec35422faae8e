package org.apache.mxnet.infer.javaapi

import java.lang.{Iterable => JIterable}
import java.util.{List => JList}

import scala.jdk.CollectionConverters._

import org.apache.mxnet.internal.util.NullChecks.requireNonNull
import org.apache.mxnet.javaapi.internal.JavaValues
import org.apache.mxnet.javaapi.{Context, DataDesc, NDArray}

/** Runs a trained network, for Java; see [[org.apache.mxnet.infer.Predictor]]. Any number of threads may share it, and
  * it can be serialized: with `predictor().serializeByPath(true)` by the path of its files.
  */
class Predictor private[mxnet] (val predictor: org.apache.mxnet.infer.Predictor) extends Serializable {

  /** @param modelPathPrefix prefix of the files: `prefix-symbol.json` and `prefix-NNNN.params`
    * @param inputDescriptors the inputs, with the expected batch size
    * @param contexts the devices, used in turn
    * @param epoch the number NNNN
    */
  def this(
      modelPathPrefix: String,
      inputDescriptors: JIterable[DataDesc],
      contexts: JIterable[Context],
      epoch: Int
  ) = this(
    new org.apache.mxnet.infer.Predictor(
      modelPathPrefix,
      JavaValues.converted("Predictor", "inputDescriptors", inputDescriptors)(_.dataDesc),
      JavaValues.converted("Predictor", "contexts", contexts)(_.context).toArray,
      Some(epoch)
    )
  )

  /** Runs the network on one or more instances, with an array per input in row-major order. */
  def predict(input: Array[Array[Float]]): Array[Array[Float]] = predictor.predict(rows(input)).toArray

  /** Runs the network on one or more instances, with an array per input in row-major order. */
  def predict(input: Array[Array[Double]]): Array[Array[Double]] = predictor.predict(rows(input)).toArray

  /** Runs the network on one or more instances, with an array per input in row-major order. */
  def predict(input: JList[JList[java.lang.Float]]): JList[JList[java.lang.Float]] = {
    val arrays = JavaValues
      .converted("Predictor.predict", "input", input)(
        JavaValues.converted("Predictor.predict", "an input", _)(_.floatValue).toArray
      )
      .toArray
    predict(arrays).toSeq.map(output => output.toSeq.map(Float.box).asJava).asJava
  }

  /** Runs the network on a batch of any size. */
  def predictWithNDArray(input: JIterable[NDArray]): JList[NDArray] =
    predictor
      .predictWithNDArray(JavaValues.converted("Predictor.predictWithNDArray", "input", input)(_.nd))
      .map(NDArray.fromNDArray)
      .asJava

  private def rows[A](input: Array[A]): IndexedSeq[A] = {
    requireNonNull("Predictor.predict", "input" -> input)
    input.toIndexedSeq
  }
}
