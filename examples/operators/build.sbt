scalaVersion := "2.13.17"
scalacOptions ++= Seq("-deprecation", "-feature", "-Xlint", "-Werror")
libraryDependencies += "io.github.ferromx" %% "mxnet" % "0.1.0"

run / fork := true
run / connectInput := true
run / outputStrategy := Some(StdoutOutput)
run / baseDirectory := baseDirectory.value.getParentFile.getParentFile
