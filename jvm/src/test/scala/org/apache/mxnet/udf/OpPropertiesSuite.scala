package org.apache.mxnet.udf

import java.util.concurrent.TimeUnit

import scala.collection.immutable.{Queue, TreeMap}
import scala.collection.mutable

import org.apache.mxnet._
import org.apache.mxnet.internal.userop.OpProperties

/** Properties of operators as text and back. */
class OpPropertiesSuite extends munit.FunSuite {

  private def roundTrip(properties: Map[String, Any]): Map[String, Any] =
    OpProperties.fromJson("op", OpProperties.toJson("op", properties))

  /** Arrays as sequences and with their types, so that they can be compared. */
  private def comparable(value: Any): Any = value match {
    case array: Array[_]               => (array.getClass.getName, array.toSeq.map(comparable))
    case items: collection.Seq[_]      => (items.toString.takeWhile(_ != '('), items.map(comparable).toVector)
    case items: java.util.List[_]      => ("java", items.toString)
    case option: Option[_]             => option.map(comparable)
    case map: Map[_, _]                => map.map { case (key, inner) => key -> comparable(inner) }
    case map: java.util.Map[_, _]      => ("java", map.toString)
    case number: Double                => ("double", java.lang.Double.doubleToLongBits(number))
    case number: Float                 => ("float", java.lang.Float.floatToIntBits(number))
    case scalar: Any if scalar != null => (scalar.getClass.getName, scalar)
    case nothing                       => nothing
  }

  test("options, sequences and sets are restored, also nested") {
    val saved = Map[String, Any](
      "some" -> Some(3),
      "none" -> None,
      "list" -> List(0.5f, 1f),
      "seq" -> Vector(Some("a"), None),
      "set" -> Set(Shape(2, 3)),
      "map" -> Map("k" -> Seq(1L)),
      "pair" -> ((3, Some(3))),
      "triple" -> ((1f, "a", Seq(2))),
      "pads" -> ((1, 1, 2, 2)),
      "six" -> ((1, 2L, 3f, 4.0, "5", None)),
      "big" -> BigInt("123456789012345678901234567890"),
      "exact" -> BigDecimal("0.1"),
      "javaBig" -> new java.math.BigInteger("7"),
      "javaExact" -> new java.math.BigDecimal("1e-30"),
      "byNumber" -> Map(1 -> "a", 2 -> "b"),
      "javaByNumber" -> java.util.Map.of(3L, 0.5f),
      "javaOption" -> java.util.Optional.of(1.5),
      "javaNone" -> java.util.Optional.empty[String](),
      "javaSet" -> java.util.Set.of("only")
    )
    assertEquals(roundTrip(saved), saved)
    val error = intercept[MXNetError](OpProperties.toJson("op", Map("bad" -> Seq(new Object))))
    assert(error.getMessage.contains("property 'bad(0)' is a java.lang.Object"), error.getMessage)
  }

  test("values of enumerations and chosen kinds of collections are restored into their fields") {
    val saved = new Choices(Weekday.Sunday, TimeUnit.HOURS)
    saved.weights ++= Seq("b" -> 2f, "a" -> 1f)
    saved.sizes += 4
    saved.names = TreeMap(2 -> "two", 1 -> "one")
    saved.queue = Queue(1.5)
    saved.linked.add("x")
    saved.order.put("k", 1)
    val restored = new Choices
    restored.setPropertiesForFunction(roundTrip(saved.propertiesForFunction()))
    assertEquals(restored.described, saved.described)
    assert(restored.weights ne saved.weights)
    restored.weights("c") = 3f // still mutable
    val inTwo = intercept[MXNetError](OpProperties.toJson("op", Map("days" -> Seq(Weekday.Sunday))))
    assert(inTwo.getMessage.contains("property 'days(0)'"), inTwo.getMessage)
    val unknown = intercept[MXNetError](restored.setPropertiesForFunction(Map("day" -> "Someday")))
    assert(unknown.getMessage.contains("property 'day' is a String, but the field"), unknown.getMessage)
  }

  test("attributes of other front ends set fields of all these types") {
    val text = Map(
      "op_type" -> "test_choices",
      "day" -> "Sunday",
      "unit" -> "HOURS",
      "axes" -> "(1, 2)",
      "rates" -> "[0.5, 2]",
      "pads" -> "(3, 4)",
      "sizes" -> "7",
      "limit" -> "9",
      "linked" -> "(a, b)"
    )
    Operator.register(classOf[Choices])
    val symbol = Symbol.Custom("c")(Symbol.Variable("x"))(text)
    val executor = symbol.bind(Context.cpu(), Map("x" -> NDArray.ones(2)))
    executor.forward()
    assertEquals(
      Choices.last,
      "Sunday HOURS Map() ListBuffer(7) Map() Queue() [a, b] {} 1,2 List(0.5, 2.0) (3,4) Some(9)"
    )
    val unknown = intercept[MXNetError](Symbol.Custom("c")(Symbol.Variable("x"))(text + ("axs" -> "1")))
    assert(unknown.getMessage.contains("no field for the attributes axs; it has axes, day, "), unknown.getMessage)
    val wrong = intercept[MXNetError](Symbol.Custom("c")(Symbol.Variable("x"))(text + ("pads" -> "(3, 4, 5)")))
    assert(wrong.getMessage.contains("the attribute pads is '(3, 4, 5)'"), wrong.getMessage)
  }

  test("every kind of field is restored with its type and content") {
    val op = new Properties
    val saved = op.propertiesForFunction()
    assertEquals(
      saved.keySet -- Set("fixed"),
      Set(
        "flag",
        "byte",
        "short",
        "char",
        "int",
        "long",
        "float",
        "double",
        "nan",
        "infinite",
        "text",
        "nothing",
        "shape",
        "scalar",
        "dtype",
        "flags",
        "floats",
        "empty",
        "chars",
        "texts",
        "shapes",
        "matrix",
        "map",
        "javaMap",
        "list",
        "vector",
        "range",
        "arraySeq",
        "buffer",
        "javaList",
        "some",
        "none",
        "constants"
      )
    )
    val restored = roundTrip(saved)
    assertEquals(comparable(restored), comparable(saved))
    val other = new Properties
    saved.keySet.foreach(name => assert(restored.contains(name), name))
    other.flag = false
    other.floats = null
    other.map = Map.empty
    other.some = None
    other.list = Nil
    other.setPropertiesForFunction(restored)
    assertEquals(comparable(other.propertiesForFunction()), comparable(saved))
    assertEquals((other.flag, other.floats.toSeq, other.shape), (op.flag, op.floats.toSeq, op.shape))
  }

  test("values that cannot be saved or do not fit their field are errors that say so") {
    val unsaved = intercept[MXNetError](new Unsaved()(Symbol.Variable("x")))
    assert(unsaved.getMessage.contains("property 'thread' is a java.lang.Thread"), unsaved.getMessage)
    val scale = new Scale(1f)
    val unknown = intercept[MXNetError](scale.setPropertiesForFunction(Map("size" -> 1)))
    assert(unknown.getMessage.contains("no property 'size'; the fields of"), unknown.getMessage)
    val unfit = intercept[MXNetError](scale.setPropertiesForFunction(Map("factor" -> "2")))
    assert(unfit.getMessage.contains("is a String, but the field"), unfit.getMessage)
    intercept[MXNetError](OpProperties.toJson("op", null))
  }

  test("an immutable field that cannot be saved must have the value of the default constructor") {
    val x = Symbol.Variable("x")
    assertEquals(new Composed()(x).listArguments(), IndexedSeq("x"))
    assertEquals(new Composed(Settings(1, Nil))(x).listArguments(), IndexedSeq("x"))
    val changed = intercept[MXNetError](new Composed(Settings(2, Nil))(x))
    assert(changed.getMessage.contains("property 'settings' is a org.apache.mxnet.udf.Settings"), changed.getMessage)
    val function = intercept[MXNetError](new Composed(function = _ + 1)(x))
    assert(function.getMessage.contains("property 'function' is a "), function.getMessage)
    val nested = intercept[MXNetError](new Composed(Settings(1, List(_ * 3)))(x))
    assert(nested.getMessage.contains("@transient"), nested.getMessage)
  }

  test("damaged and hostile texts are errors, and no class that they name is loaded") {
    val texts = Seq(
      "{",
      "[]",
      "7",
      """{"a": 1}""",
      """{"a": {"int": "x"}}""",
      """{"a": {"int": "1", "b": "2"}}""",
      """{"a": {"java.lang.Runtime": "1"}}""",
      """{"a": {"int[]": "1,,2"}}""",
      """{"a": {"float[][]": ["1", 2]}}""",
      """{"a": {"byte": "300"}}""",
      """{"a": {"shape": "1,x"}}""",
      """{"a": {"dtype": "float7"}}""",
      """{"a": {"char": "70000"}}""",
      """{"a": {"string[]": "x"}}""",
      """{"a": {"map": "x"}}""",
      """{"a": {"option": [1, 2]}}""",
      """{"a": {"option": [{"int": "1"}, {"int": "2"}]}}""",
      """{"a": {"tuple": []}}""",
      """{"a": {"enum": 1}}""",
      """{"a": {"bigint": "1.5"}}""",
      """{"a": {"bigdecimal": "x"}}""",
      """{"a": {"map-pairs": [{"int": "1"}]}}""",
      """{"a": {"java-optional": "1"}}""",
      """{"a": {"java-set": [1]}}""",
      """{"a": {"list": [1]}}""",
      """{"a": {"list": "1"}}""",
      """{"a": {"range": "1,2,0,true"}}""",
      """{"a": {"range": "1,2"}}"""
    )
    texts.foreach { text =>
      val error = intercept[MXNetError](OpProperties.fromJson("op", text))
      assert(error.getMessage.nonEmpty, text)
    }
  }

  test("names and texts of any characters") {
    val strange = "\u0000\"\\\u2028\ud83d\ude00"
    assertEquals(roundTrip(Map(strange -> strange)), Map[String, Any](strange -> strange))
  }
}

/** A class that properties do not support. */
case class Settings(size: Int, steps: List[Double => Double])

/** Computes with objects that cannot be saved. */
class Composed(val settings: Settings = Settings(1, Nil), function: Double => Double = _ * 2)
    extends UserDefinedCustomOp {
  val lock = new Object
  def opName: String = "test_composed"
  override def exec(context: OpContext): Unit = lock.synchronized(context.map(0, 0)(function))
}

object Weekday extends Enumeration {
  val Saturday, Sunday = Value
}

/** Fields whose types the constructor determines. */
class Choices(var day: Weekday.Value, var unit: TimeUnit) extends UserDefinedCustomOp {
  def this() = this(Weekday.Saturday, TimeUnit.DAYS)
  val weights: mutable.Map[String, Float] = mutable.TreeMap.empty[String, Float]
  var sizes: mutable.ListBuffer[Int] = mutable.ListBuffer.empty
  var names: TreeMap[Int, String] = TreeMap.empty
  var queue: Queue[Double] = Queue.empty
  var linked = new java.util.LinkedList[String]
  var order = new java.util.LinkedHashMap[String, Int]
  var axes: Array[Int] = Array.empty
  var rates: Seq[Float] = List(0f)
  var pads: (Int, Int) = (0, 0)
  var limit: Option[Int] = None

  def opName: String = "test_choices"

  def described: String = Seq[Any](
    day,
    unit,
    weights.toMap,
    sizes,
    names.toMap,
    queue,
    linked,
    order,
    axes.mkString(","),
    rates,
    pads,
    limit
  ).mkString(" ")

  override def exec(context: OpContext): Unit = {
    Choices.last = described
    context.map(0, 0)(identity)
  }
}

object Choices {
  @volatile var last = ""
}
