package org.apache.mxnet.udf

import org.apache.mxnet.{CustomOp, NDArray}

/** An operator of the released API that applies a function to one array.
  *
  * @param f computes the output from the input
  * @param df computes the gradient of the input from the gradient of the output and the input
  * @param update changes the auxiliary states in the forward pass
  */
private[mxnet] class ElementwiseOp(
    f: NDArray => NDArray,
    df: (NDArray, NDArray) => NDArray,
    update: Array[NDArray] => Unit = _ => ()
) extends CustomOp {
  override def forward(
      isTrain: Boolean,
      req: Array[String],
      inData: Array[NDArray],
      outData: Array[NDArray],
      aux: Array[NDArray]
  ): Unit = {
    assign(outData(0), req(0), f(inData(0)))
    update(aux)
  }

  override def backward(
      req: Array[String],
      outGrad: Array[NDArray],
      inData: Array[NDArray],
      outData: Array[NDArray],
      inGrad: Array[NDArray],
      aux: Array[NDArray]
  ): Unit = assign(inGrad(0), req(0), df(outGrad(0), inData(0)))
}
