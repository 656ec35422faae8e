import scala.sys.process.{Process, ProcessLogger}

import sbt._
import sjsonnew.shaded.scalajson.ast.unsafe._
import sjsonnew.support.scalajson.unsafe.Parser

/** The licenses of the crates that are linked into the native library, from cargo's metadata. */
object CrateLicenses {

  private val Host = "host: (.*)".r
  private val NameAndVersion = "([^ ]+) v([^ ]+).*".r

  private final case class Crate(name: String, version: String, license: String, source: String, folder: File)

  /** The files of the jar: a list of the crates, and below `META-INF/licenses` the license files of each.
    *
    * @param root the folder of the workspace
    * @param target where the list is written
    */
  def mappings(root: File, target: File): Seq[(File, String)] = {
    val linked = crates(root)
    val list = target / "THIRD-PARTY.txt"
    IO.write(list, listing(linked, output(root, "rustc", "--version").split(' ')(1)))
    val apache = root / "LICENSE"
    val files = linked.flatMap { crate =>
      licenseFiles(crate, apache).map(file =>
        file -> s"META-INF/licenses/${crate.name}-${crate.version}/${file.getName}"
      )
    }
    (list -> "META-INF/THIRD-PARTY.txt") +: (apache -> "META-INF/licenses/rust/LICENSE") +: files
  }

  private def listing(linked: Seq[Crate], rust: String): String = {
    val lines = linked.map(crate => s"${crate.name} ${crate.version}: ${crate.license}, ${crate.source}")
    ("Linked into the native library; the license files are in META-INF/licenses." +: "" +:
      s"Rust standard library $rust: MIT OR Apache-2.0, the Rust project" +: lines)
      .mkString("", "\n", "\n")
  }

  /** For a crate without a license file, uses the text of Apache-2.0. */
  private def licenseFiles(crate: Crate, apache: File): Seq[File] = {
    val files =
      IO.listFiles(crate.folder).filter(_.getName.matches("(?i)(licen[cs]e|copying|unlicense|notice).*")).toSeq
    if (files.nonEmpty) files.sortBy(_.getName)
    else if (crate.license.contains("Apache-2.0")) Seq(apache)
    else
      sys.error(s"The crate ${crate.name} ${crate.version} (${crate.license}) has no license file in ${crate.folder}")
  }

  /** The external crates that are linked into the library on this platform, sorted by name. */
  private def crates(root: File): Seq[Crate] = {
    val host = output(root, "rustc", "-vV").split("\n").collectFirst { case Host(triple) => triple }
    val locked = Seq("--locked", "--offline")
    val linked = Seq("tree", "-p", "libmxnet", "--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}")
    val named = output(root, "cargo" +: (linked ++ locked ++ host.toSeq.flatMap(Seq("--target", _))): _*)
    val names = named.split("\n").collect { case NameAndVersion(name, version) => (name, version) }.toSet
    val metadata = Parser.parseUnsafe(output(root, "cargo" +: "metadata" +: "--format-version" +: "1" +: locked: _*))
    items(metadata, "packages")
      .filter(json => field(json, "source") != JNull && names.contains((text(json, "name"), text(json, "version"))))
      .map { json =>
        val source = field(json, "repository") match { case JString(url) => url; case _ => "no repository" }
        val folder = file(text(json, "manifest_path")).getParentFile
        Crate(text(json, "name"), text(json, "version"), text(json, "license"), source, folder)
      }
      .sortBy(crate => (crate.name, crate.version))
  }

  private def output(folder: File, command: String*): String = {
    val errors = new StringBuilder
    val out = new StringBuilder
    val code = Process(command, folder).!(
      ProcessLogger(line => out.append(line).append('\n'), line => errors.append(line).append('\n'))
    )
    if (code != 0) sys.error(s"${command.mkString(" ")} failed, so that the crates' licenses are unknown:\n$errors")
    out.toString
  }

  private def field(json: JValue, name: String): JValue = json match {
    case JObject(fields) => fields.find(_.field == name).fold[JValue](JNull)(_.value)
    case _               => JNull
  }

  private def text(json: JValue, name: String): String = field(json, name) match {
    case JString(value) => value
    case other          => sys.error(s"cargo metadata: '$name' is $other, not a string")
  }

  private def items(json: JValue, name: String): Seq[JValue] = field(json, name) match {
    case JArray(values) => values.toSeq
    case _              => Nil
  }
}
