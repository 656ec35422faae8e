package org.apache.mxnet.codegen

import java.nio.file.{Files, Path, Paths}

import scala.jdk.CollectionConverters._

/** Test data: the operators of MXNet 1.9.1, and the typesafe functions that its Scala package generated from them. */
object Released {

  /** A parameter as `name: Type` or `name: Type = default`. */
  final case class ReleasedParameter(name: String, scala: String, hasDefault: Boolean)

  val operatorFile: Path = resource("mxnet-1.9.1-ops.jsonl")

  lazy val operators: Seq[Operator] = Metadata.read(operatorFile)

  def operator(name: String): Operator =
    operators.find(_.name == name).getOrElse(throw new NoSuchElementException(name))

  /** The functions of one object, such as `Symbol.api`, by name. */
  def functions(of: String): Map[String, Seq[ReleasedParameter]] =
    Files
      .readAllLines(resource("released-scala-api.tsv"))
      .asScala
      .map(_.split('\t'))
      .collect { case Array(`of`, name, parameters) =>
        name -> parameters.split("; ").toSeq.map { parameter =>
          val (parameterName, rest) = parameter.splitAt(parameter.indexOf(": "))
          ReleasedParameter(parameterName, rest.drop(2).takeWhile(_ != '=').trim, rest.contains('='))
        }
      }
      .toMap

  private def resource(name: String): Path = Paths.get(getClass.getResource("/" + name).toURI)
}
