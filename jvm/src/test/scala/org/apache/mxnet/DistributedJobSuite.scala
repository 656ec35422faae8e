package org.apache.mxnet

import java.time.Duration
import java.util.concurrent.Executors
import java.util.concurrent.atomic.AtomicInteger

import scala.concurrent.duration.DurationInt
import scala.concurrent.{Await, ExecutionContext, Future}
import scala.util.Try

import org.apache.mxnet.io.NDArrayIter
import org.apache.mxnet.module.{FitParams, Module}
import org.apache.mxnet.optimizer.SGD

/** Ranks are threads of this JVM, like the tasks of one Spark executor. */
class DistributedJobSuite extends munit.FunSuite {
  private val secret = Array.tabulate(32)(_.toByte)
  private val shards = 4
  private val rowsPerShard = 3

  /** Runs a function on each rank of a job after all ranks have joined. */
  private def onRanks[T](size: Int, timeout: Duration = Duration.ofSeconds(60))(
      run: (Int, DistributedJob) => T
  ): Seq[T] = {
    val pool = Executors.newFixedThreadPool(size)
    implicit val context: ExecutionContext = ExecutionContext.fromExecutorService(pool)
    val jobs = Seq.fill(size)(DistributedJob.listen("127.0.0.1"))
    val peers = jobs.map(job => s"127.0.0.1:${job.port}")
    try {
      val results = jobs.zipWithIndex.map { case (job, rank) =>
        Future {
          job.join(rank, peers, secret, timeout)
          run(rank, job)
        }
      }
      Await.result(Future.sequence(results), 3.minutes)
    } finally {
      jobs.foreach(_.close())
      pool.shutdown()
    }
  }

  private def network: Symbol = {
    val hidden = Symbol.FullyConnected(name = "one")()(Map("data" -> Symbol.Variable("data"), "num_hidden" -> 8))
    val normal = Symbol.BatchNorm(name = "normal")()(Map("data" -> hidden, "fix_gamma" -> false))
    val dropped = Symbol.Dropout(name = "drop")()(Map("data" -> normal, "p" -> 0.3))
    val out = Symbol.FullyConnected(name = "two")()(Map("data" -> dropped, "num_hidden" -> 2))
    Symbol.SoftmaxOutput(name = "softmax")()(Map("data" -> out))
  }

  /** The rows of a rank's shards in each of three batches. */
  private def batches(rank: Int, shardsPerRank: Int): NDArrayIter = {
    val all = 3 * shards * rowsPerShard
    val rows = for {
      row <- 0 until all
      shard = row / rowsPerShard % shards
      if shard / shardsPerRank == rank
    } yield row
    val data = NDArray.array(rows.flatMap(r => Seq(r % 7 - 3f, r % 5 - 2f, r % 3 - 1f)).toArray, Shape(rows.length, 3))
    val label = NDArray.array(rows.map(r => (r % 2).toFloat).toArray, Shape(rows.length))
    new NDArrayIter(IndexedSeq(data), IndexedSeq(label), shardsPerRank * rowsPerShard, labelName = "softmax_label")
  }

  private def firstParams(rank: Int): Map[String, NDArray] = {
    def ramp(name: String, shape: Shape) =
      name -> NDArray.array(Array.tabulate(shape.product)(i => (i % 5 - 2) * 0.1f * (1 + rank)), shape)
    Map(
      ramp("one_weight", Shape(8, 3)),
      ramp("one_bias", Shape(8)),
      "normal_gamma" -> NDArray.ones(Shape(8)),
      ramp("normal_beta", Shape(8)),
      ramp("two_weight", Shape(2, 8)),
      ramp("two_bias", Shape(2))
    )
  }

  /** The bits of all parameters after two epochs on a number of ranks.
    *
    * @param newModule makes the module of a rank
    */
  private def trained(
      size: Int,
      newModule: Array[Context] => Module = contexts => new Module(network, contexts = contexts)
  ): Map[String, Seq[Int]] = {
    val shardsPerRank = shards / size
    Random.seed(3)
    val params = onRanks(size) { (rank, job) =>
      val contexts = Array.tabulate(shardsPerRank)(i => Context.cpu(rank * shardsPerRank + i))
      val module = newModule(contexts)
      val params = new FitParams()
        .setKVStore(job.createStore())
        .setArgParams(firstParams(rank))
        .setAuxParams(Map("normal_moving_mean" -> NDArray.zeros(8), "normal_moving_var" -> NDArray.ones(Shape(8))))
        .setOptimizer(new SGD(0.2f, momentum = 0.9f))
      module.fit(batches(rank, shardsPerRank), numEpoch = 2, fitParams = params)
      module.getParams._1.map { case (name, array) =>
        name -> array.toArray.toSeq.map(java.lang.Float.floatToRawIntBits)
      }
    }
    params.foreach(p => assert(p == params.head, "ranks differ"))
    params.head
  }

  test("training has the same bits on one, two and four ranks") {
    val alone = trained(1)
    assertEquals(alone.keySet, firstParams(0).keySet)
    Seq(2, 4).foreach(size => assert(trained(size) == alone, s"$size ranks differ from one"))
  }

  test("a module that pushes during the backward pass has the same bits as one that pushes after it") {
    val updates = new AtomicInteger
    // The methods of a subclass are called, so that it pushes after the backward pass.
    def counting(contexts: Array[Context]): Module = new Module(network, contexts = contexts) {
      override def update(): Unit = {
        updates.incrementAndGet()
        super.update()
      }
    }
    assertEquals(trained(2, counting), trained(2))
    assertEquals(updates.get, 2 * 2 * 3, "ranks, epochs, batches")
  }

  test("an executor pushes its gradients and other arrays") {
    val out = Symbol.FullyConnected(name = "one")()(Map("data" -> Symbol.Variable("data"), "num_hidden" -> 2))
    val loss = Symbol.LinearRegressionOutput(name = "loss")()(Map("data" -> out))
    val sums = onRanks(2) { (rank, job) =>
      val shapes = Map("data" -> Shape(3, 4), "loss_label" -> Shape(3, 2))
      val executor = loss.simpleBind(Context.cpu(), "write", shapes)
      executor.argDict("data").set(1f + rank)
      executor.argDict("one_weight").set(0.5f)
      val keys = Array("one_bias", "one_weight", "other")
      val pushed = Array(executor.gradDict("one_bias"), executor.gradDict("one_weight"), NDArray.ones(Shape(2)))
      val store = job.createStore()
      store.init(keys, pushed)
      executor.forward(isTrain = true)
      executor.backwardAndPush(store, keys, pushed)
      val own = pushed.map(_.toArray.toSeq)
      val outs = pushed.map(array => NDArray.zeros(array.shape))
      store.pull(keys, outs)
      assert(
        intercept[MXNetError](executor.backwardAndPush(store, Array("none"), pushed.take(1))).getMessage
          .contains("none")
      )
      intercept[IllegalArgumentException](executor.backwardAndPush(store, keys, pushed.take(1)))
      store.barrier()
      (own, outs.map(_.toArray.toSeq))
    }
    val expected = sums(0)._1.zip(sums(1)._1).map { case (a, b) => a.zip(b).map { case (x, y) => x + y } }
    sums.foreach { case (_, found) => assertEquals(found.toSeq, expected.toSeq) }
    assert(expected.forall(_.exists(_ != 0f)))
  }

  test("sums of float64 and an optimizer on each rank") {
    val values = onRanks(2) { (rank, job) =>
      val sums = job.createStore("dist_device_sync")
      val one = NDArray.array(Array(1.0 + rank), Shape(1))
      sums.init("loss", one)
      sums.push("loss", one)
      sums.pull("loss", one)
      val weights = job.createStore()
      weights.init("w", NDArray.ones(Shape(1)))
      weights.setOptimizer(new SGD(0.5f, wd = 0f))
      weights.push("w", NDArray.ones(Shape(1)))
      val out = NDArray.zeros(1)
      weights.pull("w", out)
      weights.barrier()
      assertEquals(
        (weights.rank, weights.numWorkers, weights.`type`, sums.`type`),
        (rank, 2, "dist_sync", "dist_device_sync")
      )
      assertEquals((job.rank, job.size), (rank, 2))
      (one.toFloat64Scalar, out.toScalar)
    }
    assertEquals(values, Seq((3.0, 0f), (3.0, 0f)))
  }

  test("compressed gradients are the same on one and two ranks") {
    def pushed(size: Int): Seq[Float] = onRanks(size) { (rank, job) =>
      val store = job.createStore()
      store.setGradientCompression(Map("type" -> "2bit", "threshold" -> "0.5"))
      store.init("w", NDArray.zeros(3))
      val mine = Seq(Array(0.7f, -2f, 0.1f), Array(0.6f, 0.2f, 0.1f)).drop(rank).take(2 / size)
      val out = NDArray.zeros(3)
      store.push("w", mine.map(NDArray.array(_, Shape(3))).toArray)
      store.pull("w", out)
      out.toArray.toSeq
    }.head
    assertEquals(pushed(1), Seq(1f, -0.5f, 0f))
    assertEquals(pushed(2), pushed(1))
  }

  test("a rank that leaves, is silent or never connects is an error that names it") {
    val left = onRanks(2) { (rank, job) =>
      if (rank == 1) { job.close(); "" }
      else intercept[MXNetError](job.barrier()).getMessage
    }
    assert(left.head.contains("rank 1 (127.0.0.1:"), left.head)
    val silent = onRanks(2, Duration.ofSeconds(2)) { (rank, job) =>
      if (rank == 1) { Thread.sleep(6000); "" }
      else intercept[MXNetError](job.createStore().init("a", NDArray.ones(Shape(1)))).getMessage
    }
    assert(silent.head.contains("rank 1 (127.0.0.1:") && silent.head.contains("within 2.0 s"), silent.head)
    val job = DistributedJob.listen("127.0.0.1")
    val message = intercept[MXNetError] {
      job.join(0, Seq(s"127.0.0.1:${job.port}", "127.0.0.1:9"), secret, Duration.ofMillis(300))
    }.getMessage
    assert(message.contains("rank 1 (127.0.0.1:9)"), message)
  }

  test("bad input") {
    val job = DistributedJob.listen("127.0.0.1")
    def message(body: => Any): String = intercept[MXNetError](body).getMessage
    assert(message(job.rank).contains("call join first"))
    assert(message(job.join(2, Seq("a:1"), secret)).contains("rank 2 is not among the 1 peers"))
    assert(message(job.join(0, Seq("a:1"), secret)).contains("is joined once"))
    val short = DistributedJob.listen("127.0.0.1")
    assert(
      message(short.join(0, Seq("a:1", "b:2"), Array[Byte](1))).contains("the secret of a distributed job has 1 bytes")
    )
    job.close()
    job.close()
    assert(message(job.port).contains("used after dispose()"))
    assert(message(DistributedJob.listen("127.0.0.1", 70000)).contains("port is 70000"))
    assert(Try(DistributedJob.listen("192.0.2.1")).failed.get.getMessage.contains("cannot listen on 192.0.2.1"))
  }
}
