package org.apache.mxnet
package internal.jni

import java.io.{IOException, InputStream}
import java.nio.file.attribute.{PosixFileAttributes, PosixFilePermission, PosixFilePermissions}
import java.nio.file.{AtomicMoveNotSupportedException, Files, LinkOption, Path, StandardCopyOption}
import java.security.{DigestInputStream, MessageDigest}

import scala.util.Using

/** A cache of extracted libraries, in directories to which only the user can write. Code that runs at every start loads
  * few classes, as in [[NativeLibrary]]; [[Extraction]] runs once per library.
  */
private[jni] object LibraryCache {

  /** The file in `directory` with a library, named by its checksum. Extracts the library, unless that file exists with
    * the expected size or, if the jar has no size, the expected content.
    *
    * @param open opens the library
    * @param stored the library's checksum and size, if they are known
    * @param name the library's file name
    */
  def file(open: () => InputStream, stored: Option[StoredDigest], directory: Path, name: String): Path = {
    val hasPermissions = directory.getFileSystem.supportedFileAttributeViews.contains("posix")
    if (!Files.isDirectory(directory)) Extraction.createDirectories(directory, hasPermissions)
    if (hasPermissions) requirePrivate(directory)
    val digest = if (stored.isDefined) stored.get.digest else Extraction.digestOf(open)
    val dot = name.lastIndexOf('.')
    val file = directory.resolve(String.join("", name.substring(0, dot), "-", digest, name.substring(dot)))
    val isExtracted = if (stored.isDefined) hasSize(file, stored.get.size) else Extraction.isIntact(file, digest)
    if (!isExtracted) Extraction.extract(open, digest, file, hasPermissions)
    file
  }

  /** Others could replace a library in a directory that they own or can write to. */
  private def requirePrivate(directory: Path): Unit = {
    val own = Files.readAttributes(directory, classOf[PosixFileAttributes], LinkOption.NOFOLLOW_LINKS)
    val target = if (own.isSymbolicLink) Files.readAttributes(directory, classOf[PosixFileAttributes]) else own
    val owner = own.owner.getName
    val user = System.getProperty("user.name")
    if (owner != user && owner != "root") throw new IOException(s"$directory belongs to '$owner', not to '$user'")
    val permissions = target.permissions
    if (permissions.contains(PosixFilePermission.GROUP_WRITE) || permissions.contains(PosixFilePermission.OTHERS_WRITE))
      throw new IOException(s"$directory can be written by other users (${PosixFilePermissions.toString(permissions)})")
  }

  private def hasSize(path: Path, size: Long): Boolean =
    Files.isRegularFile(path, LinkOption.NOFOLLOW_LINKS) && Files.size(path) == size

  private object Extraction {
    private def onlyForUser = PosixFilePermissions.fromString("rwx------")

    def createDirectories(directory: Path, hasPermissions: Boolean): Unit =
      if (hasPermissions) Files.createDirectories(directory, PosixFilePermissions.asFileAttribute(onlyForUser))
      else Files.createDirectories(directory)

    /** Replaces the file atomically, because other processes may extract it at the same time. */
    def extract(open: () => InputStream, digest: String, file: Path, hasPermissions: Boolean): Unit = {
      val partial = Files.createTempFile(file.getParent, "extract-", ".tmp")
      try {
        Using.resource(open())(Files.copy(_, partial, StandardCopyOption.REPLACE_EXISTING))
        if (!isIntact(partial, digest)) {
          val name = file.getFileName.toString.replace(s"-$digest", "")
          throw new IOException(s"the copy of $name does not have the checksum $digest of the jar")
        }
        if (hasPermissions) Files.setPosixFilePermissions(partial, onlyForUser)
        try Files.move(partial, file, StandardCopyOption.ATOMIC_MOVE)
        catch {
          case _: AtomicMoveNotSupportedException => Files.move(partial, file, StandardCopyOption.REPLACE_EXISTING)
        }
      } finally Files.deleteIfExists(partial)
    }

    def digestOf(open: () => InputStream): String = Using.resource(open())(sha256)

    def isIntact(file: Path, digest: String): Boolean =
      Files.isRegularFile(file, LinkOption.NOFOLLOW_LINKS) && digestOf(() => Files.newInputStream(file)) == digest

    private def sha256(in: InputStream): String = {
      val digest = MessageDigest.getInstance("SHA-256")
      val stream = new DigestInputStream(in, digest)
      val buffer = new Array[Byte](1 << 16)
      while (stream.read(buffer) >= 0) {}
      digest.digest().map(b => f"${b & 0xff}%02x").mkString
    }
  }
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
