scalaVersion := "3.3.7"
scalacOptions ++= Seq("-deprecation", "-feature", "-Werror")
libraryDependencies += "io.github.ferromx" %% "mxnet" % "0.1.0"

Compile / unmanagedSourceDirectories ++= Seq(baseDirectory.value.getParentFile / "src", baseDirectory.value / "src")
Compile / run / mainClass := Some("consumer")
run / fork := true
