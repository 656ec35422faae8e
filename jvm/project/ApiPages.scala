import sbt._

/** Completes the ScalaDoc pages of the objects with generated functions. An object inherits the default arguments of an
  * abstract class, and ScalaDoc shows no default argument that is inherited.
  */
object ApiPages {
  private val pages = Seq(
    "SymbolAPI" -> "SymbolAPIBase",
    "NDArrayAPI" -> "NDArrayAPIBase",
    "SymbolRandomAPI" -> "SymbolRandomAPIBase",
    "NDArrayRandomAPI" -> "NDArrayRandomAPIBase",
    "Symbol" -> "SymbolBase",
    "NDArray" -> "NDArrayBase",
    "contrib/SymbolAPI" -> "contrib/SymbolAPIBase",
    "contrib/NDArrayAPI" -> "contrib/NDArrayAPIBase",
    "contrib/Symbol" -> "contrib/SymbolBase",
    "contrib/NDArray" -> "contrib/NDArrayBase"
  )

  private val memberStart = "(?=<li class=\"indented0 )"
  private val anchor = "<a id=\"([^\"]*)\"".r
  private val signature = "(?s)(<span class=\"symbol\">.*?)(?=<p class=\"shortcomment)".r

  /** Shows the default arguments of all generated functions. */
  def withDefaults(folder: File): File = {
    pages.foreach { case (name, base) =>
      val declared = IO.read(folder / "org" / "apache" / "mxnet" / s"$base.html")
      val signatures = members(readable(declared)).flatMap(member => keyAndSignature(member)).toMap
      if (!signatures.values.exists(_.contains(" = "))) sys.error(s"The ScalaDoc page of $base shows no default argument.")
      val page = folder / "org" / "apache" / "mxnet" / s"$name$$.html"
      val shown = members(IO.read(page))
      val implemented = shown.flatMap(keyAndSignature(_)).map(_._1).toSet
      signatures.keys.filterNot(implemented).foreach(key => sys.error(s"The ScalaDoc page of $name does not list $key."))
      val completed = shown.map { member =>
        keyAndSignature(member).flatMap { case (key, old) => signatures.get(key).map(member.replace(old, _)) }.getOrElse(member)
      }
      IO.write(page, completed.mkString)
      IO.write(folder / "org" / "apache" / "mxnet" / s"$base.html", readable(declared))
    }
    folder
  }

  private def members(page: String): Seq[String] = page.split(memberStart).toSeq

  /** What identifies a member, overloads included, and its signature. */
  private def keyAndSignature(member: String): Option[(String, String)] =
    for {
      found <- anchor.findFirstMatchIn(member)
      key = found.group(1).replace("scala.collection.immutable.", "").replaceAll("evidence\\$\\d+", "") if key.contains('(')
      shown <- signature.findFirstIn(member)
    } yield key -> shown

  /** Without what the compiler needs in a default argument of type `Opt[T]`. */
  private def readable(page: String): String =
    page.replaceAll("default\\[T\\]\\(([^()]*)\\)", "$1").replace("Opt.absent[T]", "Opt.absent")
}
