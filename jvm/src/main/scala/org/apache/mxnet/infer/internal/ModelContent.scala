package org.apache.mxnet.infer.internal

import java.io.{NotSerializableException, ObjectInputStream, ObjectOutputStream, ObjectStreamException}
import java.nio.charset.StandardCharsets
import java.nio.file.{Files, Path, Paths}

import scala.jdk.CollectionConverters._
import scala.util.DynamicVariable

import org.apache.mxnet._
import org.apache.mxnet.infer._
import org.apache.mxnet.internal.util.Blocks

/** A trained network with the names of its classes, from files or a serialized predictor.
  *
  * @param synset the class names; empty if unknown
  */
private[infer] final case class ModelContent(symbol: Symbol, params: Model.Params, synset: IndexedSeq[String]) {

  /** Writes the content. The parameters go through a file, because an array of bytes is limited to 2 GiB. */
  def write(out: Blocks.Output): Unit = {
    Blocks.writeText(out, symbol.toJson)
    ModelContent.withFile { file =>
      NDArray.save(file.toString, Model.withKinds(params.args, params.aux))
      Blocks.writeFile(out, file)
    }
    Blocks.writeAll(out, synset)(Blocks.writeText(out, _))
  }
}

private[infer] object ModelContent {

  /** The content that predictors created by this thread use instead of files. */
  private val replaced = new DynamicVariable[Option[ModelContent]](None)

  /** Runs `body`; predictors that it creates use this content. */
  def using[A](content: ModelContent)(body: => A): A = replaced.withValue(Some(content))(body)

  /** The network of the files with this prefix. */
  def network(prefix: String, epoch: Int): (Symbol, Model.Params) = replaced.value match {
    case Some(content) => (content.symbol, content.params)
    case None          =>
      val (symbol, args, aux) = Model.loadCheckpoint(prefix, epoch)
      (symbol, Model.Params(args, aux))
  }

  /** The names of the classes in a file. Empty lines at its end name none. */
  def synset(path: String): IndexedSeq[String] = replaced.value match {
    case Some(content) => content.synset
    case None          =>
      val file = Paths.get(path)
      require(
        Files.isRegularFile(file),
        s"there is no file $file; put the names of the classes there, one per line"
      )
      val lines = Files.readAllLines(file, StandardCharsets.UTF_8).asScala.toIndexedSeq
      lines.take(lines.lastIndexWhere(_.nonEmpty) + 1)
  }

  /** Reads what [[ModelContent.write]] wrote. The arrays belong to the caller, whatever scope is open. */
  def read(in: Blocks.Input): ModelContent = ResourceScope.outside {
    val symbol = Symbol.loadJson(Blocks.readText(in))
    val params = withFile { file =>
      Blocks.readFile(in, file)
      Model.loadParams(file.toString)
    }
    ModelContent(symbol, params, Blocks.readAll(in)(Blocks.readText(in)))
  }

  /** Calls `use` with a temporary file. */
  private def withFile[A](use: Path => A): A = {
    val file = Files.createTempFile("ferromx-", ".params")
    try use(file)
    finally Files.delete(file)
  }
}

/** The serialized form of a predictor: its constructor's arguments, and the content of the files unless they are to be
  * read again.
  *
  * @param kind simple name of the class
  * @param epoch the epoch; -1 if none was given
  * @param content the network; `None` to read the files
  */
private[infer] final class SerializedPredictor(
    kind: String,
    prefix: String,
    inputNames: Array[String],
    inputShapes: Array[Array[Int]],
    inputTypes: Array[Int],
    inputLayouts: Array[String],
    contexts: Array[String],
    contextIds: Array[Int],
    epoch: Int,
    @transient private var content: Option[ModelContent]
) extends Serializable {

  private def writeObject(out: ObjectOutputStream): Unit = {
    out.defaultWriteObject()
    out.writeBoolean(content.nonEmpty)
    content.foreach(_.write(out))
  }

  private def readObject(in: ObjectInputStream): Unit = {
    in.defaultReadObject()
    content = Option.when(in.readBoolean())(ModelContent.read(in))
  }

  @throws(classOf[ObjectStreamException])
  private def readResolve(): AnyRef = content.fold(make())(ModelContent.using(_)(make()))

  private def make(): AnyRef = {
    val inputs = inputNames.indices.map { i =>
      DataDesc(inputNames(i), Shape(inputShapes(i).toIndexedSeq), DType.fromId(inputTypes(i)), inputLayouts(i))
    }
    val devices = contexts.zip(contextIds).map { case (name, id) => new Context(name, id) }
    val givenEpoch = Option.when(epoch >= 0)(epoch)
    kind match {
      case "Predictor"       => new Predictor(prefix, inputs, devices, givenEpoch)
      case "Classifier"      => new Classifier(prefix, inputs, devices, givenEpoch)
      case "ImageClassifier" => new ImageClassifier(prefix, inputs, devices, givenEpoch)
      case "ObjectDetector"  => new ObjectDetector(prefix, inputs, devices, givenEpoch)
      case other             => throw new MXNetError(s"the serialized predictor has the unknown class $other")
    }
  }
}

private[infer] object SerializedPredictor {
  private val Kinds: Set[Class[_]] =
    Set(classOf[Predictor], classOf[Classifier], classOf[ImageClassifier], classOf[ObjectDetector])

  /** The serialized form of a predictor.
    *
    * @param content the network, if it is to be serialized
    */
  def of(
      owner: AnyRef,
      prefix: String,
      inputs: IndexedSeq[DataDesc],
      contexts: Array[Context],
      epoch: Option[Int],
      content: Option[ModelContent]
  ): SerializedPredictor = {
    if (!Kinds.contains(owner.getClass))
      throw new NotSerializableException(
        s"${owner.getClass.getName} is a subclass; serialize the predictor that it wraps instead of extending it"
      )
    new SerializedPredictor(
      owner.getClass.getSimpleName,
      prefix,
      inputs.map(_.name).toArray,
      inputs.map(_.shape.toArray).toArray,
      inputs.map(_.dtype.id).toArray,
      inputs.map(_.layout).toArray,
      contexts.map(_.deviceType),
      contexts.map(_.deviceId),
      epoch.getOrElse(-1),
      content
    )
  }
}

/** The setting of how a predictor is serialized. */
private[infer] trait SerializableModel extends Serializable {
  @volatile private var byPath = false

  /** Sets whether to serialize only the path of the files, which must then exist where the predictor is deserialized.
    * By default the network itself is serialized.
    *
    * @return this object
    */
  def serializeByPath(byPath: Boolean): this.type = {
    this.byPath = byPath
    this
  }

  private[infer] def isSerializedByPath: Boolean = byPath
}
