package org.apache.mxnet
package internal.jni

import java.io.{IOException, InputStream}
import java.nio.charset.StandardCharsets
import java.nio.file.attribute.PosixFilePermissions
import java.nio.file.{AtomicMoveNotSupportedException, Files, LinkOption, Path, Paths, StandardCopyOption}
import java.security.{DigestInputStream, MessageDigest}
import java.util.{ArrayList, Locale}

import scala.jdk.CollectionConverters._
import scala.util.Using

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
    val file = locate(SystemProperty, OwnResource)
    if (isUnchanged(file) && isLoaded(file)) rememberVersion(file) else loadCopy(file)
    val lib = new LibInfo
    checkAbi(file, lib)
    lib.userOpInstall(bridge)
    lib
  }

  private object SystemProperty extends (String => Option[String]) {
    override def apply(name: String): Option[String] = Option(System.getProperty(name))
  }

  private object OwnResource extends (String => Option[InputStream]) {
    override def apply(name: String): Option[InputStream] = Option(NativeLibrary.getClass.getResourceAsStream(name))
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
    if (found != LibInfo.AbiVersion)
      throw error(
        s"$file implements version $found of the native interface, but this jar needs version ${LibInfo.AbiVersion}",
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
    if (!Files.isRegularFile(file)) throw notFound(Seq(s"$file (from -D$PathProperty=$location): no such file"))
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
    if (bundled.isEmpty) throw notFound(Seq(notSet, s"resource $resourceName: not found on the class path"))
    bundled.get.close()
    val tried = new ArrayList[String]
    tried.add(notSet)
    val directories = cacheDirectories(property)
    var found: Path = null
    var i = 0
    while (found == null && i < directories.size) {
      val directory = directories.get(i)
      try found = extract(new Opening(resource, resourceName), storedDigest(resource, resourceName), directory, name)
      catch {
        case e: IOException => tried.add(s"resource $resourceName, extracted to $directory: ${describe(e)}")
      }
      i += 1
    }
    if (found == null) throw notFound(tried.asScala.toSeq)
    found
  }

  /** Opens a resource that exists. */
  private final class Opening(resource: String => Option[InputStream], name: String) extends (() => InputStream) {
    override def apply(): InputStream = resource(name).get
  }

  private def cacheDirectories(property: String => Option[String]): ArrayList[Path] = {
    val directories = new ArrayList[Path]
    val chosen = property(CacheProperty)
    if (chosen.isDefined) directories.add(Paths.get(chosen.get).toAbsolutePath)
    else {
      val home = property("user.home")
      if (home.isDefined) directories.add(Paths.get(home.get, ".cache", "mxnet", "native").toAbsolutePath)
      val temporary = property("java.io.tmpdir")
      if (temporary.isDefined)
        directories.add(Paths.get(temporary.get, "mxnet-".concat(userName(property))).toAbsolutePath)
    }
    directories
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

  /** Extracts a library to `directory` under a name with its checksum, unless that file exists with the expected size
    * or, if the jar has no size, the expected content. Replaces the file atomically, because other processes may
    * extract it at the same time.
    */
  def extract(open: () => InputStream, stored: Option[StoredDigest], directory: Path, name: String): Path = {
    createPrivateDirectory(directory)
    val digest = if (stored.isDefined) stored.get.digest else Using.resource(open())(sha256)
    val dot = name.lastIndexOf('.')
    val file = directory.resolve(String.join("", name.substring(0, dot), "-", digest, name.substring(dot)))
    val isExtracted = if (stored.isDefined) hasSize(file, stored.get.size) else isIntact(file, digest)
    if (!isExtracted) {
      val partial = Files.createTempFile(directory, "extract-", ".tmp")
      try {
        Using.resource(open())(Files.copy(_, partial, StandardCopyOption.REPLACE_EXISTING))
        if (!isIntact(partial, digest))
          throw new IOException(s"the copy of $name does not have the checksum $digest of the jar")
        if (isPosix(directory)) Files.setPosixFilePermissions(partial, PosixFilePermissions.fromString("rwx------"))
        try Files.move(partial, file, StandardCopyOption.ATOMIC_MOVE)
        catch {
          case _: AtomicMoveNotSupportedException => Files.move(partial, file, StandardCopyOption.REPLACE_EXISTING)
        }
      } finally Files.deleteIfExists(partial)
    }
    file
  }

  private def createPrivateDirectory(directory: Path): Unit = {
    if (isPosix(directory))
      Files.createDirectories(
        directory,
        PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------"))
      )
    else Files.createDirectories(directory)
    if (isPosix(directory)) {
      val owner = Files.getOwner(directory, LinkOption.NOFOLLOW_LINKS).getName
      val permissions = PosixFilePermissions.toString(Files.getPosixFilePermissions(directory))
      val user = System.getProperty("user.name")
      if (owner != user && owner != "root")
        throw new IOException(s"$directory belongs to '$owner', not to '$user'")
      if (permissions.charAt(4) == 'w' || permissions.charAt(7) == 'w')
        throw new IOException(s"$directory can be written by other users ($permissions)")
    }
  }

  private def isPosix(path: Path): Boolean = path.getFileSystem.supportedFileAttributeViews.contains("posix")

  private def isIntact(file: Path, digest: String): Boolean =
    Files.isRegularFile(file, LinkOption.NOFOLLOW_LINKS) && Using.resource(Files.newInputStream(file))(sha256) == digest

  private def hasSize(path: Path, size: Long): Boolean =
    Files.isRegularFile(path, LinkOption.NOFOLLOW_LINKS) && Files.size(path) == size

  private def sha256(in: InputStream): String = {
    val digest = MessageDigest.getInstance("SHA-256")
    val stream = new DigestInputStream(in, digest)
    val buffer = new Array[Byte](1 << 16)
    while (stream.read(buffer) >= 0) {}
    digest.digest().map(b => f"${b & 0xff}%02x").mkString
  }

  private def describe(e: IOException): String =
    s"${e.getClass.getSimpleName.stripSuffix("Exception")}: ${e.getMessage}"

  private def notFound(tried: Seq[String]): MXNetError =
    new MXNetError(
      "NativeLibrary: no libmxnet was found; tried" + tried.map("\n  - " + _).mkString +
        s"\nadd the jar for this platform to the class path, or set -D$PathProperty to the library file or its directory"
    )

  private def error(what: String, remedy: String): MXNetError = new MXNetError(s"NativeLibrary: $what; $remedy")
}

/** The SHA-256 of a library in hexadecimal digits, and its size in bytes. */
private[mxnet] final case class StoredDigest(digest: String, size: Long)

private[mxnet] object StoredDigest {

  /** Reads `<digest> <size>`. */
  def parse(text: String): Option[StoredDigest] =
    if (text.indexOf(' ') != 64) None
    else
      try Some(StoredDigest(text.substring(0, 64), java.lang.Long.parseLong(text.substring(65))))
      catch { case _: NumberFormatException => None }
}
