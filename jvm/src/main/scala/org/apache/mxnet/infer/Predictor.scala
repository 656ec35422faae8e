package org.apache.mxnet.infer

import java.io.ObjectStreamException
import java.util.concurrent.atomic.AtomicInteger

import org.apache.mxnet._
import org.apache.mxnet.infer.internal._

/** Runs a trained network on instances. */
private[infer] trait PredictBase {

  /** Runs the network on Java arrays; see [[Predictor.predict]]. */
  def predict[T](input: IndexedSeq[Array[T]]): IndexedSeq[Array[T]]

  /** Runs the network on a batch. */
  def predictWithNDArray(input: IndexedSeq[NDArray]): IndexedSeq[NDArray]

  /** Names and shapes of the outputs. */
  def outputShapes: IndexedSeq[(String, Shape)]
}

/** Runs a trained network, read from files, on any number of instances.
  *
  * Any number of threads may share a predictor. They share the parameters and do not wait for each other. Results do
  * not depend on other threads, bit for bit.
  *
  * A predictor can be serialized, for example by Spark: with the network, or with the path of its files after
  * `serializeByPath(true)`.
  *
  * @param modelPathPrefix prefix of the files: `prefix-symbol.json` and `prefix-NNNN.params`
  * @param inputDescriptors the inputs, with the expected batch size
  * @param contexts the devices, used in turn; `cpu(0)` if empty
  * @param epoch the number NNNN; 0 if absent
  */
class Predictor(
    modelPathPrefix: String,
    protected val inputDescriptors: IndexedSeq[DataDesc],
    protected val contexts: Array[Context] = Array(Context.cpu()),
    protected val epoch: Option[Int] = Some(0)
) extends PredictBase
    with SerializableModel {
  require(inputDescriptors.nonEmpty, "there are no input descriptors; describe each input of the network")

  private val networks: IndexedSeq[SharedNetwork] = ResourceScope.outside {
    val (symbol, params) = ModelContent.network(modelPathPrefix, epoch.getOrElse(0))
    devices.toIndexedSeq.map(device => new SharedNetwork(symbol, params.args, params.aux, inputDescriptors, device))
  }

  private[infer] def content(synset: IndexedSeq[String]): ModelContent =
    ModelContent(networks.head.symbol, networks.head.params, synset)

  private def devices: Array[Context] =
    if (contexts == null || contexts.isEmpty) Array(Context.cpu()) else contexts

  @throws(classOf[ObjectStreamException])
  protected def writeReplace(): AnyRef = SerializedPredictor.of(
    this,
    modelPathPrefix,
    inputDescriptors,
    devices,
    epoch,
    Option.unless(isSerializedByPath)(content(IndexedSeq.empty))
  )

  private val calls = new AtomicInteger

  private def network: SharedNetwork =
    if (networks.length == 1) networks.head else networks(Math.floorMod(calls.getAndIncrement(), networks.length))

  /** Names and shapes of the outputs for the described inputs. */
  override def outputShapes: IndexedSeq[(String, Shape)] = networks.head.outputShapes

  /** Runs the network on one or more instances.
    *
    * @param input an array of `Float` or `Double` per input: its instances in row-major order
    * @tparam T `Float` or `Double`
    * @return an array per output, in row-major order
    */
  override def predict[T](input: IndexedSeq[Array[T]]): IndexedSeq[Array[T]] = {
    val target = network
    val batch = instancesIn(input, target)
    val inFloats = (input.head: Any).isInstanceOf[Array[Float]]
    target.run(batch) { arrays =>
      input.indices.foreach { i =>
        (input(i): Any) match {
          case values: Array[Float]  => arrays(i).set(values)
          case values: Array[Double] => arrays(i).set(values)
          case other => throw new IllegalArgumentException(s"inputs are Float or Double, not ${other.getClass.getName}")
        }
      }
    } { outputs =>
      outputs.toIndexedSeq.map { output =>
        val numbers: Any = if (inFloats) output.toArray else output.toFloat64Array
        numbers.asInstanceOf[Array[T]]
      }
    }
  }

  private def instancesIn[T](input: IndexedSeq[Array[T]], target: SharedNetwork): Int = {
    require(
      input.length == inputDescriptors.length,
      s"${input.length} inputs were given, the network has ${inputDescriptors.length}: " +
        inputDescriptors.map(_.name).mkString(", ")
    )
    val counts = input.indices.map { i =>
      val (length, one) = (input(i).length, target.shapeOf(i, 1).product)
      require(
        length > 0 && length % one == 0,
        s"input '${inputDescriptors(i).name}' has $length numbers; an instance of ${target.shapeOf(i, 1)} takes $one, " +
          "give those of one or more instances"
      )
      length / one
    }
    require(counts.distinct.length == 1, s"the inputs have ${counts.mkString(", ")} instances; give as many of each")
    if (counts.head > 1)
      inputDescriptors.foreach { desc =>
        require(
          DataDesc.getBatchAxis(Some(desc.layout)) == 0,
          s"input '${desc.name}' has the layout ${desc.layout}, whose instances do not lie one after the other; " +
            "give one instance, or use predictWithNDArray"
        )
      }
    counts.head
  }

  /** Runs the network on a batch of any size.
    *
    * @param inputBatch the inputs, of one batch size
    * @return the outputs, as new arrays
    */
  override def predictWithNDArray(inputBatch: IndexedSeq[NDArray]): IndexedSeq[NDArray] = {
    val target = network
    target.run(target.batchOf(inputBatch)) { arrays =>
      inputBatch.indices.foreach(i => inputBatch(i).copyTo(arrays(i)))
    }(_.toIndexedSeq.map(_.copy()))
  }
}
