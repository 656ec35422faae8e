package org.apache.mxnet

import org.apache.mxnet.SymbolBind.{Arrays, GradReqs}

/** Binds a symbol to arrays: `simpleBind` allocates them, `bind` takes existing ones.
  *
  * Parameters of the overloads of `bind`, which the build generates:
  *  - `ctx` the device to run on
  * - `args` arrays of the arguments: for all, in the order of `listArguments`, or by name
  * - `argsGrad` gradient arrays: in the order of `listArguments`, with null for no gradient, or by name
  * - `gradReq`, `gradsReq` gradient requests, for all arguments, in their order, or by name (`null` for missing names):
  *    `write` overwrites, `add` accumulates, `null` computes no gradient
  * - `auxStates` arrays of the auxiliary states: in the order of `listAuxiliaryStates`, or by name; null if there are
  *    none
  * - `group2ctx` devices by `ctx_group` attribute; null to run everything on `ctx`
  * - `sharedExec` an executor to share memory with; null for none
  *
  * The arrays are not copied: the next run uses what is written to them.
  */
trait SymbolBind extends SymbolSimpleBind with SymbolBindOverloads { self: Symbol =>
  private[mxnet] override def bindArrays(
      ctx: Context,
      args: Arrays,
      argsGrad: Arrays,
      gradReqs: GradReqs,
      auxStates: Arrays,
      group2ctx: Map[String, Context],
      sharedExec: Executor
  ): Executor = {
    val names = listArguments()
    val grads = argsGrad.inOrder("argsGrad", names, allowMissing = true)
    Executor.bind(
      this,
      ctx,
      args.inOrder("args", names, allowMissing = false),
      grads,
      gradReqs.inOrder(names),
      auxStates.inOrder("auxStates", listAuxiliaryStates(), allowMissing = false),
      Option(group2ctx).getOrElse(Map.empty),
      sharedExec
    )
  }
}

private[mxnet] object SymbolBind {

  /** The codes of gradient requests. */
  val gradReqCodes: Map[String, Int] = Map("null" -> 0, "write" -> 1, "inplace" -> 2, "add" -> 3)

  /** The code of a gradient request; an unknown one is an error.
    *
    * @param subject what the request is for, for the error: empty, or such as " for 'fc1_weight'"
    */
  def gradReqCode(owner: String, request: String, subject: String = ""): Int = gradReqCodes.getOrElse(
    request,
    throw new MXNetError(s"$owner: the gradient request '$request'$subject is not one of null, write, add")
  )

  /** Throws unless all names are known. */
  def checkNames(what: String, names: Iterable[String], known: Iterable[String]): Unit = {
    val unknown = names.toSet -- known
    if (unknown.nonEmpty)
      throw new MXNetError(
        s"Symbol.bind: $what has ${unknown.toSeq.sorted.mkString("'", "', '", "'")}, which the symbol does not have; " +
          (if (known.isEmpty) "it has none" else s"it has ${known.mkString(", ")}")
      )
  }

  /** Arrays in order, or by name. */
  final class Arrays private (listed: Option[Seq[NDArray]], named: Map[String, NDArray]) {

    /** The arrays in the order of `names`, with null for missing ones. */
    def inOrder(what: String, names: IndexedSeq[String], allowMissing: Boolean): Array[NDArray] = {
      val found = listed match {
        case Some(arrays) if arrays.isEmpty && allowMissing => names.map(_ => null)
        case Some(arrays)                                   =>
          if (arrays.length != names.length)
            throw new MXNetError(
              s"Symbol.bind: $what has ${arrays.length} arrays, the symbol takes ${names.length}: " +
                names.mkString(", ")
            )
          arrays
        case None => names.map(name => named.getOrElse(name, null))
      }
      if (!allowMissing)
        names.zip(found).find(_._2 == null).foreach { case (name, _) =>
          throw new MXNetError(s"Symbol.bind: $what has no array for '$name'; it needs ${names.mkString(", ")}")
        }
      found.toArray
    }
  }

  object Arrays {
    val none: Arrays = new Arrays(None, Map.empty)
    def apply(arrays: Seq[NDArray]): Arrays = if (arrays == null) none else new Arrays(Some(arrays), Map.empty)
    def apply(arrays: Map[String, NDArray]): Arrays = if (arrays == null) none else new Arrays(None, arrays)
  }

  /** Gradient requests: one for all, in order, or by name. */
  final class GradReqs private (listed: Option[Seq[String]], of: String => String) {

    /** The codes in the order of the arguments. */
    def inOrder(names: IndexedSeq[String]): Array[Int] = {
      listed.foreach { requests =>
        if (requests.length != names.length)
          throw new MXNetError(
            s"Symbol.bind: gradsReq has ${requests.length} requests, the symbol has ${names.length} arguments: " +
              names.mkString(", ")
          )
      }
      val requests = listed.getOrElse(names.map(of))
      names.zip(requests).map { case (name, request) => gradReqCode("Symbol.bind", request, s" for '$name'") }.toArray
    }
  }

  object GradReqs {
    def apply(request: String): GradReqs = new GradReqs(None, _ => request)
    def apply(requests: Seq[String]): GradReqs = new GradReqs(Some(requests), identity)
    def apply(requests: Map[String, String]): GradReqs = new GradReqs(None, requests.getOrElse(_, "null"))
  }
}
