package org.apache.mxnet

import scala.io.Source
import scala.reflect.runtime.{universe => u}
import scala.util.Using

/** The released Scala package's public members are all here: same names, parameters, order, and defaults where it had
  * them. The list, `released-api.tsv`, has owner, kind and signature in a line.
  */
class ReleasedApiSuite extends munit.FunSuite {
  private val mirror = u.runtimeMirror(getClass.getClassLoader)

  private val released: Seq[(String, String, String)] =
    Using.resource(Source.fromResource("released-api.tsv")) { source =>
      source.getLines().map(_.split('\t')).map(fields => (fields(0), fields(1), fields(2))).toVector
    }

  private def typeOf(owner: String, kind: String): u.Type = {
    val name = s"org.apache.mxnet.$owner"
    if (kind == "object") mirror.staticModule(name).moduleClass.asType.toType else mirror.staticClass(name).toType
  }

  /** A member's signature as the list writes it: `name[T](a:A,b:B=?)(c:C):R`. */
  private def signature(member: u.Symbol, owner: u.Type): String = {
    val name = member.name.decodedName.toString
    if (!member.isMethod) name
    else {
      val method = member.asMethod
      val types = if (method.typeParams.isEmpty) "" else method.typeParams.map(_.name).mkString("[", ",", "]")
      val lists = method.paramLists.map(_.map { parameter =>
        val default = if (parameter.asTerm.isParamWithDefault) "=?" else ""
        s"${parameter.name.decodedName}:${text(parameter.typeSignatureIn(owner))}$default"
      }.mkString("(", ",", ")"))
      s"$name$types${lists.mkString}:${text(method.returnType.asSeenFrom(owner, owner.typeSymbol))}"
    }
  }

  private def text(tpe: u.Type): String =
    tpe.map(_.dealias).toString.replaceAll("\\b(?:[a-z]+\\.)+", "").replaceAll("\\s", "").replace("Object", "AnyRef")

  private def plain(signature: String): String = signature.replace("()", "")

  private val owners = released.map { case (owner, kind, _) => (owner, kind) }.distinct

  owners.foreach { case (owner, kind) =>
    test(s"$kind $owner") {
      val tpe = typeOf(owner, kind)
      val members = tpe.members.filter(_.isTerm).flatMap(_.alternatives).filter(_.isPublic)
      val here = members.map(signature(_, tpe)).map(plain).toSet
      val missing = released.collect { case (`owner`, `kind`, wanted) if !here(plain(wanted)) => wanted }
      assertEquals(missing, Vector.empty[String])
    }
  }
}
