import java.lang.reflect.Modifier
import java.net.URLClassLoader
import java.nio.charset.StandardCharsets.ISO_8859_1
import java.nio.file.Files

import sbt._
import sjsonnew.support.scalajson.unsafe.Parser

/** Metadata for GraalVM's native-image: the classes and members that the native library looks up, and the library as a
  * resource. Generated from the library and the native methods, so that it is always up to date.
  */
object ReachabilityMetadata {
  private val folder = "META-INF/native-image/io.github.ferromx/mxnet"

  /** Class names in JNI's form, which are constants in the library. */
  private val ClassName = "(?:org/apache/mxnet/(?:[a-z]+/)*|java/lang/)[A-Za-z]+".r

  /** @param library the native library
    * @param classpath the compiled classes and what they need
    * @param target where the files are written
    */
  def mappings(library: File, classpath: Seq[File], target: File): Seq[(File, String)] = {
    val loader = new URLClassLoader(classpath.map(_.toURI.toURL).toArray, ClassLoader.getPlatformClassLoader)
    val config =
      try jniConfig(loader, namedBy(library))
      finally loader.close()
    val resources = """{ "resources": { "includes": [{ "pattern": "native/.*" }] }, "bundles": [] }"""
    Seq("jni-config.json" -> config, "resource-config.json" -> resources, "reflect-config.json" -> userOperators).map {
      case (name, content) =>
        val file = target / name
        Parser.parseUnsafe(content)
        IO.write(file, content + "\n")
        file -> s"$folder/$name"
    }
  }

  /** Programs must register their annotated classes; the annotations are registered here. */
  private val userOperators =
    """[{ "name": "org.apache.mxnet.UserDefinedOp" }, { "name": "org.apache.mxnet.ImportHookRule" }]"""

  private def namedBy(library: File): Set[String] =
    ClassName
      .findAllIn(new String(Files.readAllBytes(library.toPath), ISO_8859_1))
      .map(_.replace('/', '.'))
      .toSet

  /** The classes that the library names, and those in the signatures of native methods, which it calls back.
    */
  private def jniConfig(loader: ClassLoader, named: Set[String]): String = {
    val info = loader.loadClass("org.apache.mxnet.internal.jni.LibInfo")
    val natives = info.getDeclaredMethods.filter(method => Modifier.isNative(method.getModifiers))
    val passed = natives.flatMap(method => method.getReturnType +: method.getParameterTypes).map(elements)
    val known = named.toSeq.flatMap(load(loader, _))
    val classes =
      (known ++ passed.toSeq.filter(_.getName.startsWith("org.apache.mxnet.")) :+ info).distinct.sortBy(_.getName)
    if (!classes.exists(_.getName == "org.apache.mxnet.MXNetError"))
      sys.error(
        "The native library names no class of the package, not even its error: is it stripped of its JNI functions?"
      )
    classes
      .map { cls =>
        s"""  { "name": "${cls.getName}", "allDeclaredConstructors": true, "allDeclaredMethods": true, "allDeclaredFields": true }"""
      }
      .mkString("[\n", ",\n", "\n]")
  }

  /** `None` for a constant that is not a class, such as a part of a longer name. */
  private def load(loader: ClassLoader, name: String): Option[Class[_]] =
    try Some(loader.loadClass(name))
    catch { case _: ClassNotFoundException => None }

  private def elements(cls: Class[_]): Class[_] = if (cls.isArray) elements(cls.getComponentType) else cls
}
