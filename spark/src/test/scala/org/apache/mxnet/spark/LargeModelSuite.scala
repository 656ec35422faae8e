package org.apache.mxnet.spark

import java.io.{FileInputStream, FileOutputStream, ObjectInputStream, ObjectOutputStream, RandomAccessFile}
import java.nio.file.{Files, Path}
import java.nio.{ByteBuffer, ByteOrder}

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.mxnet._
import org.apache.mxnet.infer.Predictor
import org.apache.mxnet.spark.internal.ModelFiles
import org.apache.spark.ml.param.ParamMap
import org.apache.spark.mllib.linalg.Vectors
import org.apache.spark.sql.functions.col

/** A model with an array of more than 2 GiB. It needs 16 GB of memory and 20 GB of disk, and runs only by hand:
  * `FERROMX_LARGE_MODEL=1 sbt "testOnly *LargeModelSuite"`.
  */
class LargeModelSuite extends ClusterSuite {
  override protected def numExecutors: Int = 1
  override protected def executorMemory: Int = 5000

  private val lastRow = 1L << 28
  private val directory = Files.createTempDirectory("ferromx-large-")
  private val expected = Map(0L -> Seq(0f, 0f), lastRow -> Seq(7.5f, -1f))

  private def prefix(name: String): Path = directory.resolve(name)

  override def afterAll(): Unit = {
    super.afterAll()
    Using.resource(Files.walk(directory))(_.sorted(java.util.Comparator.reverseOrder()).forEach(Files.delete(_)))
  }

  /** A `.params` file with one array of two columns: zeros up to the last row. */
  private def writeParams(file: Path): Unit = Using.resource(new RandomAccessFile(file.toFile, "rw")) { out =>
    val header = ByteBuffer.allocate(64).order(ByteOrder.LITTLE_ENDIAN)
    header.putLong(0x112).putLong(0).putLong(1)
    header.putInt(0xf993fac9).putInt(0).putInt(2).putLong(lastRow + 1).putLong(2)
    header.putInt(1).putInt(0).putInt(0)
    out.write(header.array(), 0, header.position())
    out.seek(out.getFilePointer + lastRow * 8)
    val name = "arg:table".getBytes("UTF-8")
    val end = ByteBuffer.allocate(64).order(ByteOrder.LITTLE_ENDIAN)
    end.putFloat(7.5f).putFloat(-1f).putLong(1).putLong(name.length.toLong).put(name)
    out.write(end.array(), 0, end.position())
  }

  private def model: MXNetModel = new MXNetModel()
    .setFeedDict(Map("data" -> "index"))
    .setInputShapes(Map("data" -> Shape(1)))
    .setFetchDict(Map("row" -> "table_output"))

  private def rows(model: MXNetModel): Map[Long, Seq[Float]] = {
    val table = spark.range(0, 2 * lastRow, lastRow).select(col("id").as("index"))
    model.transform(table).collect().map(row => row.getLong(0) -> row.getSeq[Float](1)).toMap
  }

  /** Writes the model. */
  private def writeModel(): Unit = {
    assume(sys.env.contains("FERROMX_LARGE_MODEL"), "by hand")
    val (data, table) = (Symbol.Variable("data"), Symbol.Variable("table"))
    val network = Symbol.api.Embedding(data, table, input_dim = lastRow.toInt + 1, output_dim = 2, name = "table")
    network.save(s"${prefix("large")}-symbol.json")
    val params = Path.of(s"${prefix("large")}-0000.params")
    writeParams(params)
    assert(Files.size(params) > Int.MaxValue)
  }

  /** The object read back from its serialized form. */
  private def copyOf[A <: AnyRef](value: A): A = {
    val file = prefix("serialized").toFile
    Using.resource(new ObjectOutputStream(new FileOutputStream(file)))(_.writeObject(value))
    assert(file.length > Int.MaxValue)
    try Using.resource(new ObjectInputStream(new FileInputStream(file)))(_.readObject().asInstanceOf[A])
    finally Files.delete(file.toPath)
  }

  test("a model above 2 GiB is shipped, saved, loaded, serialized and broadcast") {
    writeModel()
    assertEquals(rows(model.setModelPath(prefix("large").toString)), expected, "shipped")

    model.setModelPath(prefix("large").toString).write.save(prefix("saved").toString)
    assertEquals(rows(MXNetModel.load(prefix("saved").toString)), expected, "saved and loaded")

    val files = ModelFiles.of(prefix("large").toString, 0, new Configuration)
    val payload = model.withFiles(files)
    val sent = copyOf(payload).copy(ParamMap.empty)
    assertEquals(ModelFiles(sent.files.main, sent.files.others).hash, files.hash, "serialized")
    assertEquals(rows(sent), expected, "serialized")

    val shared = spark.sparkContext.broadcast(payload)
    val found = spark.sparkContext.parallelize(Seq(0L, lastRow), 2).map { index =>
      index -> shared.value.predict(Vectors.dense(index.toDouble)).head.get.toArray.toSeq
    }
    assertEquals(found.collect().toMap, expected, "broadcast")
  }

  test("a predictor above 2 GiB is serialized") {
    writeModel()
    val inputs = IndexedSeq(DataDesc("data", Shape(1), layout = "N"))
    val predictor = copyOf(new Predictor(prefix("large").toString, inputs))
    expected.foreach { case (index, row) =>
      assertEquals(predictor.predict(IndexedSeq(Array(index.toFloat))).head.toSeq, row)
    }
  }
}
