package org.apache.mxnet

import org.apache.mxnet.DType.DType
import org.apache.mxnet.internal.util.NullChecks.requireNonNull

/** Binds a symbol to new arrays. */
trait SymbolSimpleBind { self: Symbol =>

  /** Binds to new arrays of zeros whose shapes and types are inferred from descriptions of the inputs. */
  def simpleBind(ctx: Context, gradReq: String, descs: IndexedSeq[DataDesc]): Executor = {
    requireNonNull("Symbol.simpleBind", "descs" -> descs)
    simpleBind(ctx, gradReq, descs.map(d => d.name -> d.shape).toMap, descs.map(d => d.name -> d.dtype).toMap)
  }

  /** Binds to new arrays of zeros.
    *
    * @param ctx the device to run on
    * @param gradReq the gradient request: `write`, `add` or `null`. Arguments whose names end in `data` or `label` get
    *   no gradient.
    * @param shapeDict the shapes of the inputs, by name; the others are inferred
    * @param typeDict the types of some arguments, by name; other inputs without a `__dtype__` attribute are float32,
    *   the rest is inferred
    */
  def simpleBind(
      ctx: Context,
      gradReq: String = "write",
      shapeDict: Map[String, Shape],
      typeDict: Map[String, DType] = null
  ): Executor = {
    requireNonNull("Symbol.simpleBind", "ctx" -> ctx, "gradReq" -> gradReq, "shapeDict" -> shapeDict)
    val request = SymbolBind.gradReqCode("Symbol.simpleBind", gradReq)
    try Executor.simpleBind(this, ctx, request, shapeDict, Option(typeDict).getOrElse(Map.empty))
    catch {
      case error: MXNetError =>
        shapesOrExplain(shapeDict)
        throw error
    }
  }

  /** Binds to the given arguments, and to new arrays for everything else. */
  def simpleBind(ctx: Context, argsMap: Map[String, NDArray]): Executor =
    simpleBind(ctx, argsMap, Map.empty[String, NDArray], Map.empty[String, String], Map.empty[String, NDArray])

  /** Binds to the given arrays, and to new ones for everything else.
    *
    * A name that the symbol does not have is an error. Other shapes are inferred from those of the given arguments.
    * Missing arguments and auxiliary states are drawn from the standard normal distribution; missing gradients are
    * zeros.
    *
    * @param ctx the device to run on
    * @param argsMap arguments
    * @param argGradStore arrays for gradients
    * @param gradReqType gradient requests: `write`, `add` or `null`. The default is `null` for names that end in `data`
    *   or `label`, else `write`.
    * @param auxMap auxiliary states
    */
  def simpleBind(
      ctx: Context,
      argsMap: Map[String, NDArray],
      argGradStore: Map[String, NDArray],
      gradReqType: Map[String, String],
      auxMap: Map[String, NDArray]
  ): Executor = {
    requireNonNull(
      "Symbol.simpleBind",
      "ctx" -> ctx,
      "argsMap" -> argsMap,
      "argGradStore" -> argGradStore,
      "gradReqType" -> gradReqType,
      "auxMap" -> auxMap
    )
    val names = listArguments()
    val auxNames = listAuxiliaryStates()
    SymbolBind.checkNames("argsMap", argsMap.keys, names)
    SymbolBind.checkNames("argGradStore", argGradStore.keys, names)
    SymbolBind.checkNames("gradReqType", gradReqType.keys, names)
    SymbolBind.checkNames("auxMap", auxMap.keys, auxNames)
    val (argShapes, auxShapes) = shapesOrExplain(argsMap.map { case (name, array) => name -> array.shape })
    val givenTypes = argsMap.map { case (name, array) => name -> array.dtype }
    val (argTypes, auxTypes) = typesFor(names, argsMap.keySet, givenTypes)
    val args = names.indices.map { i =>
      argsMap.getOrElse(names(i), SymbolSimpleBind.gaussian(argShapes(i), argTypes(i), ctx))
    }
    val grads = names.indices.map { i =>
      SymbolSimpleBind
        .checked("argGradStore", names(i), argGradStore, argShapes(i))
        .getOrElse(NDArray.zeros(argShapes(i), ctx, argTypes(i)))
    }
    val requests = SymbolBind.GradReqs(names.map { name =>
      gradReqType.getOrElse(name, if (SymbolSimpleBind.isInput(name)) "null" else "write")
    })
    val aux = auxNames.indices.map { i =>
      SymbolSimpleBind
        .checked("auxMap", auxNames(i), auxMap, auxShapes(i))
        .getOrElse(SymbolSimpleBind.gaussian(auxShapes(i), auxTypes(i), ctx))
    }
    Executor.bind(this, ctx, args.toArray, grads.toArray, requests.inOrder(names), aux.toArray, Map.empty, null)
  }

  /** The shapes of all arguments and auxiliary states. Throws an error that names those that cannot be inferred. */
  private def shapesOrExplain(known: Map[String, Shape]): (IndexedSeq[Shape], IndexedSeq[Shape]) = {
    checkReady()
    val (argShapes, _, auxShapes) = inferShape(known)
    if (argShapes != null) (argShapes, auxShapes)
    else {
      val (args, _, aux) = inferShapePartial(known)
      val unknown = (listArguments().zip(args) ++ listAuxiliaryStates().zip(aux)).collect {
        case (name, shape) if !known.contains(name) && (shape.length == 0 || shape.toVector.exists(_ <= 0)) =>
          s"$name $shape"
      }
      // Otherwise only shapes that depend on data are unknown, until the executor runs.
      if (unknown.nonEmpty) {
        val stated =
          if (known.isEmpty) "no shape is given"
          else s"the shapes ${known.map { case (k, v) => s"$k $v" }.mkString(", ")} do not determine all others"
        throw new MXNetError(s"Symbol.simpleBind: $stated; give the shape of ${unknown.mkString(", ")}")
      }
      (args, aux)
    }
  }

  /** The types of all arguments and auxiliary states. */
  private def typesFor(
      names: IndexedSeq[String],
      inputs: Set[String],
      known: Map[String, DType]
  ): (Seq[DType], Seq[DType]) = {
    val untyped = names.zip(inferTypePartial(known)._1).collect {
      case (name, DType.Unknown) if inputs(name) => name -> Base.MX_REAL_TYPE
    }
    val (args, _, aux) = inferTypePartial(known ++ untyped)
    def orReal(types: Seq[DType]): Seq[DType] = types.map(t => if (t == DType.Unknown) Base.MX_REAL_TYPE else t)
    (orReal(args), orReal(aux))
  }
}

private object SymbolSimpleBind {

  /** Whether an argument is data or a label, by its name. */
  def isInput(name: String): Boolean = name.endsWith("data") || name.endsWith("label")

  /** An array drawn from the standard normal distribution. */
  def gaussian(shape: Shape, dtype: DType, ctx: Context): NDArray =
    Random.normal(0f, 1f, shape, ctx, NDArray.empty(shape, ctx, dtype))

  /** The text of a shape, as the engine formats it. */
  private def inBrackets(shape: Shape): String = shape.toVector.mkString("[", ",", "]")

  /** The array of this name, which must have the inferred shape. */
  def checked(what: String, name: String, arrays: Map[String, NDArray], inferred: Shape): Option[NDArray] = {
    val found = arrays.get(name)
    found.map(_.shape).filter(_ != inferred).foreach { shape =>
      throw new MXNetError(
        s"Symbol.simpleBind: $what '$name': Shape inconsistent, Provided=${inBrackets(shape)}, " +
          s"inferred shape=${inBrackets(inferred)}"
      )
    }
    found
  }
}
