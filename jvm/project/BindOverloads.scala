import sbt._

/** The overloads of `Symbol.bind`: arrays in order or by name, gradient requests also as one for all. */
object BindOverloads {
  private val arrays = Seq("Seq[NDArray]", "Map[String, NDArray]")
  private val requests =
    Seq("gradReq" -> "String", "gradsReq" -> "Seq[String]", "gradsReq" -> "Map[String, String]")

  /** Writes the trait with the overloads. */
  def write(folder: File): Seq[File] = Seq(GeneratedSource.write(folder, "SymbolBindOverloads.scala", source))

  private lazy val source: String = {
    val forInference = arrays.map(args =>
      s"""  /** Binds to arrays, without gradients. */
         |  def bind(ctx: Context, args: $args): Executor =
         |    bindArrays(ctx, Arrays(args), Arrays.none, GradReqs("null"), Arrays.none, null, null)
         |""".stripMargin
    )
    val forTraining = for (args <- arrays; argsGrad <- arrays) yield
      s"""  /** Binds to arrays; gradients are written over what is in theirs. */
         |  def bind(ctx: Context, args: $args, argsGrad: $argsGrad): Executor =
         |    bindArrays(ctx, Arrays(args), Arrays(argsGrad), GradReqs("write"), Arrays.none, null, null)
         |""".stripMargin
    val complete =
      for ((request, kind) <- requests; args <- arrays; argsGrad <- arrays; auxStates <- arrays) yield
        s"""  /** Binds to arrays. */
           |  def bind(
           |      ctx: Context,
           |      args: $args,
           |      argsGrad: $argsGrad,
           |      $request: $kind,
           |      auxStates: $auxStates,
           |      group2ctx: Map[String, Context],
           |      sharedExec: Executor
           |  ): Executor =
           |    bindArrays(ctx, Arrays(args), Arrays(argsGrad), GradReqs($request), Arrays(auxStates), group2ctx, sharedExec)
           |""".stripMargin
    s"""package org.apache.mxnet
       |
       |import org.apache.mxnet.SymbolBind.{Arrays, GradReqs}
       |
       |/** The forms of `bind`; [[SymbolBind]] describes their parameters. */
       |trait SymbolBindOverloads {
       |${(forInference ++ forTraining ++ complete).mkString("\n")}
       |  private[mxnet] def bindArrays(
       |      ctx: Context,
       |      args: Arrays,
       |      argsGrad: Arrays,
       |      gradReqs: GradReqs,
       |      auxStates: Arrays,
       |      group2ctx: Map[String, Context],
       |      sharedExec: Executor
       |  ): Executor
       |}
       |""".stripMargin
  }
}
