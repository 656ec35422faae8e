package org.apache.mxnet

import org.apache.mxnet.Base._LIB
import org.apache.mxnet.DType.DType
import org.apache.mxnet.internal.jni.{InferredShapes, InferredTypes}
import org.apache.mxnet.internal.util.NullChecks.requireNonNull

/** Infers shapes and types of a symbol's arguments, outputs and auxiliary states. */
trait SymbolInference { self: Symbol =>

  /** Infers types.
    *
    * @param args the types of the arguments in their order; null where unknown
    * @return types of arguments, outputs and auxiliary states; null for each if not all can be inferred
    */
  def inferType(args: DType*): (Seq[DType], Seq[DType], Seq[DType]) =
    completeTypes(nativeTypes(null, Option(args).getOrElse(Nil).map(idOf).toArray))

  /** Infers types from those of some arguments, by name. */
  def inferType(kwargs: Map[String, DType]): (Seq[DType], Seq[DType], Seq[DType]) = {
    requireNonNull("Symbol.inferType", "kwargs" -> kwargs)
    val (keys, types) = kwargs.toArray.unzip
    completeTypes(nativeTypes(keys, types.map(idOf)))
  }

  /** As `inferType`, with [[DType.Unknown]] for types that cannot be inferred. */
  private[mxnet] def inferTypePartial(kwargs: Map[String, DType]): (Seq[DType], Seq[DType], Seq[DType]) = {
    val (keys, types) = kwargs.toArray.unzip
    typesOf(nativeTypes(keys, types.map(idOf)))
  }

  private def nativeTypes(keys: Array[String], ids: Array[Int]): InferredTypes =
    native(_LIB.symbolInferType(_, keys, ids))

  private def idOf(dtype: DType): Int = if (dtype == null) DType.Unknown.id else dtype.id

  private def completeTypes(types: InferredTypes): (Seq[DType], Seq[DType], Seq[DType]) =
    if (types.complete) typesOf(types) else (null, null, null)

  private def typesOf(types: InferredTypes): (Seq[DType], Seq[DType], Seq[DType]) = {
    def decode(ids: Array[Int]): Seq[DType] = ids.toIndexedSeq.map(DType.fromId)
    (decode(types.args), decode(types.outs), decode(types.aux))
  }

  /** Infers shapes from descriptions of inputs. */
  def inferShape(args: IndexedSeq[DataDesc]): (IndexedSeq[Shape], IndexedSeq[Shape], IndexedSeq[Shape]) = {
    requireNonNull("Symbol.inferShape", "args" -> args)
    inferShape(args.map(desc => desc.name -> desc.shape).toMap)
  }

  /** Infers shapes.
    *
    * @param args the shapes of the arguments in their order; null where unknown
    * @return shapes of arguments, outputs and auxiliary states; null for each if not all can be inferred
    */
  def inferShape(args: Shape*): (IndexedSeq[Shape], IndexedSeq[Shape], IndexedSeq[Shape]) =
    completeShapes(nativeShapes(null, args))

  /** Infers shapes from those of some arguments, by name. */
  def inferShape(kwargs: Map[String, Shape]): (IndexedSeq[Shape], IndexedSeq[Shape], IndexedSeq[Shape]) = {
    requireNonNull("Symbol.inferShape", "kwargs" -> kwargs)
    val (keys, shapes) = kwargs.toSeq.unzip
    completeShapes(nativeShapes(keys.toArray, shapes))
  }

  /** Infers shapes.
    *
    * @param keys names of arguments; null for all arguments in their order
    * @param indPtr the index in `values` of the start of each shape, and the end
    * @param values the dimensions, one shape after the other
    */
  def inferShape(
      keys: Array[String],
      indPtr: Array[Int],
      values: Array[Int]
  ): (IndexedSeq[Shape], IndexedSeq[Shape], IndexedSeq[Shape]) = {
    requireNonNull("Symbol.inferShape", "indPtr" -> indPtr, "values" -> values)
    val inside = indPtr.forall(position => position >= 0 && position <= values.length)
    if (!inside || indPtr.zip(indPtr.drop(1)).exists { case (start, end) => start > end })
      throw new MXNetError(
        s"Symbol.inferShape: indPtr ${indPtr.mkString("(", ",", ")")} must rise from 0 to ${values.length}, " +
          "the number of dimensions"
      )
    val shapes = indPtr.toSeq.zip(indPtr.drop(1)).map { case (start, end) => Shape(values.slice(start, end)) }
    completeShapes(nativeShapes(keys, shapes))
  }

  /** As `inferShape`, with partly unknown shapes: dimensions of 0, or an empty shape. */
  def inferShapePartial(kwargs: Map[String, Shape]): (IndexedSeq[Shape], IndexedSeq[Shape], IndexedSeq[Shape]) = {
    requireNonNull("Symbol.inferShape", "kwargs" -> kwargs)
    val (keys, shapes) = kwargs.toSeq.unzip
    shapesOf(nativeShapes(keys.toArray, shapes))
  }

  private def nativeShapes(keys: Array[String], shapes: Seq[Shape]): InferredShapes = {
    if (shapes == null) requireNonNull("Symbol.inferShape", "args" -> shapes)
    val (ndims, dims) = Shape.packed(shapes)
    native(_LIB.symbolInferShape(_, keys, ndims, dims))
  }

  private def completeShapes(
      shapes: InferredShapes
  ): (IndexedSeq[Shape], IndexedSeq[Shape], IndexedSeq[Shape]) =
    if (shapes.complete) shapesOf(shapes) else (null, null, null)

  private def shapesOf(shapes: InferredShapes): (IndexedSeq[Shape], IndexedSeq[Shape], IndexedSeq[Shape]) = {
    def decode(dims: Array[Array[Long]]): IndexedSeq[Shape] = dims.toIndexedSeq.map(Shape.fromLongs)
    (decode(shapes.args), decode(shapes.outs), decode(shapes.aux))
  }
}
