// SynapseML's ONNXModel for comparison: it needs Spark 3.5 and Scala 2.12.
scalaVersion := "2.12.20"
libraryDependencies ++= Seq(
  "com.microsoft.azure" % "synapseml-deep-learning_2.12" % "1.1.0",
  "org.apache.spark" %% "spark-mllib" % "3.5.7"
)
run / fork := true
run / javaOptions ++= Seq("java.lang", "java.nio", "java.util", "java.lang.invoke", "sun.nio.ch").map(name =>
  s"--add-opens=java.base/$name=ALL-UNNAMED"
)
