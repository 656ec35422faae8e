ThisBuild / organization := "io.github.ferromx"
ThisBuild / version := "0.1.0"
ThisBuild / versionScheme := Some("early-semver")
ThisBuild / scalaVersion := "2.13.17"
ThisBuild / scalafmtConfig := (ThisBuild / baseDirectory).value.getParentFile / ".scalafmt.conf"
ThisBuild / licenses := Seq(License.Apache2)
ThisBuild / description := "Train and serve deep-learning models from Scala: the MXNet Scala API on an engine in Rust"

val opsMetadata = settingKey[File]("The operator metadata that scripts/metadata writes; from FERROMX_OPS if that is set")
val nativeLibrary =
  settingKey[File]("The library to test with and to put into the jar; from FERROMX_LIBRARY if that is set")

lazy val model = ProjectRef(file("../codegen"), "model")
lazy val literals = ProjectRef(file("../codegen"), "literals")
lazy val macros = ProjectRef(file("../codegen"), "macros")

lazy val mxnet = project
  .in(file("."))
  .dependsOn(macros % "provided", literals % "provided")
  .settings(
    name := "mxnet",
    scalacOptions ++= Seq("-release", "11", "-deprecation", "-feature", "-unchecked", "-Xlint", "-Werror"),
    scalacOptions += "-Ymacro-annotations",
    libraryDependencies ++= Seq(
      "org.scala-lang" % "scala-reflect" % scalaVersion.value % Provided,
      "org.slf4j" % "slf4j-api" % "2.0.17",
      "io.github.classgraph" % "classgraph" % "4.8.181",
      "org.scalameta" %% "munit" % "1.2.0" % Test
    ),
    opsMetadata := fromEnvironment("FERROMX_OPS", rootFolder.value / "codegen" / "ops.jsonl"),
    nativeLibrary := fromEnvironment("FERROMX_LIBRARY", releaseFolder.value / NativeLibraryResource.fileName),
    generated,
    packaged,
    tested
  )

lazy val rootFolder = Def.setting((ThisBuild / baseDirectory).value.getParentFile)

lazy val releaseFolder = Def.setting(rootFolder.value / "target" / "release")

def fromEnvironment(variable: String, otherwise: File): File =
  sys.env.get(variable).filter(_.nonEmpty).fold(otherwise)(path => file(path).getAbsoluteFile)

/** Sources from the metadata. The options name the metadata's hash, so that a change compiles the generated functions
  * again even where their signatures stay the same.
  */
lazy val generated = Seq(
  Compile / sourceGenerators += Def.task {
    OperatorMetadata.baseClasses(
      OperatorMetadata.existing(opsMetadata.value),
      (model / Runtime / fullClasspath).value.files,
      (Compile / sourceManaged).value,
      streams.value.cacheDirectory / "base-classes",
      (Compile / runner).value,
      streams.value.log
    )
  }.taskValue,
  Compile / compile / scalacOptions ++= {
    val metadata = OperatorMetadata.existing(opsMetadata.value)
    Seq(s"-Xmacro-settings:ops=$metadata", s"-Xmacro-settings:ops-hash=${Hash.toHex(Hash(metadata))}")
  },
  // Links to overloaded and to internal members are fine to read, and each of them is a warning.
  Compile / doc / scalacOptions += "-no-link-warnings",
  Compile / doc / scalacOptions ++= (Compile / compile / scalacOptions).value.filter(_.startsWith("-Xmacro-settings"))
)

/** The jar holds the native library, and the macros that check literals where the library is used. */
lazy val packaged = Seq(
  Compile / resourceGenerators += Def.task {
    val library = nativeLibrary.value
    if (library.isFile) Seq(NativeLibraryResource.copied(library, (Compile / resourceManaged).value)) else Nil
  }.taskValue,
  Compile / packageBin := {
    if (!nativeLibrary.value.isFile)
      sys.error(s"No native library at ${nativeLibrary.value}: build it with cargo build --release -p libmxnet.")
    (Compile / packageBin).value
  },
  Compile / packageBin / mappings ++= (literals / Compile / packageBin / mappings).value,
  Compile / packageBin / mappings += rootFolder.value / "LICENSE" -> "META-INF/LICENSE",
  // So that a program can be started with --enable-native-access=io.github.ferromx.mxnet
  Compile / packageBin / packageOptions +=
    Package.ManifestAttributes("Automatic-Module-Name" -> "io.github.ferromx.mxnet"),
  Compile / packageSrc / mappings ++= (literals / Compile / packageSrc / mappings).value,
  Compile / packageSrc / mappings ~= (_.filterNot { case (_, path) => path.startsWith("native/") }),
  pomPostProcess := onlyRuntimeDependencies
)

/** The pom without the projects that only the compilation needs. */
lazy val onlyRuntimeDependencies: scala.xml.Node => scala.xml.Node = {
  import scala.xml.transform.{RewriteRule, RuleTransformer}
  new RuleTransformer(new RewriteRule {
    override def transform(node: scala.xml.Node): Seq[scala.xml.Node] =
      if (node.label == "dependency" && Set("provided", "test").contains((node \ "scope").text)) Nil else node
  })
}

/** The suites use what the examples have, as a program would. */
lazy val tested = Seq(
  Test / unmanagedSourceDirectories +=
    (ThisBuild / baseDirectory).value.getParentFile / "examples" / "operators" / "src" / "main" / "scala",
  Test / unmanagedSourceDirectories +=
    (ThisBuild / baseDirectory).value.getParentFile / "examples" / "java" / "src" / "main" / "java",
  Test / fork := true,
  Test / baseDirectory := (ThisBuild / baseDirectory).value.getParentFile,
  Test / javaOptions += s"-Dmxnet.library.path=${nativeLibrary.value}"
)
