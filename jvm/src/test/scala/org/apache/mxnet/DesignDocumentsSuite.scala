package org.apache.mxnet

import scala.collection.mutable

/** The examples of the design documents. Suites named after a subject have further ones. */
class DesignDocumentsSuite extends munit.FunSuite {
  private val x = Symbol.Variable("x")

  test("variables of the documented types, by position, by name and as a function") {
    val data: Option[Symbol] = Some(x)
    val actType: String = "relu"
    val (name, attr): (Option[String], Option[Map[String, String]]) = (Some("a"), Some(Map("__k__" -> "v")))
    val activation: (Option[Symbol], String, Option[String], Option[Map[String, String]]) => Symbol =
      Symbol.api.Activation(_, _, _, _)
    val calls = Seq(
      Symbol.api.Activation(data, actType, name, attr),
      Symbol.api.Activation(data = data, act_type = actType, name = name, attr = attr),
      activation(data, actType, name, attr)
    )
    calls.foreach { symbol =>
      assertEquals((symbol.listArguments(), symbol.listOutputs()), (IndexedSeq("x"), IndexedSeq("a_output")))
      assertEquals(symbol.attr("__k__"), Some("v"))
    }
    val unnamed = Symbol.api.Activation(None, "tanh", None, None)
    assertEquals(unnamed.listArguments().map(_.takeWhile(_ != '_').filterNot(_.isDigit)), IndexedSeq("activation"))
    val slope: Base.MXFloat = 0.5f
    val leaky = Symbol.api.LeakyReLU(Some(x), None, Some("leaky"), Some(slope), None, None, Some("l"), None)
    assertEquals(leaky.attrMap()("l")("slope"), "0.5")
  }

  test("the documented body and the form that it replaced create the same node") {
    val map: mutable.Map[String, Any] = mutable.Map()
    map("data") = x
    map("act_type") = "relu"
    val shown = Symbol.createSymbolGeneral("Activation", "a", Map(), Seq(), map.toMap)
    val former = Symbol.Activation(name = "a", attr = null)(x)(Map("act_type" -> "relu"))
    val positional = Symbol.Activation("a")()(Map("data" -> x, "act_type" -> "relu"))
    Seq(shown, former, positional).foreach(symbol =>
      assertEquals(symbol.toJson, Symbol.api.Activation(Some(x), "relu", Some("a")).toJson)
    )
  }

  test("every operator with a public name is in Symbol.api and in NDArray.api") {
    val names = Base._LIB.listAllOpNames().filterNot(name => name.startsWith("_") || name == "Custom").toSeq
    val symbols = SymbolAPI.getClass.getMethods.map(_.getName).toSet
    val arrays = NDArrayAPI.getClass.getMethods.map(_.getName).toSet
    assert(names.size > 200)
    assertEquals(names.filterNot(name => symbols(name) && arrays(name)), Nil)
  }

  test("the provided shape is that of the argument that the message names") {
    val arrays = intercept[MXNetError](NDArray.ones(2, 3) + NDArray.ones(4, 5)).getMessage
    assert(arrays.contains("Shape inconsistent, Provided=[4,5], inferred shape=[2,3] (argument 1 (rhs)"), arrays)
    val sum = x + Symbol.Variable("y")
    val symbols = intercept[MXNetError](sum.inferShape(Map("x" -> Shape(2, 3), "y" -> Shape(4, 5)))).getMessage
    assert(symbols.contains("Provided=[4,5], inferred shape=[2,3] (argument 1 (rhs)"), symbols)
    val three = Seq(Shape(2), Shape(2), Shape(3)).map(NDArray.ones(_))
    val many = intercept[MXNetError](NDArray.api.add_n(three.toArray)).getMessage
    assert(many.contains("Provided=[3], inferred shape=[2] (argument 2"), many)
  }
}
