scalaVersion := "2.13.17"
scalacOptions ++= Seq("-deprecation", "-feature", "-Xlint", "-Werror")
libraryDependencies += "io.github.ferromx" %% "mxnet" % "0.1.0"
enablePlugins(JmhPlugin)
run / fork := true
