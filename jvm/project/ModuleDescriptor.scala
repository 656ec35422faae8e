import org.objectweb.asm.{ClassWriter, Opcodes}
import sbt._

/** The jar's `module-info.class`. An automatic module does not suffice, because the JVM does not resolve its
  * dependencies.
  */
object ModuleDescriptor {
  val name = "io.github.ferromx.mxnet"

  /** ClassGraph and Scala's library are automatic modules: reading one implies reading all. */
  private val required = Seq("scala.library", "java.desktop", "java.management", "org.slf4j")

  /** Modules in public signatures of the library. */
  private val transitive = Set("scala.library", "java.desktop")

  /** @param classes the paths of the jar's classes, whose packages are exported
    * @param target where the file is written
    */
  def mapping(classes: Seq[String], version: String, target: File): (File, String) = {
    val writer = new ClassWriter(0)
    writer.visit(Opcodes.V11, Opcodes.ACC_MODULE, "module-info", null, null, null)
    val module = writer.visitModule(name, Opcodes.ACC_OPEN, version)
    module.visitRequire("java.base", Opcodes.ACC_MANDATED, null)
    required.foreach(other => module.visitRequire(other, if (transitive(other)) Opcodes.ACC_TRANSITIVE else 0, null))
    val packages = classes.filter(_.endsWith(".class")).map(path => path.take(path.lastIndexOf('/'))).distinct.sorted
    packages.foreach(module.visitExport(_, 0))
    module.visitEnd()
    writer.visitEnd()
    IO.write(target, writer.toByteArray)
    target -> "module-info.class"
  }
}
