package org.apache.mxnet

import java.io.{DataInputStream, DataOutputStream, IOException}
import java.nio.file.{Files, Paths}
import java.util.Locale

import org.apache.mxnet.internal.util.Blocks
import org.apache.mxnet.internal.util.NullChecks.requireNonNull

/** Called with the parameters after each epoch of training. */
trait EpochEndCallback {

  /** @param epoch number of the epoch, from 0
    * @param symbol the network
    * @param argParams parameters by name
    * @param auxStates auxiliary states by name
    */
  def invoke(epoch: Int, symbol: Symbol, argParams: Map[String, NDArray], auxStates: Map[String, NDArray]): Unit
}

/** Called with the metric after each batch, or at the end of an evaluation. */
trait BatchEndCallback {

  /** @param epoch number of the epoch, from 0
    * @param nBatch number of the batch, from 0
    * @param evalMetric the metric over the batches so far
    */
  def invoke(epoch: Int, nBatch: Int, evalMetric: EvalMetric): Unit
}

/** Returns the network of a bucket. */
trait SymbolGenerator {

  /** @param key the bucket */
  def generate(key: AnyRef): Symbol
}

/** See the companion object. */
class Model

/** Writes and reads the files of trained networks. */
object Model {

  /** A serialized network with its parameters.
    *
    * @param symbol the network as JSON
    * @param argParams parameters by name, each as `NDArray.serialize` writes it
    * @param auxParams auxiliary states by name
    */
  class SerializedModel private[mxnet] (
      val symbol: String,
      val argParams: Map[String, Array[Byte]],
      val auxParams: Map[String, Array[Byte]]
  )

  /** Writes a network to `prefix-symbol.json` and its parameters to `prefix-NNNN.params`.
    *
    * @param prefix prefix of the files' names
    * @param epoch the number NNNN
    */
  def saveCheckpoint(
      prefix: String,
      epoch: Int,
      symbol: Symbol,
      argParams: Map[String, NDArray],
      auxParams: Map[String, NDArray]
  ): Unit = {
    requireNonNull(
      "Model.saveCheckpoint",
      "prefix" -> prefix,
      "symbol" -> symbol,
      "argParams" -> argParams,
      "auxParams" -> auxParams
    )
    symbol.save(symbolFile(prefix))
    NDArray.save(paramsFile(prefix, epoch), withKinds(argParams, auxParams))
  }

  /** Reads what [[saveCheckpoint]] or MXNet wrote: the network, its parameters and its auxiliary states.
    *
    * @throws MXNetError if a file is missing
    * @throws IOException if a file has other contents
    */
  def loadCheckpoint(prefix: String, epoch: Int): (Symbol, Map[String, NDArray], Map[String, NDArray]) = {
    requireNonNull("Model.loadCheckpoint", "prefix" -> prefix)
    requireCheckpoint(symbolFile(prefix))
    val params = loadParams(paramsFile(prefix, epoch))
    (Symbol.load(symbolFile(prefix)), params.args, params.aux)
  }

  /** Parameters and auxiliary states by name. */
  private[mxnet] final case class Params(args: Map[String, NDArray], aux: Map[String, NDArray]) {
    def write(out: DataOutputStream): Unit = Seq(args, aux).foreach { arrays =>
      Blocks.writeAll(out, arrays.toSeq.sortBy(_._1)) { case (name, array) =>
        Blocks.writeText(out, name)
        Blocks.write(out, array.serialize())
      }
    }

    def dispose(): Unit = (args.values ++ aux.values).foreach(_.dispose())
  }

  private[mxnet] object Params {
    def read(in: DataInputStream): Params = Params(readArrays(in), readArrays(in))

    /** The arrays belong to the caller, whatever scope is open. */
    def copyOf(params: (Map[String, NDArray], Map[String, NDArray])): Params = ResourceScope.outside {
      def copies(arrays: Map[String, NDArray]) = arrays.map { case (name, array) => name -> array.copy() }
      Params(copies(params._1), copies(params._2))
    }

    private def readArrays(in: DataInputStream): Map[String, NDArray] = ResourceScope.outside {
      Blocks.readAll(in)(Blocks.readText(in) -> NDArray.deserialize(Blocks.read(in))).toMap
    }
  }

  private[mxnet] def symbolFile(prefix: String): String = s"$prefix-symbol.json"

  private[mxnet] def paramsFile(prefix: String, epoch: Int): String = epochFile(prefix, epoch, "params")

  /** The file for the states of an optimizer. */
  private[mxnet] def statesFile(prefix: String, epoch: Int): String = epochFile(prefix, epoch, "states")

  private def epochFile(prefix: String, epoch: Int, extension: String): String =
    String.format(Locale.ROOT, "%s-%04d.%s", prefix, Int.box(epoch), extension)

  /** Adds the prefixes that mark parameters and auxiliary states in a file. */
  private[mxnet] def withKinds(args: Map[String, NDArray], aux: Map[String, NDArray]): Map[String, NDArray] =
    args.map { case (name, array) => s"arg:$name" -> array } ++ aux.map { case (name, array) => s"aux:$name" -> array }

  private[mxnet] def loadParams(fname: String, isMapped: Boolean = false): Params = {
    requireNonNull("Model.loadParams", "fname" -> fname)
    requireCheckpoint(fname)
    val (names, arrays) = NDArrayFactory.load(fname, isMapped)
    val (args, others) = names.zip(arrays).partition(_._1.startsWith("arg:"))
    others.find(!_._1.startsWith("aux:")).foreach { case (name, _) =>
      throw new IOException(
        s"$fname is not a parameter file: it has an array named '$name', which starts neither with arg: nor with aux:"
      )
    }
    if (names.length != arrays.length)
      throw new IOException(s"$fname is not a parameter file: its ${arrays.length} arrays have no names")
    Params(
      args.map { case (name, array) => name.drop(4) -> array }.toMap,
      others.map { case (name, array) => name.drop(4) -> array }.toMap
    )
  }

  /** Fails unless there is such a file of a checkpoint. As in MXNet, it is the engine's error, while other files have
    * Java's.
    */
  private def requireCheckpoint(fname: String): Unit =
    if (isMissing(fname)) throw new MXNetError(missing(fname, "prefix and epoch"))

  /** Fails unless there is such a file. */
  private[mxnet] def requireFile(fname: String): Unit =
    if (isMissing(fname)) throw new IOException(missing(fname, "its name"))

  private def isMissing(fname: String): Boolean = !Files.isRegularFile(Paths.get(fname))

  private def missing(fname: String, check: String): String =
    s"there is no file $fname; check $check, and the directory ${Paths.get("").toAbsolutePath}"

  private val ParameterSuffixes =
    Seq("_weight", "_bias", "_gamma", "_beta", "_moving_mean", "_moving_var", "_running_mean", "_running_var")

  /** Whether an argument is a parameter, by its name. */
  private[mxnet] def looksLikeParameter(name: String): Boolean =
    ParameterSuffixes.exists(suffix => name.endsWith(suffix))

  /** Parameters with at least this number of elements are updated on the devices, because copying them to the store
    * would take too long.
    */
  private val LargeParameter = 16L * 1024 * 1024

  /** Creates the store for a number of devices, if one is needed; also returns whether it updates the parameters
    * itself.
    *
    * @param kvStore the type; null for no store
    * @param numDevice number of devices
    * @param argParams the parameters; `local` becomes `local_allreduce_cpu` if one of them is large
    */
  private[mxnet] def createKVStore(
      kvStore: String,
      numDevice: Int,
      argParams: Map[String, NDArray]
  ): (Option[KVStore], Boolean) =
    if (kvStore == null) (None, false)
    else {
      val large = kvStore == "local" && argParams.values.exists(_.size >= LargeParameter)
      val store = KVStore.create(if (large) "local_allreduce_cpu" else kvStore)
      if (numDevice == 1 && !kvStore.startsWith("dist")) {
        store.dispose()
        (None, false)
      } else createKVStore(store)
    }

  private[mxnet] def createKVStore(kvStore: KVStore): (Option[KVStore], Boolean) =
    (Option(kvStore), kvStore != null && !kvStore.`type`.contains("local_allreduce"))
}
