package org.apache.mxnet

import org.apache.mxnet.Base._LIB
import org.apache.mxnet.DType.DType
import org.apache.mxnet.io.{MXDataIter, MXDataPack}

import scala.annotation.varargs
import scala.collection.immutable.ListMap
import scala.language.implicitConversions

import org.apache.mxnet.internal.memory.ResourceHolder
import org.apache.mxnet.internal.util.BufferConversion
import org.apache.mxnet.internal.util.Logging
import org.apache.mxnet.internal.util.NullChecks.requireNonNull

/** Creates the data iterators of the native library. */
object IO {

  /** Creates an iterator from its parameters as text. */
  type IterCreateFunc = Map[String, String] => DataIter

  /** Creates a pack from its parameters as text. */
  type PackCreateFunc = Map[String, String] => DataPack

  /** Reads images and labels in MNIST's IDX format.
    *
    * {{{
    * IO.MNISTIter(
    *   Map("image" -> "train-images-idx3-ubyte", "label" -> "train-labels-idx1-ubyte", "batch_size" -> "32")
    * )
    * }}}
    *
    * Further parameters are `shuffle`, `flat`, `seed`, `silent`, `num_parts`, `part_index`, `data_name` and
    * `label_name`.
    */
  def MNISTIter: IterCreateFunc = createIterator("MNISTIter", _)

  /** Reads and augments the images of a RecordIO file. The images are of shape (3, height, width).
    *
    * {{{
    * IO.ImageRecordIter(Map("path_imgrec" -> "train.rec", "data_shape" -> "(3,224,224)", "batch_size" -> "32"))
    * }}}
    *
    * Further parameters are, among others, `label_width`, `shuffle`, `rand_crop`, `rand_mirror`, `resize`, `mean_r`, `mean_g`,
    * `mean_b`, `scale` and `preprocess_threads`.
    */
  def ImageRecordIter: IterCreateFunc = createIterator("ImageRecordIter", _)

  /** Reads examples from a CSV file, one per line, and labels from another.
    *
    * {{{
    * IO.CSVIter(Map("data_csv" -> "data.csv", "data_shape" -> "(4,)", "label_csv" -> "labels.csv", "batch_size" -> "32"))
    * }}}
    *
    * Without `label_csv` all labels are 0. Further parameters are `label_shape`, `round_batch`, `data_name` and `label_name`.
    */
  def CSVIter: IterCreateFunc = createIterator("CSVIter", _)

  /** A pack of [[MNISTIter]]. */
  def MNISTPack: PackCreateFunc = createMXDataPack("MNISTIter")

  /** A pack of [[ImageRecordIter]]. */
  def ImageRecodePack: PackCreateFunc = createMXDataPack("ImageRecordIter")

  /** A pack of [[CSVIter]]. */
  def CSVPack: PackCreateFunc = createMXDataPack("CSVIter")

  /** Creates an iterator.
    *
    * @param iterName name of the iterator, such as `MNISTIter`
    * @param params its parameters; `data_name` and `label_name` (by default `data` and `label`) name its data and
    *   labels
    * @throws IllegalArgumentException if the library has no iterator of this name
    * @throws MXNetError if a parameter is invalid, or a file is missing or invalid. Unknown parameters are ignored,
    *   with a warning in the log.
    */
  def createIterator(iterName: String, params: Map[String, String]): DataIter = {
    requireNonNull(s"IO.$iterName", "params" -> params)
    require(
      iterNames.contains(iterName),
      s"there is no data iterator $iterName; this library has ${iterNames.toSeq.sorted.mkString(", ")}"
    )
    val (names, others) = params.partition { case (key, _) => key == "data_name" || key == "label_name" }
    val options = withoutUnknown(iterName, others)
    new MXDataIter(
      _LIB.dataIterCreate(iterName, options.keys.toArray, options.values.toArray),
      names.getOrElse("data_name", "data"),
      names.getOrElse("label_name", "label")
    )
  }

  /** Creates a pack: a collection that creates a new iterator with the same parameters for each iteration. */
  def createMXDataPack(iterName: String)(params: Map[String, String]): DataPack = new MXDataPack(iterName, params)

  private def withoutUnknown(iterName: String, params: Map[String, String]): Map[String, String] = {
    val known = _LIB.dataIterInfo(iterName).toIndexedSeq.drop(2).grouped(3).map(_.head).toSet
    val (options, unknown) = params.partition { case (key, _) => known.contains(key) }
    if (unknown.nonEmpty)
      logger.warn(
        s"unknown parameters of $iterName are ignored: ${unknown.keys.toSeq.sorted.mkString(", ")}; it takes " +
          known.toSeq.sorted.mkString(", ")
      )
    options
  }

  private val logger = Logging.of("org.apache.mxnet.IO")

  private lazy val iterNames: Set[String] = _LIB.dataIterList().toSet

  /** Names the only array `name`, several arrays `name_0`, `name_1` and so on. */
  private[mxnet] def initDataDesc(
      data: IndexedSeq[NDArray],
      allowEmpty: Boolean,
      defaultName: String,
      defaultDType: DType,
      defaultLayout: String
  ): IndexedSeq[(DataDesc, NDArray)] =
    initDataDesc(data, allowEmpty, defaultName, defaultLayout).map { case (desc, array) =>
      (desc.copy(dtype = defaultDType), array)
    }

  /** As above, with the types of the arrays. */
  private[mxnet] def initDataDesc(
      data: IndexedSeq[NDArray],
      allowEmpty: Boolean,
      defaultName: String,
      defaultLayout: String
  ): IndexedSeq[(DataDesc, NDArray)] = {
    require(data != null, s"$defaultName is null; give IndexedSeq.empty if there are no such arrays")
    require(data.nonEmpty || allowEmpty, s"$defaultName is empty; give at least one array")
    requireNonNull("the data iterator", defaultName -> data)
    data.indices.map { i =>
      val name = if (data.length == 1) defaultName else s"${defaultName}_$i"
      (DataDesc(name, data(i).shape, data(i).dtype, defaultLayout), data(i))
    }
  }
}

/** A mini-batch.
  *
  * @param data the inputs
  * @param label the labels; empty if there are none
  * @param index indices of the instances in the data; may be null
  * @param pad number of instances at the end that only pad the batch
  * @param bucketKey the bucket of the batch; null without buckets
  * @param providedDataDesc names and shapes of the inputs, in order; may be null without buckets
  * @param providedLabelDesc names and shapes of the labels, in order; may be null without buckets
  */
class DataBatch(
    val data: IndexedSeq[NDArray],
    val label: IndexedSeq[NDArray],
    val index: IndexedSeq[Long],
    val pad: Int,
    val bucketKey: AnyRef = null,
    providedDataDesc: IndexedSeq[DataDesc] = null,
    providedLabelDesc: IndexedSeq[DataDesc] = null
) extends ResourceHolder {

  override private[mxnet] def heldResources: Iterator[Any] = Iterator(data, label)

  /** A batch that names its inputs but not its labels. */
  def this(
      data: IndexedSeq[NDArray],
      label: IndexedSeq[NDArray],
      index: IndexedSeq[Long],
      pad: Int,
      bucketKey: AnyRef,
      providedData: ListMap[String, Shape]
  ) = this(data, label, index, pad, bucketKey, DataDesc.fromShapes(providedData), null)

  /** A batch that names its inputs and labels. */
  def this(
      data: IndexedSeq[NDArray],
      label: IndexedSeq[NDArray],
      index: IndexedSeq[Long],
      pad: Int,
      bucketKey: AnyRef,
      providedData: ListMap[String, Shape],
      providedLabel: ListMap[String, Shape]
  ) = this(data, label, index, pad, bucketKey, DataDesc.fromShapes(providedData), DataDesc.fromShapes(providedLabel))

  /** Frees the arrays of the batch. */
  def dispose(): Unit = {
    if (data != null) data.foreach(array => if (array != null) array.dispose())
    if (label != null) label.foreach(array => if (array != null) array.dispose())
  }

  /** True if the arrays belong to this batch alone, as those of the library's iterators do: training loops then free
    * them after use. Other iterators may return the same arrays again.
    */
  private[mxnet] var isTemporary: Boolean = false

  private[mxnet] def asTemporary(): DataBatch = {
    isTemporary = true
    this
  }

  /** Frees the arrays of a temporary batch. */
  private[mxnet] def release(): Unit = if (isTemporary) dispose()

  /** Names and shapes of the inputs; null if unknown. */
  def provideData: ListMap[String, Shape] = DataDesc.toShapes(providedDataDesc)

  /** Names and shapes of the labels; null if unknown. */
  def provideLabel: ListMap[String, Shape] = DataDesc.toShapes(providedLabelDesc)

  /** Names, shapes, types and layouts of the inputs; null if unknown. */
  def provideDataDesc: IndexedSeq[DataDesc] = providedDataDesc

  /** Names, shapes, types and layouts of the labels; null if unknown. */
  def provideLabelDesc: IndexedSeq[DataDesc] = providedLabelDesc
}

/** Builds batches. */
object DataBatch {

  /** Builds a batch step by step. Without [[setIndex]] the indices of the instances start at 0. */
  class Builder() {
    private var data: IndexedSeq[NDArray] = null
    private var label: IndexedSeq[NDArray] = IndexedSeq.empty
    private var index: IndexedSeq[Long] = null
    private var pad: Int = 0
    private var bucketKey: AnyRef = null
    private var dataDesc: IndexedSeq[DataDesc] = null
    private var labelDesc: IndexedSeq[DataDesc] = null

    /** Sets the inputs. */
    @varargs def setData(data: NDArray*): Builder = {
      requireNonNull("DataBatch.Builder", "data" -> data)
      this.data = data.toIndexedSeq
      this
    }

    /** Sets the labels. */
    @varargs def setLabel(label: NDArray*): Builder = {
      requireNonNull("DataBatch.Builder", "label" -> label)
      this.label = label.toIndexedSeq
      this
    }

    /** Sets the indices of the instances in the data. */
    @varargs def setIndex(index: Long*): Builder = {
      requireNonNull("DataBatch.Builder", "index" -> index)
      this.index = index.toIndexedSeq
      this
    }

    /** Sets the number of instances at the end that only pad the batch. */
    def setPad(pad: Int): Builder = {
      this.pad = pad
      this
    }

    /** Sets the bucket of the batch. */
    def setBucketKey(bucketKey: AnyRef): Builder = {
      this.bucketKey = bucketKey
      this
    }

    /** Sets names and shapes of the inputs. */
    def provideDataDesc(dataDesc: IndexedSeq[DataDesc]): Builder = {
      this.dataDesc = dataDesc
      this
    }

    /** Sets names and shapes of the labels. */
    def provideLabelDesc(labelDesc: IndexedSeq[DataDesc]): Builder = {
      this.labelDesc = labelDesc
      this
    }

    /** The batch. */
    def build(): DataBatch = {
      require(data != null && data.nonEmpty, "a batch needs at least one array: call setData")
      val indices = if (index == null) (0L until data.head.shape(0).toLong) else index
      new DataBatch(data, label, indices, pad, bucketKey, dataDesc, labelDesc)
    }
  }
}

/** An iterator over mini-batches that can be reset. */
abstract class DataIter extends Iterator[DataBatch] {

  /** Resets to the first batch. */
  def reset(): Unit

  /** Number of instances in a batch. */
  def batchSize: Int

  /** The next batch.
    *
    * @throws NoSuchElementException if there is none
    */
  @throws(classOf[NoSuchElementException])
  def next(): DataBatch = new DataBatch(getData(), getLabel(), getIndex(), getPad())

  /** Inputs of the current batch. */
  def getData(): IndexedSeq[NDArray]

  /** Labels of the current batch. */
  def getLabel(): IndexedSeq[NDArray]

  /** Number of instances at the end of the current batch that only pad it. */
  def getPad(): Int

  /** Indices of the current batch's instances in the data. */
  def getIndex(): IndexedSeq[Long]

  /** Names and shapes of the inputs. */
  def provideData: ListMap[String, Shape]

  /** Names and shapes of the labels. */
  def provideLabel: ListMap[String, Shape]

  /** Names, shapes, types and layouts of the inputs. */
  def provideDataDesc: IndexedSeq[DataDesc]

  /** Names, shapes, types and layouts of the labels. */
  def provideLabelDesc: IndexedSeq[DataDesc]

  /** The bucket whose network is bound first; null without buckets. */
  def defaultBucketKey: AnyRef = null
}

/** A collection of batches that can be iterated repeatedly, each time from the start. */
abstract class DataPack() extends Iterable[DataBatch] {

  /** A new iterator. */
  def iterator: DataIter
}

/** Name, shape, type and layout of an input or a label.
  *
  * @param name name of the variable
  * @param shape its shape, with the batch
  * @param dtype its element type
  * @param layout one letter for each axis, with `N` for the batch, or [[Layout.UNDEFINED]]
  */
case class DataDesc(name: String, shape: Shape, dtype: DType = Base.MX_REAL_TYPE, layout: String = Layout.UNDEFINED) {
  requireNonNull("DataDesc", "name" -> name, "shape" -> shape, "layout" -> layout)
  require(
    layout == Layout.UNDEFINED || shape.length == layout.length,
    s"$name: shape $shape has ${shape.length} dimensions but layout $layout has ${layout.length} letters"
  )

  override def toString(): String = s"DataDesc[$name,$shape,$dtype,$layout]"
}

/** Functions of layouts. */
object DataDesc extends BufferConversion[DataDesc] {

  /** The axis of the batch, along which a batch is split among devices.
    *
    * @param layout a layout such as `NCHW`
    * @return index of the letter N; 0 without a layout
    * @throws IllegalArgumentException if the layout has no N
    */
  def getBatchAxis(layout: Option[String]): Int =
    Option(layout).flatten.filter(letters => letters != null && letters != Layout.UNDEFINED) match {
      case None          => 0
      case Some(letters) =>
        val axis = letters.indexOf('N'.toInt)
        require(axis >= 0, s"layout $letters has no batch axis: one of its letters must be N")
        axis
    }

  /** Descriptions with the default type and no layout. */
  implicit def ListMap2Descs(shapes: ListMap[String, Shape]): IndexedSeq[DataDesc] = fromShapes(shapes)

  /** The same for `Some(iter.provideLabel)`. Scala 3 does not convert within `Some` if a method is overloaded. */
  implicit def optionOfDescs(shapes: Option[ListMap[String, Shape]]): Option[IndexedSeq[DataDesc]] =
    if (shapes == null) null else shapes.map(fromShapes)

  private[mxnet] def fromShapes(shapes: ListMap[String, Shape]): IndexedSeq[DataDesc] =
    if (shapes == null) null else shapes.iterator.map { case (name, shape) => DataDesc(name, shape) }.toIndexedSeq

  private[mxnet] def toShapes(descs: IndexedSeq[DataDesc]): ListMap[String, Shape] =
    if (descs == null) null else ListMap.from(descs.map(desc => desc.name -> desc.shape))
}
