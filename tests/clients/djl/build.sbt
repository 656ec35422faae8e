// The published MXNet engine of DJL with the library of this project. MXNET_LIBRARY_PATH is the library's folder.

lazy val oldest = client("0.27.0")
lazy val newest = client("0.36.0") // the last one: DJL 0.37 has no MXNet engine

def client(version: String) = Project(s"djl-${version.replace('.', '-')}", file(s"target/$version"))
  .settings(
    crossPaths := false,
    autoScalaLibrary := false,
    Compile / unmanagedSourceDirectories := Seq((ThisBuild / baseDirectory).value / "src"),
    Compile / javacOptions ++= Seq("-Xlint:all,-serial,-processing,-classfile", "-Werror"),
    libraryDependencies ++= Seq(
      "ai.djl.mxnet" % "mxnet-engine" % version,
      "org.slf4j" % "slf4j-simple" % "2.0.17" % Runtime
    ),
    run / fork := true,
    run / outputStrategy := Some(StdoutOutput),
    run / baseDirectory := (ThisBuild / baseDirectory).value.getParentFile.getParentFile.getParentFile,
    run / javaOptions ++= Seq("-Dai.djl.offline=true", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
  )

lazy val root = project.in(file(".")).aggregate(oldest, newest).settings(Compile / sources := Nil)
