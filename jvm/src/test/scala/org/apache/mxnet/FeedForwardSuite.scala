package org.apache.mxnet

import org.apache.mxnet.io.NDArrayIter
import org.apache.mxnet.optimizer.SGD

class FeedForwardSuite extends munit.FunSuite with TemporaryFiles {
  private def network: Symbol = {
    val hidden = Symbol.api.FullyConnected(data = Symbol.Variable("data"), num_hidden = 8, name = "fc1")
    val active = Symbol.api.Activation(data = hidden, act_type = "tanh", name = "act")
    Symbol.api.SoftmaxOutput(
      data = Symbol.api.FullyConnected(data = active, num_hidden = 2, name = "fc2"),
      name = "softmax"
    )
  }

  /** The four cases of exclusive or, repeated. */
  private def data: DataIter = {
    val cases = Array.fill(8)(Array(0f, 0f, 0f, 1f, 1f, 0f, 1f, 1f)).flatten
    val answers = Array.fill(8)(Array(0f, 1f, 1f, 0f)).flatten
    new NDArrayIter(
      IndexedSeq(NDArray.array(cases, Shape(32, 2))),
      IndexedSeq(NDArray.array(answers, Shape(32))),
      8,
      labelName = "softmax_label"
    )
  }

  private def builder: FeedForward.Builder = {
    Random.seed(7)
    FeedForward
      .newBuilder(network)
      .setNumEpoch(100)
      .setOptimizer(new SGD(0.5f, momentum = 0.9f))
      .setInitializer(new Xavier())
  }

  private def answers(model: FeedForward): Seq[Int] =
    model.predict(data).head.toArray.grouped(2).take(4).map(row => if (row(1) > row(0)) 1 else 0).toSeq

  test("the builder trains; the model is saved, loaded and serialized") {
    val model = builder.setTrainData(data).setEvalData(data).build()
    assertEquals(answers(model), Seq(0, 1, 1, 0))
    val expected = model.predict(data).head.toArray.toSeq

    val prefix = temporaryFolder("feedforward").resolve("xor").toString
    model.save(prefix)
    val loaded = FeedForward.load(prefix, 100)
    assertEquals(loaded.predict(data).head.toArray.toSeq, expected)
    assertEquals(loaded.beginEpoch, 100)
    val copied = FeedForward.deserialize(model.serialize())
    assertEquals(copied.predict(data).head.toArray.toSeq, expected)
    assertEquals(copied.getArgParams.keySet, Set("fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias"))
    model.dispose()
    model.dispose()
    intercept[MXNetError](model.predict(data))
  }

  test("fit with a number of batches per epoch, two devices and a store") {
    val model = builder.setEpochSize(6).setContext(Array(Context.cpu(0), Context.cpu(1))).setup()
    var batches = 0
    val store = KVStore.create("local")
    model.fit(data, null, new Accuracy(), store, null, (_, _, _) => batches += 1)
    assertEquals(batches, 600)
    assertEquals(answers(model), Seq(0, 1, 1, 0))
  }

  test("an epoch has at least one batch, since programs divide the number of instances by the batch size") {
    val model = builder.setEpochSize(32 / 50).setNumEpoch(3).setup()
    var batches = 0
    model.fit(data, null, new Accuracy(), "local", null, (_, _, _) => batches += 1)
    assertEquals(batches, 3)
  }

  test("bad input") {
    def message(body: => Any): String = intercept[IllegalArgumentException](body).getMessage
    assert(message(FeedForward.newBuilder(network).setNumEpoch(1).build()).contains("Training data missing"))
    assert(message(new FeedForward(network).fit(data, null)).contains("set numEpoch"))
    assert(message(new FeedForward(network).predict(data)).contains("no parameters"))
    assert(message(builder.setup().save("x")).contains("no parameters"))
    assert(
      intercept[MXNetError](FeedForward.deserialize(Array[Byte](1, 2, 3, 4))).getMessage
        .contains("not written by FeedForward.serialize")
    )
    assert(intercept[MXNetError](FeedForward.deserialize(Array[Byte](1))).getMessage.contains("too early"))
  }
}
