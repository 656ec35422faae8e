import java.security.MessageDigest
import java.util.Locale

import sbt._

/** The native library as a resource of the jar: `native/<os>-<arch>/<library>`. */
object NativeLibraryResource {
  private val os = sys.props("os.name").toLowerCase(Locale.ROOT) match {
    case name if name.startsWith("linux")   => "linux"
    case name if name.startsWith("mac")     => "macos"
    case name if name.startsWith("windows") => "windows"
    case name                               => name.replaceAll("\\s+", "")
  }

  private val arch = sys.props("os.arch").toLowerCase(Locale.ROOT) match {
    case "amd64" | "x86_64" | "x86-64" => "x86_64"
    case "aarch64" | "arm64"           => "aarch64"
    case other                         => other
  }

  /** The file name of the library on this platform. */
  val fileName: String = os match {
    case "macos"   => "libmxnet.dylib"
    case "windows" => "mxnet.dll"
    case _         => "libmxnet.so"
  }

  /** Copies `library` to its path below the resource folder, and writes its SHA-256 and size beside it. */
  def copy(library: File, folder: File): Seq[File] = {
    val target = folder / "native" / s"$os-$arch" / fileName
    IO.copyFile(library, target, CopyOptions(overwrite = true, preserveLastModified = true, preserveExecutable = true))
    val digest = MessageDigest.getInstance("SHA-256").digest(IO.readBytes(target))
    val checksum = target.getParentFile / s"$fileName.sha256"
    IO.write(checksum, s"${digest.map(byte => f"${byte & 0xff}%02x").mkString} ${target.length}")
    Seq(target, checksum)
  }
}
