package org.apache.mxnet

import org.apache.mxnet.Base._LIB
import org.apache.mxnet.DType.DType
import org.apache.mxnet.internal.interop.ExportBridge

/** Imports and exports ONNX models by the mapping processes that [[Onnx.mappings]] lists. */
object Onnx extends ModelFormat("ONNX") {

  /** Reads a model from memory; it cannot have external data. */
  def importModel(bytes: Array[Byte], options: ImportOptions): ImportedModel = {
    if (options.externalData)
      throw new MXNetError("Onnx.importModel: bytes have no directory for externalData; give the path of the model")
    read(null, bytes, options)
  }

  /** Reads a model from memory; it cannot have external data. */
  def importModel(bytes: Array[Byte]): ImportedModel = importModel(bytes, ImportOptions())

  /** All problems that prevent a model, possibly with external data, from being imported. */
  def check(path: String, externalData: Boolean): IndexedSeq[ModelProblem] =
    check(path, ImportOptions(externalData = externalData))

  /** Writes a network as an ONNX model.
    *
    * @param symbol the network
    * @param params parameters and auxiliary states by name
    * @param path the file
    * @param opset the version of the operator set; 0 for version 21
    * @param inputs shapes of the other arguments by name; -1 is a dynamic dimension. Types and the choice of operators
    *   may depend on them.
    * @param types their types, if they are not float32
    * @throws MXNetError if operators have no equivalent in ONNX; the message lists all of them by node
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
    * @param options shapes of the other arguments, hooks and additional mappings
    * @throws MXNetError if operators have no equivalent in ONNX; the message lists all of them by node
    */
  def exportModel(symbol: Symbol, params: Map[String, NDArray], path: String, options: ExportOptions): Unit = {
    val (names, arrays) = params.toArray.unzip
    val (inputNames, shapes) = options.inputs.toArray.unzip
    val unknown = options.types.keySet -- options.inputs.keySet
    if (unknown.nonEmpty)
      throw new MXNetError(s"Onnx.exportModel: there are types but no shapes for ${unknown.mkString(", ")}")
    val codes = inputNames.map(options.types.getOrElse(_, DType.Float32).id)
    val (ndims, dims) = flat(shapes)
    val (files, texts) = mappingTexts(options.mappings)
    val bridge = new ExportBridge(options)
    val handles = arrays.map(_.liveHandle)
    val hooks = if (bridge.isEmpty) null else bridge
    symbol.native(
      _LIB.onnxExport(path, _, names, handles, inputNames, ndims, dims, codes, options.opset, hooks, files, texts)
    )
    bridge.checkAllVisited()
    arrays.foreach(NativeResource.keepAlive)
  }
}
