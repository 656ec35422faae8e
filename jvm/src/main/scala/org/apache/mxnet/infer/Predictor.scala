package org.apache.mxnet.infer

import java.io.ObjectStreamException
import java.util.concurrent.atomic.AtomicInteger

import org.apache.mxnet._
import org.apache.mxnet.infer.internal._
import org.apache.mxnet.internal.util.NullChecks.requireNonNull
import org.apache.mxnet.module.Module

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
  * A subclass may override `loadModule`. Its module then runs the network, and threads that share the predictor take
  * turns.
  *
  * @param modelPathPrefix prefix of the files: `prefix-symbol.json` and `prefix-NNNN.params`
  * @param inputDescriptors the inputs, with the expected batch size. The batch axis is the axis N of the layout, or the
  *   first axis if there is no layout. A layout without N describes one instance, to which a batch axis is prepended
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
  requireNonNull(
    "Predictor",
    "modelPathPrefix" -> modelPathPrefix,
    "inputDescriptors" -> inputDescriptors,
    "epoch" -> epoch
  )
  private val inputs = new NetworkInputs(inputDescriptors)

  /** Index of the batch axis of the first input. */
  protected[infer] val batchIndex: Int = inputs.batchAxis

  /** The described batch size. */
  protected[infer] val batchSize: Int = inputs.batchSize

  /** The inputs, with a batch axis. */
  protected[infer] val iDescriptors: IndexedSeq[DataDesc] = inputs.descs

  /** Runs code in the thread that all models share. Nothing here needs it. */
  protected[infer] val mxNetHandler: MXNetHandler = MXNetHandler()

  private lazy val networks: IndexedSeq[SharedNetwork] = ResourceScope.outside {
    val (symbol, params) = ModelContent.network(modelPathPrefix, epoch.getOrElse(0))
    devices.toIndexedSeq.map(device => new SharedNetwork(symbol, params.args, params.aux, inputs, device))
  }

  @volatile private var moduleNetwork: Option[ModuleNetwork] = None

  /** The module that [[loadModule]] returns. It runs the network from now on, so changes of its parameters take effect.
    */
  protected[infer] lazy val mod: Module = ResourceScope.outside {
    val module = loadModule()
    moduleNetwork = Some(new ModuleNetwork(module, inputs))
    module
  }

  if (isLoadModuleOverridden) mod else networks

  /** A module with the network and its parameters, bound for the described inputs. */
  private[infer] def loadModule(): Module = {
    val (symbol, params) =
      if (isLoadModuleOverridden) ModelContent.network(modelPathPrefix, epoch.getOrElse(0))
      else (networks.head.symbol, networks.head.params)
    val labels = symbol.listArguments().filterNot(name => inputs.names.contains(name) || params.args.contains(name))
    val module = new Module(symbol, inputs.names, labels, devices)
    module.bind(iDescriptors, forTraining = false)
    module.setParams(params.args, params.aux)
    module
  }

  private def isLoadModuleOverridden: Boolean =
    getClass != classOf[Predictor] &&
      getClass.getMethod("loadModule").getDeclaringClass != classOf[Predictor]

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

  private def network: Network = moduleNetwork.getOrElse {
    if (networks.length == 1) networks.head else networks(Math.floorMod(calls.getAndIncrement(), networks.length))
  }

  /** Names and shapes of the outputs for the described inputs. */
  override def outputShapes: IndexedSeq[(String, Shape)] = moduleNetwork.getOrElse(networks.head).outputShapes

  /** Runs the network on one or more instances.
    *
    * @param input an array of `Float` or `Double` per input: its instances in row-major order
    * @tparam T `Float` or `Double`
    * @return an array per output, in row-major order
    */
  override def predict[T](input: IndexedSeq[Array[T]]): IndexedSeq[Array[T]] = {
    requireNonNull("Predictor.predict", "input" -> input)
    val shapes = inputs.shapes(inputs.instancesIn(input))
    val useFloats = (input.head: Any).isInstanceOf[Array[Float]]
    network.run(shapes) { arrays =>
      input.indices.foreach { i =>
        (input(i): Any) match {
          case values: Array[Float]  => arrays(i).set(values)
          case values: Array[Double] => arrays(i).set(values)
          case other                 =>
            throw new IllegalArgumentException(s"inputs are Float or Double, not ${other.getClass.getSimpleName}")
        }
      }
    } { outputs =>
      outputs.map { output =>
        val numbers: Any = if (useFloats) output.toArray else output.toFloat64Array
        numbers.asInstanceOf[Array[T]]
      }
    }
  }

  /** Runs the network on a batch of any size. With the system property `mxnet.disableShapeCheck` set to `true`, the other
    * axes may have other lengths than described, too.
    *
    * @param inputBatch the inputs, of one batch size
    * @return the outputs, as new arrays
    */
  override def predictWithNDArray(inputBatch: IndexedSeq[NDArray]): IndexedSeq[NDArray] = {
    requireNonNull("Predictor.predictWithNDArray", "inputBatch" -> inputBatch)
    inputs.requireBatch(inputBatch)
    network.predict(inputBatch)
  }
}
