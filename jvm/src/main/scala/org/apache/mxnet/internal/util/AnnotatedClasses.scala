package org.apache.mxnet
package internal.util

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import _root_.io.github.classgraph.ClassGraph

/** The annotated classes on the class path, found by one scan. */
private[mxnet] object AnnotatedClasses {
  private val log = Logging.of("org.apache.mxnet.AnnotatedClasses")
  private val annotations = Seq(classOf[UserDefinedOp], classOf[ImportHookRule])

  /** Packages of large libraries, which the scan skips: scanning Spark's class path takes half a minute and much
    * memory.
    */
  private val libraries = Seq(
    "breeze",
    "com.fasterxml",
    "com.google",
    "io.netty",
    "org.apache.commons",
    "org.apache.hadoop",
    "org.apache.hive",
    "org.apache.logging",
    "org.apache.parquet",
    "org.apache.spark",
    "org.bouncycastle",
    "scala",
    "spire"
  )

  private lazy val found: Map[String, Seq[Class[_]]] = {
    val scan = new ClassGraph().enableAnnotationInfo().ignoreClassVisibility().rejectPackages(libraries: _*).scan()
    try
      annotations.map { annotation =>
        val classes = scan.getClassesWithAnnotation(annotation.getName).asScala.toSeq
        annotation.getName -> classes.flatMap(info => usable(info.getName)(info.loadClass(): Class[_]))
      }.toMap
    finally scan.close()
  }

  /** The classes with an annotation, sorted by name. */
  def of(annotation: Class[_]): Seq[Class[_]] = found.getOrElse(annotation.getName, Nil).sortBy(_.getName)

  /** Evaluates `make` for a class. If that fails, logs a warning and returns `None`, so that other classes are found. */
  def usable[T](cls: Class[_])(make: => T): Option[T] = usable(cls.getName)(make)

  private def usable[T](name: String)(make: => T): Option[T] =
    try Some(make)
    catch {
      case error @ (NonFatal(_) | _: LinkageError) =>
        log.warn(s"the annotated class $name is not available: ${error.getMessage}")
        None
    }
}
