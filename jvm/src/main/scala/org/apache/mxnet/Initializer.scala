package org.apache.mxnet

import scala.util.matching.Regex

import org.apache.mxnet.internal.util.NullChecks.requireNonNull

/** Initializes parameters by their names.
  *
  * The suffix of the name selects the rule: `bias`, `beta`, `moving_mean`, `moving_var` and `moving_avg` are zero,
  * `gamma` is one, and `weight` is filled by [[initWeight]] of the concrete initializer. Names that start with
  * `upsampling` get a bilinear kernel. Any other name is passed to [[initDefault]], which rejects it.
  */
abstract class Initializer {

  /** Initializes one parameter in place.
    *
    * @param name name of the parameter, for example `fc1_weight`
    * @param arr the array to fill
    * @throws IllegalArgumentException if there is no rule for the name
    */
  def apply(name: String, arr: NDArray): Unit = {
    requireNonNull("Initializer", "name" -> name, "arr" -> arr)
    if (name.startsWith("upsampling")) initBilinear(name, arr)
    else if (name.endsWith("bias")) initBias(name, arr)
    else if (name.endsWith("gamma")) initGamma(name, arr)
    else if (name.endsWith("beta")) initBeta(name, arr)
    else if (name.endsWith("weight")) initWeight(name, arr)
    else if (Initializer.ZeroSuffixes.exists(suffix => name.endsWith(suffix))) initZero(name, arr)
    else initDefault(name, arr)
  }

  /** Fills a deconvolution kernel of shape (in, out, height, width) so that it interpolates bilinearly. */
  protected def initBilinear(name: String, arr: NDArray): Unit = {
    val shape = arr.shape
    require(
      shape.length == 4,
      s"parameter $name: a bilinear kernel has the 4 dimensions (in, out, height, width), but its shape is $shape"
    )
    val height = shape(2)
    val width = shape(3)
    val factor = width / 2.0f
    val center = (2 * factor - 1 - factor % 2) / (2.0f * factor)
    def tent(position: Int): Float = 1 - math.abs(position / factor - center)
    arr.set(Array.tabulate(arr.size)(i => tent(i % width) * tent((i / width) % height)))
  }

  /** Fills with zeros. */
  protected def initZero(name: String, arr: NDArray): Unit = Initializer.fill(arr, 0f)

  /** Fills a bias: zeros. */
  protected def initBias(name: String, arr: NDArray): Unit = Initializer.fill(arr, 0f)

  /** Fills the scale of a normalization layer: ones. */
  protected def initGamma(name: String, arr: NDArray): Unit = Initializer.fill(arr, 1f)

  /** Fills the shift of a normalization layer: zeros. */
  protected def initBeta(name: String, arr: NDArray): Unit = Initializer.fill(arr, 0f)

  /** Fills a weight; initializers differ in this method. */
  protected def initWeight(name: String, arr: NDArray): Unit

  /** Called for a name without a rule. */
  protected def initDefault(name: String, arr: NDArray): Unit =
    throw new NoInitializationRule(
      s"no initialization rule for parameter $name of shape ${arr.shape}: its name ends with none of weight, bias, " +
        "gamma, beta, moving_mean, moving_var, moving_avg; rename it, give its value in argParams, or use Mixed with " +
        "a pattern for it; an input or a label must have this name in the data iterator (dataName, labelName) and in " +
        "dataNames or labelNames of the module"
    )
}

/** No rule of an initializer covers the name of a parameter. */
private[mxnet] final class NoInitializationRule(message: String) extends IllegalArgumentException(message)

private object Initializer {
  val ZeroSuffixes: Seq[String] = Seq("moving_mean", "moving_var", "moving_avg")

  def fill(arr: NDArray, value: Float): Unit = {
    arr.set(value)
    ()
  }
}

/** Selects an initializer by the first pattern that matches a part of the parameter's name.
  *
  * @param patterns regular expressions, tried in order
  * @param initializers one initializer for each pattern
  */
class Mixed(protected val patterns: List[String], protected val initializers: List[Initializer]) extends Initializer {
  requireNonNull("Mixed", "patterns" -> patterns, "initializers" -> initializers)
  require(
    patterns.length == initializers.length,
    s"${patterns.length} patterns but ${initializers.length} initializers: give one initializer for each pattern"
  )

  private val rules: List[(Regex, Initializer)] = patterns.map(_.r).zip(initializers)

  override def apply(name: String, arr: NDArray): Unit =
    rules.find(_._1.findFirstIn(name).isDefined) match {
      case Some((_, initializer)) => initializer(name, arr)
      case None                   =>
        throw new NoInitializationRule(
          s"parameter $name matches none of the patterns ${patterns.mkString(", ")}; " +
            "add \".*\" at the end for the default initializer"
        )
    }

  /** Does nothing: the selected initializer fills the array. */
  override def initWeight(name: String, arr: NDArray): Unit = ()
}

/** Draws weights from the uniform distribution on [-scale, scale].
  *
  * @param scale half the width of the range
  */
class Uniform(protected val scale: Float = 0.07f) extends Initializer {
  override def initWeight(name: String, arr: NDArray): Unit = Random.uniform(-scale, scale, out = arr)
}

/** Draws weights from the normal distribution with mean 0.
  *
  * @param sigma standard deviation
  */
class Normal(protected val sigma: Float = 0.01f) extends Initializer {
  override def initWeight(name: String, arr: NDArray): Unit = Random.normal(0f, sigma, out = arr)
}

/** Draws weights that preserve the variance of activations from layer to layer (Glorot and Bengio, 2010).
  *
  * The scale is `sqrt(magnitude / factor)`. The factor is fanOut, the first dimension of the weight, or fanIn, the
  * product of the others, or their mean.
  *
  * @param rndType `uniform` draws from [-scale, scale], `gaussian` with standard deviation scale
  * @param factorType the factor: `in` for fanIn, `out` for fanOut, `avg` for their mean
  * @param magnitude numerator of the squared scale
  */
class Xavier(
    protected val rndType: String = "uniform",
    protected val factorType: String = "avg",
    protected val magnitude: Float = 3
) extends Initializer {
  require(
    rndType == "uniform" || rndType == "gaussian",
    s"rndType of Xavier is uniform or gaussian, not $rndType"
  )
  require(
    factorType == "avg" || factorType == "in" || factorType == "out",
    s"factorType of Xavier is avg, in or out, not $factorType"
  )

  override def initWeight(name: String, arr: NDArray): Unit = {
    requireNonNull(s"initializer of $name", "arr" -> arr)
    val shape = arr.shape
    require(shape.length > 0, s"parameter $name is a scalar: Xavier needs at least one dimension")
    val fanOut = shape(0)
    val fanIn = shape.toArray.drop(1).product
    val factor = factorType match {
      case "avg" => (fanIn + fanOut) / 2f
      case "in"  => fanIn.toFloat
      case _     => fanOut.toFloat
    }
    val scale = math.sqrt(magnitude / factor).toFloat
    if (rndType == "uniform") Random.uniform(-scale, scale, out = arr) else Random.normal(0f, scale, out = arr)
  }
}
