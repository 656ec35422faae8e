package org.apache.mxnet
package internal.jni

import java.io.{IOException, InputStream}
import java.nio.charset.StandardCharsets
import java.nio.file.{Files, Path, Paths, StandardCopyOption}
import java.util.zip.ZipFile
import java.util.{ArrayList, Locale}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.mxnet.internal.userop.OperatorBridge

/** Finds `libmxnet` and loads it into the process.
  *
  * If the system property `mxnet.library.path` is set, the library is that file, or in that directory. Otherwise it is
  * the resource `/native/<os>-<arch>/<library>` of the jar, extracted once to a file in the user's cache that is named
  * by its SHA-256.
  *
  * This code runs at the start of every program. On the usual path it uses `String.join`, classes and Java's lists
  * instead of string interpolation, function values and Scala's collections, because the JVM needs longer to link the
  * first of them than for the rest of a method.
  */
private[mxnet] object NativeLibrary {

  /** The system property with the path of the library file or its directory. */
  val PathProperty: String = "mxnet.library.path"

  /** The system property with the directory for extracted libraries. */
  val CacheProperty: String = "mxnet.library.cache"

  /** Loads the library and checks its version of the native interface. */
  def load(): LibInfo = {
    val resources = new OwnResources
    val file =
      try locate(SystemProperty, resources)
      finally resources.close()
    if (isUnchanged(file) && isLoaded(file)) rememberVersion(file) else loadCopy(file)
    val lib = new LibInfo
    checkAbi(file, lib)
    lib.userOpInstall(bridge)
    lib
  }

  private object SystemProperty extends (String => Option[String]) {
    override def apply(name: String): Option[String] = Option(System.getProperty(name))
  }

  /** The resources of this class's jar. A class loader would search the JDK's modules first, which takes longer than
    * loading the library; it finds the resources that the jar does not have.
    */
  private final class OwnResources extends (String => Option[InputStream]) with AutoCloseable {
    private val jar: ZipFile =
      try {
        val source = NativeLibrary.getClass.getProtectionDomain.getCodeSource
        val location = if (source == null) null else source.getLocation
        val isJar = location != null && location.getProtocol.equals("file") && location.getPath.endsWith(".jar")
        if (isJar) new ZipFile(Paths.get(location.toURI).toFile) else null
      } catch { case NonFatal(_) => null }

    override def apply(name: String): Option[InputStream] = {
      val entry = if (jar == null) null else jar.getEntry(name.substring(1))
      if (entry != null) Some(jar.getInputStream(entry)) else Option(NativeLibrary.getClass.getResourceAsStream(name))
    }

    override def close(): Unit = if (jar != null) jar.close()
  }

  /** The engine refers to it weakly, so that this class and its loader can be collected. */
  private val bridge = new OperatorBridge

  /** Loads a file; false if it is loaded for another class loader. */
  private def isLoaded(file: Path): Boolean =
    try {
      System.load(file.toString)
      true
    } catch {
      case e: UnsatisfiedLinkError if String.valueOf(e.getMessage).contains("already loaded") => false
      case e: UnsatisfiedLinkError => throw notLoadable(file, e)
    }

  /** Size and modification time, which change with the content of a file. */
  private def version(file: Path): String =
    String.join(" ", Files.size(file).toString, Files.getLastModifiedTime(file).toMillis.toString)

  /** Whether a file has the content with which it was loaded. A library stays in the process after its class loader is
    * collected, so loading the same path again returns the old content.
    */
  private def isUnchanged(file: Path): Boolean = {
    val loaded = System.getProperty(versionKey(file))
    loaded == null || loaded == version(file)
  }

  /** System properties are shared by all class loaders. */
  private def rememberVersion(file: Path): Unit = System.setProperty(versionKey(file), version(file))

  private def versionKey(file: Path): String = "mxnet.library.loaded.".concat(file.toString)

  private def notLoadable(file: Path, e: UnsatisfiedLinkError): MXNetError =
    error(s"the system cannot load $file: ${e.getMessage}", "use a library that was built for this platform")

  /** The JVM loads a file for one class loader only. Others (a second `sbt run`, a redeployed application, a restarted
    * notebook) load a copy, with a separate engine. Copies of collected class loaders are used again.
    */
  private def loadCopy(file: Path): Unit = {
    val key = s"mxnet.library.copies.$file ${version(file)}"
    val copies = Option(System.getProperty(key)).fold(Array.empty[String])(_.split('\n'))
    if (!copies.exists(copy => Files.exists(Paths.get(copy)) && isLoaded(Paths.get(copy)))) {
      val copy = Files.createTempFile("mxnet-", "-" + file.getFileName)
      copy.toFile.deleteOnExit()
      Files.copy(file, copy, StandardCopyOption.REPLACE_EXISTING)
      if (!isLoaded(copy)) throw error(s"the copy $copy of $file is in use already", "restart the application")
      System.setProperty(key, (copies :+ copy.toString).mkString("\n"))
    }
  }

  private def checkAbi(file: Path, lib: LibInfo): Unit = {
    val found =
      try lib.abiVersion()
      catch {
        case _: UnsatisfiedLinkError =>
          throw error(s"$file is not a libmxnet of this project (it has no JNI interface)", useMatching)
      }
    if (found != NativeInterface.Version)
      throw error(
        s"$file implements version $found of the native interface, but this jar needs version ${NativeInterface.Version}",
        useMatching
      )
  }

  private def useMatching = s"use the library of the jar (unset $PathProperty) or build both from the same source"

  /** `<os>-<arch>` in the names of resources, such as `linux-x86_64`. */
  def platform(osName: String, osArch: String): String = {
    val os = osName.toLowerCase(Locale.ROOT) match {
      case name if name.startsWith("linux")   => "linux"
      case name if name.startsWith("mac")     => "macos"
      case name if name.startsWith("windows") => "windows"
      case name                               => name.replaceAll("\\s+", "")
    }
    val arch = osArch.toLowerCase(Locale.ROOT) match {
      case "amd64" | "x86_64" | "x86-64" => "x86_64"
      case "aarch64" | "arm64"           => "aarch64"
      case other                         => other
    }
    String.join("-", os, arch)
  }

  /** The file name of the library on an operating system of [[platform]]. */
  def fileName(platform: String): String =
    if (platform.startsWith("macos-")) "libmxnet.dylib"
    else if (platform.startsWith("windows-")) "mxnet.dll"
    else "libmxnet.so"

  /** The absolute path of the library to load.
    *
    * @param property returns the value of a system property
    * @param resource opens a resource of the class path
    */
  def locate(property: String => Option[String], resource: String => Option[InputStream]): Path = {
    val target = platform(orUnknown(property("os.name")), orUnknown(property("os.arch")))
    property(PathProperty) match {
      case Some(location) => explicitFile(location, fileName(target))
      case None           => bundledFile(target, property, resource)
    }
  }

  private def orUnknown(value: Option[String]): String = if (value.isEmpty) "unknown" else value.get

  private def explicitFile(location: String, name: String): Path = {
    val path = Paths.get(location).toAbsolutePath
    val file = if (Files.isDirectory(path)) path.resolve(name) else path
    if (!Files.isRegularFile(file)) {
      val tried = new ArrayList[String]
      tried.add(s"$file (from -D$PathProperty=$location): no such file")
      throw notFound(tried)
    }
    file
  }

  private def bundledFile(
      target: String,
      property: String => Option[String],
      resource: String => Option[InputStream]
  ): Path = {
    val name = fileName(target)
    val resourceName = String.join("/", "", "native", target, name)
    val notSet = "-D".concat(PathProperty).concat(": not set")
    val bundled = resource(resourceName)
    val tried = new ArrayList[String]
    tried.add(notSet)
    if (bundled.isEmpty) {
      tried.add(s"resource $resourceName: not found on the class path")
      throw notFound(tried)
    }
    bundled.get.close()
    val stored = storedDigest(resource, resourceName)
    var found: Path = null
    var i = 0
    while (found == null && i < 2) {
      val directory = cacheDirectory(i, property)
      if (directory != null)
        try found = LibraryCache.file(new Opening(resource, resourceName), stored, directory, name)
        catch {
          case e: IOException => tried.add(s"resource $resourceName, extracted to $directory: ${describe(e)}")
        }
      i += 1
    }
    if (found == null) throw notFound(tried)
    found
  }

  /** Opens a resource that exists. */
  private final class Opening(resource: String => Option[InputStream], name: String) extends (() => InputStream) {
    override def apply(): InputStream = resource(name).get
  }

  /** The chosen directory, or the first or the second one that is usual; null if there is none. */
  private def cacheDirectory(index: Int, property: String => Option[String]): Path = {
    val chosen = property(CacheProperty)
    if (chosen.isDefined) if (index == 0) Paths.get(chosen.get).toAbsolutePath else null
    else if (index == 0) {
      val home = property("user.home")
      if (home.isDefined) Paths.get(home.get, ".cache", "mxnet", "native").toAbsolutePath else null
    } else {
      val temporary = property("java.io.tmpdir")
      if (temporary.isDefined) Paths.get(temporary.get, "mxnet-".concat(userName(property))).toAbsolutePath else null
    }
  }

  private def userName(property: String => Option[String]): String = {
    val name = property("user.name")
    if (name.isEmpty) "user" else name.get.replaceAll("[^A-Za-z0-9_.-]", "_")
  }

  /** The checksum and size of the library, a resource of the jar, so that an extracted library is found without
    * unpacking it again.
    */
  private def storedDigest(resource: String => Option[InputStream], name: String): Option[StoredDigest] = {
    val stored = resource(name.concat(".sha256"))
    if (stored.isEmpty) None
    else {
      val in = stored.get
      try StoredDigest.parse(new String(in.readAllBytes(), StandardCharsets.US_ASCII).trim)
      finally in.close()
    }
  }

  private def describe(e: IOException): String =
    s"${e.getClass.getSimpleName.stripSuffix("Exception")}: ${e.getMessage}"

  private def notFound(tried: ArrayList[String]): MXNetError =
    new MXNetError(
      "NativeLibrary: no libmxnet was found; tried" + tried.asScala.map("\n  - " + _).mkString +
        s"\nadd the jar for this platform to the class path, or set -D$PathProperty to the library file or its directory"
    )

  private def error(what: String, remedy: String): MXNetError = new MXNetError(s"NativeLibrary: $what; $remedy")
}
