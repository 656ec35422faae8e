import java.util.jar.{JarEntry, JarOutputStream}
import java.util.zip.ZipFile

import scala.collection.JavaConverters._

import org.objectweb.asm.{
  AnnotationVisitor,
  ClassReader,
  ClassVisitor,
  ClassWriter,
  FieldVisitor,
  MethodVisitor,
  Opcodes
}
import sbt._

/** The public classes of a jar without code. MiMa compares later versions with them as long as no release is in a
  * repository.
  */
object PublicInterface {
  private val Version = Opcodes.ASM9

  /** Writes the public declarations of those classes of `jar` whose paths satisfy `includes`, reproducibly. */
  def write(jar: File, target: File, includes: String => Boolean): Unit = {
    IO.createDirectory(target.getParentFile)
    val zip = new ZipFile(jar)
    val out = new JarOutputStream(new java.io.FileOutputStream(target))
    out.setLevel(9)
    try
      zip.entries.asScala.toSeq.map(_.getName).filter(name => isPublic(name) && includes(name)).sorted.foreach { name =>
        val entry = new JarEntry(name)
        entry.setTime(0)
        out.putNextEntry(entry)
        val bytes = IO.readBytes(zip.getInputStream(zip.getEntry(name)))
        out.write(if (name.endsWith(".class")) withoutCode(bytes) else bytes)
      }
    finally {
      out.close()
      zip.close()
    }
  }

  /** Classes, and for Scala 3 the descriptions that say which of their members are private to a package. */
  private def isPublic(name: String): Boolean =
    name.startsWith("org/") && (name.endsWith(".class") || name.endsWith(".tasty")) &&
      !name.contains("$anon") && !name.contains("/internal/")

  private def withoutCode(bytes: Array[Byte]): Array[Byte] = {
    val writer = new ClassWriter(0)
    new ClassReader(bytes)
      .accept(new Declarations(writer), ClassReader.SKIP_CODE | ClassReader.SKIP_DEBUG | ClassReader.SKIP_FRAMES)
    writer.toByteArray
  }

  /** Removes private and synthetic members. Keeps Scala's signature, which records package-private members. */
  private final class Declarations(next: ClassVisitor) extends ClassVisitor(Version, next) {
    private def isHidden(access: Int): Boolean =
      (access & Opcodes.ACC_PRIVATE) != 0 || (access & Opcodes.ACC_SYNTHETIC) != 0 && (access & Opcodes.ACC_BRIDGE) == 0

    override def visitMethod(
        access: Int,
        name: String,
        kind: String,
        signature: String,
        thrown: Array[String]
    ): MethodVisitor =
      if (isHidden(access)) null else super.visitMethod(access, name, kind, signature, thrown)

    override def visitField(access: Int, name: String, kind: String, signature: String, value: AnyRef): FieldVisitor =
      if (isHidden(access)) null else super.visitField(access, name, kind, signature, value)

    override def visitAnnotation(kind: String, isVisible: Boolean): AnnotationVisitor =
      if (kind.startsWith("Lscala/reflect/Scala")) super.visitAnnotation(kind, isVisible) else null
  }
}
