package org.apache.mxnet

import org.apache.mxnet.Base._LIB
import org.apache.mxnet.DType.DType
import org.apache.mxnet.internal.interop.ExportBridge

/** ONNX models in and out, by the mapping processes that [[Onnx.mappings]] lists. */
object Onnx extends ModelFormat("ONNX") {

  /** Reads a model from memory; it cannot have external data. */
  def importModel(bytes: Array[Byte], options: ImportOptions): ImportedModel = {
    if (options.externalData)
      throw new MXNetError("Onnx.importModel: bytes have no directory for externalData; give the path of the model")
    read(null, bytes, options)
  }

  /** Reads a model from memory; it cannot have external data. */
  def importModel(bytes: Array[Byte]): ImportedModel = importModel(bytes, ImportOptions())

  /** Everything in a model, part of which may lie in other files, that an import could not map. */
  def check(path: String, externalData: Boolean): IndexedSeq[ModelProblem] =
    check(path, ImportOptions(externalData = externalData))

  /** Writes a network as an ONNX model.
    *
    * @param symbol the network
    * @param params parameters and auxiliary states by name
    * @param path the file
    * @param opset the version of the operator set; 0 for version 21
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
  ): Unit = exportModel(symbol, params, path, ExportOptions(opset, inputs, types))

  /** Writes a network as an ONNX model.
    *
    * @param symbol the network
    * @param params parameters and auxiliary states by name
    * @param path the file
    * @param options shapes of the other arguments, and what the program writes in place of the mapping processes
    * @throws MXNetError if an operator has no form in ONNX: the message lists all of them, with the names of the nodes
    */
  def exportModel(symbol: Symbol, params: Map[String, NDArray], path: String, options: ExportOptions): Unit = {
    val (names, arrays) = params.toArray.unzip
    val (inputNames, shapes) = options.inputs.toArray.unzip
    val unknown = options.types.keySet -- options.inputs.keySet
    if (unknown.nonEmpty)
      throw new MXNetError(s"Onnx.exportModel: there are types but no shapes for ${unknown.mkString(", ")}")
    val codes = inputNames.map(options.types.getOrElse(_, DType.Float32).id)
    val (ndims, dims) = flat(shapes)
    val (files, texts) = added(options.mappings)
    val bridge = new ExportBridge(options)
    val handles = arrays.map(_.liveHandle)
    val hooks = if (bridge.isEmpty) null else bridge
    symbol.native(
      _LIB.onnxExport(path, _, names, handles, inputNames, ndims, dims, codes, options.opset, hooks, files, texts)
    )
    bridge.checkMet()
    arrays.foreach(NativeResource.keepAlive)
  }
}
