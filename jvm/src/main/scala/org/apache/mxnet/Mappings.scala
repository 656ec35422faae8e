package org.apache.mxnet

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path}

import org.apache.mxnet.Base._LIB

/** A mapping process: an operator form of a framework and the equivalent form of MXNet operators.
  *
  * @param name its label, or the framework's operator
  * @param operator the framework's operator; of a sequence of operators, the last one
  * @param domain the domain of the operator; empty for the framework's own
  * @param since the first operator set version that it applies to
  * @param until the last version; `None` if it applies to all later ones
  * @param isImport whether imports use it
  * @param isExport whether exports use it
  * @param isAdded whether it was added to the built-in ones
  * @param file the file, or the name that was given to the text
  * @param line the line where it begins, from 1
  * @param text the source text
  */
final case class MappingProcess(
    name: String,
    operator: String,
    domain: String,
    since: Int,
    until: Option[Int],
    isImport: Boolean,
    isExport: Boolean,
    isAdded: Boolean,
    file: String,
    line: Int,
    text: String
)

/** A mapping rule: a named function on values that processes use.
  *
  * @param name its name
  * @param inputs its arguments; a `?` marks optional ones
  * @param output its result
  * @param description its description, or the definition of an added rule
  * @param isReversible whether exports can invert it
  * @param isAdded whether it was added to the built-in ones
  */
final case class MappingRule(
    name: String,
    inputs: IndexedSeq[String],
    output: String,
    description: String,
    isReversible: Boolean,
    isAdded: Boolean
)

/** The mapping rules and processes of a framework: the built-in ones, and those that a program adds in the language of
  * `docs/onnx-mappings.md`. Added ones are tried first, in the order of the texts.
  *
  * {{{
  * val mappings = Onnx.mappings.withText("""
  *   domain "org.example"
  *   operator Squash(X) -> (Y) gain: float = 1.0
  *   rule half(x: number) -> number = x / 2
  *   Squash(X) -> tanh(_npi_multiply(X, half(gain)))
  * """)
  * val model = Onnx.importModel("model.onnx", ImportOptions().withMappings(mappings))
  * }}}
  */
final class Mappings private[mxnet] (
    private[mxnet] val framework: String,
    private[mxnet] val sources: IndexedSeq[(String, String)]
) {

  /** These mappings with those of a text.
    *
    * @param text operators, rules and processes
    * @param name name of the text in messages
    * @throws MXNetError if the text has an error; the message has line and column
    */
  def withText(text: String, name: String = "mappings"): Mappings = {
    val extended = new Mappings(framework, sources :+ (name -> text))
    extended.rules
    extended
  }

  /** These mappings with those of a text, which messages call `mappings`. */
  def withText(text: String): Mappings = withText(text, "mappings")

  /** These mappings with those of a file.
    *
    * @throws MXNetError if the file cannot be read or has an error; the message has line and column
    */
  def withFile(path: String): Mappings = {
    val text =
      try new String(Files.readAllBytes(Path.of(path)), UTF_8)
      catch {
        case error: java.io.IOException => throw new MXNetError(s"the mappings $path cannot be read: $error")
      }
    withText(text, path)
  }

  /** All processes, in the order in which they are tried. */
  def processes: IndexedSeq[MappingProcess] = {
    val (names, texts) = sources.toArray.unzip
    _LIB
      .mappingProcesses(framework, names, texts)
      .grouped(10)
      .map { fields =>
        MappingProcess(
          name = fields(0),
          domain = fields(1),
          operator = fields(2),
          since = fields(3).toInt,
          until = fields(4).toIntOption,
          isImport = fields(5) != "<-",
          isExport = fields(5) != "->",
          isAdded = fields(6) == "1",
          file = fields(7),
          line = fields(8).toInt,
          text = fields(9)
        )
      }
      .toIndexedSeq
  }

  /** All rules, the built-in ones first. */
  def rules: IndexedSeq[MappingRule] = {
    val (names, texts) = sources.toArray.unzip
    _LIB
      .mappingRules(framework, names, texts)
      .grouped(5)
      .map { fields =>
        val signature = fields(1)
        val end = signature.indexOf(") -> ")
        MappingRule(
          name = fields(0),
          inputs = signature.substring(1, end).split(',').map(_.trim).filter(_.nonEmpty).toIndexedSeq,
          output = signature.substring(end + 5),
          description = fields(2),
          isReversible = fields(3) == "1",
          isAdded = fields(4) == "1"
        )
      }
      .toIndexedSeq
  }
}
