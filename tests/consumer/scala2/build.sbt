scalaVersion := "2.13.17"
scalacOptions ++= Seq("-deprecation", "-feature", "-Xlint", "-Werror")
libraryDependencies += "io.github.ferromx" %% "mxnet" % "0.1.0"

Compile / unmanagedSourceDirectories ++= Seq(baseDirectory.value.getParentFile / "src", baseDirectory.value / "src")
Compile / run / mainClass := Some("Main")
run / fork := true
