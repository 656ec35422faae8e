package org.apache.mxnet.codegen

import java.nio.charset.StandardCharsets
import java.nio.file.{Files, Path, Paths}

/** Writes the abstract classes that document the generated functions. The macros implement exactly these functions, so
  * documentation that does not match the code does not compile.
  */
object BaseClasses {

  /** `BaseClasses METADATA FOLDER` writes all sources below the folder and prints their paths. */
  def main(arguments: Array[String]): Unit = arguments match {
    case Array(metadata, folder) => write(Metadata.read(Paths.get(metadata)), Paths.get(folder)).foreach(println)
    case _                       => throw new IllegalArgumentException("Usage: BaseClasses METADATA FOLDER")
  }

  /** Writes every base class below `folder`; a file with unchanged text keeps its time stamp. */
  def write(operators: Seq[Operator], folder: Path): Seq[Path] =
    sources(operators).map { case (api, text) =>
      val file = folder.resolve(api.packageName.replace('.', '/')).resolve(api.className + ".scala")
      val bytes = text.getBytes(StandardCharsets.UTF_8)
      if (!Files.exists(file) || !java.util.Arrays.equals(Files.readAllBytes(file), bytes)) {
        Files.createDirectories(file.getParent)
        Files.write(file, bytes)
      }
      file
    }

  /** The text of every base class. */
  def sources(operators: Seq[Operator]): Seq[(Api, String)] = {
    def untyped(isContrib: Boolean, render: (String, Operator) => String) =
      Api.functions(operators, isContrib).map(render.tupled)
    Seq(
      Api.SymbolFunctions -> untyped(isContrib = false, symbolFunction),
      Api.NDArrayFunctions -> untyped(isContrib = false, ndarrayFunction),
      Api.ContribSymbolFunctions -> untyped(isContrib = true, symbolFunction),
      Api.ContribNDArrayFunctions -> untyped(isContrib = true, ndarrayFunction),
      Api.JavaNDArrayFunctions -> Api.javas(operators).map(javaFunction)
    ).map { case (api, functions) => api -> classText(api, functions) } ++ Seq(
      Api.SymbolApi -> Api.symbols(operators, isContrib = false),
      Api.NDArrayApi -> Api.ndarrays(operators, isContrib = false),
      Api.ContribSymbolApi -> Api.symbols(operators, isContrib = true),
      Api.ContribNDArrayApi -> Api.ndarrays(operators, isContrib = true),
      Api.SymbolRandom -> RandomSignature.symbols(operators),
      Api.NDArrayRandom -> RandomSignature.ndarrays(operators)
    ).map { case (api, signatures) => api -> typedText(api, signatures) } :+
      (Api.JavaParams -> paramsText(Api.javas(operators).filter(_.hasParamObject)))
  }

  private def typedText(api: Api, signatures: Seq[Signature]): String = {
    val hasDefaults = signatures.exists(_.parameters.exists(_.default.isDefined))
    classText(api, signatures.map(typed), if (hasDefaults) "\nimport org.apache.mxnet.EngineDefault._\n" else "")
  }

  private def classText(api: Api, functions: Seq[String], imports: String = ""): String =
    s"""package ${api.packageName.replace("mxnet.", "mxnet\npackage ")}
       |$imports
       |/** ${api.summary} */
       |abstract class ${api.className} private[mxnet] {
       |${functions.mkString("\n")}}
       |""".stripMargin

  private def paramsText(signatures: Seq[JavaSignature]): String =
    s"package ${Api.JavaParams.packageName}\n${signatures.map(paramClass).mkString}"

  /** The declaration of a function of the Java API. */
  private def javaFunction(signature: JavaSignature): String = {
    val notes = if (signature.hasParamObject) Nil else signature.parameters.map(note) :+ s"@param out ${javaOut}"
    val parameters = signature.declared.map { case (name, scala) => s"$name: ${scala.text}" }
    doc(summary(signature.operator) +: notes) +
      s"  def ${signature.name}(${parameters.mkString(", ")}): ${JavaSignature.result.text}\n"
  }

  private val javaOut = "array that receives the result; null for a new one"

  private def note(parameter: Parameter): String = s"@param ${parameter.name} ${parameter.description}".trim

  /** The class with the arguments of a function: required ones are constructor parameters, the others have setters. */
  private def paramClass(signature: JavaSignature): String = {
    val name = s"${signature.name}Param"
    val (optional, required) = signature.parameters.partition(_.optional)
    val constructor = parameterList(required)
    val shorter = if (signature.conditional.isEmpty) Nil else Seq(shorterConstructor(signature, required))
    val settable = optional.map(p => (p.name, p.scala, p.description)) :+ (("out", JavaSignature.ndarray, javaOut))
    val getters = required.map(parameter => getter(parameter.name, parameter.scala))
    val setters = settable.map { case (field, scala, description) =>
      val documented = doc(Seq(if (description.isEmpty) s"Sets `$field`." else s"Sets `$field`: $description."))
      s"\n  private var $field: ${scala.text} = null\n$documented" +
        s"  def set${field.capitalize}($field: ${scala.text}): $name = { this.$field = $field; this }\n" +
        getter(field, scala)
    }
    doc(s"Arguments of `NDArray.${signature.name}`." +: required.map(note)).replaceAll("(?m)^  ", "") +
      s"class $name($constructor) {\n${(shorter ++ getters ++ setters).mkString}}\n"
  }

  private def parameterList(parameters: Seq[Parameter]): String =
    parameters.map(parameter => s"${parameter.name}: ${parameter.scala.text}").mkString(", ")

  /** The constructor without the inputs that a setting can make unnecessary. */
  private def shorterConstructor(signature: JavaSignature, required: Seq[Parameter]): String = {
    val arguments = required.map(parameter => if (signature.conditional(parameter.name)) "null" else parameter.name)
    val remaining = required.filterNot(parameter => signature.conditional(parameter.name))
    doc(Seq(s"Arguments without ${signature.conditional.toSeq.sorted.map(name => s"`$name`").mkString(" and ")}.")) +
      s"  def this(${parameterList(remaining)}) = this(${arguments.mkString(", ")})\n"
  }

  private def getter(field: String, scala: ScalaType): String =
    s"  def get${field.capitalize}(): ${scala.text} = this.$field\n"

  /** The declaration of a typesafe function. */
  private[codegen] def typed(signature: Signature): String = {
    val parameters = signature.parameters.map { parameter =>
      val default = parameter.shownDefault.map(value => s" = ${typedDefault(parameter, value)}")
      s"${parameter.name}: ${parameter.scala.text}${default.getOrElse("")}"
    }
    val typeParameter =
      signature.sampler.fold("")(sampler => s"[T : ${sampler.evidence.text} : scala.reflect.ClassTag]")
    val notes = signature.parameters.collect {
      case parameter if parameter.description.nonEmpty => s"@param ${parameter.name} ${parameter.description}"
    }
    val overview = signature.sampler.fold(summary(signature.operator))(samplerSummary(signature.name, _))
    doc(overview +: notes) +
      s"  def ${signature.name}$typeParameter(${parameters.mkString(", ")}): ${signature.result.text}\n"
  }

  /** A default of type `Opt[T]` needs the type argument: otherwise `Nothing` is inferred, which an invariant type
    * rejects.
    */
  private def typedDefault(parameter: Parameter, value: String): String =
    if (parameter.role != Role.Distribution) value
    else if (parameter.default.isDefined) s"default[T]($value)"
    else s"$value[T]"

  private def samplerSummary(name: String, sampler: Sampler): String = {
    val described = (sampler.scalar ++ sampler.array).map(_.description).find(_.nonEmpty)
    val forms = sampler match {
      case Sampler(_, Some(scalar), Some(array)) => s"Numbers call `${scalar.name}`, inputs call `${array.name}`."
      case Sampler(_, scalar, array)             => s"Calls `${(scalar ++ array).head.name}`."
    }
    s"${described.getOrElse(s"Random numbers: `$name`.")}\n\n$forms"
  }

  private def symbolFunction(name: String, operator: Operator): String = {
    val text = "scala.Predef.String"
    doc(untypedDoc(operator)) +
      s"  def $name(name: $text = null, attr: Map[$text, $text] = null)(args: org.apache.mxnet.Symbol*)" +
      s"(kwargs: Map[$text, Any] = null): org.apache.mxnet.Symbol\n"
  }

  private def ndarrayFunction(name: String, operator: Operator): String = {
    val documented = doc(untypedDoc(operator))
    s"$documented  def $name(kwargs: Map[scala.Predef.String, Any] = null)(args: Any*): org.apache.mxnet.NDArrayFuncReturn\n\n" +
      s"$documented  def $name(args: Any*): org.apache.mxnet.NDArrayFuncReturn\n"
  }

  private def untypedDoc(operator: Operator): Seq[String] = {
    val arguments = operator.arguments.map { argument =>
      val described = Seq(argument.typeText, argument.description).filter(_.nonEmpty).mkString(": ")
      s" - `${argument.name}` $described"
    }
    if (arguments.isEmpty) Seq(summary(operator)) else Seq(summary(operator), "", "Arguments:") ++ arguments
  }

  private def summary(operator: Operator): String = {
    val alias = operator.aliasOf.map(original => s"Another name of `$original`.")
    val text = (Seq(operator.description).filter(_.nonEmpty) ++ alias).mkString("\n\n")
    if (text.isEmpty) s"Operator `${operator.name}`." else text
  }

  /** A ScalaDoc comment of paragraphs and tags, escaped so that the text cannot end it or start a tag or variable. */
  private def doc(parts: Seq[String]): String = {
    val lines = parts.flatMap(_.linesIterator.toSeq match { case Seq() => Seq(""); case several => several })
    val safe = lines.map(line => escape(line).stripTrailing)
    safe.map(line => if (line.isEmpty) "   *" else s"   * $line").mkString("\n  /**\n", "\n", "\n   */\n")
  }

  private def escape(line: String): String = {
    val (tag, rest) = if (line.startsWith("@param ")) ("@param ", line.drop(7)) else ("", line)
    tag + rest
      .replace("*/", "*&#47;")
      .replace("/*", "&#47;*")
      .replace("@", "&#64;")
      .replace("$", "&#36;")
      .replace("\\u", "\\ u")
      .replace("<", "&lt;")
      .replace(">", "&gt;")
  }
}
