scalaVersion := "2.13.17"
scalacOptions ++= Seq("-deprecation", "-feature", "-Xlint", "-Werror")
libraryDependencies ++= Seq(
  "io.github.ferromx" %% "ferromx-spark4" % "0.1.0",
  "org.apache.spark" %% "spark-mllib" % "4.1.0"
)

Compile / run / mainClass := Some("org.apache.mxnet.examples.spark.Digits")
run / fork := true
run / connectInput := true
run / outputStrategy := Some(StdoutOutput)
run / baseDirectory := baseDirectory.value.getParentFile.getParentFile
// The JDK packages that Spark accesses by reflection; bin/spark-submit passes the same options.
run / javaOptions ++= Seq(
  "java.lang",
  "java.lang.invoke",
  "java.lang.reflect",
  "java.io",
  "java.net",
  "java.nio",
  "java.util",
  "java.util.concurrent",
  "java.util.concurrent.atomic",
  "sun.nio.ch",
  "sun.nio.cs",
  "sun.security.action",
  "sun.util.calendar"
).map(name => s"--add-opens=java.base/$name=ALL-UNNAMED")
