package org.apache.mxnet

/** Prediction with trained networks, for serving: [[infer.Predictor]], [[infer.Classifier]],
  * [[infer.ImageClassifier]] and [[infer.ObjectDetector]] may be shared by any number of threads.
  */
package object infer {
  private[mxnet] val handlerType: MXNetHandlerType.MXNetHandlerType = MXNetHandlerType.SingleThreadHandler
}
