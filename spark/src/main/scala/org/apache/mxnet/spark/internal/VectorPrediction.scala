package org.apache.mxnet.spark.internal

import org.apache.mxnet.{NDArray, Shape}
import org.apache.spark.mllib.linalg.Vector

/** Runs a network on vectors, in batches.
  *
  * @param shapeOf the dimensions of a row of an input, if the parameter `inputShapes` has them
  */
private[mxnet] final class VectorPrediction(
    session: ModelSession,
    input: String,
    shapeOf: String => Option[Seq[Int]],
    batchSize: Int
) {

  /** All outputs of the network, joined over the batches. */
  def run(rows: Iterator[Vector]): Array[NDArray] = {
    val source = rows.buffered
    val shape =
      shapeOf(input).map(Shape(_)).orElse(session.rowShape(input)).getOrElse(Shape(source.head.size))
    val network = session.network(Seq(input -> shape), session.outputs)
    val fixed = session.fixedBatch(input)
    val batches = source.grouped(fixed.getOrElse(batchSize)).map { batch =>
      val padded = fixed.getOrElse(ModelFunction.paddedSize(batch.length, batchSize))
      val elements = new Array[Double](padded * shape.product)
      batch.indices.foreach(i => copy(batch(i), elements, i * shape.product, shape))
      network.run(padded)(inputs => PrimitiveType.Doubles.write(elements, inputs.head)) { outputs =>
        outputs.map(firstRows(_, batch.length))
      }
    }
    val results = batches.toIndexedSeq
    val joined = results.head.indices.map(i => NDArray.concatenate(results.map(_(i)), axis = 0, alwaysCopy = true))
    results.flatten.foreach(_.dispose())
    joined.toArray
  }

  private def firstRows(output: NDArray, count: Int): NDArray = {
    val slice = output.slice(0, count)
    try slice.copy()
    finally slice.dispose()
  }

  private def copy(row: Vector, target: Array[Double], offset: Int, shape: Shape): Unit = {
    require(
      row.size == shape.product,
      s"a row has ${row.size} elements, but the input '$input' takes ${shape.product} (shape $shape of a row)"
    )
    row.foreachActive((i, value) => target(offset + i) = value)
  }
}
