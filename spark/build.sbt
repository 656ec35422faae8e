import java.nio.file.Files

ThisBuild / organization := "io.github.ferromx"
ThisBuild / version := "0.1.0"
ThisBuild / versionScheme := Some("early-semver")
ThisBuild / scalaVersion := "2.13.17"
ThisBuild / scalafmtConfig := (ThisBuild / baseDirectory).value.getParentFile / ".scalafmt.conf"
ThisBuild / licenses := Seq(License.Apache2)
ThisBuild / description := "MXNet models on Apache Spark: inference and training in Spark ML pipelines"

val sparkHome = taskKey[File]("A SPARK_HOME made of the jars of the test class path, for workers of local-cluster")

lazy val spark = project
  .in(file("."))
  .settings(
    name := "ferromx-spark4",
    scalacOptions ++= Seq("-release", "17", "-deprecation", "-feature", "-unchecked", "-Xlint", "-Werror"),
    Compile / doc / scalacOptions += "-no-link-warnings",
    libraryDependencies ++= Seq(
      "io.github.ferromx" %% "mxnet" % version.value,
      "org.apache.spark" %% "spark-mllib" % "4.1.0" % Provided,
      // The server of Spark Connect with its protocol and gRPC. Maven Central only has it for later patch versions.
      ("org.apache.spark" %% "spark-connect" % "4.1.2" % Test).intransitive(),
      "org.scalameta" %% "munit" % "1.2.0" % Test
    ),
    // The tests use the jar, as a cluster does.
    exportJars := true,
    Test / exportJars := false,
    publishM2Configuration := publishM2Configuration.value.withOverwrite(true),
    publishLocalConfiguration := publishLocalConfiguration.value.withOverwrite(true),
    sparkHome := {
      val home = target.value / "spark-home"
      IO.delete(home)
      IO.createDirectory(home / "jars")
      (Test / fullClasspath).value.files.filter(_.getName.endsWith(".jar")).foreach { jar =>
        Files.createSymbolicLink((home / "jars" / jar.getName).toPath, jar.toPath)
      }
      home
    },
    Test / fork := true,
    Test / parallelExecution := false,
    Test / baseDirectory := baseDirectory.value.getParentFile,
    Test / envVars ++= Map("SPARK_HOME" -> sparkHome.value.getPath, "SPARK_SCALA_VERSION" -> "2.13"),
    // Like the executors of ClusterSuite: a short-lived JVM spends more on optimizing Spark's code than it gains.
    Test / javaOptions ++= openModules ++ Seq("-Xmx1g", "-XX:TieredStopAtLevel=1"),
    Test / javaOptions += s"-Dferromx.test.classes=${(Test / classDirectory).value}"
  )

/** What Spark reads of the JDK by reflection; bin/spark-submit gives the same options. */
lazy val openModules = Seq(
  "java.lang",
  "java.lang.invoke",
  "java.lang.reflect",
  "java.io",
  "java.net",
  "java.nio",
  "java.util",
  "java.util.concurrent",
  "java.util.concurrent.atomic",
  "jdk.internal.ref",
  "sun.nio.ch",
  "sun.nio.cs",
  "sun.security.action",
  "sun.util.calendar"
).map(name => s"--add-opens=java.base/$name=ALL-UNNAMED")
