package org.apache.mxnet.spark.internal

import java.nio.file.Path
import java.util.concurrent.{ConcurrentHashMap, ConcurrentLinkedQueue}

import scala.collection.immutable.ListMap
import scala.collection.mutable
import scala.collection.mutable.ArrayBuffer

import org.apache.mxnet.DType.DType
import org.apache.mxnet._
import org.apache.spark.SparkEnv

/** A loaded model, which any number of tasks run concurrently with shared parameters.
  *
  * @param symbol the network
  * @param inputs the declared inputs of an ONNX model, by name
  * @param outputNames the names of the outputs, in the order of the symbol's
  * @param useNumpyShape whether shapes are inferred with NumPy semantics
  * @param onClose called when the model is closed
  */
private[mxnet] final class ModelSession private (
    symbol: Symbol,
    args: Map[String, NDArray],
    aux: Map[String, NDArray],
    inputs: Map[String, ModelInput],
    outputNames: IndexedSeq[String],
    useNumpyShape: Boolean,
    onClose: () => Unit
) extends AutoCloseable {
  private val networks = new ConcurrentHashMap[(Seq[(String, Shape)], Seq[String]), Network]

  /** The arguments that are not parameters. */
  def inputNames: IndexedSeq[String] = symbol.listArguments().filterNot(args.contains)

  /** Output names in the order of the model. */
  def outputs: IndexedSeq[String] = outputNames

  /** The shape of a row of an input, if the model declares it. */
  def rowShape(input: String): Option[Shape] = {
    val known = inputs.get(input).flatMap(_.dims).filter(_.nonEmpty).map(_.tail.map(_.toIntOption.getOrElse(-1)))
    val declared = symbol.attrMap().get(input).flatMap(_.get("__shape__")).map(ModelSession.dimsOf).map(_.drop(1))
    known.orElse(declared).filter(_.forall(_ > 0)).map(dims => Shape(dims))
  }

  /** The fixed batch size of an input, if it has one. */
  def fixedBatch(input: String): Option[Int] =
    inputs.get(input).flatMap(_.dims).flatMap(_.headOption).flatMap(_.toIntOption).filter(_ > 0)

  /** The outputs of these names, which may be those of any node. */
  private def select(fetches: Seq[String]): Symbol = {
    val own = symbol.listOutputs()
    lazy val internals = symbol.getInternals()
    Symbol.Group(fetches.map { name =>
      val index = math.max(outputNames.indexOf(name), own.indexOf(name))
      if (index >= 0) symbol.get(index)
      else {
        val inner = internals.listOutputs().indexOf(name)
        if (inner < 0)
          throw new IllegalArgumentException(
            s"the model has no output '$name'; it has ${outputNames.mkString(", ")}, and every node has one"
          )
        internals.get(inner)
      }
    }: _*)
  }

  /** The types of the inputs and of the requested outputs. */
  def types(feeds: Seq[String], fetches: Seq[String]): (Map[String, DType], Seq[DType]) = ResourceScope.using() {
    val selected = select(fetches)
    requireFeeds(selected, feeds, fetches)
    typesOf(selected, feeds)
  }

  /** Checks that all inputs that the requested outputs need have a column; labels need none. */
  private def requireFeeds(selected: Symbol, feeds: Seq[String], fetches: Seq[String]): Unit = {
    val missing =
      selected.listArguments().filterNot(name => args.contains(name) || feeds.contains(name) || name.endsWith("label"))
    if (missing.nonEmpty)
      throw new IllegalArgumentException(
        s"feedDict has no column for ${missing.map(name => s"'$name'").mkString(", ")}, which ${fetches.mkString(", ")} need; " +
          "the model has no such parameters"
      )
  }

  private def typesOf(selected: Symbol, feeds: Seq[String]): (Map[String, DType], Seq[DType]) = {
    val names = selected.listArguments()
    val known = args.collect { case (name, array) if names.contains(name) => name -> array.dtype }
    val declared =
      feeds.flatMap(name => inputs.get(name).flatMap(input => ModelSession.typeNamed(input.elementType)).map(name -> _))
    val (argTypes, outTypes, _) = {
      val (inferred, outs, auxs) = selected.inferType(known ++ declared)
      if (inferred != null) (inferred, outs, auxs)
      else selected.inferType(feeds.map(_ -> DType.Float32).toMap ++ known ++ declared)
    }
    if (argTypes == null) throw new IllegalArgumentException("the types of the model's inputs cannot be inferred")
    (names.zip(argTypes).toMap, outTypes)
  }

  /** The part of the network between inputs and outputs.
    *
    * @param feeds the inputs, with the shape of a row
    * @param fetches the outputs
    */
  def network(feeds: Seq[(String, Shape)], fetches: Seq[String]): Network =
    networks.computeIfAbsent((feeds, fetches), _ => ResourceScope.outside(new Network(feeds, fetches)))

  override def close(): Unit = {
    networks.values.forEach(_.close())
    (args.values ++ aux.values).foreach(_.dispose())
    symbol.dispose()
    onClose()
  }

  /** The part of the network from inputs whose rows have the given shapes to the requested outputs. */
  final class Network private[ModelSession] (feeds: Seq[(String, Shape)], fetches: Seq[String]) {
    private val selected = select(fetches)
    private val argNames = selected.listArguments()
    private val auxNames = selected.listAuxiliaryStates()
    requireFeeds(selected, feeds.map(_._1), fetches)
    private val (argTypes, _) = typesOf(selected, feeds.map(_._1))

    /** Idle workspaces by batch size. */
    private val idleWorkspaces = new ConcurrentHashMap[Int, ConcurrentLinkedQueue[Workspace]]

    /** Runs a batch.
      *
      * @param batch the number of rows
      * @param fill writes the inputs, in the order of `feeds`
      * @param read reads the outputs, which the next run overwrites
      */
    def run[A](batch: Int)(fill: IndexedSeq[NDArray] => Unit)(read: IndexedSeq[NDArray] => A): A = {
      val queue = idleWorkspaces.computeIfAbsent(batch, _ => new ConcurrentLinkedQueue)
      val idle = queue.poll()
      val workspace = if (idle == null) ResourceScope.outside(bind(batch)) else idle
      try {
        fill(workspace.inputs)
        workspace.executor.forward(isTrain = false)
        val result = read(workspace.executor.outputs.toIndexedSeq)
        queue.add(workspace)
        result
      } catch {
        case error: Throwable =>
          workspace.close()
          throw error
      }
    }

    private def bind(batch: Int): Workspace = inSemantics {
      val shapes = feeds.map { case (name, row) => name -> Shape(batch +: row.toVector) }.toMap
      val used = shapes.filter { case (name, _) => argNames.contains(name) }
      val known = args.collect { case (n, a) if argNames.contains(n) => n -> a.shape }
      def unfit(reason: String, cause: Throwable = null) = {
        val rows = feeds.map { case (name, row) => s"$name $row" }.mkString(", ")
        new IllegalArgumentException(
          s"the model cannot take rows of shape $rows$reason; set the parameter inputShapes",
          cause
        )
      }
      val (argShapes, _, _) =
        try selected.inferShape(known ++ used)
        catch { case error: MXNetError => throw unfit(s": ${error.getMessage}", error) }
      if (argShapes == null) throw unfit("")
      val created = ArrayBuffer.empty[NDArray]
      def zeros(shape: Shape, dtype: DType): NDArray = {
        created += NDArray.zeros(shape, Context.cpu(), dtype)
        created.last
      }
      // Variables of the same name are one input.
      val own =
        argNames.indices.filterNot(i => args.contains(argNames(i))).map(i => argNames(i) -> argShapes(i)).toMap.map {
          case (name, shape) => name -> zeros(shape, argTypes(name))
        }
      val arrays = argNames.map(name => args.getOrElse(name, own(name)))
      val executor = selected.bind(
        Context.cpu(),
        arrays,
        Seq.fill[NDArray](arrays.length)(null),
        "null",
        auxNames.map(name => aux.getOrElse(name, throw new MXNetError(s"the model has no auxiliary state '$name'"))),
        null,
        null
      )
      // Inputs that the outputs do not need are written, too.
      val inputs = feeds.map { case (name, _) =>
        if (used.contains(name)) arrays(argNames.indexOf(name))
        else zeros(shapes(name), DType.Float32)
      }
      new Workspace(executor, inputs.toIndexedSeq, created.toSeq)
    }

    private def inSemantics[A](body: => A): A =
      if (useNumpyShape) NumpyScope.enableNumpyShape.withScope(body) else body

    private[ModelSession] def close(): Unit = {
      idleWorkspaces.values.forEach(_.forEach(_.close()))
      selected.dispose()
    }
  }

  /** What one task at a time computes with.
    *
    * @param created the arrays that are not parameters: the inputs, and labels
    */
  private final class Workspace(val executor: Executor, val inputs: IndexedSeq[NDArray], created: Seq[NDArray]) {
    def close(): Unit = {
      executor.dispose()
      created.foreach(_.dispose())
    }
  }
}

private[mxnet] object ModelSession {

  /** The Spark setting with the maximum number of loaded models per executor. */
  val CapacityKey = "spark.ferromx.sessionCapacity"
  private val DefaultCapacity = 4

  /** A model in the cache. Fields are guarded by the object `ModelSession`, the session by itself. */
  private final class Entry(val load: () => ModelSession) {
    var users = 0
    lazy val session: ModelSession = load()
  }

  /** The models by hash, the least recently used first. An entry without users is loaded. */
  private val entries = mutable.LinkedHashMap.empty[String, Entry]
  private var loads = 0L

  /** Number of models that this process has loaded. */
  def numLoads: Long = synchronized(loads)

  /** The hashes of the cached models, the least recently used first. */
  def cached: Seq[String] = synchronized(entries.keys.toSeq)

  private def capacity: Int =
    Option(SparkEnv.get).flatMap(_.conf.getOption(CapacityKey)).fold(DefaultCapacity) { text =>
      text.trim.toIntOption.filter(_ >= 1).getOrElse {
        throw new IllegalArgumentException(
          s"$CapacityKey is '$text'; give the number of models that an executor caches, at least 1"
        )
      }
    }

  /** A session that is not closed before its lease. */
  final class Lease private[ModelSession] (entry: Entry) extends AutoCloseable {
    private var isOpen = true

    def session: ModelSession = entry.session

    override def close(): Unit = {
      // Read first: an invalid setting must not leave the entry with a user that is gone.
      val limit = capacity
      val unused = ModelSession.synchronized {
        if (isOpen) entry.users -= 1
        isOpen = false
        evict(limit)
      }
      unused.foreach(_.session.close())
    }
  }

  /** Leases the session of a model, which is loaded if necessary. If there are then more models than [[CapacityKey]], the
    * least recently used ones that nobody leases are closed, before the model is loaded.
    *
    * @param hash the hash of the model's content
    */
  def acquire(hash: String, load: () => ModelSession): Lease = {
    val limit = capacity
    val (entry, unused) = synchronized {
      val found = entries.remove(hash).getOrElse(new Entry(load))
      entries(hash) = found
      found.users += 1
      (found, evict(limit))
    }
    unused.foreach(_.session.close())
    try {
      entry.session
      new Lease(entry)
    } catch {
      case error: Throwable =>
        synchronized {
          entry.users -= 1
          // Others may wait to try again.
          if (entry.users == 0) entries.remove(hash)
        }
        throw error
    }
  }

  /** Removes the least recently used entries without users while there are more than `limit`. */
  private def evict(limit: Int): Seq[Entry] = {
    val old = entries.toSeq.filter(_._2.users == 0).take(entries.size - limit)
    old.foreach { case (hash, _) => entries.remove(hash) }
    old.map(_._2)
  }

  /** The name of the file with the parameters of an ONNX model. */
  val ImportedParams = "imported.params"

  /** Loads a model from files. */
  def load(files: ModelFiles): ModelSession = loading(files) {
    if (files.isOnnx) imported(files)(identity, () => ())
    else {
      val (symbol, params) = files.load()
      of(symbol, params, () => ())
    }
  }

  /** Loads a model from files that nothing changes; they can be deleted afterwards. Large weights are memory of the files, which
    * takes less of this process's own memory: the system reads pages when they are used, and drops them when the weights have
    * been packed for the kernels.
    *
    * @param share replaces a complete file by an equal one that other processes map, if there is one
    * @param onClose called when the model is closed
    */
  def loadMapped(files: ModelFiles, share: Path => Unit, onClose: () => Unit): ModelSession = loading(files) {
    if (!files.isOnnx) of(files.loadSymbol(), files.loadParams(isMapped = true), onClose)
    else
      imported(files)(
        params => {
          val file = files.main.resolveSibling(ImportedParams)
          // Elements of the largest type first, so that all are aligned.
          val arrays = Model.withKinds(params.args, params.aux).toArray.sortBy { case (name, array) =>
            (-DType.numOfBytes(array.dtype), name)
          }
          NDArray.save(file.toString, ListMap(arrays.toSeq: _*))
          params.dispose()
          Base._LIB.releaseCachedMemory()
          share(file)
          Model.loadParams(file.toString, isMapped = true)
        },
        onClose
      )
  }

  private def of(symbol: Symbol, params: Model.Params, onClose: () => Unit) =
    new ModelSession(symbol, params.args, params.aux, Map.empty, symbol.listOutputs(), useNumpyShape = false, onClose)

  private def imported(files: ModelFiles)(moved: Model.Params => Model.Params, onClose: () => Unit) = {
    val model = files.importOnnx()
    val inputs = model.inputs.map(input => input.name -> input).toMap
    val params = moved(Model.Params(model.argParams, model.auxParams))
    new ModelSession(model.symbol, params.args, params.aux, inputs, model.outputs, useNumpyShape = true, onClose)
  }

  private def loading(files: ModelFiles)(body: => ModelSession): ModelSession = ResourceScope.outside {
    synchronized(loads += 1)
    try body
    catch {
      case error: Exception =>
        throw new MXNetError(s"the model ${files.main.getFileName} cannot be loaded: ${error.getMessage}", error)
    }
  }

  /** The numbers of a shape such as `(0, 3, 224, 224)`. */
  private def dimsOf(text: String): IndexedSeq[Int] =
    text.split("[^0-9-]+").toIndexedSeq.filter(_.nonEmpty).map(_.toInt)

  private def typeNamed(name: String): Option[DType] = DType.values.find(_.toString == name)
}
