package org.apache.mxnet.infer.internal

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicInteger

import org.apache.mxnet._

/** An executor with its own input arrays and the network's parameters. One thread uses it at a time.
  *
  * @param inputs the input arrays, in the order of the network's inputs
  */
private[infer] final class Workspace(val executor: Executor, val inputs: IndexedSeq[NDArray]) {
  def dispose(): Unit = {
    executor.dispose()
    inputs.foreach(_.dispose())
  }
}

/** A trained network on one device, which any number of threads can run at the same time. They share the parameters.
  * Each call takes a free workspace, or binds a new one if all are in use.
  *
  * @param symbol the network
  * @param inputs the inputs; the shapes may differ
  */
private[infer] final class SharedNetwork(
    val symbol: Symbol,
    argParams: Map[String, NDArray],
    auxParams: Map[String, NDArray],
    inputs: NetworkInputs,
    context: Context
) extends Network {
  import SharedNetwork._

  private val argNames = symbol.listArguments()
  private val descs = inputs.descs
  private val inputNames = inputs.names

  descs.foreach { desc =>
    if (!argNames.contains(desc.name))
      throw new IllegalArgumentException(
        s"the network has no input '${desc.name}'; it has the arguments ${argNames.mkString(", ")}"
      )
  }

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

  private val pools = new ConcurrentHashMap[IndexedSeq[Shape], Pool]
  private val clock = new AtomicInteger

  override def run[A](shapes: IndexedSeq[Shape])(fill: IndexedSeq[NDArray] => Unit)(
      read: IndexedSeq[NDArray] => A
  ): A = {
    val pool = poolOf(shapes)
    val idle = pool.poll()
    val workspace = if (idle == null) bind(shapes) else idle
    // Every run overwrites the arrays, so a workspace is usable after an error too.
    try {
      fill(workspace.inputs)
      workspace.executor.forward(isTrain = false)
      read(workspace.executor.outputs.toIndexedSeq)
    } finally pool.add(workspace)
  }

  override def predict(batch: IndexedSeq[NDArray]): IndexedSeq[NDArray] =
    run(batch.map(_.shape)) { arrays =>
      batch.indices.foreach(i => batch(i).copyTo(arrays(i)))
    }(_.map(_.copy()))

  private val describedShapes = descs.map(_.shape)

  // A wrong description is reported before the first prediction.
  if (describedShapes.forall(_.toVector.forall(_ > 0))) checkedShapes(describedShapes)

  /** The idle workspaces for shapes of the inputs. Those of the least recently used shapes are disposed if there are
    * too many.
    */
  private def poolOf(shapes: IndexedSeq[Shape]): Pool = {
    val pool = pools.computeIfAbsent(shapes, _ => new Pool)
    pool.lastUse = clock.incrementAndGet()
    if (pools.size > MaxPools) {
      var oldest: java.util.Map.Entry[IndexedSeq[Shape], Pool] = null
      pools.entrySet.forEach { entry =>
        val isOlder = oldest == null || entry.getValue.lastUse - oldest.getValue.lastUse < 0
        if (entry.getKey != describedShapes && isOlder) oldest = entry
      }
      if (oldest != null && pools.remove(oldest.getKey, oldest.getValue)) oldest.getValue.disposeIdle()
    }
    pool
  }

  private def bind(inputShapes: IndexedSeq[Shape]): Workspace = ResourceScope.outside {
    val argShapes = checkedShapes(inputShapes)
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

  /** The shapes of the arguments for inputs of these shapes, which the parameters must fit. */
  private def checkedShapes(inputShapes: IndexedSeq[Shape]): IndexedSeq[Shape] = {
    val (argShapes, _, auxShapes) = inferShapes(inputNames.zip(inputShapes).toMap)
    requireShapes(argNames, sharedArgs, argShapes)
    requireShapes(symbol.listAuxiliaryStates(), sharedAux, auxShapes)
    argShapes
  }

  private def requireShapes(names: IndexedSeq[String], arrays: IndexedSeq[NDArray], shapes: IndexedSeq[Shape]): Unit =
    names.indices.foreach { i =>
      require(
        arrays(i) == null || arrays(i).shape == shapes(i),
        s"'${names(i)}' has the shape ${arrays(i).shape} in the file, but the inputs require ${shapes(i)}; " +
          "check the input descriptors"
      )
    }

  override def outputShapes: IndexedSeq[(String, Shape)] =
    symbol.listOutputs().zip(inferShapes(inputNames.zip(describedShapes).toMap)._2)

  /** The shapes of arguments, outputs and auxiliary states. Those of parameters that do not follow from the inputs, such
    * as constants, are taken from the file.
    */
  private def inferShapes(shapes: Map[String, Shape]): (IndexedSeq[Shape], IndexedSeq[Shape], IndexedSeq[Shape]) = {
    val fromInputs = symbol.inferShape(shapes)
    val inferred =
      if (fromInputs._1 != null) fromInputs
      else {
        val parameters = argNames.indices.filter(sharedArgs(_) != null).map(i => argNames(i) -> sharedArgs(i).shape)
        symbol.inferShape(shapes ++ parameters)
      }
    require(
      inferred._1 != null,
      s"the shapes of the network cannot be inferred from ${shapes.mkString(", ")} and the parameters; " +
        "describe all its inputs"
    )
    inferred
  }
}

private object SharedNetwork {

  /** Maximum number of batch sizes, or other shapes of the inputs, with workspaces. */
  private val MaxPools = 16

  /** Idle workspaces for certain shapes of the inputs. */
  private final class Pool extends java.util.concurrent.ConcurrentLinkedQueue[Workspace] {
    @volatile var lastUse = 0

    def disposeIdle(): Unit = Iterator.continually(poll()).takeWhile(_ != null).foreach(_.dispose())
  }
}
