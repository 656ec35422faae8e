package org.apache.mxnet.spark.internal

import java.io.File
import java.nio.{ByteBuffer, ByteOrder}
import java.util.zip.CRC32

import scala.collection.mutable

import org.apache.mxnet.Base._LIB
import org.apache.mxnet.{MXNetError, MXRecordIO}
import org.apache.spark.Partitioner
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.XXH64
import org.apache.spark.unsafe.Platform

/** The logical shard of a row, and its position there. Neither depends on the number of workers.
  *
  * @param validation whether the row is for validation
  * @param order rows of a shard are read in ascending order
  */
private[mxnet] final case class RowKey(validation: Boolean, shard: Int, order: Long)

private[mxnet] object RowKey {
  implicit val ordering: Ordering[RowKey] = Ordering.by(key => (key.validation, key.shard, key.order))

  /** A hash of a row's content and a seed. Sorting rows by it shuffles them reproducibly. */
  def hash(record: Array[Byte], seed: Long): Long =
    XXH64.hashUnsafeBytes(record, Platform.BYTE_ARRAY_OFFSET, record.length, seed)

  /** The seed of the order of a shard's rows in an epoch. */
  def orderSeed(seed: Long, epoch: Int, shard: Int): Long =
    XXH64.hashLong(epoch.toLong, XXH64.hashLong(shard.toLong, seed))

  /** The key of the row at an index: rows are distributed to the shards round-robin. */
  def of(validation: Boolean, index: Long, numShards: Int): RowKey =
    RowKey(validation, (index % numShards).toInt, index / numShards)
}

/** What rows are shuffled by: a hash of their content. */
private[mxnet] final case class ContentKey(validation: Boolean, hash: Long)

private[mxnet] object ContentKey {
  implicit val ordering: Ordering[ContentKey] = Ordering.by(key => (key.validation, key.hash))
}

/** Partitions rows into ranges of their hashes, which are equally long because hashes are uniformly distributed. Rows for
  * validation follow in partitions of their own.
  *
  * @param numRanges the number of partitions with rows for training, and of those with rows for validation
  */
private[mxnet] final class ContentPartitioner(numRanges: Int, hasValidation: Boolean) extends Partitioner {
  override val numPartitions: Int = if (hasValidation) Math.multiplyExact(2, numRanges) else numRanges

  override def getPartition(key: Any): Int = key match {
    case ContentKey(validation, hash) =>
      // The upper half of the hash, from 0, as a fraction of 2^32.
      val range = (((hash >> 32) - Int.MinValue) * numRanges >>> 32).toInt
      if (validation) numRanges + range else range
    case other => throw new IllegalArgumentException(s"$other is not a key of a row's content")
  }
}

/** Assigns consecutive shards to each worker. */
private[mxnet] final class ShardPartitioner(override val numPartitions: Int, numShards: Int) extends Partitioner {
  override def getPartition(key: Any): Int = key match {
    case row: RowKey => row.shard / (numShards / numPartitions)
    case other       => throw new IllegalArgumentException(s"$other is not a key of a row")
  }
}

/** Encodes a row as a record: the elements of all inputs and of the label as 32-bit floats, little-endian.
  *
  * @param sizes the number of elements of each input
  * @param labels the inputs whose elements are classes, by index
  * @param takesNaN whether the label, which is the last input, may be NaN
  */
private[mxnet] final class RowEncoder(
    columns: IndexedSeq[InputColumn[_]],
    sizes: IndexedSeq[Int],
    labels: Map[Int, ClassLabel],
    takesNaN: Boolean
) {
  private val values = new Array[Float](sizes.sum)
  private val offsets = sizes.scanLeft(0)(_ + _)

  def encode(row: InternalRow): Array[Byte] = {
    columns.indices.foreach { i =>
      if (row.isNullAt(i))
        throw new IllegalArgumentException(
          s"column '${columns(i).column}' is null in a row; training needs a value in every row"
        )
      columns(i).read(row, i, 0)
      columns(i).copyFirst(values, offsets(i))
    }
    labels.foreach { case (i, label) =>
      (offsets(i) until offsets(i + 1)).foreach(element => label.check(values(element), columns(i).column))
    }
    if (!takesNaN && (offsets(columns.length - 1) until values.length).exists(values(_).isNaN))
      throw new IllegalArgumentException(
        s"column '${columns.last.column}' has the value NaN, which cannot be trained on; remove or replace such rows"
      )
    val bytes = ByteBuffer.allocate(4 * values.length).order(ByteOrder.LITTLE_ENDIAN)
    bytes.asFloatBuffer().put(values)
    bytes.array()
  }
}

/** Consecutive rows of a file, which are read together.
  *
  * @param offset byte offset of the first row
  */
private[mxnet] final case class Chunk(offset: Long, numRows: Int)

/** The files of a shard. */
private[mxnet] final case class ShardFiles(
    training: ShardFile = ShardFile.empty,
    validation: ShardFile = ShardFile.empty
) {
  def close(): Unit = {
    training.close()
    validation.close()
  }
}

/** The rows of a shard for training, or those for validation, in a local RecordIO file.
  *
  * @param file the file; None if there are no rows
  * @param checksum CRC-32 of the records
  */
private[mxnet] final class ShardFile(file: Option[File], chunks: IndexedSeq[Chunk], val checksum: Long) {
  val numRows: Long = chunks.map(_.numRows.toLong).sum

  private lazy val reader =
    new MXRecordIO(file.getOrElse(throw new MXNetError("a shard has no rows")).getPath, MXRecordIO.IORead)
  private var order: () => Iterator[Array[Byte]] = () => inOrder
  private var records: Iterator[Array[Byte]] = Iterator.empty

  /** Goes to the first row in the order of the file. */
  def rewind(): Unit = {
    order = () => inOrder
    records = order()
  }

  /** Goes to the first row of a random order. Chunks are shuffled, then the rows of a few chunks at a time, which are
    * held in memory together.
    */
  def shuffle(seed: Long): Unit = {
    order = () => inRandomOrder(new java.util.Random(seed))
    records = order()
  }

  /** Reads the next row; the first one follows the last. */
  def read(target: Array[Float]): Unit = {
    if (!records.hasNext) records = order()
    ByteBuffer.wrap(records.next()).order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer().get(target)
    ()
  }

  private def inOrder: Iterator[Array[Byte]] = chunks.iterator.flatMap(rowsOf)

  private def inRandomOrder(random: java.util.Random): Iterator[Array[Byte]] =
    ShardFile.shuffled(chunks, random).grouped(ShardFile.ChunksInMemory).flatMap { few =>
      ShardFile.shuffled(few.toIndexedSeq.flatMap(rowsOf), random)
    }

  private def rowsOf(chunk: Chunk): Iterator[Array[Byte]] = {
    _LIB.recordReaderSeek(reader.handle, chunk.offset)
    Iterator.fill(chunk.numRows)(reader.readBytes())
  }

  def close(): Unit = file.foreach { path =>
    reader.close()
    path.delete()
  }
}

private[mxnet] object ShardFile {
  private val ChunkBytes = 1 << 20

  /** The number of chunks whose rows are shuffled together. */
  private val ChunksInMemory = 16

  /** Writes sorted rows to a file for each shard, so that they need not fit in memory.
    *
    * @param chunkBytes size of a chunk; a larger row is a chunk of its own
    * @return the files by shard; shards without rows have none
    */
  def spool(
      rows: Iterator[(RowKey, Array[Byte])],
      directory: File,
      chunkBytes: Int = ChunkBytes
  ): Map[Int, ShardFiles] = {
    val files = mutable.HashMap.empty[Int, ShardFiles]
    val source = rows.buffered
    while (source.hasNext) {
      val RowKey(validation, shard, _) = source.head._1
      val file = new File(directory, s"${if (validation) "validation" else "training"}-$shard.rec")
      val writer = new MXRecordIO(file.getPath, MXRecordIO.IOWrite)
      val checksum = new CRC32
      val chunks = mutable.ArrayBuffer.empty[Chunk]
      try
        while (source.hasNext && source.head._1.validation == validation && source.head._1.shard == shard) {
          val record = source.next()._2
          val rowsPerChunk = math.max(1, chunkBytes / record.length)
          if (chunks.lastOption.forall(_.numRows == rowsPerChunk))
            chunks += Chunk(_LIB.recordWriterTell(writer.handle), 0)
          writer.writeBytes(record)
          checksum.update(record)
          chunks(chunks.length - 1) = chunks.last.copy(numRows = chunks.last.numRows + 1)
        }
      finally writer.close()
      val written = new ShardFile(Some(file), chunks.toIndexedSeq, checksum.getValue)
      val others = files.getOrElse(shard, ShardFiles())
      files(shard) = if (validation) others.copy(validation = written) else others.copy(training = written)
    }
    files.toMap
  }

  val empty: ShardFile = new ShardFile(None, IndexedSeq.empty, 0)

  /** A permutation of some items (Fisher and Yates). `java.util.Random` gives the same numbers in every version of Java. */
  private def shuffled[A](items: IndexedSeq[A], random: java.util.Random): IndexedSeq[A] = {
    val permuted = items.toBuffer
    (permuted.length - 1 to 1 by -1).foreach { i =>
      val j = random.nextInt(i + 1)
      val item = permuted(i)
      permuted(i) = permuted(j)
      permuted(j) = item
    }
    permuted.toIndexedSeq
  }
}
