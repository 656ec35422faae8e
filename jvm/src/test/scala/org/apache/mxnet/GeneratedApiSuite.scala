package org.apache.mxnet

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Paths}

import scala.jdk.CollectionConverters._
import scala.reflect.runtime.{universe => u}

/** All functions that the released Scala package generated from the operators exist: 2,674 signatures with the same
  * names, the same parameters in the same order, and the same defaults. The code generator tests that their types accept
  * the same arguments; the list is from its test data.
  */
class GeneratedApiSuite extends munit.FunSuite {
  private val mirror = u.runtimeMirror(getClass.getClassLoader)

  private case class Released(name: String, parameters: Seq[(String, Boolean)])

  private lazy val released: Map[String, Seq[Released]] =
    Files
      .readAllLines(Paths.get("codegen/model/src/test/resources/released-scala-api.tsv"), UTF_8)
      .asScala
      .toSeq
      .map(_.split("\t", -1))
      .collect { case Array(owner, name, parameters) =>
        owner -> Released(
          name,
          parameters.split("; ").toSeq.filter(_.nonEmpty).map(p => (p.takeWhile(_ != ':'), p.contains('=')))
        )
      }
      .groupMap(_._1)(_._2)

  private def typeOf(module: String): u.Type =
    mirror.staticModule(s"org.apache.mxnet.$module").moduleClass.asType.toType

  private val owners: Map[String, String] = Map(
    "NDArray (legacy)" -> "NDArray",
    "Symbol (legacy)" -> "Symbol",
    "contrib.NDArray (legacy)" -> "contrib.NDArray",
    "contrib.Symbol (legacy)" -> "contrib.Symbol",
    "NDArray.api" -> "NDArrayAPI",
    "Symbol.api" -> "SymbolAPI",
    "NDArray.random" -> "NDArrayRandomAPI",
    "Symbol.random" -> "SymbolRandomAPI",
    "javaapi.NDArray" -> "javaapi.NDArray"
  )

  private def alternatives(owner: u.Type, name: String): Seq[u.MethodSymbol] =
    owner.member(u.TermName(name).encodedName).alternatives.filter(_.isMethod).map(_.asMethod)

  private def parametersOf(method: u.MethodSymbol): Seq[(String, Boolean)] =
    method.paramLists.flatten
      .filterNot(_.isImplicit)
      .map(p => (p.name.decodedName.toString, p.asTerm.isParamWithDefault))

  /** Whether a call with the released parameters still compiles. */
  private def takes(method: u.MethodSymbol, wanted: Released): Boolean = {
    val ours = parametersOf(method)
    ours.map(_._1) == wanted.parameters.map(_._1) &&
    ours.zip(wanted.parameters).forall { case ((_, hasDefault), (_, hadDefault)) => hasDefault || !hadDefault }
  }

  private val untypedSymbol =
    Released("", Seq("name" -> true, "attr" -> true, "args" -> false, "kwargs" -> true))

  test("every object is compared, and none is empty") {
    assertEquals(released.keySet, owners.keySet)
    // The untyped functions of arrays have two forms each.
    val forms = released.map { case (owner, functions) =>
      functions.length * (if (owner.contains("NDArray (")) 2 else 1)
    }
    assertEquals(forms.sum, 2674)
  }

  owners.toSeq.sorted.foreach { case (owner, module) =>
    test(owner) {
      val tpe = typeOf(module)
      def isThere(function: Released): Boolean = {
        val methods = alternatives(tpe, function.name)
        owner match {
          case "NDArray (legacy)" | "contrib.NDArray (legacy)" =>
            Seq(Seq("args"), Seq("kwargs", "args")).forall { names =>
              methods.exists(method => parametersOf(method).map(_._1) == names && method.isVarargs)
            }
          case "Symbol (legacy)" | "contrib.Symbol (legacy)" => methods.exists(takes(_, untypedSymbol))
          case "javaapi.NDArray"                             => methods.nonEmpty
          case _                                             => methods.exists(takes(_, function))
        }
      }
      assertEquals(released(owner).filterNot(isThere), Seq.empty[Released])
    }
  }

  test("javaapi.NDArray takes the arguments, or an object with them, and says so in the bytecode") {
    val methods = classOf[org.apache.mxnet.javaapi.NDArray].getMethods.filter(_.getName.nonEmpty).groupBy(_.getName)
    released("javaapi.NDArray").foreach { function =>
      val counts = methods.getOrElse(function.name, Array.empty).map(_.getParameterCount).toSet
      assert(counts.exists(n => n == 1 || n == function.parameters.length), s"$function: $counts")
    }
  }
}
