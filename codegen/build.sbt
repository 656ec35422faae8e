ThisBuild / organization := "io.github.ferromx"
ThisBuild / version := "0.1.0"
ThisBuild / scalaVersion := "2.13.17"
ThisBuild / scalafmtConfig := (ThisBuild / baseDirectory).value.getParentFile / ".scalafmt.conf"
ThisBuild / scalacOptions ++= Seq("-release", "11", "-deprecation", "-feature", "-unchecked", "-Xlint", "-Werror")

lazy val munit = "org.scalameta" %% "munit" % "1.2.0" % Test

lazy val codegen = project
  .in(file("."))
  .aggregate(types, model, literals, macros)
  .settings(publish / skip := true)

/** The Scala types of operator arguments; part of the published jar, because released programs call it. */
lazy val types = project.settings(name := "mxnet-types")

/** What the operator metadata means in Scala: types, signatures, ScalaDoc. Pure, and knows no compiler. */
lazy val model = project
  .dependsOn(types)
  .settings(name := "mxnet-model", libraryDependencies ++= Seq("com.lihaoyi" %% "ujson" % "4.3.2", munit))

/** Checks of literals where a program is compiled; part of the published jar. */
lazy val literals = project
  .settings(
    name := "mxnet-literals",
    libraryDependencies += "org.scala-lang" % "scala-reflect" % scalaVersion.value % Provided
  )

/** The annotations that add the generated functions; needed only where the library itself is compiled. Their tests
  * compile the library's own annotated objects against doubles of symbols and arrays, and need no engine.
  */
lazy val macros = project
  .dependsOn(model, literals % Test)
  .settings(
    name := "mxnet-macros",
    scalacOptions += "-Ymacro-annotations",
    libraryDependencies ++= Seq("org.scala-lang" % "scala-reflect" % scalaVersion.value % Provided, munit),
    Test / scalacOptions += s"-Xmacro-settings:ops=${releasedOperators.value}",
    Test / unmanagedSources ++= librarySources.value,
    Test / sourceGenerators += Def.task {
      val folder = (Test / sourceManaged).value
      val classpath = (model / Runtime / fullClasspath).value.files
      val arguments = Seq(releasedOperators.value.getAbsolutePath, folder.getAbsolutePath)
      (model / Compile / runner).value
        .run("org.apache.mxnet.codegen.BaseClasses", classpath, arguments, streams.value.log)
        .get
      (folder ** "*.scala").get
    }.taskValue
  )

lazy val releasedOperators = Def.setting {
  (ThisBuild / baseDirectory).value / "model" / "src" / "test" / "resources" / "mxnet-1.9.1-ops.jsonl"
}

/** The part of the library that the generated code is made of. */
lazy val librarySources = Def.setting {
  val sources = (ThisBuild / baseDirectory).value.getParentFile / "jvm" / "src" / "main"
  val inPackage = "org/apache/mxnet"
  val files = Seq("Opt", "MXNetError", "TupleOf", "internal/operators/OperatorCall", "NDArrayOrScalar", "SymbolOrScalar") ++
    Seq("SymbolAPI", "NDArrayAPI", "SymbolRandomAPI", "NDArrayRandomAPI") ++
    Seq("contrib/Symbol", "contrib/NDArray", "literal/OneOf")
  files.map(name => sources / "scala" / inPackage / s"$name.scala") ++
    Seq("literal/LiteralConversions", "EngineDefault").map(name => sources / "scala-2" / inPackage / s"$name.scala")
}
