package org.apache.mxnet.udf

import java.util.concurrent.{Callable, Executors, TimeUnit}

import scala.jdk.CollectionConverters._

import org.apache.mxnet._
import org.apache.mxnet.internal.userop.UdfClass

/** Every mistake of user code is an error that says what to do, and the executor can be used again. */
class UserOperatorSafetySuite extends munit.FunSuite {
  private val cpu = Context.cpu()
  private lazy val x = Symbol.Variable("x")

  private def vector(values: Float*): NDArray = NDArray.array(values.toArray, Shape(values.length))

  private def bound(what: String): Executor = new Wrong(what).named("w", x).bind(cpu, Map("x" -> vector(1, 2)))

  private def check(error: MXNetError, parts: String*): Unit =
    (parts :+ "test_wrong").foreach(part => assert(error.getMessage.contains(part), s"'$part' in: ${error.getMessage}"))

  test("what exec throws is the cause of an error with operator and node, and the executor stays usable") {
    val executor = bound("throws")
    val error = intercept[MXNetError](executor.forward())
    check(error, "'w'", "IllegalStateException", "on purpose")
    assert(error.getCause.isInstanceOf[IllegalStateException])
    assert(
      error.getCause.getStackTrace.exists(frame =>
        frame.getClassName.endsWith("Wrong") && frame.getMethodName == "exec"
      )
    )
    intercept[MXNetError](executor.forward())
    val deep = intercept[MXNetError](bound("error").forward())
    assert(deep.getCause.isInstanceOf[StackOverflowError])
    val working = bound("")
    working.forward()
    assertEquals(working.outputs(0).toArray.toSeq, Seq(1f, 2f))
  }

  test("what configureFromArguments throws is the cause of an error that names the operator") {
    val error = intercept[MXNetError](new Unconfigurable().apply(x).bind(cpu, Map("x" -> vector(1))))
    assert(error.getMessage.contains("operator test_unconfigurable: configureFromArguments failed: not today"), error)
  }

  test("what a block throws on any thread is the cause of an error, and the executor stays usable") {
    val values = Array.fill(300000)(1f)
    values(values.length - 1) = -1f
    val array = NDArray.array(values, Shape(values.length))
    val executor = new Wrong("a late block").named("w", x).bind(cpu, Map("x" -> array))
    val error = intercept[MXNetError](executor.forward())
    check(error, "'w'", "in a block")
    assert(error.getCause.isInstanceOf[IllegalStateException])
    array.set(1f)
    executor.forward()
  }

  Seq(
    "null output" -> "exec set output 0 to null",
    "wrong shape" -> "of shape (7)",
    "wrong type" -> "type float64",
    "writes input" -> "writ",
    "writes view" -> "writ",
    "native write" -> "cannot be written",
    "as output" -> "writ"
  ).foreach { case (what, text) =>
    test(s"exec: $what") {
      val executor = bound(what)
      check(intercept[MXNetError](executor.forward()), "'w'", text)
      check(intercept[MXNetError](executor.forward()), "'w'", text)
      assertEquals(executor.argDict("x").toArray.toSeq, Seq(1f, 2f))
    }
  }

  Seq(
    "null shapes" -> "calculateOutputShape returned null",
    "null shape" -> "calculateOutputShape returned null for array 0",
    "no shapes" -> "calculateOutputShape returned 0 values for 1 arrays",
    "null types" -> "calculateOutputDataTypes returned null",
    "two types" -> "calculateOutputDataTypes returned 2 values for 1 arrays"
  ).foreach { case (what, text) =>
    test(s"inference: $what")(check(intercept[MXNetError](bound(what)), "'w'", text))
  }

  Seq(
    "null gradients" -> "doDiff returned null",
    "no gradients" -> "doDiff returned 0 gradients for 1 inputs",
    "other variable" -> "variable 'w'",
    "gradient shape" -> "the shape",
    "gradient type" -> "the type float64",
    "two outputs" -> "2 outputs",
    "gradient throws" -> "no gradient today"
  ).foreach { case (what, text) =>
    test(s"gradient: $what") {
      val symbol = new Wrong(what).named("w", x)
      check(
        intercept[MXNetError](symbol.bind(cpu, Map("x" -> vector(1, 2)), Map("x" -> NDArray.zeros(2)))),
        "'w'",
        text
      )
      val point = vector(1, 2)
      Autograd.attachGradient(point)
      val result = Autograd.record()(new Wrong(what).invoke(point).head)
      check(intercept[MXNetError](Autograd.backward(result)), text)
    }
  }

  test("gradient: an input without one has zeros") {
    val gradient = NDArray.ones(2)
    val executor = new Wrong("null gradient")(x).bind(cpu, Map("x" -> vector(1, 2)), Map("x" -> gradient))
    executor.forward(isTrain = true)
    executor.backward(vector(1, 1))
    assertEquals(gradient.toArray.toSeq, Seq(0f, 0f))
  }

  test("recursion into the same executor") {
    val executor = bound("recursion")
    Wrong.executor = executor
    check(intercept[MXNetError](executor.forward()), "'w'", "while it was running")
    check(intercept[MXNetError](executor.forward()), "while it was running")
  }

  test("dispose during a call") {
    val executor = bound("disposes")
    Wrong.executor = executor
    executor.forward()
    assert(intercept[MXNetError](executor.forward()).getMessage.contains("after dispose()"))
    assert(intercept[MXNetError](executor.outputs(0).toArray).getMessage.contains("after dispose()"))
  }

  test("use from 16 threads: one executor each, one for all, and on arrays") {
    val shared = new Square()(new Scale(2f)(x)).bind(cpu, Map("x" -> vector(3)))
    val pool = Executors.newFixedThreadPool(16)
    val work = (0 until 16).map { t =>
      new Callable[Boolean] {
        def call(): Boolean = {
          val own = new Square().named(s"square$t", x).bind(cpu, Map("x" -> vector(t.toFloat)))
          (1 to 50).forall { _ =>
            own.forward()
            shared.forward()
            own.outputs(0).toScalar == t * t && shared.outputs(0).toScalar == 36f &&
            new Square().invoke(vector(t.toFloat)).head.toScalar == t * t
          }
        }
      }
    }
    val results = pool.invokeAll(work.asJava, 100, TimeUnit.SECONDS).asScala.map(_.get())
    pool.shutdown()
    assertEquals(results.toSeq, Seq.fill(16)(true))
  }

  test("arrays and buffers that are kept after the call are safe") {
    Keeper.array = null
    val executor = new Keeper()(x).bind(cpu, Map("x" -> vector(1, 2)))
    executor.forward()
    val (array, buffer) = (Keeper.array, Keeper.buffer)
    executor.dispose()
    (1 to 20).foreach(_ => NDArray.ones(2))
    System.gc()
    assertEquals(buffer.capacity(), 2)
    assert(!buffer.get(0).isNaN)
    assert(array.shape.length == 1)
    new Keeper().invoke(vector(5, 6))
    val gone = intercept[MXNetError](Keeper.array.toArray)
    assert(gone.getMessage.contains("already disposed"), gone.getMessage)
  }

  test("an array that a scope or the operator disposed is valid again at the next call") {
    val executor = new Discarding()(x).bind(cpu, Map("x" -> vector(1, 2)))
    (1 to 3).foreach { _ =>
      ResourceScope.using()(executor.forward())
      assertEquals(executor.outputs(0).toArray.toSeq, Seq(1f, 2f))
    }
  }

  private val offset = 2f

  /** Refers to the suite, like a class in a REPL that refers to values of earlier inputs. */
  class Inner extends UserDefinedCustomOp {
    def opName: String = "inside_a_class"
    override def exec(context: OpContext): Unit = context.map(0, 0)(_ + offset)
  }

  test("a class inside another one, as in a REPL, belongs to the enclosing object") {
    val symbol = new Inner()(Symbol.Variable("x"))
    val executor = Symbol.loadJson(symbol.toJson).bind(Context.cpu(), Map("x" -> NDArray.ones(2)))
    executor.forward()
    assertEquals(executor.outputs(0).toArray.toSeq, Seq(3f, 3f))
    val byClass = intercept[MXNetError](Operator.register(classOf[Inner]))
    assert(byClass.getMessage.contains("no constructor without parameters"), byClass.getMessage)
  }

  test("a class that a REPL or a notebook defines again replaces the earlier one") {
    assert(UdfClass.isDefinedAgain("$line4.$read$$iw$Square", "$line12.$read$$iw$Square"))
    assert(UdfClass.isDefinedAgain("rs$line$4$Square", "rs$line$12$Square"))
    assert(UdfClass.isDefinedAgain("ammonite.$sess.cmd4$Helper$Square", "ammonite.$sess.cmd12$Helper$Square"))
    assert(!UdfClass.isDefinedAgain("$line4.$read$$iw$Square", "$line12.$read$$iw$Cube"))
    assert(!UdfClass.isDefinedAgain("com.line4.Square", "com.line12.Square"))
  }

  test("two classes of one name, a built-in name, no constructor without parameters: errors that name them") {
    val json = new Scale(1f)(x).toJson.replace("test_scale", "test_twin")
    val duplicate = intercept[MXNetError](Symbol.loadJson(json))
    Seq("FirstTwin", "SecondTwin").foreach(name => assert(duplicate.getMessage.contains(name), duplicate.getMessage))
    val builtIn = intercept[MXNetError](new NamedLikeBuiltIn()(x))
    assert(builtIn.getMessage.contains("'Convolution' is an operator of the engine"), builtIn.getMessage)
    val constructor = intercept[MXNetError](new WithoutEmptyConstructor(1f)(x))
    assert(constructor.getMessage.contains("no constructor without parameters"), constructor.getMessage)
    val taken = intercept[MXNetError](Operator.register(classOf[AnotherScale]))
    Seq("AnotherScale", "udf.Scale").foreach(name => assert(taken.getMessage.contains(name), taken.getMessage))
  }

  test("a file cannot name a class") {
    val json = new Scale(1f)(x).toJson
    val loaded = Symbol.loadJson(json.replace("test_scale", "org.apache.mxnet.udf.Rows"))
    val error = intercept[MXNetError](loaded.bind(cpu, Map("x" -> vector(1))))
    assert(error.getMessage.contains("is not registered"), error.getMessage)
    val damaged = intercept[MXNetError](Symbol.loadJson(json.replace("\\\"float\\\"", "\\\"java.io.File\\\"")))
    assert(damaged.getMessage.contains("property 'factor' of the graph cannot be read"), damaged.getMessage)
    val other = intercept[MXNetError](Symbol.loadJson(json.replace("num_outputs\": \"1\"", "num_outputs\": \"3\"")))
    assert(other.getMessage.contains("the node has 3"), other.getMessage)
  }

  test("wrong numbers of inputs") {
    val few = intercept[MXNetError](new SumAndDifference()(x).bind(cpu, Map("x" -> vector(1))))
    assert(few.getMessage.contains("test_sum_and_difference"), few.getMessage)
    val many = intercept[MXNetError](new examples.operators.TestAddUdf()(x, x, x))
    assert(many.getMessage.contains("takes 2 inputs, but 3 were given"), many.getMessage)
  }
}

/** Keeps its arrays after the call. */
class Keeper extends UserDefinedCustomOp {
  def opName: String = "test_keeper"
  override def exec(context: OpContext): Unit = {
    Keeper.array = context.input(0)
    Keeper.buffer = context.floatInput(0)
    context.output(0).set(context.input(0))
  }
}

object Keeper {
  @volatile var array: NDArray = _
  @volatile var buffer: java.nio.FloatBuffer = _
}

/** Disposes its arrays. */
class Discarding extends UserDefinedCustomOp {
  def opName: String = "test_discarding"
  override def exec(context: OpContext): Unit = {
    context.output(0).set(context.input(0))
    context.inputArrays.foreach(_.dispose())
    context.output(0).dispose()
  }
}

/** Has the name of [[Scale]]. */
class AnotherScale extends UserDefinedCustomOp {
  def opName: String = "test_scale"
}
