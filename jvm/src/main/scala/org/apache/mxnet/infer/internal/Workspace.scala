package org.apache.mxnet.infer.internal

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicInteger

import org.apache.mxnet._

/** An executor with its own input arrays and the network's parameters. One thread uses it at a time.
  *
  * @param inputs the input arrays, in the order of the network's inputs
  */
private[infer] final class Workspace(val executor: Executor, val inputs: IndexedSeq[NDArray])

/** A trained network on one device, which any number of threads can run at the same time. They share the parameters.
  * Each call takes a free workspace, or binds a new one if all are in use.
  *
  * @param symbol the network
  * @param descs the inputs; the batch size may differ
  */
private[infer] final class SharedNetwork(
    val symbol: Symbol,
    argParams: Map[String, NDArray],
    auxParams: Map[String, NDArray],
    descs: IndexedSeq[DataDesc],
    context: Context
) {
  import SharedNetwork._

  private val argNames = symbol.listArguments()
  private val inputNames = descs.map(_.name)

  descs.foreach { desc =>
    if (!argNames.contains(desc.name))
      throw new IllegalArgumentException(
        s"the network has no input '${desc.name}'; it has the arguments ${argNames.mkString(", ")}"
      )
  }

  private val batchAxes: IndexedSeq[Int] = descs.map(desc => DataDesc.getBatchAxis(Some(desc.layout)))

  private val (argTypes, auxTypes) = {
    val (args, _, aux) = symbol.inferType(descs.map(desc => desc.name -> desc.dtype).toMap)
    if (args == null)
      throw new IllegalArgumentException(s"the types of the network cannot be inferred from ${descs.mkString(", ")}")
    (args, aux)
  }

  /** The parameters in the order of the arguments; null for inputs and labels. */
  private val sharedArgs: IndexedSeq[NDArray] = argNames.lazyZip(argTypes).map { (name, dtype) =>
    if (inputNames.contains(name)) null
    else
      argParams.get(name) match {
        case Some(array)                    => array.asInContext(context).asType(dtype)
        case None if name.endsWith("label") => null
        case None                           =>
          throw new IllegalArgumentException(
            s"the argument '$name' is neither a parameter in the file nor one of the inputs ${inputNames.mkString(", ")}"
          )
      }
  }

  private val sharedAux: IndexedSeq[NDArray] = symbol.listAuxiliaryStates().lazyZip(auxTypes).map { (name, dtype) =>
    val array = auxParams.getOrElse(
      name,
      throw new IllegalArgumentException(s"the auxiliary state '$name' is not in the file of parameters")
    )
    array.asInContext(context).asType(dtype)
  }

  /** The parameters and auxiliary states of the network. */
  def params: Model.Params = Model.Params(
    argNames.zip(sharedArgs).filter(_._2 != null).toMap,
    symbol.listAuxiliaryStates().zip(sharedAux).toMap
  )

  private val free = new ConcurrentHashMap[Int, Pool]
  private val clock = new AtomicInteger

  /** The batch size of the descriptions. */
  val batchSize: Int = descs.head.shape(batchAxes.head)

  /** The shape of input `i` with another batch size. */
  def shapeOf(i: Int, batch: Int): Shape = Shape(descs(i).shape.toVector.updated(batchAxes(i), batch))

  /** The batch size of input arrays. */
  def batchOf(arrays: IndexedSeq[NDArray]): Int = {
    require(
      arrays.length == descs.length,
      s"${arrays.length} inputs were given, the network has ${descs.length}: ${inputNames.mkString(", ")}"
    )
    val first = arrays.head.shape
    val batch = if (first.length > batchAxes.head) first(batchAxes.head) else 0
    arrays.indices.foreach { i =>
      val (shape, wanted) = (arrays(i).shape, shapeOf(i, batch))
      require(
        shape == wanted && batch > 0,
        s"input '${inputNames(i)}' has the shape $shape; with ${if (batch > 0) batch else "a number of"} instances it " +
          s"must be ${if (batch > 0) wanted else descs(i).shape}"
      )
    }
    batch
  }

  /** Runs the network on a batch.
    *
    * @param fill writes the input arrays
    * @param read reads the outputs, which the next call overwrites
    */
  def run[A](batch: Int)(fill: IndexedSeq[NDArray] => Unit)(read: Array[NDArray] => A): A = {
    val pool = poolOf(batch)
    val waiting = pool.poll()
    val workspace = if (waiting == null) bind(batch) else waiting
    fill(workspace.inputs)
    workspace.executor.forward(isTrain = false)
    val result = read(workspace.executor.outputs)
    pool.add(workspace)
    result
  }

  /** The workspaces for a batch size. Those of the least recently used size are dropped if there are too many sizes. */
  private def poolOf(batch: Int): Pool = {
    val pool = free.computeIfAbsent(batch, _ => new Pool)
    pool.lastUse = clock.incrementAndGet()
    if (free.size > MaxBatchSizes) {
      var oldest: java.util.Map.Entry[Int, Pool] = null
      free.entrySet.forEach { entry =>
        if (entry.getKey != batchSize && (oldest == null || entry.getValue.lastUse - oldest.getValue.lastUse < 0))
          oldest = entry
      }
      if (oldest != null) free.remove(oldest.getKey, oldest.getValue)
    }
    pool
  }

  private def bind(batch: Int): Workspace = ResourceScope.outside {
    val shapes = descs.indices.map(i => descs(i).name -> shapeOf(i, batch)).toMap
    val (argShapes, _, auxShapes) = symbol.inferShape(shapes)
    require(argShapes != null, s"the shapes of the network cannot be inferred from ${shapes.mkString(", ")}")
    requireShapes(argNames, sharedArgs, argShapes)
    requireShapes(symbol.listAuxiliaryStates(), sharedAux, auxShapes)
    val args = argNames.indices.map { i =>
      if (sharedArgs(i) != null) sharedArgs(i) else NDArray.zeros(argShapes(i), context, argTypes(i))
    }
    val executor = Executor.bind(
      symbol,
      context,
      args.toArray,
      Array.fill[NDArray](args.length)(null),
      Array.fill(args.length)(0),
      sharedAux.toArray,
      Map.empty,
      null
    )
    new Workspace(executor, inputNames.map(name => args(argNames.indexOf(name))))
  }

  private def requireShapes(names: IndexedSeq[String], arrays: IndexedSeq[NDArray], shapes: IndexedSeq[Shape]): Unit =
    names.indices.foreach { i =>
      require(
        arrays(i) == null || arrays(i).shape == shapes(i),
        s"'${names(i)}' has the shape ${arrays(i).shape} in the file, but ${shapes(i)} follows from the inputs; " +
          "check the input descriptors"
      )
    }

  /** Names and shapes of the outputs for the described inputs. */
  def outputShapes: IndexedSeq[(String, Shape)] = symbol.listOutputs().zip(symbol.inferShape(descs)._2)
}

private object SharedNetwork {

  /** Maximum number of batch sizes with workspaces. */
  private val MaxBatchSizes = 16

  private final class Pool extends java.util.concurrent.ConcurrentLinkedQueue[Workspace] {
    @volatile var lastUse = 0
  }
}
