package org.apache.mxnet

import org.apache.mxnet.Base._LIB
import org.apache.mxnet.internal.interop.ImportBridge

/** A framework whose models can be imported: the common base of [[Onnx]] and [[Nnef]]. */
abstract class ModelFormat private[mxnet] (framework: String) {

  /** The built-in mapping rules and processes, to list or extend. */
  val mappings: Mappings = new Mappings(framework, IndexedSeq.empty)

  /** Reads a model.
    *
    * @throws MXNetError if the file is missing or invalid, or nodes cannot be mapped; the message lists all of them by
    *   name
    */
  def importModel(path: String, options: ImportOptions): ImportedModel = read(path, null, options)

  /** Reads a model. */
  def importModel(path: String): ImportedModel = importModel(path, ImportOptions())

  /** All problems that prevent a model from being imported or its network from being bound; empty if there are none. */
  def check(path: String): IndexedSeq[ModelProblem] = check(path, ImportOptions())

  /** All problems that prevent a model from being imported with these options or its network from being bound, for the
    * given shapes. Dynamic dimensions are tried with several lengths.
    */
  def check(path: String, options: ImportOptions): IndexedSeq[ModelProblem] = {
    val (names, ndims, dims) = inputShapes(options)
    val (files, texts) = mappingTexts(options.mappings)
    withHooks(options)(_LIB.modelCheck(framework, path, options.externalData, names, ndims, dims, _, files, texts))
      .grouped(2)
      .map(problem => ModelProblem(location = problem(0), message = problem(1)))
      .toIndexedSeq
  }

  private[mxnet] def read(path: String, bytes: Array[Byte], options: ImportOptions): ImportedModel = {
    val (names, ndims, dims) = inputShapes(options)
    val (files, texts) = mappingTexts(options.mappings)
    val imported = withHooks(options)(
      _LIB.modelImport(framework, path, bytes, options.externalData, names, ndims, dims, _, files, texts)
    )
    val arrays = imported.names.zip(imported.handles.map(NDArray.fromHandle(_)))
    def arraysOf(kind: String) = arrays.collect {
      case (name, array) if name.startsWith(kind) => name.drop(4) -> array
    }.toMap
    val inputs = imported.inputs.grouped(3).map { input =>
      ModelInput(input(0), input(1), Option.when(input(2) != "*")(input(2).split(',').toIndexedSeq.filter(_.nonEmpty)))
    }
    new ImportedModel(
      new Symbol(imported.symbol),
      arraysOf("arg:"),
      arraysOf("aux:"),
      inputs.toIndexedSeq,
      imported.outputs.toIndexedSeq
    )
  }

  /** Names, ranks and dimensions of the inputs whose shapes the options set. */
  private def inputShapes(options: ImportOptions): (Array[String], Array[Int], Array[Long]) = {
    val (names, shapes) = options.shapes.toArray.unzip
    val (ndims, dims) = flat(shapes)
    (names, ndims, dims)
  }

  /** The names and texts of added rules and processes. */
  private[mxnet] def mappingTexts(mappings: Option[Mappings]): (Array[String], Array[String]) = {
    mappings.filter(_.framework != framework).foreach { other =>
      throw new MXNetError(s"these mappings are for ${other.framework}: begin with those of $framework")
    }
    mappings.fold(IndexedSeq.empty[(String, String)])(_.sources).toArray.unzip
  }

  /** Runs `body` with the hooks of the options, or null if there are none. */
  private def withHooks[T](options: ImportOptions)(body: ImportBridge => T): T = {
    val bridge = new ImportBridge(options)
    if (bridge.isEmpty) body(null)
    else {
      val result = body(bridge)
      bridge.checkAllVisited()
      result
    }
  }

  private[mxnet] def flat(shapes: Array[Shape]): (Array[Int], Array[Long]) =
    (shapes.map(_.length), shapes.flatMap(_.toVector).map(_.toLong))
}
