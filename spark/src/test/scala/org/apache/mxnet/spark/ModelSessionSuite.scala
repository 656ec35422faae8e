package org.apache.mxnet.spark

import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.{CountDownLatch, CyclicBarrier, Executors}

import scala.concurrent.duration.DurationInt
import scala.concurrent.{Await, ExecutionContext, Future}
import scala.util.{Try, Using}

import munit.FunSuite
import org.apache.mxnet._
import org.apache.mxnet.spark.internal.ModelSession
import org.apache.spark.sql.functions.{col, udf}
import org.apache.spark.sql.{DataFrame, SparkSession}

/** The cache of models in a process, here with a capacity of two. */
class ModelSessionSuite extends FunSuite {
  import ModelSessionSuite._

  private implicit val threads: ExecutionContext = ExecutionContext.global

  override val munitTimeout = scala.concurrent.duration.Duration(1, "h")

  private lazy val spark = SparkSession
    .builder()
    .master(s"local[$Tasks]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config(ModelSession.CapacityKey, "2")
    .getOrCreate()

  override def afterAll(): Unit = spark.stop()

  private val units = 1000
  private val weightBytes = 4L * units * units

  /** A layer of `units` x `units` weights, all of them `weight`; the answer is `units * weight` times the input. */
  private def layer(weight: Float): MXNetModel = {
    val wide = Symbol.api.broadcast_axis(data = Symbol.Variable("data"), axis = Shape(1), size = Shape(units))
    val dense = Symbol.api.FullyConnected(data = wide, num_hidden = units, no_bias = true, name = "dense")
    val network = Symbol.api.mean(data = Some(dense), axis = Shape(1), name = "mean")
    val weights = NDArray.full(Shape(units, units), weight)
    try
      new MXNetModel()
        .setNetwork(network, Map("dense_weight" -> weights))
        .setFeedDict(Map("data" -> "x"))
        .setInputShapes(Map("data" -> Shape(1)))
        .setFetchDict(Map("y" -> "mean_output"))
    finally weights.dispose()
  }

  private def table(rows: Long = 8, partitions: Int = 2): DataFrame =
    spark.range(0, rows, 1, partitions).select(col("id").cast("float").as("x"))

  private def answers(model: MXNetModel, rows: DataFrame = table()): Set[Float] =
    model.transform(rows).select("y").collect().map(_.getSeq[Float](0).head).toSet

  private def memory: Long = Base._LIB.memoryInUse()

  test("the least recently used model is closed, its memory is freed, and it gives the same answers when it is back") {
    val models = (1 to 5).map(i => layer(i.toFloat))
    val hashes = models.map(_.files.hash)
    val first = answers(models(0))
    val withOne = memory
    assertEquals(first.max, 7000f)
    answers(models(1))
    answers(models(0))
    val loads = ModelSession.numLoads
    answers(models(2))
    assertEquals(ModelSession.cached, Seq(hashes(0), hashes(2)), "the second was used before the first")
    answers(models(3))
    answers(models(4))
    assertEquals(ModelSession.cached, Seq(hashes(3), hashes(4)))
    assertEquals(ModelSession.numLoads, loads + 3)
    val grown = memory - withOne
    assert(
      grown < weightBytes * 3 / 2,
      s"a second model needs $weightBytes bytes, but $grown are used more than with one"
    )
    assertEquals(answers(models(0)), first)
    assertEquals(ModelSession.numLoads, loads + 4)
    assertEquals(ModelSession.cached, Seq(hashes(4), hashes(0)))
  }

  test("a model that a task uses is not closed, however many others are loaded") {
    val used = layer(0.5f)
    val (started, goOn) = (new CountDownLatch(1), new CountDownLatch(1))
    gates = (started, goOn)
    val waiting = udf { (x: Float) => if (x == 100f) pass(); x }.asNondeterministic()
    val slow = table(400, 1).select(waiting(col("x")).as("x"))
    val running = Future(answers(used, slow))
    started.await()
    (1 to 4).foreach(i => answers(layer(10f * i)))
    assert(ModelSession.cached.contains(used.files.hash))
    assertEquals(ModelSession.cached.length, 2)
    goOn.countDown()
    assertEquals(Await.result(running, 2.minutes), (0 until 400).map(_ * 500f).toSet)
    assertEquals(ModelSession.cached.length, 2)
  }

  test("more models in use than the capacity are all kept, and closed when they are released") {
    val files = (1 to 4).map(i => layer(100f * i).files)
    val leases = files.map(file => ModelSession.acquire(file.hash, () => ModelSession.load(file)))
    assertEquals(ModelSession.cached, files.map(_.hash))
    val all = memory
    leases.foreach(lease => assertEquals(run(lease.session).length, 16))
    leases.reverse.foreach { lease =>
      lease.close()
      lease.close()
    }
    assertEquals(ModelSession.cached, files.map(_.hash).take(2), "the others were released first")
    assert(memory <= all - 2 * weightBytes, s"$memory bytes are in use, before $all")
  }

  test("a load that fails is tried again by a task that waited, whose session stays open") {
    val files = layer(0.25f).files
    val (entered, fail) = (new CountDownLatch(1), new CountDownLatch(1))
    val attempts = new AtomicInteger
    def acquire() = ModelSession.acquire(
      files.hash,
      () => {
        entered.countDown()
        fail.await()
        if (attempts.incrementAndGet() == 1) throw new MXNetError("the disk is full") else ModelSession.load(files)
      }
    )
    val both = Seq.fill(2)(Future(Try(acquire())))
    entered.await()
    Thread.sleep(200)
    fail.countDown()
    val (failed, loaded) = both.map(Await.result(_, 1.minute)).partition(_.isFailure)
    assertEquals(failed.map(_.failed.get.getMessage), Seq("the disk is full"))
    val third = acquire()
    assertEquals(third.session, loaded.head.get.session)
    loaded.head.get.close()
    // Two others, which would close it if nobody used it.
    Seq(2000f, 3000f).foreach(weight => answers(layer(weight)))
    assertEquals(run(third.session).head, units * 0.25f)
    third.close()
    assertEquals(attempts.get, 2)
  }

  test("32 tasks at a time add workspaces, no weights") {
    val files = layer(0.125f).files
    Using.resource(ModelSession.acquire(files.hash, () => ModelSession.load(files))) { lease =>
      // Twice, because weights are packed when they are used again.
      (1 to 2).foreach(_ => run(lease.session))
      val one = memory
      val barrier = new CyclicBarrier(Tasks)
      val pool = Executors.newFixedThreadPool(Tasks)
      try {
        val all = ExecutionContext.fromExecutor(pool)
        Await.result(
          Future.traverse(1 to Tasks)(_ => Future(run(lease.session, barrier.await()))(all))(implicitly, all),
          2.minutes
        )
      } finally pool.shutdown()
      val perTask = (memory - one) / (Tasks - 1)
      // The inputs and outputs of three nodes for 16 rows, in blocks of up to 1.5 times their size.
      assert(perTask > 0 && perTask < 2 * 16 * units * 3 * 4, s"$perTask bytes per task")
    }
  }

  test("a capacity that is not a number is refused") {
    val key = ModelSession.CapacityKey
    val conf = org.apache.spark.SparkEnv.get.conf
    try
      for (value <- Seq("0", "-1", "many")) {
        conf.set(key, value)
        val error = intercept[IllegalArgumentException](answers(layer(1000f))).getMessage
        assert(
          error.contains(s"$key is '$value'; give the number of models that an executor caches, at least 1"),
          error
        )
      }
    finally conf.set(key, "2")
  }

  /** Runs 16 rows. */
  private def run(session: ModelSession, wait: => Unit = ()): Array[Float] =
    session
      .network(Seq("data" -> Shape(1)), Seq("mean_output"))
      .run(16) { inputs =>
        wait
        inputs.head.set(Array.fill(16)(1f))
        ()
      }(outputs => outputs.head.toArray)
}

object ModelSessionSuite {
  private val Tasks = 32

  /** The first signals that a row is read, the second lets the task continue. */
  @volatile private var gates: (CountDownLatch, CountDownLatch) = _

  private def pass(): Unit = {
    gates._1.countDown()
    gates._2.await()
  }
}
