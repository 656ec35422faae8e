package org.apache.mxnet

import scala.io.Source
import scala.reflect.runtime.{universe => u}
import scala.util.Using

/** All members of the released Scala package exist, with the same names, parameters, order, implicits, defaults and
  * visibility. Each line of the list, `released-api.tsv`, has owner, kind, visibility and signature; an empty signature
  * means the class itself. `docs/differences.md` lists deliberate omissions.
  */
class ReleasedApiSuite extends munit.FunSuite {
  private val mirror = u.runtimeMirror(getClass.getClassLoader)

  private case class Member(owner: String, kind: String, access: String, signature: String) {
    def isPublic: Boolean = access == "public"
  }

  private val released: Seq[Member] =
    Using.resource(Source.fromResource("released-api.tsv")) { source =>
      source.getLines().map(_.split("\t", -1)).map(f => Member(f(0), f(1), f(2), f(3))).toVector
    }

  private def typeOf(owner: String, kind: String): u.Type = {
    val name = s"org.apache.mxnet.$owner"
    val symbol =
      if (kind == "object") mirror.staticModule(name).moduleClass
      else
        owner.split('.').filter(_.head.isUpper) match {
          case Array(outer, inner) if outer != inner => nested(owner, outer, inner)
          case _                                     => mirror.staticClass(name)
        }
    symbol.asType.toType
  }

  private def nested(owner: String, outer: String, inner: String): u.Symbol = {
    val module =
      mirror.staticModule(s"org.apache.mxnet.${owner.split('.').takeWhile(_.head.isLower).map(_ + ".").mkString}$outer")
    module.typeSignature.member(u.TypeName(inner))
  }

  /** A member's signature in the format of the list: `name[T](a:A,b:B=?)(c:C):R`. */
  private def signature(member: u.Symbol, owner: u.Type): String = {
    val name = member.name.decodedName.toString.trim
    val signature =
      if (!member.isMethod) s"$name:${text(member.typeSignatureIn(owner))}"
      else {
        val method = member.asMethod
        val types = if (method.typeParams.isEmpty) "" else method.typeParams.map(_.name).mkString("[", ",", "]")
        val lists = method.paramLists.map(_.map { parameter =>
          val default = if (parameter.asTerm.isParamWithDefault) "=?" else ""
          val name = if (parameter.isImplicit) "" else s"${parameter.name.decodedName}:"
          name + text(parameter.typeSignatureIn(owner)) + default
        }.mkString("(", ",", ")"))
        val result =
          if (method.isConstructor) "" else s":${text(method.returnType.asSeenFrom(owner, owner.typeSymbol))}"
        s"$name$types${lists.mkString}$result"
      }
    (if (member.isImplicit && member.isMethod && !member.isConstructor) "implicit " else "") + signature
  }

  private def text(tpe: u.Type): String =
    tpe
      .map(_.dealias)
      .toString
      .replaceAll("\\b(?:[a-z]\\w*\\.)+", "")
      .replaceAll("\\s", "")
      .replaceAll("\\bObject\\b", "AnyRef")
      // An Opt accepts the arguments of the type inside.
      .replaceAll("^Opt\\[(.*)\\]$", "$1")

  private def plain(signature: String): String = signature.replace("()", "")

  private def isVisible(symbol: u.Symbol, wanted: Member): Boolean =
    symbol.isPublic || (!wanted.isPublic && symbol.privateWithin != u.NoSymbol && symbol.privateWithin.isPackage)

  /** The members that the library has of an owner, or the reason why it has none. */
  private def missing(owner: String, kind: String, wanted: Seq[Member]): Seq[String] = {
    val tpe =
      try typeOf(owner, kind)
      catch { case _: ScalaReflectionException | _: AssertionError => return Seq(s"the $kind itself") }
    if (tpe.typeSymbol == u.NoSymbol || !isVisible(tpe.typeSymbol, wanted.minBy(m => !m.isPublic)))
      return Seq(s"the $kind itself, as visible as before")
    val members = tpe.members.filter(_.isTerm).flatMap(_.alternatives).toVector.distinct
    val here = members.groupBy(member => plain(signature(member, tpe)))
    wanted
      .filter(member => member.signature.nonEmpty)
      .filterNot(member => here.getOrElse(plain(member.signature), Nil).exists(isVisible(_, member)))
      .map(_.signature)
  }

  released
    .groupBy(member => (member.owner, member.kind))
    .toSeq
    .sortBy(_._1)
    .foreach { case ((owner, kind), wanted) =>
      test(s"$kind $owner")(assertEquals(missing(owner, kind, wanted), Seq.empty[String]))
    }

  test("nested classes whose constructors have defaults have accessible companions, as Scala 3 requires") {
    def hasPrivateCompanion(owner: String): Boolean = {
      val companion = typeOf(owner, "class").typeSymbol.companion
      companion.isPrivate && !companion.owner.isPackageClass
    }
    val constructors =
      released.filter(m => m.kind == "class" && m.signature.startsWith("<init>") && m.signature.contains("=?"))
    assert(constructors.exists(_.owner == "Callback.Speedometer"))
    assertEquals(constructors.map(_.owner).filter(hasPrivateCompanion), Seq.empty[String])
  }
}
