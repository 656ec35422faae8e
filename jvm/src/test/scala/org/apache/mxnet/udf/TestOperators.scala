package org.apache.mxnet.udf

import java.util.concurrent.atomic.AtomicInteger

import org.apache.mxnet.DType.DType
import org.apache.mxnet._

/** `x * factor`, found by its annotation. */
@UserDefinedOp
class Scale(var factor: Float) extends UserDefinedCustomOp {
  def this() = this(1f)
  def opName: String = "test_scale"
  override def exec(context: OpContext): Unit = context.map(0, 0)(_ * factor)
  override def doDiff(gradients: Array[Symbol]): Array[Symbol] = Array(gradients(0) * factor)
}

/** `x + 1`, by blocks. */
class Successor extends UserDefinedCustomOp {
  def opName: String = "test_successor"
  override def exec(context: OpContext): Unit = context.mapBlocks(0, 0) { (x, y, n) =>
    (0 until n).foreach(i => y(i) = x(i) + 1f)
  }
}

/** `x^2`, whose gradient consists of other user-defined operators. */
@UserDefinedOp
class Square extends UserDefinedCustomOp {
  def opName: String = "test_square"
  override def exec(context: OpContext): Unit = context.map(0, 0)(x => x * x)
  override def doDiff(gradients: Array[Symbol]): Array[Symbol] = Array(new Scale(2f)(arg()) * gradients(0))
}

/** A minimal operator: a name, a shape, and the computation. */
class Rows extends UserDefinedCustomOp {
  def opName: String = "test_rows"
  override def calculateOutputShape(): Array[Shape] = Array(Shape(inputShapes(0)(0)))
  override def exec(): Unit = outputArguments(0) = NDArray.api.sum(inputArguments(0), axis = Shape(1))
}

/** The sum and the difference, as two outputs. */
class SumAndDifference extends UserDefinedCustomOp {
  def opName: String = "test_sum_and_difference"
  override def calculateOutputDataTypes(types: Array[DType]): Array[DType] = Array(types(0), types(0))
  override def calculateOutputShape(): Array[Shape] = Array(inputShapes(0), inputShapes(1))
  override def exec(): Unit = {
    outputArguments(0) = inputArguments(0) + inputArguments(1)
    outputArguments(1).set(inputArguments(0) - inputArguments(1))
  }
  override def doDiff(g: Array[Symbol]): Array[Symbol] = Array(g(0) + g(1), g(0) - g(1))
}

/** The sum, written as in the document on user-defined functions: the shape of the output follows from the inputs. */
@UserDefinedOp
class DocumentedAdd(var bound: Option[Float], var axes: Seq[Int]) extends UserDefinedCustomOp {
  def this() = this(None, Nil)
  def opName: String = "test_documented_add"
  override def calculateOutputShape(): Array[Shape] = Array(inputArguments.get(0).shape)
  override def calculateOutputShape(oc: OpContext): Array[Shape] = {
    require(calculateOutputShape().head == oc.getInputArrays().get(1).shape && oc.inputArrays.length == 2)
    Array(oc.getInputArrays().get(0).shape)
  }
  override def exec(): Unit = {
    val sum = inputArguments.get(0) + inputArguments.get(1)
    outputArguments.addAll(java.util.List.of(bound.fold(sum)(NDArray.api.clip(sum, 0f, _).head * axes.sum.toFloat)))
  }
  override def doDiff(gradients: Array[Symbol]): Array[Symbol] = Array(gradients(0), gradients(0))
}

/** Reads elements during shape inference. */
class TooEarly extends UserDefinedCustomOp {
  def opName: String = "test_too_early"
  override def calculateOutputShape(oc: OpContext): Array[Shape] = Array(Shape(oc.inputArrays(0).toArray.head.toInt))
}

/** Doubles in place, and adds the second input. */
class InPlace extends UserDefinedCustomOp {
  def opName: String = "test_in_place"
  override def isInplaceCall: Boolean = true
  override def calculateOutputShape(): Array[Shape] = throw new IllegalStateException("not called in place")
  override def exec(): Unit = {
    assert(inputArguments(0) eq outputArguments(0))
    outputArguments(0) *= 2f
    outputArguments(0) += inputArguments(1)
  }
  override def doDiff(g: Array[Symbol]): Array[Symbol] = Array(g(0) * 2f, g(0))
}

/** The numbers from 0, without inputs. */
class Count extends UserDefinedCustomOp {
  var size: Int = 3
  def opName: String = "test_count"
  override def getNumInputs: Int = 0
  override def calculateOutputShape(): Array[Shape] = Array(Shape(size))
  override def exec(): Unit = outputArguments(0).set(Array.tabulate(size)(_.toFloat))
}

/** Adds states to its input and counts its runs in each of them. */
class Stateful extends UserDefinedCustomOp {
  def opName: String = "test_stateful"
  override def getNumInputs: Int = 1
  override def stateNames: Array[String] = Array.tabulate(20)(i => s"count$i")
  override def calculateStateShapes(): Array[Shape] = stateNames.map(_ => inputShapes(0))
  override def exec(context: OpContext): Unit = {
    context.output(0).set(context.input(0))
    context.stateArrays.foreach { state =>
      context.output(0) += state
      if (context.isTrain) state += 1f
    }
  }
  override def doDiff(g: Array[Symbol]): Array[Symbol] = Array(g(0))
}

/** Every kind of property. */
class Properties extends UserDefinedCustomOp {
  var flag = true
  var byte: Byte = -3
  var short: Short = 300
  var char = '\u20ac'
  var int: Int = Int.MinValue
  var long: Long = Long.MaxValue
  var float = 0.1f
  var double: Double = Double.MinPositiveValue
  var nan: Double = Double.NaN
  var infinite: Float = Float.NegativeInfinity
  var text = "say \"hi\" \\ \u00e9\n"
  var nothing: String = _
  var shape: Shape = Shape(2, 3)
  var scalar: Shape = Shape()
  var dtype: DType = DType.Float16
  var flags: Array[Boolean] = Array(true, false)
  var floats: Array[Float] = Array(0.1f, Float.MaxValue, -0f)
  var empty: Array[Double] = Array()
  var chars: Array[Char] = Array(',', '"')
  var texts: Array[String] = Array("a,b", null, "")
  var shapes: Array[Shape] = Array(Shape(1), Shape(2, 2))
  var matrix: Array[Array[Long]] = Array(Array(1L, Long.MinValue), Array())
  var map: Map[String, Any] = Map[String, Any]("a" -> 1, "inner" -> Map[String, Any]("b" -> 2.5f, "c" -> Array(1, 2)))
  var javaMap: java.util.Map[String, Any] = java.util.Map.of("k", 7L)
  var list: Seq[Any] = List(1, "a", Shape(2), Nil, Some(2.5f))
  var vector: Vector[Double] = Vector(0.1, Double.NegativeInfinity)
  var range: Range = 3 to 9 by 2
  var arraySeq: Seq[Float] = Array(0.1f, 2f).toSeq
  var buffer: scala.collection.mutable.ArrayBuffer[Long] = scala.collection.mutable.ArrayBuffer(1L, -1L)
  var javaList: java.util.List[String] = java.util.List.of("x", "y")
  var some: Option[Array[Int]] = Some(Array(1, 2))
  var none: Option[String] = None
  val constants: Seq[Int] = Seq(1, 2, 3)
  val callbacks: Seq[() => Unit] = Seq(() => ())
  val fixed = 5
  @transient var scratch: Thread = Thread.currentThread()
  val lock = new Object
  def opName: String = "test_properties"
  override def exec(): Unit = outputArguments(0).set(inputArguments(0))
}

/** A property that cannot be saved. */
class Unsaved extends UserDefinedCustomOp {
  var thread: Thread = Thread.currentThread()
  def opName: String = "test_unsaved"
}

/** An operator with a mistake, which its property selects. */
class Wrong(var what: String) extends UserDefinedCustomOp {
  def this() = this("")
  def opName: String = "test_wrong"
  override def calculateOutputDataTypes(types: Array[DType]): Array[DType] = what match {
    case "null types" => null
    case "two types"  => Array(types(0), types(0))
    case _            => Array(types(0))
  }
  override def getNumOutputs: Int = 1
  override def calculateOutputShape(): Array[Shape] = what match {
    case "null shapes" => null
    case "null shape"  => Array[Shape](null)
    case "no shapes"   => Array()
    case _             => Array(inputShapes(0))
  }
  override def exec(context: OpContext): Unit = what match {
    case "throws"       => throw new IllegalStateException("on purpose")
    case "error"        => throw new StackOverflowError("deep")
    case "null output"  => context.outputArrays(0) = null
    case "wrong shape"  => context.outputArrays(0) = NDArray.zeros(7)
    case "wrong type"   => context.outputArrays(0) = NDArray.zeros(context.inputShapes(0), null, DType.Float64)
    case "writes input" => context.input(0) += 1f
    case "writes view"  => context.input(0).reshape(Array(-1)).set(1f)
    case "native write" => Base._LIB.ndarraySetFloats(context.input(0).handle, 0, Array(9f), 0, 1)
    case "as output"    => new Scale(2f).invoke(context.input(0)).head.copyTo(context.input(0))
    case "a late block" =>
      context.mapBlocks(0, 0)((x, y, n) => if (x(n - 1) == -1f) throw new IllegalStateException("in a block"))
    case "recursion" => Wrong.executor.forward()
    case "disposes"  =>
      Wrong.executor.dispose()
      context.output(0).set(context.input(0))
    case _ => context.output(0).set(context.input(0))
  }
  override def doDiff(gradients: Array[Symbol]): Array[Symbol] = what match {
    case "null gradients"  => null
    case "no gradients"    => Array()
    case "null gradient"   => Array[Symbol](null)
    case "other variable"  => Array(Symbol.Variable("w") * gradients(0))
    case "gradient shape"  => Array(Symbol.api.sum(gradients(0)))
    case "gradient type"   => Array(Symbol.api.Cast(gradients(0), dtype = "float64"))
    case "two outputs"     => Array(new SumAndDifference()(arg(), gradients(0)))
    case "gradient throws" => throw new IllegalStateException("no gradient today")
    case "wrong gradient"  => Array(gradients(0) * 2f)
    case _                 => Array(gradients(0))
  }
}

object Wrong {
  @volatile var executor: Executor = _
}

/** Outputs which instance ran. */
class Counting extends UserDefinedCustomOp {
  private val number = Counting.created.incrementAndGet()
  @transient private var runs = 0
  def opName: String = "test_counting"
  override def exec(context: OpContext): Unit = {
    runs += 1
    context.output(0).set(Array.fill(context.output(0).size)((number * 1000 + runs).toFloat))
  }
  override def propertiesForFunction(): Map[String, Any] = Map.empty
}

object Counting {
  val created = new AtomicInteger
}

/** `x` times a factor and the product of a shape, for `Custom` nodes of other programs. */
@UserDefinedOp
class Imported extends UserDefinedCustomOp {
  var factor: Double = 1
  var kernel: Shape = Shape(1)
  def opName: String = "test_imported"
  override def stateNames: Array[String] = Array("count")
  override def exec(context: OpContext): Unit = context.map(0, 0)(_ * factor * kernel.product)
}

/** Two classes with the same operator name. */
@UserDefinedOp
class FirstTwin extends UserDefinedCustomOp {
  def opName: String = "test_twin"
}

@UserDefinedOp
class SecondTwin extends UserDefinedCustomOp {
  def opName: String = "test_twin"
}

/** The name of a built-in operator. */
class NamedLikeBuiltIn extends UserDefinedCustomOp {
  def opName: String = "Convolution"
}

/** No constructor without parameters. */
class WithoutEmptyConstructor(factor: Float) extends UserDefinedCustomOp {
  def opName: String = "test_without_empty_constructor"
  override def exec(context: OpContext): Unit = context.map(0, 0)(_ * factor)
}

/** A constructor with defaults instead of one without parameters. */
@UserDefinedOp
class Shifted(val by: Float = 2f, times: Int = 1) extends UserDefinedCustomOp {
  def opName: String = "test_shifted"
  override def exec(context: OpContext): Unit = context.map(0, 0)(_ + by * times)
}

/** No gradient. */
class NoGradient extends UserDefinedCustomOp {
  def opName: String = "test_no_gradient"
  override def exec(context: OpContext): Unit = context.map(0, 0)(x => x)
}

/** Its constructor fails. */
@UserDefinedOp
class FailingConstructor extends UserDefinedCustomOp {
  throw new IllegalStateException("cannot be made")
  def opName: String = "test_failing_constructor"
}

/** An operator whose set-up fails. */
class Unconfigurable extends UserDefinedCustomOp {
  def opName: String = "test_unconfigurable"
  override def configureFromArguments(): Unit = throw new IllegalStateException("not today")
  override def exec(context: OpContext): Unit = context.map(0, 0)(identity)
}

/** `x^2`, of float32 only. */
class SinglePrecisionSquare extends UserDefinedCustomOp {
  def opName: String = "test_single_precision_square"
  override def calculateOutputDataTypes(types: Array[DType]): Array[DType] = {
    if (types(0) != DType.Float32) throw new MXNetError(s"float32 only, not ${types(0)}")
    types
  }
  override def exec(context: OpContext): Unit = context.map(0, 0)(x => x * x)
  override def doDiff(gradients: Array[Symbol]): Array[Symbol] = Array(arg() * 2f * gradients(0))
}

/** The sum of `coefficients(i) * x^i`, and a constant if there is one. */
@UserDefinedOp
class Polynomial(var coefficients: Seq[Float], var constant: Option[Float]) extends UserDefinedCustomOp {
  def this() = this(Nil, None)
  def opName: String = "test_polynomial"
  override def exec(context: OpContext): Unit = context.map(0, 0) { x =>
    coefficients.foldRight(0.0)((coefficient, sum) => sum * x + coefficient) + constant.getOrElse(0f)
  }
}
