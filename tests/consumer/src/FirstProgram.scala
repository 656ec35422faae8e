import org.apache.mxnet._

/** Trains a small network to compute "exclusive or" and prints the probability of each right answer. */
object FirstProgram {
  private val cases = Array(0f, 0f, 0f, 1f, 1f, 0f, 1f, 1f)
  private val answers = Array(0f, 1f, 1f, 0f)

  /** Optional arguments can be passed as a value or as an `Option`, or omitted. */
  private def network: Symbol = {
    val data = Symbol.Variable("data")
    val hidden = Symbol.api.FullyConnected(data = Some(data), num_hidden = 8, name = Some("hidden"))
    val active = Symbol.api.Activation(data = hidden, act_type = "tanh")
    val scores = Symbol.api.FullyConnected(data = active, num_hidden = 2, name = "scores")
    Symbol.api.SoftmaxOutput(data = scores, name = "softmax")
  }

  def main(arguments: Array[String]): Unit = ResourceScope.using() {
    Random.seed(7)
    val shapes = Map("data" -> Shape(4, 2), "softmax_label" -> Shape(4))
    val executor = network.simpleBind(Context.cpu(), "write", shapes)
    val parameters = executor.argDict.filter { case (name, _) => !shapes.contains(name) }
    parameters.values.foreach(array => NDArray.random.uniform(low = -1f, high = 1f, shape = array.shape, out = array))
    executor.argDict("data").set(cases)
    executor.argDict("softmax_label").set(answers)

    for (_ <- 1 to 500) {
      executor.forward(isTrain = true)
      executor.backward()
      for ((name, array) <- parameters) {
        NDArray.api.sgd_update(weight = array, grad = executor.gradDict(name), lr = 0.1f, out = Some(array))
      }
    }

    executor.forward(isTrain = false)
    val correct = executor.outputs(0).toArray.grouped(2).zip(answers).map { case (row, answer) => row(answer.toInt) }.toSeq
    println(s"probability of the right answer: ${correct.map(p => f"$p%.3f").mkString(", ")}")
    if (correct.exists(_ < 0.9f)) sys.error("the network did not learn exclusive or")
  }
}
