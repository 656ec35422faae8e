package org.apache.mxnet

import org.apache.mxnet.Base._LIB
import org.apache.mxnet.DType.DType

/** What an ONNX model says of an input.
  *
  * @param name its name
  * @param elementType the type of its elements, such as `float32`; empty if the model does not say
  * @param dims its dimensions: numbers, names of open ones, or `?`; `None` if not even their number is known
  */
final case class OnnxInput(name: String, elementType: String, dims: Option[IndexedSeq[String]])

/** A place in a model that cannot be mapped.
  *
  * @param place the node or input
  * @param message what is wrong there, and what to do about it
  */
final case class OnnxProblem(place: String, message: String)

/** An imported model: a network like any other, with its parameters.
  *
  * @param symbol the network
  * @param argParams its parameters by name
  * @param auxParams its auxiliary states by name
  * @param inputs the inputs that it needs, in the order of the model
  * @param outputs the names of the outputs in the model, in the order of the symbol's outputs
  */
final class OnnxModel private[mxnet] (
    val symbol: Symbol,
    val argParams: Map[String, NDArray],
    val auxParams: Map[String, NDArray],
    val inputs: IndexedSeq[OnnxInput],
    val outputs: IndexedSeq[String]
) {

  /** Binds the network to new arrays and copies the parameters into them. ONNX has shapes without dimensions and
    * dimensions of 0, so that shapes are inferred with numpy's semantics ([[NumpyScope]]).
    *
    * @param ctx the device to run on
    * @param shapes the shapes of the inputs, by name
    * @param gradReq what to do with gradients: `write`, `add` or `null`
    */
  def simpleBind(ctx: Context, shapes: Map[String, Shape], gradReq: String = "null"): Executor =
    NumpyScope.enableNumpyShape.withScope {
      val types = argParams.map { case (name, array) => name -> array.dtype } ++ inputTypes
      val sizes = argParams.map { case (name, array) => name -> array.shape } ++ shapes
      val executor = symbol.simpleBind(ctx, gradReq, sizes, types)
      executor.copyParamsFrom(argParams, auxParams)
      executor
    }

  /** Writes `prefix-symbol.json` and `prefix-NNNN.params`, as [[Model.saveCheckpoint]] does. */
  def save(prefix: String, epoch: Int = 0): Unit = Model.saveCheckpoint(prefix, epoch, symbol, argParams, auxParams)

  private def inputTypes: Map[String, DType] = {
    val known = DType.values.map(dtype => dtype.toString -> dtype).toMap
    inputs.flatMap(input => known.get(input.elementType).map(input.name -> _)).toMap
  }
}

/** ONNX models in and out, by the mapping processes that `ferromx onnx rules` lists. */
object Onnx {

  /** Reads a model of a file.
    *
    * @throws MXNetError if the file is no model, or something in it cannot be mapped: the message lists everything, with
    *                    the names of the nodes
    */
  def importModel(path: String, options: ImportOptions): OnnxModel = read(path, null, options)

  /** Reads a model of a file. */
  def importModel(path: String): OnnxModel = importModel(path, ImportOptions())

  /** Reads a model from memory; it cannot have external data. */
  def importModel(bytes: Array[Byte], options: ImportOptions): OnnxModel = {
    if (options.externalData)
      throw new MXNetError("Onnx.importModel: bytes have no directory for externalData; give the path of the model")
    read(null, bytes, options)
  }

  /** Reads a model from memory; it cannot have external data. */
  def importModel(bytes: Array[Byte]): OnnxModel = importModel(bytes, ImportOptions())

  /** Everything in a model that an import could not map; empty if it can be imported. */
  def check(path: String, externalData: Boolean = false): IndexedSeq[OnnxProblem] =
    check(path, ImportOptions(externalData = externalData))

  /** Everything in a model that an import with these options could not map. */
  def check(path: String, options: ImportOptions): IndexedSeq[OnnxProblem] = {
    val (names, ndims, dims) = fixed(options)
    withHooks(options)(_LIB.onnxCheck(path, options.externalData, names, ndims, dims, _))
      .grouped(2)
      .map(problem => OnnxProblem(place = problem(0), message = problem(1)))
      .toIndexedSeq
  }

  /** Writes a network as an ONNX model.
    *
    * @param symbol the network
    * @param params parameters and auxiliary states by name
    * @param path the file
    * @param opset the version of the operator set; 0 for the newest that is written
    * @param inputs shapes of the other arguments by name, which types and the choice of operators may follow from; a
    *               dimension of -1 stays open
    * @param types their types where they are not float32
    * @throws MXNetError if an operator has no form in ONNX: the message lists all of them, with the names of the nodes
    */
  def exportModel(
      symbol: Symbol,
      params: Map[String, NDArray],
      path: String,
      opset: Int = 0,
      inputs: Map[String, Shape] = Map.empty,
      types: Map[String, DType] = Map.empty
  ): Unit = {
    val (names, arrays) = params.toArray.unzip
    val (inputNames, shapes) = inputs.toArray.unzip
    val unknown = types.keySet -- inputs.keySet
    if (unknown.nonEmpty)
      throw new MXNetError(s"Onnx.exportModel: there are types but no shapes for ${unknown.mkString(", ")}")
    val codes = inputNames.map(types.getOrElse(_, DType.Float32).id)
    val (ndims, dims) = flat(shapes)
    symbol.native(_LIB.onnxExport(path, _, names, arrays.map(_.handle), inputNames, ndims, dims, codes, opset))
    arrays.foreach(NativeResource.keepAlive)
  }

  private def read(path: String, bytes: Array[Byte], options: ImportOptions): OnnxModel = {
    val (names, ndims, dims) = fixed(options)
    val imported = withHooks(options)(_LIB.onnxImport(path, bytes, options.externalData, names, ndims, dims, _))
    val arrays = imported.names.zip(imported.handles.map(NDArray.fromHandle(_)))
    def of(kind: String) = arrays.collect { case (name, array) if name.startsWith(kind) => name.drop(4) -> array }.toMap
    val inputs = imported.inputs.grouped(3).map { input =>
      OnnxInput(input(0), input(1), Option.when(input(2) != "*")(input(2).split(',').toIndexedSeq.filter(_.nonEmpty)))
    }
    new OnnxModel(
      new Symbol(imported.symbol),
      of("arg:"),
      of("aux:"),
      inputs.toIndexedSeq,
      imported.outputs.toIndexedSeq
    )
  }

  /** Names, ranks and dimensions of the inputs whose shapes are fixed. */
  private def fixed(options: ImportOptions): (Array[String], Array[Int], Array[Long]) = {
    val (names, shapes) = options.shapes.toArray.unzip
    val (ndims, dims) = flat(shapes)
    (names, ndims, dims)
  }

  /** Runs `body` with the hooks of the options, or null if there are none. */
  private def withHooks[T](options: ImportOptions)(body: ImportBridge => T): T = {
    val bridge = new ImportBridge(options)
    if (bridge.isEmpty) body(null)
    else {
      val result = body(bridge)
      bridge.checkMet()
      result
    }
  }

  private def flat(shapes: Array[Shape]): (Array[Int], Array[Long]) =
    (shapes.map(_.length), shapes.flatMap(_.toVector).map(_.toLong))
}
