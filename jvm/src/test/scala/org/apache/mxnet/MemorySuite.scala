package org.apache.mxnet

import java.nio.file.{Files, Path, Paths}

import org.apache.mxnet.infer.Predictor
import org.apache.mxnet.io.NDArrayIter
import org.apache.mxnet.module.{FitParams, Module}
import org.apache.mxnet.optimizer.SGD

import scala.concurrent.duration.{Duration, MINUTES}
import scala.jdk.CollectionConverters._

/** The memory of programs that never dispose anything stays flat, with and without explicit garbage collection.
  *
  * These runs are short; `sbt "Test/runMain org.apache.mxnet.MemoryProgram predict 100000"` (or `train 10000`) is a long
  * one.
  */
class MemorySuite extends munit.FunSuite with TemporaryFiles {
  override val munitTimeout: Duration = Duration(10, MINUTES)

  private def run(options: Seq[String], arguments: String*): String = {
    val folder = s"-Djava.io.tmpdir=${temporaryFolder("memory")}"
    val all = Seq("-Xmx128m", JavaProcess.Library, folder, "-Dmxnet.gc.threshold=16777216") ++ options
    JavaProcess.run(all, "org.apache.mxnet.MemoryProgram", arguments: _*)
  }

  Seq(Nil, Seq("-XX:+DisableExplicitGC")).foreach { options =>
    test(s"predictions and training steps ${options.mkString}") {
      Seq("predict" -> 3000, "module" -> 2000, "train" -> 600).foreach { case (what, count) =>
        assert(run(options, what, count.toString).contains("flat"), what)
      }
    }
  }
}

/** Predicts or trains, and fails if memory grows after the first fifth of the run. */
object MemoryProgram {
  private val batch = 64
  private val features = 256

  private def network: Symbol = {
    val hidden = Symbol.api.FullyConnected(Symbol.Variable("data"), num_hidden = 256, name = "fc1")
    val active = Symbol.api.Activation(hidden, act_type = "relu")
    Symbol.api.SoftmaxOutput(Symbol.api.FullyConnected(active, num_hidden = 10, name = "fc2"), name = "softmax")
  }

  private def data: NDArrayIter = new NDArrayIter(
    IndexedSeq(NDArray.ones(batch, features)),
    IndexedSeq(NDArray.zeros(batch)),
    batch,
    labelName = "softmax_label"
  )

  def main(args: Array[String]): Unit = {
    val count = args(1).toInt
    val step = args(0) match {
      case "predict" => predictions()
      case "module"  => modulePredictions()
      case "train"   => trainingSteps()
      case other     => throw new IllegalArgumentException(s"'$other' is none of predict, module, train")
    }
    var (early, late) = (0L, 0L)
    (0 until count).foreach { i =>
      step()
      val used = Base._LIB.memoryInUse()
      if (i < count / 5) early = math.max(early, used) else late = math.max(late, used)
    }
    println(s"most memory in arrays: $early bytes at first, $late later; the process has ${resident() >> 20} MiB")
    // The library itself collects above the threshold, so more than twice the threshold means growth.
    val limit = math.max(early, java.lang.Long.getLong("mxnet.gc.threshold", 256L << 20)) * 5 / 2
    if (late > limit) sys.exit(1)
    println("memory stays flat")
  }

  private def predictions(): () => Unit = {
    val prefix = Files.createTempDirectory("memory").resolve("net").toString
    val module = newModule()
    module.saveCheckpoint(prefix, 0)
    val predictor = new Predictor(prefix, IndexedSeq(DataDesc("data", Shape(batch, features), layout = Layout.NT)))
    val input = NDArray.ones(batch, features)
    () => {
      predictor.predictWithNDArray(IndexedSeq(input + 1f)): Unit
    }
  }

  private def modulePredictions(): () => Unit = {
    val module = newModule()
    val input = NDArray.ones(batch, features)
    () => {
      module.predict(new DataBatch(IndexedSeq(input * 2f), IndexedSeq.empty, null, 0)): Unit
    }
  }

  private def newModule(): Module = {
    val module = new Module(network)
    module.bind(data.provideDataDesc, Some(data.provideLabelDesc))
    module.initParams()
    module
  }

  private def trainingSteps(): () => Unit = {
    val module = new Module(network)
    val params = new FitParams().setOptimizer(new SGD(0.01f, momentum = 0.9f))
    () => module.fit(data, None, 1, params)
  }

  private def resident(): Long = {
    val status: Path = Paths.get("/proc/self/status")
    if (!Files.exists(status)) 0L
    else
      Files
        .readAllLines(status)
        .asScala
        .collectFirst { case line if line.startsWith("VmRSS:") => line.filter(_.isDigit).toLong << 10 }
        .getOrElse(0L)
  }
}
