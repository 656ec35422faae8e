ThisBuild / organization := "io.github.ferromx"
ThisBuild / version := "0.1.0"
ThisBuild / scalaVersion := "2.13.17"
ThisBuild / scalacOptions ++= Seq("-release", "11", "-deprecation", "-feature", "-unchecked", "-Xlint", "-Werror")

lazy val munit = "org.scalameta" %% "munit" % "1.2.0" % Test

lazy val codegen = project
  .in(file("."))
  .aggregate(model, literals, macros)
  .settings(publish / skip := true)

/** What the operator metadata means in Scala: types, signatures, ScalaDoc. Pure, and knows no compiler. */
lazy val model = project
  .settings(name := "mxnet-model", libraryDependencies ++= Seq("com.lihaoyi" %% "ujson" % "4.3.2", munit))

/** Checks of literals where a program is compiled; part of the published jar. */
lazy val literals = project
  .settings(
    name := "mxnet-literals",
    libraryDependencies += "org.scala-lang" % "scala-reflect" % scalaVersion.value % Provided
  )

/** The annotations that add the generated functions; needed only where the library itself is compiled. */
lazy val macros = project
  .dependsOn(model, literals % Test)
  .settings(
    name := "mxnet-macros",
    scalacOptions += "-Ymacro-annotations",
    libraryDependencies ++= Seq("org.scala-lang" % "scala-reflect" % scalaVersion.value % Provided, munit)
  )
