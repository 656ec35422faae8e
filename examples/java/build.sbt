scalaVersion := "2.13.17"
libraryDependencies += "io.github.ferromx" %% "mxnet" % "0.1.0"

javacOptions ++= Seq("--release", "11", "-Xlint", "-Werror")
run / fork := true
run / connectInput := true
run / outputStrategy := Some(StdoutOutput)
run / baseDirectory := baseDirectory.value.getParentFile.getParentFile
