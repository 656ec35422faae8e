package org.apache.mxnet.udf

import org.apache.mxnet.{CustomOp, NDArray}

/** An operator of the released API with one output, and a gradient with respect to its first input.
  *
  * @param f computes the output from the inputs
  * @param df computes the gradient from the gradient of the output (none if the operator is a loss), the inputs and the output
  * @param update changes the auxiliary states in the forward pass
  */
private[mxnet] class SingleOutputOp(
    f: Array[NDArray] => NDArray,
    df: (Array[NDArray], Array[NDArray], NDArray) => NDArray,
    update: Array[NDArray] => Unit = _ => ()
) extends CustomOp {
  override def forward(
      isTrain: Boolean,
      req: Array[String],
      inData: Array[NDArray],
      outData: Array[NDArray],
      aux: Array[NDArray]
  ): Unit = {
    assign(outData(0), req(0), f(inData))
    update(aux)
  }

  override def backward(
      req: Array[String],
      outGrad: Array[NDArray],
      inData: Array[NDArray],
      outData: Array[NDArray],
      inGrad: Array[NDArray],
      aux: Array[NDArray]
  ): Unit = assign(inGrad(0), req(0), df(outGrad, inData, outData(0)))
}

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
) extends SingleOutputOp(inputs => f(inputs(0)), (dy, inputs, _) => df(dy(0), inputs(0)), update)
