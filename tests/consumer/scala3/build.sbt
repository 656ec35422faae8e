scalaVersion := "3.3.7"
scalacOptions ++= Seq("-deprecation", "-feature", "-Werror")
libraryDependencies += ("io.github.ferromx" %% "mxnet" % "0.1.0").cross(CrossVersion.for3Use2_13)

Compile / unmanagedSourceDirectories += baseDirectory.value.getParentFile / "src"
run / fork := true
