package org.apache.mxnet.codegen

import java.nio.charset.StandardCharsets
import java.nio.file.{Files, NoSuchFileException, Path}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

/** One argument, as the native library describes it.
  *
  * @param typeText
  *   the type string, such as `float, optional, default=0.5`
  */
final case class Argument(name: String, typeText: String, description: String)

/** One operator, as the native library describes it.
  *
  * @param aliasOf
  *   the operator that this name is an alias of
  * @param countArgument
  *   the argument with the number of inputs, for an operator that takes any number of them
  */
final case class Operator(
    name: String,
    description: String,
    arguments: Seq[Argument],
    aliasOf: Option[String] = None,
    countArgument: Option[String] = None,
    returnType: String = ""
)

/** Reads the operator metadata that `dump_ops` writes: one JSON object per line. */
object Metadata {

  /** All operators of a metadata file, in its order.
    *
    * @throws java.lang.IllegalArgumentException
    *   if the file is missing or a line of it is not an operator
    */
  def read(file: Path): Seq[Operator] = {
    val lines =
      try Files.readAllLines(file, StandardCharsets.UTF_8).asScala.toSeq
      catch {
        case _: NoSuchFileException =>
          throw new IllegalArgumentException(
            s"No operator metadata at $file. scripts/metadata writes it from the native library."
          )
      }
    val operators = for ((line, index) <- lines.zipWithIndex if line.trim.nonEmpty) yield {
      try parse(line)
      catch {
        case NonFatal(e) =>
          throw new IllegalArgumentException(s"$file, line ${index + 1} is not an operator: ${e.getMessage}", e)
      }
    }
    val repeated = operators.groupBy(_.name).collect { case (name, several) if several.size > 1 => name }
    require(repeated.isEmpty, s"$file lists operators more than once: ${repeated.toSeq.sorted.mkString(", ")}")
    operators
  }

  /** One line of the file. */
  def parse(line: String): Operator = {
    val fields = ujson.read(line).obj
    def text(key: String): Option[String] = fields.get(key).map(_.str).filter(_.nonEmpty)
    Operator(
      name = fields("name").str,
      description = text("desc").getOrElse(""),
      arguments = fields("args").arr.toSeq.map { entry =>
        val parts = entry.arr
        Argument(parts(0).str, parts(1).str, parts.lift(2).fold("")(_.str))
      },
      aliasOf = text("alias_of"),
      countArgument = text("key_var_num_args"),
      returnType = text("return_type").getOrElse("")
    )
  }
}
