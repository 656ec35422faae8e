package ferromx.bench

import org.apache.mxnet._

object Networks {

  /** LeNet for 28 x 28 images. */
  def leNet: Symbol = {
    val first = block(Symbol.Variable("data"), filters = 20)
    val flat = Symbol.api.Flatten(data = block(first, filters = 50))
    val hidden = Symbol.api.Activation(data = Symbol.api.FullyConnected(data = flat, num_hidden = 500), act_type = "tanh")
    Symbol.api.SoftmaxOutput(data = Symbol.api.FullyConnected(data = hidden, num_hidden = 10), name = "softmax")
  }

  private def block(data: Symbol, filters: Int): Symbol = {
    val convolved = Symbol.api.Convolution(data = data, kernel = Shape(5, 5), num_filter = filters)
    val active = Symbol.api.Activation(data = convolved, act_type = "tanh")
    Symbol.api.Pooling(data = active, pool_type = "max", kernel = Shape(2, 2), stride = Shape(2, 2))
  }

  /** `runMain ferromx.bench.Networks FILE` saves the network for `capi_bind.c`. */
  def main(arguments: Array[String]): Unit = leNet.save(arguments(0))
}
