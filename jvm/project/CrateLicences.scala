
import scala.sys.process.{Process, ProcessLogger}

import sbt._
import sjsonnew.shaded.scalajson.ast.unsafe._
import sjsonnew.support.scalajson.unsafe.Parser

/** The licences of the crates that the native library is linked from, as cargo knows them when the jar is made. */
object CrateLicences {

  private val Host = "host: (.*)".r

  private final case class Crate(name: String, version: String, licence: String, source: String, folder: File)

  /** The files of the jar: a list of the crates, and below `META-INF/licenses` the licence files of each.
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
      licenceFiles(crate, apache).map(file => file -> s"META-INF/licenses/${crate.name}-${crate.version}/${file.getName}")
    }
    (list -> "META-INF/THIRD-PARTY.txt") +: (apache -> "META-INF/licenses/rust/LICENSE") +: files
  }

  private def listing(linked: Seq[Crate], rust: String): String = {
    val lines = linked.map(crate => s"${crate.name} ${crate.version}: ${crate.licence}, ${crate.source}")
    ("Linked into the native library; the licence files are in META-INF/licenses." +: "" +:
      s"Rust standard library $rust: MIT OR Apache-2.0, https://github.com/rust-lang/rust" +: lines).mkString("", "\n", "\n")
  }

  /** A package without a licence file still has its licence; the text of Apache-2.0 is at hand. */
  private def licenceFiles(crate: Crate, apache: File): Seq[File] = {
    val files = IO.listFiles(crate.folder).filter(_.getName.matches("(?i)(licen[cs]e|copying|unlicense|notice).*")).toSeq
    if (files.nonEmpty) files.sortBy(_.getName)
    else if (crate.licence.contains("Apache-2.0")) Seq(apache)
    else sys.error(s"The crate ${crate.name} ${crate.version} (${crate.licence}) has no licence file in ${crate.folder}")
  }

  /** The crates of others that are linked into the library on this platform, by name. */
  private def crates(root: File): Seq[Crate] = {
    val host = output(root, "rustc", "-vV").split("\n").collectFirst { case Host(triple) => triple }
    val arguments = Seq("--format-version", "1", "--locked", "--offline") ++ host.toSeq.flatMap(Seq("--filter-platform", _))
    val metadata = Parser.parseUnsafe(output(root, "cargo" +: "metadata" +: arguments: _*))
    val packages = items(metadata, "packages").map(json => text(json, "id") -> json).toMap
    val nodes = items(field(metadata, "resolve"), "nodes").map(json => text(json, "id") -> json).toMap
    def isLinked(id: String) =
      !items(packages(id), "targets").exists(target => items(target, "kind").contains(JString("proc-macro")))
    def needed(id: String): Seq[String] = items(nodes(id), "deps").collect {
      case dependency if items(dependency, "dep_kinds").exists(field(_, "kind") == JNull) => text(dependency, "pkg")
    }.filter(isLinked)
    def reached(todo: List[String], seen: Set[String]): Set[String] = todo match {
      case Nil                              => seen
      case id :: rest if seen.contains(id)  => reached(rest, seen)
      case id :: rest                       => reached(needed(id).toList ++ rest, seen + id)
    }
    val start = packages.collectFirst { case (id, json) if text(json, "name") == "libmxnet" => id }.get
    reached(List(start), Set.empty).toSeq
      .map(packages)
      .filter(field(_, "source") != JNull)
      .map { json =>
        val source = field(json, "repository") match { case JString(url) => url; case _ => "https://crates.io" }
        Crate(text(json, "name"), text(json, "version"), text(json, "license"), source, file(text(json, "manifest_path")).getParentFile)
      }
      .sortBy(crate => (crate.name, crate.version))
  }

  private def output(folder: File, command: String*): String = {
    val errors = new StringBuilder
    val out = new StringBuilder
    val code = Process(command, folder).!(ProcessLogger(line => out.append(line).append('\n'), line => errors.append(line).append('\n')))
    if (code != 0) sys.error(s"${command.mkString(" ")} failed, so that the crates' licences are unknown:\n$errors")
    out.toString
  }

  private def field(json: JValue, name: String): JValue = json match {
    case JObject(fields) => fields.find(_.field == name).fold[JValue](JNull)(_.value)
    case _               => JNull
  }

  private def text(json: JValue, name: String): String = field(json, name) match {
    case JString(value) => value
    case other          => sys.error(s"cargo metadata: '$name' is $other, not a text")
  }

  private def items(json: JValue, name: String): Seq[JValue] = field(json, name) match {
    case JArray(values) => values.toSeq
    case _              => Nil
  }
}
