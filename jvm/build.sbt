ThisBuild / organization := "io.github.ferromx"
ThisBuild / version := "0.1.0"
ThisBuild / versionScheme := Some("early-semver")
ThisBuild / scalaVersion := "2.13.17"
ThisBuild / scalafmtConfig := (ThisBuild / baseDirectory).value.getParentFile / ".scalafmt.conf"
ThisBuild / licenses := Seq(License.Apache2)
ThisBuild / description := "Train and serve deep-learning models from Scala: the MXNet Scala API on an engine in Rust"

val opsMetadata =
  settingKey[File]("The operator metadata that scripts/metadata writes; from FERROMX_OPS if that is set")
val nativeLibrary =
  settingKey[File]("The library to test with and to put into the jar; from FERROMX_LIBRARY if that is set")

lazy val types = ProjectRef(file("../codegen"), "types")
lazy val model = ProjectRef(file("../codegen"), "model")
lazy val literals = ProjectRef(file("../codegen"), "literals")
lazy val macros = ProjectRef(file("../codegen"), "macros")

lazy val mxnet = project
  .in(file("."))
  .aggregate(scala3)
  .dependsOn(macros % "provided", types % "provided", literals % "provided")
  .settings(
    name := "mxnet",
    scalacOptions ++= Seq("-release", "11", "-deprecation", "-feature", "-unchecked", "-Xlint", "-Werror"),
    scalacOptions += "-Ymacro-annotations",
    libraryDependencies ++= runtimeDependencies ++ Seq(
      "org.scala-lang" % "scala-reflect" % scalaVersion.value % Provided,
      "org.scalameta" %% "munit" % "1.2.0" % Test
    ),
    opsMetadata := fromEnvironment("FERROMX_OPS", rootFolder.value / "codegen" / "ops.jsonl"),
    nativeLibrary := fromEnvironment("FERROMX_LIBRARY", releaseFolder.value / NativeLibraryResource.fileName),
    generatedSources,
    packaging,
    overwritePublished,
    binaryCompatibility,
    testing
  )

// Refers to the project below by name, because that project aggregates the one that uses this value.
lazy val library = LocalProject("mxnet")

/** The same library for Scala 3: the classes that Scala 2.13 compiled, except the package `literal`, whose macros are
  * written for each compiler (ADR 0012).
  */
lazy val scala3 = project
  .in(file("scala3"))
  .settings(
    name := "mxnet",
    scalaVersion := "3.3.7",
    scalacOptions ++= Seq("-release", "11", "-deprecation", "-feature", "-unchecked", "-Werror"),
    libraryDependencies += "org.scala-lang" % "scala-library" % (library / scalaVersion).value,
    libraryDependencies ++= runtimeDependencies,
    Compile / unmanagedSourceDirectories :=
      Seq("scala-3", "scala/org/apache/mxnet/literal").map((library / Compile / sourceDirectory).value / _),
    Compile / unmanagedClasspath ++= (library / Compile / exportedProducts).value ++ (literals / Compile / exportedProducts).value,
    Compile / packageBin / mappings ++=
      (library / Compile / packageBin / mappings).value.filterNot { case (_, path) => onlyScala2(path) },
    Compile / packageSrc / mappings ++=
      (library / Compile / packageSrc / mappings).value.filterNot { case (_, path) => onlyScala2(path) },
    Compile / packageDoc / mappings := (library / Compile / packageDoc / mappings).value,
    Compile / doc / sources := Nil,
    overwritePublished,
    mimaPreviousClassfiles := Map(projectID.value -> storedScala3Interface.value),
    writeInterface := {
      PublicInterface.write((Compile / packageBin).value, storedScala3Interface.value, onlyScala2)
      storedScala3Interface.value
    }
  )

/** True for a file that the jar for Scala 3 replaces, and for `EngineDefault`: only the generated classes need it, and
  * Scala 3 would suggest importing it where an argument has a wrong type.
  */
def onlyScala2(path: String): Boolean =
  Seq("literal/", "codegen/LiteralMacros", "EngineDefault").exists(name => path.startsWith(s"org/apache/mxnet/$name"))

/** What programs that use the library need at run time. */
lazy val runtimeDependencies = Seq(
  "org.slf4j" % "slf4j-api" % "2.0.17",
  "io.github.classgraph" % "classgraph" % "4.8.181"
)

lazy val rootFolder = Def.setting((ThisBuild / baseDirectory).value.getParentFile)

lazy val releaseFolder = Def.setting(rootFolder.value / "target" / "release")

def fromEnvironment(variable: String, otherwise: File): File =
  sys.env.get(variable).filter(_.nonEmpty).fold(otherwise)(path => file(path).getAbsoluteFile)

/** Sources from the metadata, and overloads. The options name the metadata's hash, so that a change compiles the generated functions
  * again even where their signatures stay the same.
  */
lazy val generatedSources = Seq(
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
  Compile / sourceGenerators += Def.task(BindOverloads.write((Compile / sourceManaged).value)).taskValue,
  Compile / sourceGenerators += Def.task {
    val declarations = (Compile / scalaSource).value / "org" / "apache" / "mxnet" / "internal" / "jni" / "LibInfo.scala"
    NativeInterface.write(declarations, (Compile / sourceManaged).value)
  }.taskValue,
  Compile / sourceGenerators += Def.task(JavaOverloads.write((Compile / sourceManaged).value)).taskValue,
  Compile / compile / scalacOptions ++= {
    val metadata = OperatorMetadata.existing(opsMetadata.value)
    Seq(s"-Xmacro-settings:ops=$metadata", s"-Xmacro-settings:ops-hash=${Hash.toHex(Hash(metadata))}")
  },
  // Scaladoc warns about every link to an overloaded or internal member, although the link is readable.
  Compile / doc / scalacOptions += "-no-link-warnings",
  Compile / doc / scalacOptions ++= (Compile / compile / scalacOptions).value.filter(_.startsWith("-Xmacro-settings")),
  Compile / doc := ApiPages.withDefaults((Compile / doc).value)
)

/** The jar holds the native library, the macros that check literals where the library is used, and the types of arguments. */
lazy val packaging = Seq(
  Compile / resourceGenerators += Def.task {
    val library = nativeLibrary.value
    if (library.isFile) NativeLibraryResource.copy(library, (Compile / resourceManaged).value) else Nil
  }.taskValue,
  Compile / packageBin := {
    if (!nativeLibrary.value.isFile)
      sys.error(s"No native library at ${nativeLibrary.value}: build it with cargo build --release -p libmxnet.")
    (Compile / packageBin).value
  },
  Compile / packageBin / mappings ++= (literals / Compile / packageBin / mappings).value,
  Compile / packageBin / mappings ++= (types / Compile / packageBin / mappings).value,
  Compile / packageBin / mappings ++= Seq("LICENSE", "NOTICE").map(name =>
    rootFolder.value / name -> s"META-INF/$name"
  ),
  Compile / packageBin / mappings ++= CrateLicenses.mappings(rootFolder.value, target.value / "licenses"),
  Compile / packageBin / mappings ++= ReachabilityMetadata.mappings(
    nativeLibrary.value,
    (Compile / fullClasspath).value.files,
    target.value / "reachability"
  ),
  Compile / packageBin / mappings += {
    val folders = (Compile / products).value ++ (types / Compile / products).value
    val classes = folders.flatMap(folder => (folder ** "*.class").get.flatMap(IO.relativize(folder, _)))
    ModuleDescriptor.mapping(classes, version.value, target.value / "module-info.class")
  },
  Compile / packageSrc / mappings ++= (literals / Compile / packageSrc / mappings).value,
  Compile / packageSrc / mappings ++= (types / Compile / packageSrc / mappings).value,
  Compile / packageSrc / mappings ~= (_.filterNot { case (_, path) => path.startsWith("native/") }),
  pomPostProcess := onlyRuntimeDependencies
)

val writeInterface = taskKey[File]("Stores the current public interface, with which MiMa compares later versions")

/** `mimaReportBinaryIssues` checks that programs compiled against the stored interface still run. */
lazy val binaryCompatibility = Seq(
  mimaPreviousClassfiles := Map(projectID.value -> storedInterface.value),
  mimaBinaryIssueFilters ++= {
    import com.typesafe.tools.mima.core._
    // Only the library extends the generated classes, so a new operator does not break programs.
    Seq("org.apache.mxnet.*APIBase.*", "org.apache.mxnet.*NDArrayBase.*", "org.apache.mxnet.*SymbolBase.*")
      .map(ProblemFilters.exclude[ReversedMissingMethodProblem](_)) ++
      // Other projects compile these classes of the jar.
      Seq("org.apache.mxnet.codegen.*", "org.apache.mxnet.utils.CToScalaUtils*")
        .map(ProblemFilters.exclude[Problem](_)) ++
      // Programs in the package see the scope of a resource as an Option, as in the released package.
      Seq("org.apache.mxnet.*.scope", "org.apache.mxnet.*.scope_=")
        .map(ProblemFilters.exclude[Problem](_))
  },
  writeInterface := {
    PublicInterface.write((Compile / packageBin).value, storedInterface.value, _ => true)
    storedInterface.value
  }
)

lazy val storedInterface = Def.setting(baseDirectory.value / "interface" / "mxnet_2.13-0.1.0.jar")

/** The interface of the classes that only the jar for Scala 3 has. */
lazy val storedScala3Interface = Def.setting(rootFolder.value / "jvm" / "interface" / "mxnet_3-0.1.0.jar")

/** Publishes a version again to local repositories that have it. Maven's repository is `maven.repo.local` if that is set,
  * which sbt does not read.
  */
lazy val overwritePublished = Seq(
  otherResolvers ++= mavenLocal,
  publishM2Configuration := {
    val usual = publishM2Configuration.value.withOverwrite(true)
    mavenLocal.fold(usual)(repository => usual.withResolverName(repository.name))
  }
)

lazy val mavenLocal = sys.props.get("maven.repo.local").map(folder => MavenCache("maven.repo.local", file(folder)))

/** Removes from the pom the projects that are needed only to compile. */
lazy val onlyRuntimeDependencies: scala.xml.Node => scala.xml.Node = {
  import scala.xml.transform.{RewriteRule, RuleTransformer}
  new RuleTransformer(new RewriteRule {
    override def transform(node: scala.xml.Node): Seq[scala.xml.Node] =
      if (node.label == "dependency" && Set("provided", "test").contains((node \ "scope").text)) Nil else node
  })
}

/** The suites also compile the operators of the examples. */
lazy val testing = Seq(
  Test / unmanagedSourceDirectories +=
    (ThisBuild / baseDirectory).value.getParentFile / "examples" / "operators" / "src" / "main" / "scala",
  Test / unmanagedSourceDirectories +=
    (ThisBuild / baseDirectory).value.getParentFile / "examples" / "java" / "src" / "main" / "java",
  Test / fork := true,
  Test / baseDirectory := (ThisBuild / baseDirectory).value.getParentFile,
  Test / javaOptions += s"-Dmxnet.library.path=${nativeLibrary.value}"
)
