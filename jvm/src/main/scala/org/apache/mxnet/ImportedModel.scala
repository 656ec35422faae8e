package org.apache.mxnet

import scala.jdk.CollectionConverters._

import org.apache.mxnet.DType.DType
import org.apache.mxnet.internal.util.NullChecks.requireNonNull

/** An input, as the model declares it.
  *
  * @param name its name
  * @param elementType the element type, such as `float32`; empty if it is not declared
  * @param dims its dimensions: numbers, names of dynamic dimensions, or `?`; `None` if the rank is unknown
  */
final case class ModelInput(name: String, elementType: String, dims: Option[IndexedSeq[String]])

/** A problem that prevents a model from being imported.
  *
  * @param location the node or input
  * @param message the problem, and what to do about it
  */
final case class ModelProblem(location: String, message: String)

/** An imported model: a network and its parameters.
  *
  * @param symbol the network
  * @param argParams its parameters by name
  * @param auxParams its auxiliary states by name
  * @param inputs the required inputs, in the order of the model
  * @param outputs the names of the outputs in the model, in the order of the symbol's outputs
  */
final class ImportedModel private[mxnet] (
    val symbol: Symbol,
    val argParams: Map[String, NDArray],
    val auxParams: Map[String, NDArray],
    val inputs: IndexedSeq[ModelInput],
    val outputs: IndexedSeq[String]
) {

  /** Binds the network to new arrays and copies the parameters into them. Shapes are inferred with NumPy semantics
    * ([[NumpyScope]]), because other frameworks have scalars and dimensions of 0.
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

  /** Binds the network for predictions, in Java; see [[simpleBind]]. */
  def bind(ctx: javaapi.Context, shapes: java.util.Map[String, javaapi.Shape]): Executor = {
    requireNonNull("ImportedModel.bind", "ctx" -> ctx, "shapes" -> shapes)
    simpleBind(ctx.context, shapes.asScala.map { case (name, shape) => name -> shape.shape }.toMap)
  }

  /** Writes `prefix-symbol.json` and `prefix-NNNN.params`, as [[Model.saveCheckpoint]] does. */
  def save(prefix: String, epoch: Int = 0): Unit = Model.saveCheckpoint(prefix, epoch, symbol, argParams, auxParams)

  /** The inputs as declared, the outputs, and the number of parameters and states. */
  override def toString: String = {
    val declared = inputs.map { input =>
      val shape = input.dims.fold("")(_.mkString("(", ",", ")"))
      Seq(s"${input.name}:", input.elementType, shape).filter(_.nonEmpty).mkString(" ")
    }
    val count = argParams.size + auxParams.size
    s"<ImportedModel ${declared.mkString(", ")} -> ${outputs.mkString(", ")} with $count arrays>"
  }

  private def inputTypes: Map[String, DType] = {
    val known = DType.values.map(dtype => dtype.toString -> dtype).toMap
    inputs.flatMap(input => known.get(input.elementType).map(input.name -> _)).toMap
  }
}
