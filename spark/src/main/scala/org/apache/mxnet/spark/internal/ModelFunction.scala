package org.apache.mxnet.spark.internal

import scala.collection.mutable.ArrayBuffer

import org.apache.mxnet.Shape
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{JoinedRow, SpecificInternalRow}
import org.apache.spark.sql.ferromx.PartitionFunction
import org.apache.spark.sql.types.{DataType, DoubleType}

/** An input of the model and the column that feeds it.
  *
  * @param rowShape the shape of a row; empty to take that of the model, else that of the first value
  */
private[mxnet] final case class Feed(input: String, column: String, dataType: DataType, rowShape: Option[Seq[Int]])

/** Runs a model on the rows of a partition, batch by batch.
  *
  * @param fetches the outputs, one for each new column
  * @param outputTypes the types of these columns
  * @param hasPrediction whether a last column has the prediction by the first output
  * @param handleInvalid what is done with rows that have NaN: `error`, `skip` or `keep`
  */
private[mxnet] final case class ModelFunction(
    model: ShippedModel,
    feeds: Seq[Feed],
    fetches: Seq[String],
    outputTypes: Seq[DataType],
    hasPrediction: Boolean,
    batchSize: Int,
    handleInvalid: String,
    images: ImageFormat
) extends PartitionFunction {

  /** The inputs and outputs, for query plans. */
  override def toString: String =
    s"[${feeds.map(feed => s"${feed.input} = ${feed.column}").mkString(", ")}] -> [${fetches.mkString(", ")}]"

  override def apply(
      rows: Iterator[InternalRow],
      ordinals: Array[Int],
      passThrough: InternalRow => InternalRow
  ): Iterator[InternalRow] =
    if (!rows.hasNext) Iterator.empty
    else {
      val lease = ModelSession.acquire(model.hash, () => model.load())
      Option(TaskContext.get()).foreach(_.addTaskCompletionListener[Unit](_ => lease.close()))
      val first = rows.next()
      new Batches(lease.session, first, ordinals, passThrough).run(first, rows)
    }

  private final class Batches(
      session: ModelSession,
      first: InternalRow,
      ordinals: Array[Int],
      passThrough: InternalRow => InternalRow
  ) {
    private val shapes = feeds.indices.map { i =>
      checkNull(first, i)
      val feed = feeds(i)
      def ofValue = InputColumn.sizeOf(feed.dataType, first, ordinals(i))
      feed.rowShape.map(Shape(_)).orElse(session.rowShape(feed.input)).orElse(ofValue).getOrElse {
        throw new IllegalArgumentException(
          s"the shape of the input '${feed.input}' is not in the model and cannot be inferred from column '${feed.column}'; " +
            "set the parameter inputShapes"
        )
      }
    }
    private val network = session.network(feeds.map(_.input).zip(shapes), fetches)
    private val fixedBatch = feeds.flatMap(feed => session.fixedBatch(feed.input)).headOption
    private val largest = fixedBatch.getOrElse(batchSize)
    private val columns = feeds.toIndexedSeq.zip(shapes).map { case (feed, shape) =>
      InputColumn.of(feed.column, feed.dataType, shape, paddedSize(largest), images)
    }
    private val fetched = fetches.toIndexedSeq
    private val outputRow = new SpecificInternalRow(outputTypes ++ Option.when(hasPrediction)(DoubleType))
    private val joined = new JoinedRow
    private val checksNaN = handleInvalid != "keep"

    def run(first: InternalRow, others: Iterator[InternalRow]): Iterator[InternalRow] = new Iterator[InternalRow] {
      private val batch = new ArrayBuffer[InternalRow](largest)
      private var outputs = Array.empty[OutputColumn[_]]
      private var isComputed = false
      private var position = 0
      add(first)
      fill()

      override def hasNext: Boolean = {
        if (position == batch.length) {
          batch.clear()
          isComputed = false
          position = 0
          fill()
        }
        position < batch.length
      }

      override def next(): InternalRow = {
        if (!hasNext) throw new NoSuchElementException("the partition has no more rows")
        if (!isComputed) compute()
        var i = 0
        while (i < outputs.length) {
          outputRow.update(i, outputs(i).row(position))
          i += 1
        }
        if (hasPrediction) outputRow.setDouble(outputs.length, outputs.head.prediction(position))
        position += 1
        joined(batch(position - 1), outputRow)
      }

      private def fill(): Unit = while (batch.length < largest && others.hasNext) add(others.next())

      private def compute(): Unit = {
        val padded = paddedSize(batch.length)
        outputs = network.run(padded) { inputs =>
          columns.indices.foreach(i => columns(i).write(inputs(i), batch.length))
        }(results => fetched.indices.map(i => OutputColumn.of(fetched(i), results(i), padded)).toArray)
        isComputed = true
      }

      private def add(row: InternalRow): Unit = {
        var isValid = true
        var i = 0
        while (i < columns.length) {
          checkNull(row, i)
          columns(i).read(row, ordinals(i), batch.length)
          if (checksNaN && columns(i).hasNaN(batch.length)) {
            if (handleInvalid == "error") throw invalid("has NaN", i, ", or to 'keep' to give NaN to the model")
            isValid = false
          }
          i += 1
        }
        if (isValid) batch += passThrough(row)
      }
    }

    private def checkNull(row: InternalRow, i: Int): Unit =
      if (row.isNullAt(ordinals(i))) throw invalid("is null", i, "")

    private def invalid(problem: String, i: Int, keep: String) = new IllegalArgumentException(
      s"column '${feeds(i).column}' $problem in a row; set handleInvalid to 'skip' to skip such rows$keep"
    )

    private def paddedSize(rows: Int): Int = fixedBatch.getOrElse(ModelFunction.paddedSize(rows, largest))
  }
}

private[mxnet] object ModelFunction {

  /** The number of rows of a batch is a multiple of this. */
  private val RowGroup = 16

  /** The number of rows to which a batch is padded. The kernels compute the same bits for a row in every batch whose
    * size is a multiple of 16. Powers of two limit the number of sizes for the last batches of partitions.
    */
  def paddedSize(rows: Int, largest: Int): Int = {
    val whole = (largest + RowGroup - 1) / RowGroup * RowGroup
    math.min(whole, if (rows <= RowGroup) RowGroup else Integer.highestOneBit(rows - 1) * 2)
  }
}
