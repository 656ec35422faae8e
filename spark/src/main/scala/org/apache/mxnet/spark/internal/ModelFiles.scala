package org.apache.mxnet.spark.internal

import java.io.{File, FileNotFoundException, IOException}
import java.nio.file.attribute.BasicFileAttributes
import java.nio.file.{Files, Path, Paths, StandardCopyOption}
import java.security.{DigestInputStream, MessageDigest}
import java.util.Locale
import java.util.concurrent.ConcurrentHashMap

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path => HadoopPath}
import org.apache.mxnet.internal.util.Blocks
import org.apache.mxnet.{ImportOptions, ImportedModel, Model, NDArray, Onnx, Symbol}
import org.apache.spark.SparkContext
import org.apache.spark.sql.ferromx.FileTransfer

/** The files of a model in one local directory.
  *
  * @param main the main file: `prefix-symbol.json` or an ONNX file
  * @param others the `.params` file of a symbol, or the files with the external data of an ONNX model
  * @param knownHash the hash, if another process computed it
  */
private[mxnet] final case class ModelFiles(main: Path, others: Seq[Path], knownHash: Option[String] = None) {
  def all: Seq[Path] = main +: others

  /** SHA-256 of names and contents. */
  lazy val hash: String = knownHash.getOrElse(ModelFiles.hashes.computeIfAbsent(all.map(FileStamp.of), _ => digest()))

  private def digest(): String = {
    val digest = MessageDigest.getInstance("SHA-256")
    val buffer = new Array[Byte](1 << 20)
    all.foreach { file =>
      digest.update(s"${file.getFileName} ${Files.size(file)}\n".getBytes("UTF-8"))
      Using.resource(new DigestInputStream(Files.newInputStream(file), digest)) { in =>
        while (in.read(buffer) >= 0) {}
      }
    }
    digest.digest().map(byte => f"$byte%02x").mkString
  }

  /** Publishes the files to the executors of a Spark context. They are streamed, so that their size is not limited like
    * that of a broadcast array.
    */
  def ship(context: SparkContext): ShippedModel = ModelFiles.synchronized {
    val directory = Files.createDirectories(ModelFiles.temporary.resolve(hash))
    val files = all.map { file =>
      val link = directory.resolve(s"$hash-${file.getFileName}")
      ModelFiles.linkOrCopy(file, link)
      file.getFileName.toString -> FileTransfer.serve(context, link.toFile)
    }
    ShippedModel(hash, files)
  }

  /** Writes names and contents for [[ModelFiles.read]], as a stream, because an array of bytes is limited to 2 GiB. */
  def write(out: Blocks.Output): Unit = {
    Blocks.writeText(out, hash)
    Blocks.writeAll(out, all) { file =>
      Blocks.writeText(out, file.getFileName.toString)
      Blocks.writeFile(out, file)
    }
  }

  def isOnnx: Boolean = !main.toString.endsWith(ModelFiles.SymbolSuffix)

  /** The network of a model that is not an ONNX file. */
  def loadSymbol(): Symbol = Symbol.load(main.toString)

  /** The parameters and auxiliary states.
    *
    * @param isMapped whether large arrays are memory of the file, which nothing may change then; its name may be deleted
    */
  def loadParams(isMapped: Boolean = false): Model.Params =
    if (!isOnnx) Model.loadParams(others.head.toString, isMapped)
    else {
      val (symbol, params) = load()
      symbol.dispose()
      params
    }

  /** The network with its parameters and auxiliary states. */
  def load(): (Symbol, Model.Params) =
    if (!isOnnx) (loadSymbol(), loadParams())
    else {
      val imported = importOnnx()
      (imported.symbol, Model.Params(imported.argParams, imported.auxParams))
    }

  /** Reads an ONNX file. */
  def importOnnx(): ImportedModel = Onnx.importModel(main.toString, ImportOptions(externalData = others.nonEmpty))

  /** The files under names of this process, which remain if these are deleted. */
  def keep(): ModelFiles =
    if (all.forall(_.startsWith(ModelFiles.temporary))) this
    else {
      val directory = Files.createTempDirectory(ModelFiles.temporary, "kept-")
      val names = all.map { file =>
        val name = directory.resolve(file.getFileName)
        ModelFiles.linkOrCopy(file, name)
        name
      }
      ModelFiles(names.head, names.tail, knownHash)
    }

  /** Copies the files into a directory of any file system that Hadoop knows. */
  def copyTo(directory: HadoopPath, conf: Configuration): Unit = {
    val target = directory.getFileSystem(conf)
    target.mkdirs(directory)
    all.foreach(file =>
      target.copyFromLocalFile(
        false,
        true,
        new HadoopPath(file.toUri),
        new HadoopPath(directory, file.getFileName.toString)
      )
    )
  }
}

/** What changes if a file is replaced or written to.
  *
  * @param modified the time of the last change, as the file system tells it
  */
private[mxnet] final case class FileStamp(path: String, size: Long, modified: Any)

private[mxnet] object FileStamp {
  def of(file: Path): FileStamp = {
    val attributes = Files.readAttributes(file, classOf[BasicFileAttributes])
    FileStamp(file.toRealPath().toString, attributes.size, (attributes.lastModifiedTime, attributes.fileKey))
  }
}

/** A model that executors can fetch.
  *
  * @param files name and address of each file; the main file first
  */
private[mxnet] final case class ShippedModel(hash: String, files: Seq[(String, String)]) {

  /** Loads the model from fetched files, which are deleted afterwards. Large weights are memory of the files. Executors of an
    * application on one machine share the files, and thereby the memory, until one of them closes the model.
    */
  def load(): ModelSession = {
    val directory = FileTransfer.createDirectory()
    try {
      val local = fetch(directory)
      local.all.foreach(share)
      ModelSession.loadMapped(local, share, () => names.flatMap(sharedFile).foreach(Files.deleteIfExists))
    } finally FileTransfer.delete(directory)
  }

  /** Fetches the files into a directory. */
  def fetch(directory: File): ModelFiles = {
    val paths = files.map { case (name, url) =>
      val path = directory.toPath.resolve(name)
      // An ONNX model refers to its external data by file name.
      if (!sharedFile(name).exists(link(_, path))) Files.move(FileTransfer.fetch(url, directory).toPath, path)
      path
    }
    ModelFiles(paths.head, paths.tail, Some(hash))
  }

  private def names: Seq[String] = files.map(_._1) :+ ModelSession.ImportedParams

  /** The file for all executors of the application on this machine. */
  private def sharedFile(name: String): Option[Path] =
    FileTransfer.applicationDirectory.map(_.toPath.resolve(s"ferromx-$hash-$name"))

  /** Shares a complete file with other executors, or replaces it by the equal one that they share. */
  private def share(file: Path): Unit = sharedFile(file.getFileName.toString).foreach { shared =>
    if (!link(file, shared)) {
      val other = file.resolveSibling(s"shared-${file.getFileName}")
      if (link(shared, other)) { Files.move(other, file, StandardCopyOption.REPLACE_EXISTING); () }
    }
  }

  /** Gives a file another name; returns false if that is impossible. */
  private def link(file: Path, name: Path): Boolean =
    try {
      Files.createLink(name, file)
      true
    } catch { case _: UnsupportedOperationException | _: IOException => false }
}

private[mxnet] object ModelFiles {
  val SymbolSuffix: String = "-symbol.json"

  /** Hashes of files that have not changed since they were read: a pipeline on a stream needs them for every batch. */
  private val hashes = new ConcurrentHashMap[Seq[FileStamp], String]

  /** Copies of the files of remote file systems. */
  private val fetched = new ConcurrentHashMap[Seq[FileStamp], ModelFiles]

  /** Models that other processes sent, by their hash. */
  private val received = new ConcurrentHashMap[String, ModelFiles]

  /** Files that live as long as the driver. */
  private lazy val temporary: Path = FileTransfer.createDirectory().toPath

  /** Creates a hard link, or a copy if that is not possible, unless the name exists. With a symbolic link, Spark would
    * use the name of its target.
    */
  def linkOrCopy(file: Path, name: Path): Unit =
    if (!Files.exists(name))
      try { Files.createLink(name, file.toRealPath()); () }
      catch { case _: UnsupportedOperationException | _: IOException => Files.copy(file, name); () }

  /** The model of a path: a prefix of `-symbol.json` and `-NNNN.params`, an ONNX file, or a directory with one ONNX
    * file and its external data. Files of remote file systems are copied to the local one.
    *
    * @param epoch the number NNNN
    */
  def of(path: String, epoch: Int, conf: Configuration): ModelFiles = {
    val (hadoopPath, fileSystem) =
      try {
        val parsed = new HadoopPath(path)
        (parsed, parsed.getFileSystem(conf))
      } catch {
        case error @ (_: IOException | _: IllegalArgumentException) =>
          throw new IllegalArgumentException(
            s"modelPath is '$path', which cannot be used: ${error.getMessage}; give a path on a file system that Hadoop knows",
            error
          )
      }
    val sources =
      if (fileSystem.exists(hadoopPath) && fileSystem.getFileStatus(hadoopPath).isDirectory) {
        val (onnx, others) =
          fileSystem.listStatus(hadoopPath).toSeq.filter(_.isFile).map(_.getPath).sortBy(_.getName).partition(isOnnx)
        if (onnx.length != 1)
          throw new IllegalArgumentException(
            s"the directory $path has ${onnx.length} files *.onnx; modelPath takes a directory with one of them and its " +
              "external data, an ONNX file, or the prefix of PREFIX-symbol.json and PREFIX-0000.params"
          )
        onnx ++ others
      } else if (isOnnx(hadoopPath)) Seq(hadoopPath)
      else Seq(new HadoopPath(path + SymbolSuffix), new HadoopPath(Model.paramsFile(path, epoch)))
    sources.find(source => !fileSystem.exists(source)).foreach { missing =>
      throw new FileNotFoundException(
        s"modelPath is '$path', but there is no file $missing; give the path of an ONNX file, or the prefix of " +
          "PREFIX-symbol.json and PREFIX-NNNN.params with NNNN as the parameter epoch"
      )
    }
    if (fileSystem.getUri.getScheme == "file") {
      val files = sources.map(source => Paths.get(fileSystem.makeQualified(source).toUri.getPath))
      ModelFiles(files.head, files.tail)
    } else {
      val stamps = sources.map { source =>
        val status = fileSystem.getFileStatus(source)
        FileStamp(status.getPath.toString, status.getLen, status.getModificationTime)
      }
      fetched.computeIfAbsent(stamps, _ => fetch(sources, fileSystem))
    }
  }

  private def fetch(sources: Seq[HadoopPath], fileSystem: FileSystem): ModelFiles = {
    val directory = Files.createTempDirectory(temporary, "fetched-")
    val files = sources.map { source =>
      val target = directory.resolve(source.getName)
      fileSystem.copyToLocalFile(false, source, new HadoopPath(target.toUri), true)
      target
    }
    ModelFiles(files.head, files.tail)
  }

  private def isOnnx(path: HadoopPath): Boolean = path.getName.toLowerCase(Locale.ROOT).endsWith(".onnx")

  /** Reads what [[ModelFiles.write]] wrote into files. A process keeps one copy of a model. */
  def read(in: Blocks.Input): ModelFiles = {
    val hash = Blocks.readText(in)
    var isNew = false
    val files = received.computeIfAbsent(
      hash,
      _ => {
        isNew = true
        val directory = Files.createTempDirectory(temporary, "sent-")
        val paths = Blocks.readAll(in) {
          val path = directory.resolve(Paths.get(Blocks.readText(in)).getFileName)
          Blocks.readFile(in, path)
          path
        }
        ModelFiles(paths.head, paths.tail, Some(hash))
      }
    )
    if (!isNew)
      Blocks.readAll(in) {
        Blocks.readText(in)
        Blocks.skipFile(in)
      }
    files
  }

  /** Writes the content of an ONNX file. */
  def ofOnnx(content: Array[Byte]): ModelFiles = {
    val file = Files.createTempDirectory(temporary, "payload-").resolve("model.onnx")
    ModelFiles(Files.write(file, content), Nil)
  }

  /** Writes a network and its parameters. */
  def ofNetwork(symbol: Symbol, argParams: Map[String, NDArray], auxParams: Map[String, NDArray]): ModelFiles = {
    val prefix = Files.createTempDirectory(temporary, "payload-").resolve("model").toString
    Model.saveCheckpoint(prefix, 0, symbol, argParams, auxParams)
    ModelFiles(Paths.get(prefix + SymbolSuffix), Seq(Paths.get(prefix + "-0000.params")))
  }

  /** The initial network with trained parameters, whose file a worker sent in chunks. */
  def ofTrained(start: ModelFiles, chunks: Iterator[Array[Byte]]): ModelFiles = {
    val directory = Files.createTempDirectory(temporary, "trained-")
    val symbol = Files.copy(start.main, directory.resolve(start.main.getFileName))
    val params = directory.resolve(start.others.head.getFileName)
    Using.resource(Files.newOutputStream(params))(out => chunks.foreach(out.write(_)))
    ModelFiles(symbol, Seq(params))
  }

  /** `modelPath` and `epoch` of files that [[ModelFiles.copyTo]] wrote to a directory. */
  def pathIn(directory: HadoopPath, conf: Configuration): (String, Int) = {
    val files = directory.getFileSystem(conf).listStatus(directory).toSeq.map(_.getPath)
    files.find(_.getName.endsWith(SymbolSuffix)) match {
      case Some(symbol) =>
        val params = files.map(_.getName).filter(_.endsWith(".params"))
        val epoch = params.headOption.map(_.stripSuffix(".params").takeRight(4)).flatMap(_.toIntOption)
        (symbol.toString.stripSuffix(SymbolSuffix), epoch.getOrElse(0))
      case None => (if (files.length == 1) files.head.toString else directory.toString, 0)
    }
  }
}
