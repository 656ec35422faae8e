package org.apache.mxnet.infer.internal

import org.apache.mxnet._

/** The inputs of a network, each with a batch axis.
  *
  * @param described the inputs as the user describes them; those whose layout has no N describe one instance
  */
private[infer] final class NetworkInputs(described: IndexedSeq[DataDesc]) {
  require(described.nonEmpty, "there are no input descriptors; describe each input of the network")
  described.foreach { desc =>
    require(desc.layout.nonEmpty, s"the layout of input '${desc.name}' is empty; give one letter for each axis")
  }

  /** The descriptions, each with a batch axis: the first one if the layout has no N. */
  val descs: IndexedSeq[DataDesc] = described.map { desc =>
    if (desc.layout == Layout.UNDEFINED || desc.layout.contains('N')) desc
    else desc.copy(shape = Shape(1) ++ desc.shape, layout = "N" + desc.layout)
  }

  val names: IndexedSeq[String] = descs.map(_.name)

  private val batchAxes: IndexedSeq[Int] = descs.map(desc => DataDesc.getBatchAxis(Some(desc.layout)))

  /** The batch axis of the first input. */
  val batchAxis: Int = batchAxes.head

  /** The described batch size. */
  val batchSize: Int = {
    val sizes = descs.indices.map(i => descs(i).shape(batchAxes(i)))
    require(
      sizes.distinct.length == 1,
      s"the inputs ${descs.mkString(", ")} have the batch sizes ${sizes.mkString(", ")}; give them the same"
    )
    sizes.head
  }

  /** The shapes of the inputs with a batch size. */
  def shapes(batch: Int): IndexedSeq[Shape] = descs.indices.map(shape(_, batch))

  private def shape(i: Int, batch: Int): Shape = Shape(descs(i).shape.toVector.updated(batchAxes(i), batch))

  /** The descriptions with other shapes. */
  def withShapes(shapes: IndexedSeq[Shape]): IndexedSeq[DataDesc] =
    descs.lazyZip(shapes).map((desc, shape) => desc.copy(shape = shape))

  private def requireCount(count: Int): Unit = require(
    count == descs.length,
    s"$count inputs were given, the network has ${descs.length}: ${names.mkString(", ")}"
  )

  /** The number of instances in Java arrays, one for each input. */
  def instancesIn(input: IndexedSeq[Array[_]]): Int = {
    requireCount(input.length)
    val counts = input.indices.map { i =>
      val (length, one) = (input(i).length, shape(i, 1).product)
      require(
        length > 0 && length % one == 0,
        s"input '${names(i)}' has $length numbers; an instance of ${shape(i, 1)} takes $one, " +
          "give those of one or more instances"
      )
      length / one
    }
    require(
      counts.distinct.length == 1,
      s"the inputs have ${counts.mkString(", ")} instances; give the same number of each"
    )
    if (counts.head > 1)
      descs.indices.foreach { i =>
        require(
          batchAxes(i) == 0,
          s"input '${names(i)}' has the layout ${descs(i).layout}, in which instances are not contiguous; " +
            "give one instance, or use predictWithNDArray"
        )
      }
    counts.head
  }

  /** Checks that arrays are a batch, which may be of any size. */
  def requireBatch(arrays: IndexedSeq[NDArray]): Unit = {
    requireCount(arrays.length)
    val first = arrays.head.shape
    val batch = if (first.length > batchAxis) first(batchAxis) else 0
    arrays.indices.foreach { i =>
      val found = arrays(i).shape
      val fits = if (NetworkInputs.isShapeCheckDisabled) hasBatch(i, found, batch) else found == shape(i, batch)
      require(
        fits && batch > 0,
        s"input '${names(i)}' has the shape $found; with ${if (batch > 0) batch else "a number of"} instances it " +
          s"must be ${if (batch > 0) shape(i, batch) else descs(i).shape}"
      )
    }
  }

  private def hasBatch(i: Int, shape: Shape, batch: Int): Boolean =
    shape.length > batchAxes(i) && shape(batchAxes(i)) == batch
}

private[infer] object NetworkInputs {

  /** Whether arrays may have other shapes than described, such as sentences of other lengths. */
  private def isShapeCheckDisabled: Boolean = java.lang.Boolean.getBoolean("mxnet.disableShapeCheck")
}
