package org.apache.mxnet.spark

import java.io.File
import java.nio.file.{Files, Paths}

import scala.jdk.CollectionConverters._

import org.apache.mxnet._
import org.apache.spark.sql.ferromx.FileTransfer

/** Two executors of one machine share the weights of a model. */
class SharedMemorySuite extends ClusterSuite {
  import SharedMemorySuite._

  override protected def numExecutors: Int = 1
  override protected def coresPerExecutor: Int = 2

  // One worker of Spark runs two executors.
  override protected def settings: Map[String, String] =
    Map("spark.executor.cores" -> "1", "spark.executor.memory" -> "500m", "spark.ferromx.sessionCapacity" -> "1")

  private val units = 256

  private def network(weight: Float): (Symbol, Map[String, NDArray]) = {
    val data = Symbol.Variable("data")
    val dense = Symbol.api.FullyConnected(data = data, num_hidden = units, name = "dense")
    val params = Map(
      "dense_weight" -> NDArray.full(Shape(units, 8), weight),
      "dense_bias" -> NDArray.array(Array.tabulate(units)(_.toFloat), Shape(units)),
      "words_weight" -> NDArray.full(Shape(units, units), weight)
    )
    val row = Symbol.api.Embedding(
      data = Symbol.api.slice_axis(data = data, axis = 1, begin = 0, end = 1),
      input_dim = units,
      output_dim = units,
      name = "words"
    )
    (Symbol.api.Reshape(data = row, shape = Shape(0, -1)) + dense, params)
  }

  private def answers(model: MXNetModel): Seq[Seq[Float]] = {
    val table = spark.range(0, 64, 1, 8).selectExpr("id", "array_repeat(cast(id as float), 8) as x")
    model.transform(table).orderBy("id").select("y").collect().map(_.getSeq[Float](0).toVector).toVector
  }

  private def model(weight: Float): MXNetModel = {
    val (symbol, params) = network(weight)
    new MXNetModel()
      .setNetwork(symbol, params)
      .setFeedDict(Map("data" -> "x"))
      .setFetchDict(Map("y" -> symbol.listOutputs().head))
  }

  /** What a task finds in each of the two executors. */
  private def inExecutors[A: scala.reflect.ClassTag](find: () => A): Map[Long, A] =
    spark.sparkContext
      .parallelize(1 to 8, 8)
      .map { _ =>
        Thread.sleep(200)
        ProcessHandle.current().pid() -> find()
      }
      .collect()
      .toMap

  private def expected(weight: Float): Seq[Seq[Float]] =
    (0 until 64).map(id => (0 until units).map(unit => weight + 8 * id * weight + unit))

  test("the weights of .params and ONNX files are memory of one file in all executors") {
    assertEquals(answers(model(0.5f)), expected(0.5f))
    val inodes = inExecutors(() => mappedFiles)
    assertEquals(inodes.size, 2)
    assertEquals(inodes.values.toSet.size, 1, inodes)
    assertEquals(inodes.values.head.size, 1, inodes)
    assertEquals(inExecutors(() => sharedFiles).values.toSeq.map(_.length), Seq(2, 2))
    // A second model replaces the first, whose files are deleted.
    val file = Files.createTempDirectory("shared").resolve("model.onnx").toString
    val (symbol, params) = network(0.25f)
    Onnx.exportModel(symbol, params, file, inputs = Map("data" -> Shape(-1, 8)))
    val onnx = new MXNetModel()
      .setModelPath(file)
      .setFeedDict(Map("data" -> "x"))
      .setFetchDict(Map("y" -> Onnx.importModel(file).outputs.head))
    assertEquals(answers(onnx), expected(0.25f))
    val later = inExecutors(() => mappedFiles)
    assert(later.values.forall(_.intersect(inodes.values.head).isEmpty), later)
    assertEquals(later.values.map(_.size).toSet, Set(1))
    val names = inExecutors(() => sharedFiles).values.flatten.toSet
    assertEquals(names.map(_.split('-').last), Set("model.onnx", "imported.params"))
    // An executor that opens a model whose file another one has deleted fetches it again.
    inExecutors { () => sharedFiles.foreach(name => new File(FileTransfer.applicationDirectory.get, name).delete()) }
    assertEquals(answers(onnx), expected(0.25f))
    assertEquals(answers(model(0.75f)), expected(0.75f))
    assertEquals(inExecutors(() => mappedFiles).values.map(_.size).toSet, Set(1))
  }
}

object SharedMemorySuite {

  /** The inodes of mapped files with parameters. */
  def mappedFiles: Set[String] =
    Files.readAllLines(Paths.get("/proc/self/maps")).asScala.filter(_.contains(".params")).map(_.split(" +")(4)).toSet

  /** The names of the files that executors share. */
  def sharedFiles: Seq[String] =
    FileTransfer.applicationDirectory.get
      .list()
      .toSeq
      .filter(name => name.startsWith("ferromx-") && name.contains("."))
      .sorted
}
