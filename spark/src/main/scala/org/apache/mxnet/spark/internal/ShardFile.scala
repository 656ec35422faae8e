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

/** What is done with rows that cannot be trained on.
  *
  * @param handling `error`, `skip` or `keep` for rows whose inputs have null, NaN or an infinite number
  * @param labelsMayBeNaN whether NaN is a label like others
  */
private[mxnet] final case class InvalidRows(handling: String, labelsMayBeNaN: Boolean) {
  def skips: Boolean = handling == "skip"

  def allows(value: Float, isLabel: Boolean): Boolean =
    if (isLabel) labelsMayBeNaN || !value.isNaN
    else handling == "keep" || java.lang.Float.isFinite(value)

  /** Returns false if invalid rows are skipped. */
  def reject(problem: String, isLabel: Boolean): Boolean = {
    if (!skips) {
      val keep = if (isLabel) "" else ", or to 'keep' to train on them"
      throw new IllegalArgumentException(s"$problem; set handleInvalid to 'skip' to leave out such rows$keep")
    }
    false
  }
}

/** Encodes a row as a record: the elements of all inputs and of the label as 32-bit floats, little-endian.
  *
  * @param columns the readers of the inputs
  * @param classes the inputs whose elements are classes, by index
  */
private[mxnet] final class RowEncoder(
    columns: IndexedSeq[InputColumn[_]],
    inputs: IndexedSeq[RowInput],
    classes: Map[Int, ClassLabel],
    invalid: InvalidRows
) {
  private val offsets = inputs.scanLeft(0)(_ + _.shape.product)
  private val values = new Array[Float](offsets.last)

  /** The record; none for an invalid row that is skipped. */
  def encode(row: InternalRow): Option[Array[Byte]] =
    Option.when(columns.indices.forall(read(row, _))) {
      classes.foreach { case (i, label) =>
        (offsets(i) until offsets(i + 1)).foreach(element => label.check(values(element), columns(i).column))
      }
      val bytes = ByteBuffer.allocate(4 * values.length).order(ByteOrder.LITTLE_ENDIAN)
      bytes.asFloatBuffer().put(values)
      bytes.array()
    }

  /** Copies the value of a column to `values`. Returns false if the row is skipped. */
  private def read(row: InternalRow, i: Int): Boolean = {
    val column = columns(i)
    val isLabel = inputs(i).name.endsWith("label")
    if (row.isNullAt(i)) invalid.reject(s"column '${column.column}' is null in a row", isLabel = true)
    else {
      column.read(row, i, 0)
      column.copyFirst(values, offsets(i))
      var element = offsets(i)
      while (element < offsets(i + 1) && invalid.allows(values(element), isLabel)) element += 1
      // The error about a class says which classes there are.
      element == offsets(i + 1) || (!invalid.skips && classes.contains(i)) ||
      invalid.reject(s"column '${column.column}' has the value ${values(element)}, which cannot be trained on", isLabel)
    }
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
