package org.apache.mxnet

import org.apache.mxnet.optimizer.SGD

class KVStoreSuite extends munit.FunSuite with TemporaryFiles {
  private def pulled(store: KVStore, key: String, length: Int): Seq[Float] = {
    val out = NDArray.zeros(length)
    store.pull(key, out)
    out.toArray.toSeq
  }

  private def vector(values: Float*): NDArray = NDArray.array(values.toArray, Shape(values.length))

  test("without an updater a push replaces the value by the sum") {
    val store = KVStore.create()
    store.init("a", vector(1, 2))
    assertEquals(pulled(store, "a", 2), Seq(1f, 2f))
    store.push("a", Array(vector(1, 1), vector(10, 20)))
    assertEquals(pulled(store, "a", 2), Seq(11f, 21f))
    store.init(Array("b"), Array(vector(5)))
    store.push(Array("b", "a", "b"), Array(vector(1), vector(0, 0), vector(2)))
    assertEquals(pulled(store, "b", 1), Seq(3f))
    assertEquals((store.`type`, store.rank, store.numWorkers), ("local", 0, 1))
  }

  test("values of several devices are added up and pulled back to each") {
    val store = KVStore.create("device")
    store.init("w", vector(0))
    val devices = Array(0, 1).map(id => vector(id + 1f).copyTo(Context.cpu(id)))
    store.push("w", devices)
    val outs = Array(0, 1).map(id => NDArray.zeros(Shape(1), Context.cpu(id)))
    store.pull("w", outs)
    assertEquals(outs.map(_.toScalar).toSeq, Seq(3f, 3f))
  }

  test("an optimizer changes the stored weights; its states are saved and restored") {
    def store(): KVStore = {
      val made = KVStore.create()
      made.init(Array("x", "y"), Array(vector(1), vector(2)))
      made.setOptimizer(new SGD(1f, momentum = 0.5f, wd = 0f))
      made
    }
    val straight = store()
    (1 to 2).foreach(_ => straight.push("y", vector(1)))
    assertEquals(pulled(straight, "y", 1), Seq(-0.5f)) // 2 - 1 - (1 + 0.5)

    val file = temporaryFile("states", ".bin").toString
    val first = store()
    first.push("y", vector(1))
    first.saveOptimizerStates(file)
    val second = store()
    second.loadOptimizerStates(file)
    second.push("y", vector(1))
    assertEquals(pulled(second, "y", 1), Seq(0.5f)) // 2 - (1 + 0.5)
  }

  test("bad input") {
    val store = KVStore.create()
    store.init("a", vector(1))
    def message(body: => Any): String = intercept[RuntimeException](body).getMessage
    assert(message(store.init("a", vector(1))).contains("duplicate init of key a"))
    assert(message(store.pull("b", vector(1))).contains("key b"))
    assert(message(store.push(Array("a"), Array.empty[NDArray])).contains("1 keys but 0 arrays"))
    assert(message(store.saveOptimizerStates("x")).contains("call setOptimizer first"))
    assert(message(KVStore.create("dist_async")).contains("'dist_async' are not supported"))
    assert(message(KVStore.create("dist_sync")).contains("DMLC_NUM_WORKER is not set"))
    assert(message(store.setGradientCompression(Map("type" -> "2bit"))).contains("does not compress gradients"))
    store.dispose()
    store.dispose()
    assert(message(store.pull("a", vector(1))).contains("used after dispose()"))
  }

  test("an exception of an updater reaches the caller, and the store can be used further") {
    val store = KVStore.create()
    store.init(Array("a", "b"), Array(vector(1), vector(2)))
    var seen = Seq.empty[(Int, Float, Float)]
    store.setUpdater(new MXKVStoreUpdater {
      override def update(key: Int, recv: NDArray, local: NDArray): Unit = {
        if (key == 0) throw new IllegalStateException("not a")
        seen :+= ((key, recv.toScalar, local.toScalar))
        local += recv
      }
    })
    assertEquals(intercept[IllegalStateException](store.push("a", vector(1))).getMessage, "not a")
    store.push("b", Array(vector(3), vector(4)))
    assertEquals(seen, Seq((1, 7f, 2f)))
    assertEquals(pulled(store, "b", 1), Seq(9f))
  }

  test("a local store has no servers, and roles are checked") {
    val store = KVStore.create()
    new KVStoreServer(store).run()
    store.barrier()
    store.setBarrierBeforeExit(true)
    assertEquals(store.numDeadNode(KVStore.GROUP_NODE_WORKER), 0)
    assert(intercept[MXNetError](KVStoreServer.init(Map("DMLC_ROLE" -> "boss"))).getMessage.contains("the roles are"))
    KVStoreServer.init(Map("DMLC_ROLE" -> "worker"))
    KVStoreServer.start()
  }
}
