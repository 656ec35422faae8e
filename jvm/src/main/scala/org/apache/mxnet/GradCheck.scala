package org.apache.mxnet

import scala.jdk.CollectionConverters._
import scala.util.Random.javaRandomToRandom

import org.apache.mxnet.internal.util.NullChecks.requireNonNull

/** Compares the gradient of an operator with finite differences, in double precision.
  *
  * {{{
  * GradCheck(new Square, Seq(NDArray.array(Array(0.5, -2.0), Shape(2)))).orThrow()
  * }}}
  */
object GradCheck {

  /** A mismatch of a gradient.
    *
    * @param input index of the input
    * @param index index of the element along each axis
    * @param composed the gradient that the operator composes
    * @param measured the finite difference
    */
  final case class Mismatch(input: Int, index: Vector[Int], composed: Double, measured: Double) {
    override def toString: String =
      s"input $input at ${index.mkString("(", ", ", ")")}: the gradient is $composed, finite differences give $measured"
  }

  /** The result of a check. */
  final case class Report(opName: String, checked: Int, mismatches: Vector[Mismatch]) {

    /** Whether all gradients agree. */
    def isCorrect: Boolean = mismatches.isEmpty

    /** Throws an error that lists the first mismatches, if there are any. */
    def orThrow(): Unit = if (!isCorrect) throw new MXNetError(toString)

    override def toString: String =
      if (isCorrect) s"the gradient of operator $opName agrees with finite differences at $checked elements"
      else
        s"the gradient of operator $opName is wrong at ${mismatches.length} of $checked elements:" +
          mismatches.take(10).mkString("\n  ", "\n  ", if (mismatches.length > 10) "\n  ..." else "")
  }

  /** Checks the gradients of an operator in Java.
    *
    * @param inputs the inputs; auxiliary states may follow
    */
  def apply(op: javaapi.UserDefinedCustomOp, inputs: java.util.List[javaapi.NDArray]): Report = {
    requireNonNull("GradCheck", "op" -> op, "inputs" -> inputs)
    apply(op.asScala, inputs.asScala.map(_.nd).toSeq)
  }

  /** Checks the gradients of all inputs, for random gradients of the outputs.
    *
    * @param op the operator; if it does not support float64, or rounds to float32, it is checked with `eps` of at least
    *   0.01, `rtol` 0.02 and `atol` 0.002
    * @param inputs the inputs, whose elements are converted; auxiliary states may follow
    * @param eps step of the finite differences; multiplied by the magnitude of an element if that is above 1
    * @param rtol relative tolerance
    * @param atol absolute tolerance
    * @param only indices of the inputs to check; null for all
    */
  def apply(
      op: UserDefinedCustomOp,
      inputs: Seq[NDArray],
      eps: Double = 1e-5,
      rtol: Double = 1e-4,
      atol: Double = 1e-6,
      only: Set[Int] = null
  ): Report = {
    requireNonNull("GradCheck", "op" -> op, "inputs" -> inputs)
    val names = inputs.indices.map(i => s"input$i")
    val symbol = op(names.map(name => Symbol.Variable(name)): _*)
    val bound = bind(symbol, names.zip(inputs).toMap)
    try {
      val checked = names.zipWithIndex.filter { case (name, input) =>
        bound.executor.argDict.contains(name) && (only == null || only(input))
      }
      def compare(tolerance: Tolerance): Report = bound.compare(op.opName, checked, tolerance)
      val exact = Tolerance(eps, rtol, atol)
      val single = Tolerance(math.max(eps, 1e-2), math.max(rtol, 2e-2), math.max(atol, 2e-3))
      val report = compare(if (bound.isDouble) exact else single)
      // An operator that computes in float32, for example with `toArray`, cannot be checked with small steps.
      if (bound.isDouble && !report.isCorrect && bound.roundsToSingle) compare(single) else report
    } finally bound.dispose()
  }

  private final case class Tolerance(eps: Double, rtol: Double, atol: Double)

  /** The index along each axis of an element in row-major order. */
  private def indexOf(element: Int, shape: Shape): Vector[Int] =
    shape.toVector
      .foldRight((Vector.empty[Int], element)) { case (dim, (index, rest)) => ((rest % dim) +: index, rest / dim) }
      ._1

  /** The operator in float64, or else in float32. */
  private def bind(symbol: Symbol, inputs: Map[String, NDArray]): Bound =
    try new Bound(symbol, inputs, DType.Float64)
    catch {
      case error: MXNetError =>
        try new Bound(symbol, inputs, DType.Float32)
        catch { case _: MXNetError => throw error }
    }

  /** The operator with its arrays in one type. */
  private final class Bound(symbol: Symbol, inputs: Map[String, NDArray], dtype: DType.DType) {
    private val arguments = symbol.listArguments()

    private def converted(name: String): NDArray = {
      val input = inputs.getOrElse(name, throw new MXNetError(s"GradCheck: there is no array for $name"))
      NDArray.empty(input.shape, input.context, dtype).set(input.toFloat64Array)
    }

    private val args = arguments.map(name => name -> converted(name)).toMap
    private val aux = symbol.listAuxiliaryStates().map(name => name -> converted(name)).toMap
    private val grads =
      args.map { case (name, array) => name -> NDArray.zeros(array.shape, array.context, dtype) }
    val executor: Executor = symbol.bind(Context.cpu(), args, grads, "write", aux, null, null)
    executor.forward(isTrain = true)

    def isDouble: Boolean = dtype == DType.Float64

    /** Whether float32 can represent all outputs so far. */
    var roundsToSingle = true

    def dispose(): Unit = {
      executor.dispose()
      Iterator(args, aux, grads).flatMap(_.values).foreach(_.dispose())
    }

    /** Compares the gradients of inputs, given with their indices. */
    def compare(opName: String, inputs: Seq[(String, Int)], tolerance: Tolerance): Report = {
      val random = javaRandomToRandom(new java.util.Random(1))
      val headGradients = executor.outputs.map(o => Array.fill(o.size)(random.nextDouble() + 0.5))
      executor.forward(isTrain = true)
      val composedGradients = gradients(headGradients)
      var count = 0
      val mismatches = for {
        (name, input) <- inputs
        values = args(name).toFloat64Array
        element <- values.indices
        step = tolerance.eps * math.max(1.0, math.abs(values(element)))
        measured = {
          count += 1
          def loss(by: Double) = value(name, values, element, by, headGradients)
          (loss(step) - loss(-step)) / (2 * step)
        }
        composed = composedGradients(name)(element)
        if !(math.abs(composed - measured) <= tolerance.atol + tolerance.rtol * math.abs(measured))
      } yield Mismatch(input, indexOf(element, args(name).shape), composed, measured)
      Report(opName, count, mismatches.toVector)
    }

    def gradients(headGradients: Array[Array[Double]]): Map[String, Array[Double]] = {
      val heads = executor.outputs.zip(headGradients).map { case (output, gradient) =>
        NDArray.empty(output.shape, output.context, dtype).set(gradient)
      }
      try executor.backward(heads)
      finally heads.foreach(_.dispose())
      grads.map { case (name, gradient) => name -> gradient.toFloat64Array }
    }

    /** The sum of the outputs, weighted by the head gradients, after adding `by` to one element of an input. */
    def value(
        name: String,
        values: Array[Double],
        element: Int,
        by: Double,
        headGradients: Array[Array[Double]]
    ): Double = {
      args(name).set(values.updated(element, values(element) + by))
      executor.forward(isTrain = true)
      args(name).set(values)
      if (roundsToSingle)
        roundsToSingle = executor.outputs.forall(_.toFloat64Array.forall(x => x.toFloat.toDouble == x || x.isNaN))
      executor.outputs
        .zip(headGradients)
        .map { case (o, gradient) => o.toFloat64Array.lazyZip(gradient).map(_ * _).sum }
        .sum
    }
  }
}
