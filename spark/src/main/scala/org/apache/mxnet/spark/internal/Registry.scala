package org.apache.mxnet.spark.internal

import java.util.Locale

import scala.collection.mutable

import org.apache.mxnet._
import org.apache.mxnet.optimizer._

/** Creates optimizers, metrics and initializers by their names in MXNet, in which case does not matter. Names can be saved,
  * and set from Python.
  */
private[mxnet] object Registry {

  /** Settings by name. A setting that is not read is an error, because its name is unknown. */
  private final class Settings(owner: String, values: Map[String, String]) {
    private val known = mutable.LinkedHashSet.empty[String]

    def text(name: String, default: String): String = {
      known += name
      values.getOrElse(name, default)
    }

    def number(name: String, default: Float): Float =
      text(name, default.toString).toFloatOption.filter(_.isFinite).getOrElse(wrong(name, "a number"))

    private def wrong(name: String, expected: String): Nothing = throw new IllegalArgumentException(
      values.get(name).fold(s"$owner has no setting $name; give $expected") { value =>
        s"the setting $name of $owner is '$value'; give $expected"
      }
    )

    /** The schedule, if there is one. */
    def schedule: LRScheduler = {
      val (step, factor) = (text("lr_step", ""), text("lr_factor", ""))
      if (step.isEmpty && factor.isEmpty) null
      else
        new FactorScheduler(
          step.toIntOption.filter(_ >= 1).getOrElse(wrong("lr_step", "a whole number of batches, at least 1")),
          factor.toFloatOption.filter(f => f > 0 && f < 1).getOrElse(wrong("lr_factor", "a number between 0 and 1"))
        )
    }

    /** The result of `make`, which reads all settings. */
    def checked[A](make: Settings => A): A = {
      val result = make(this)
      values.keys.toSeq.sorted.find(!known.contains(_)).foreach { unknown =>
        throw new IllegalArgumentException(s"$owner has no setting '$unknown'; it has ${known.mkString(", ")}")
      }
      result
    }

    def clip: Float = number("clip_gradient", 0f)
  }

  private type OptimizerMaker = (Settings, Float) => Optimizer

  private val optimizerMakers = Seq[(String, OptimizerMaker)](
    "sgd" -> ((s, rate) => new SGD(rate, s.number("momentum", 0f), s.number("wd", 1e-4f), s.clip, s.schedule)),
    "nag" -> ((s, rate) => new NAG(rate, s.number("momentum", 0f), s.number("wd", 1e-4f), s.clip, s.schedule)),
    "adam" -> ((s, rate) =>
      new Adam(
        rate,
        s.number("beta1", 0.9f),
        s.number("beta2", 0.999f),
        s.number("epsilon", 1e-8f),
        wd = s.number("wd", 0f),
        clipGradient = s.clip,
        lrScheduler = s.schedule
      )
    ),
    "adagrad" -> ((s, rate) => new AdaGrad(rate, epsilon = s.number("eps", 1e-7f), wd = s.number("wd", 0f))),
    "rmsprop" -> ((s, rate) =>
      new RMSProp(
        rate,
        gamma1 = s.number("gamma1", 0.95f),
        gamma2 = s.number("gamma2", 0.9f),
        wd = s.number("wd", 0f),
        lrScheduler = s.schedule,
        clipGradient = s.clip
      )
    ),
    "dcasgd" -> ((s, rate) =>
      new DCASGD(
        rate,
        s.number("momentum", 0f),
        s.number("lamda", 0.04f),
        s.number("wd", 0f),
        s.clip,
        s.schedule
      )
    ),
    "sgld" -> ((s, rate) =>
      new SGLD(rate, wd = s.number("wd", 1e-4f), clipGradient = s.clip, lrScheduler = s.schedule)
    ),
    "adadelta" -> ((s, _) =>
      new AdaDelta(
        s.number("rho", 0.05f),
        epsilon = s.number("epsilon", 1e-8f),
        wd = s.number("wd", 0f),
        clipGradient = s.clip
      )
    )
  )

  private val metricMakers = Seq[(String, () => EvalMetric)](
    "acc" -> (() => new Accuracy()),
    "f1" -> (() => new F1()),
    "ce" -> (() => new CrossEntropy()),
    "Perplexity" -> (() => new Perplexity()),
    "mae" -> (() => new MAE()),
    "mse" -> (() => new MSE()),
    "rmse" -> (() => new RMSE())
  )

  /** Other names of MXNet, and those under which values are reported. */
  private val otherNames = Map(
    "accuracy" -> "acc",
    "crossentropy" -> "ce",
    "cross-entropy" -> "ce",
    "perplexity" -> "Perplexity"
  )

  // One is the accuracy.
  private val TopK = "top_k_accuracy_([2-9]|[1-9][0-9]{1,4})".r

  private val initializerMakers = Seq[(String, Settings => Initializer)](
    "xavier" -> (s =>
      new Xavier(s.text("rnd_type", "uniform"), s.text("factor_type", "avg"), s.number("magnitude", 3f))
    ),
    "uniform" -> (s => new Uniform(s.number("scale", 0.07f))),
    "normal" -> (s => new Normal(s.number("sigma", 0.01f)))
  )

  val optimizers: Seq[String] = optimizerMakers.map(_._1)
  val metrics: Seq[String] = metricMakers.map(_._1) :+ "top_k_accuracy_N"
  val initializers: Seq[String] = initializerMakers.map(_._1)

  def optimizer(name: String, learningRate: Float, settings: Map[String, String]): Optimizer =
    new Settings(s"the optimizer $name", settings).checked(s => find(optimizerMakers, name)(s, learningRate))

  def initializer(name: String, settings: Map[String, String]): Initializer =
    new Settings(s"the initializer $name", settings).checked(s => find(initializerMakers, name)(s))

  def metric(name: String): EvalMetric = lower(name) match {
    case TopK(k) => new TopKAccuracy(k.toInt)
    case other   => find(metricMakers, otherNames.getOrElse(other, other), metrics)()
  }

  def requireOptimizer(name: String): Unit = { find(optimizerMakers, name); () }
  def requireMetric(name: String): Unit = { metric(name); () }
  def requireInitializer(name: String): Unit = { find(initializerMakers, name); () }

  private def lower(name: String) = String.valueOf(name).toLowerCase(Locale.ROOT)

  private def find[A](makers: Seq[(String, A)], name: String): A = find(makers, name, makers.map(_._1))

  private def find[A](makers: Seq[(String, A)], name: String, known: Seq[String]): A = makers
    .collectFirst { case (key, make) if lower(key) == lower(name) => make }
    .getOrElse(throw new IllegalArgumentException(s"'$name' is not one of ${known.mkString(", ")}"))
}
