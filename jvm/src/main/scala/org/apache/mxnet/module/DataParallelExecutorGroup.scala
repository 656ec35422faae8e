package org.apache.mxnet.module

import org.apache.mxnet._

import scala.collection.immutable.ListMap

/** Executors of one network on several devices, each of which processes a slice of every mini-batch.
  *
  * Parameters, gradients and auxiliary states are allocated once, even if the shapes of the inputs change.
  *
  * @param symbol the network
  * @param contexts the devices
  * @param workLoadList fraction of the batch for each device, in any unit
  * @param paramNames arguments that are parameters, in the order of the network's arguments
  * @param forTraining whether gradients are computed
  * @param inputsNeedGrad whether gradients of the inputs are computed
  * @param fixedParamNames parameters that get no gradient
  * @param gradReq `write`, `add` or `null`, for all gradients
  */
class DataParallelExecutorGroup private[mxnet] (
    symbol: Symbol,
    contexts: Array[Context],
    workLoadList: IndexedSeq[Float],
    private[module] val paramNames: IndexedSeq[String],
    forTraining: Boolean,
    inputsNeedGrad: Boolean,
    fixedParamNames: Set[String],
    gradReq: String
) {
  require(
    DataParallelExecutorGroup.GradReqs.contains(gradReq),
    s"gradReq is $gradReq; it must be one of ${DataParallelExecutorGroup.GradReqs.mkString(", ")}"
  )

  private val argNames = symbol.listArguments()
  private val auxNames = symbol.listAuxiliaryStates()
  private val outputNames = symbol.listOutputs()
  private val isParam = paramNames.toSet

  private val outputAxes: IndexedSeq[Int] = outputNames.indices.map { i =>
    val output = symbol.get(i)
    val layout = output.attr("__layout__")
    output.dispose()
    DataDesc.getBatchAxis(layout)
  }

  /** The bound inputs. */
  var dataShapes: IndexedSeq[DataDesc] = IndexedSeq.empty

  /** The bound labels; None if the network is bound without labels. */
  var labelShapes: Option[IndexedSeq[DataDesc]] = None

  private var batchSize = 0
  private var slices: IndexedSeq[(Int, Int)] = IndexedSeq.empty
  private var devices: IndexedSeq[DeviceExecutor] = IndexedSeq.empty
  private var mergedShapes: IndexedSeq[Shape] = IndexedSeq.empty

  /** Executors bound for other shapes, the most recent first, so that alternating shapes are bound only once. */
  private var bindings: List[Binding] = Nil
  private var monitor: Option[Monitor] = None

  /** For each parameter, its array on each device. */
  private[mxnet] var paramArrays: IndexedSeq[Array[NDArray]] = IndexedSeq.empty

  /** For each parameter, its gradient on each device; null where there is none. */
  private[mxnet] var gradArrays: IndexedSeq[Array[NDArray]] = IndexedSeq.empty

  /** For each auxiliary state, its array on each device. */
  private[mxnet] var auxArrays: IndexedSeq[Array[NDArray]] = IndexedSeq.empty

  /** Number of instances in a batch, on all devices together. */
  def getBatchSize: Int = batchSize

  /** Binds an executor on each device.
    *
    * @param dataShapes the inputs, with the whole batch
    * @param labelShapes the labels, with the whole batch
    * @param sharedGroup a group to share parameters, gradients and auxiliary states with
    * @param reshape whether to keep the arrays of this group; see [[reshape]]
    */
  def bindExec(
      dataShapes: IndexedSeq[DataDesc],
      labelShapes: Option[IndexedSeq[DataDesc]],
      sharedGroup: Option[DataParallelExecutorGroup],
      reshape: Boolean = false
  ): Unit = {
    val inputs = dataShapes ++ labelShapes.getOrElse(IndexedSeq.empty)
    batchSize = DataParallelExecutorGroup.commonBatchSize(inputs)
    slices = DataParallelExecutorGroup.splitBatch(batchSize, workLoadList)
    val shared = if (reshape) devices else sharedGroup.fold(IndexedSeq.empty[DeviceExecutor])(_.devices)
    require(
      shared.isEmpty || shared.length == contexts.length,
      s"the shared module is bound on ${shared.length} devices but this one on ${contexts.length}"
    )
    val bound = contexts.indices.map(i => bindDevice(i, inputs, shared.lift(i)))
    monitor.foreach(watcher => bound.foreach(device => watcher.install(device.executor)))
    val (kept, dropped) = (if (reshape) bindings else Nil).splitAt(DataParallelExecutorGroup.MaxBindings - 1)
    dropped.foreach(_.devices.foreach(_.executor.dispose()))
    val binding = new Binding(dataShapes, labelShapes, batchSize, slices, bound)
    bindings = binding :: kept
    use(binding)
    paramArrays = paramNames.map(name => devices.map(_.args(name)).toArray)
    gradArrays = paramNames.map(name => devices.map(_.grads.getOrElse(name, null)).toArray)
    auxArrays = auxNames.map(name => devices.map(_.aux(name)).toArray)
  }

  private def use(binding: Binding): Unit = {
    dataShapes = binding.dataShapes
    labelShapes = binding.labelShapes
    batchSize = binding.batchSize
    slices = binding.slices
    devices = binding.devices
    mergedShapes = mergedOutputShapes
  }

  private def gradReqOf(name: String, isData: Boolean): String =
    if (!forTraining) "null"
    else if (isParam(name)) { if (fixedParamNames.contains(name)) "null" else gradReq }
    else if (isData && inputsNeedGrad) gradReq
    else "null"

  /** Binds the executor of a device.
    *
    * @param shared an executor to share memory, parameters, gradients and auxiliary states with
    */
  private def bindDevice(index: Int, inputs: IndexedSeq[DataDesc], shared: Option[DeviceExecutor]): DeviceExecutor = {
    val context = contexts(index)
    val inputShapes = ListMap.from(inputs.map(desc => desc.name -> sliceShape(desc, index)))
    val inputTypes =
      inputs.map(desc => desc.name -> desc.dtype).toMap.filter { case (name, _) => argNames.contains(name) }
    val (argShapes, outShapes, auxShapes) = inferShapes(inputShapes.filter { case (name, _) =>
      argNames.contains(name)
    })
    val (argTypes, _, auxTypes) = symbol.inferType(inputTypes)
    require(argTypes != null, s"the element types of the network cannot be inferred from ${inputTypes.mkString(", ")}")
    val dataNames = inputs.map(_.name).toSet

    def sharedArray(arrays: DeviceExecutor => Map[String, NDArray], name: String, shape: Shape): Option[NDArray] =
      shared.flatMap(executor => arrays(executor).get(name)).filter(_.shape == shape)

    val args = argNames.indices.map { i =>
      val name = argNames(i)
      val param = if (isParam(name)) sharedArray(_.args, name, argShapes(i)) else None
      if (isParam(name)) requireSharedShape(shared, name, argShapes(i))
      name -> param.getOrElse(NDArray.zeros(argShapes(i), context, argTypes(i)))
    }
    val grads = argNames.indices.filter(i => gradReqOf(argNames(i), dataNames(argNames(i))) != "null").map { i =>
      val name = argNames(i)
      name -> sharedArray(_.grads, name, argShapes(i)).getOrElse(NDArray.zeros(argShapes(i), context, argTypes(i)))
    }
    val aux = auxNames.indices.map { i =>
      val state = sharedArray(_.aux, auxNames(i), auxShapes(i))
      auxNames(i) -> state.getOrElse(NDArray.zeros(auxShapes(i), context, auxTypes(i)))
    }
    val executor = symbol.bind(
      context,
      args.map(_._2),
      grads.toMap,
      argNames.map(name => gradReqOf(name, dataNames(name))),
      aux.map(_._2),
      null,
      shared.fold[Executor](null)(_.executor)
    )
    new DeviceExecutor(executor, args.toMap, grads.toMap, aux.toMap, outShapes)
  }

  private def requireSharedShape(shared: Option[DeviceExecutor], name: String, shape: Shape): Unit =
    shared.flatMap(_.args.get(name)).foreach { array =>
      require(
        array.shape == shape,
        s"parameter $name has the shape ${array.shape} but the new inputs need $shape; " +
          "parameters must not depend on the inputs' shapes"
      )
    }

  private def inferShapes(inputs: Map[String, Shape]): (IndexedSeq[Shape], IndexedSeq[Shape], IndexedSeq[Shape]) = {
    symbol.checkReady()
    val shapes = symbol.inferShape(inputs)
    require(
      shapes._1 != null,
      s"the shapes of the network cannot be inferred from ${inputs.mkString(", ")}; give the shapes of all its inputs"
    )
    shapes
  }

  private def sliceShape(desc: DataDesc, device: Int): Shape = {
    val dims = desc.shape.toArray
    val (begin, end) = slices(device)
    dims(DataDesc.getBatchAxis(Option(desc.layout))) = end - begin
    Shape(dims.toIndexedSeq)
  }

  private def mergedOutputShapes: IndexedSeq[Shape] = outputNames.indices.map { i =>
    val shapes = devices.map(_.outputShapes(i))
    if (shapes.length == 1) shapes.head
    else {
      val dims = shapes.head.toArray
      if (dims.nonEmpty) dims(outputAxes(i)) = shapes.map(_(outputAxes(i))).sum
      Shape(dims.toIndexedSeq)
    }
  }

  /** Binds for other shapes of the inputs, keeping parameters, gradients and auxiliary states. Does nothing if these
    * shapes are bound.
    */
  def reshape(dataShapes: IndexedSeq[DataDesc], labelShapes: Option[IndexedSeq[DataDesc]]): Unit =
    if (dataShapes != this.dataShapes || labelShapes != this.labelShapes) {
      bindings.find(binding => binding.dataShapes == dataShapes && binding.labelShapes == labelShapes) match {
        case Some(binding) =>
          bindings = binding :: bindings.filterNot(_ eq binding)
          use(binding)
        case None => bindExec(dataShapes, labelShapes, None, reshape = true)
      }
    }

  /** Copies parameters and auxiliary states to all devices.
    *
    * @param allowExtra whether to ignore names that the network does not have, which are otherwise an error
    */
  def setParams(argParams: Map[String, NDArray], auxParams: Map[String, NDArray], allowExtra: Boolean = false): Unit = {
    copyToDevices("argument", argParams, allowExtra)(_.args)
    copyToDevices("auxiliary state", auxParams, allowExtra)(_.aux)
  }

  private def copyToDevices(kind: String, values: Map[String, NDArray], allowExtra: Boolean)(
      targets: DeviceExecutor => Map[String, NDArray]
  ): Unit =
    if (values != null) {
      for ((name, value) <- values; device <- devices) {
        targets(device).get(name) match {
          case Some(target) =>
            require(
              value.shape == target.shape,
              s"$kind $name has the shape ${target.shape} but the value given for it ${value.shape}"
            )
            if (value ne target) value.copyTo(target)
          case None =>
            require(
              allowExtra,
              s"the network has no $kind $name; set allowExtra to ignore values that it does not need"
            )
        }
      }
    }

  /** Copies each parameter and auxiliary state, averaged over the devices, to the array of its name. */
  def getParams(argParams: Map[String, NDArray], auxParams: Map[String, NDArray]): Unit = {
    paramNames
      .lazyZip(paramArrays)
      .foreach((name, arrays) => DataParallelExecutorGroup.meanInto(arrays, argParams(name)))
    auxNames.lazyZip(auxArrays).foreach((name, arrays) => DataParallelExecutorGroup.meanInto(arrays, auxParams(name)))
  }

  /** Copies a batch to the devices and runs the network.
    *
    * @param isTrain whether it runs in training mode; as bound if None
    */
  def forward(dataBatch: DataBatch, isTrain: Option[Boolean] = None): Unit = {
    requireFit(dataBatch.data, dataShapes, "data")
    if (hasLabels(dataBatch)) requireFit(dataBatch.label, labelShapes.get, "label")
    run(dataBatch, isTrain)
  }

  /** Whether a batch has the bound shapes. */
  private[module] def fits(dataBatch: DataBatch): Boolean =
    sameShapes(dataBatch.data, dataShapes) && (!hasLabels(dataBatch) || sameShapes(dataBatch.label, labelShapes.get))

  /** [[forward]] for a batch of the bound shapes. */
  private[module] def run(dataBatch: DataBatch, isTrain: Option[Boolean]): Unit = {
    load(dataBatch.data, dataShapes)
    if (hasLabels(dataBatch)) load(dataBatch.label, labelShapes.get)
    val training = isTrain.getOrElse(forTraining)
    devices.foreach(_.executor.forward(training))
  }

  private def hasLabels(batch: DataBatch): Boolean =
    labelShapes.isDefined && batch.label != null && batch.label.nonEmpty

  private def sameShapes(arrays: IndexedSeq[NDArray], descs: IndexedSeq[DataDesc]): Boolean =
    arrays.length == descs.length && arrays.indices.forall(i => arrays(i).shape == descs(i).shape)

  private def requireFit(arrays: IndexedSeq[NDArray], descs: IndexedSeq[DataDesc], what: String): Unit = {
    require(
      arrays.length == descs.length,
      s"the batch has ${arrays.length} $what arrays but the module is bound for ${descs.length}: " +
        descs.map(_.name).mkString(", ")
    )
    arrays.lazyZip(descs).foreach { (array, desc) =>
      require(
        array.shape == desc.shape,
        s"$what ${desc.name} of the batch has the shape ${array.shape} but the module is bound for ${desc.shape}; " +
          "call reshape"
      )
    }
  }

  private def load(arrays: IndexedSeq[NDArray], descs: IndexedSeq[DataDesc]): Unit =
    arrays.indices.foreach { i =>
      devices.indices.foreach { device =>
        devices(device).args.get(descs(i).name).foreach(copySlice(arrays(i), descs(i), device, _))
      }
    }

  private def copySlice(source: NDArray, desc: DataDesc, device: Int, target: NDArray): Unit =
    if (devices.length == 1) { source.copyTo(target); () }
    else {
      val slice = sliceOf(source, DataDesc.getBatchAxis(Option(desc.layout)), device)
      slice.copyTo(target)
      slice.dispose()
    }

  private def sliceOf(array: NDArray, axis: Int, device: Int): NDArray = {
    val (begin, end) = slices(device)
    if (axis == 0) array.slice(begin, end)
    else {
      val bounds = Map("axis" -> axis, "begin" -> begin, "end" -> end)
      NDArray.genericNDArrayFunctionInvoke("slice_axis", Seq(array), bounds).get
    }
  }

  /** Names and shapes of the outputs, with the whole batch. */
  def getOutputShapes: IndexedSeq[(String, Shape)] = outputNames.zip(mergedShapes)

  /** For each output, the array of each device. */
  def getOutputs(): IndexedSeq[IndexedSeq[NDArray]] = outputNames.indices.map(i => devices.map(_.executor.outputs(i)))

  /** The outputs, concatenated over the devices. With one device they are the executor's arrays, which the next run
    * overwrites.
    */
  def getOutputsMerged(): IndexedSeq[NDArray] =
    outputNames.indices.map(i => DataParallelExecutorGroup.merge(devices.map(_.executor.outputs(i)), outputAxes(i)))

  /** For each input, in the order of the network's arguments, its gradient on each device. */
  def getInputGrads(): IndexedSeq[IndexedSeq[NDArray]] = {
    require(inputsNeedGrad, "the module was bound without gradients of its inputs; bind it with inputsNeedGrad = true")
    inputsInOrder.map(desc => devices.map(_.grads(desc.name)))
  }

  private def inputsInOrder: IndexedSeq[DataDesc] = argNames.flatMap(name => dataShapes.find(_.name == name))

  /** The gradients of the inputs, in the order of the network's arguments, concatenated over the devices. */
  def getInputGradsMerged(): IndexedSeq[NDArray] = getInputGrads().lazyZip(inputsInOrder).map { (grads, desc) =>
    DataParallelExecutorGroup.merge(grads, DataDesc.getBatchAxis(Option(desc.layout)))
  }

  /** Computes gradients.
    *
    * @param outGrads gradients of the outputs, with the whole batch; empty or null if the outputs are losses
    */
  def backward(outGrads: Array[NDArray] = Array.empty): Unit = {
    require(forTraining, "the module was bound for prediction; bind it with forTraining = true to compute gradients")
    if (outGrads == null || outGrads.isEmpty) devices.foreach(_.executor.backward())
    else if (devices.length == 1) devices.head.executor.backward(outGrads)
    else {
      devices.indices.foreach { device =>
        val grads = outGrads.indices.map { i =>
          val slice = sliceOf(outGrads(i), outputAxes(i), device)
          val copy = slice.copyTo(contexts(device))
          slice.dispose()
          copy
        }
        devices(device).executor.backward(grads.toArray)
        grads.foreach(_.dispose())
      }
    }
  }

  /** Computes gradients and pushes arrays to a store while the last device computes; see [[Executor.backwardAndPush]]. */
  private[module] def backwardAndPush(store: KVStore, keys: Array[String], values: Array[NDArray]): Unit = {
    devices.init.foreach(_.executor.backward())
    devices.last.executor.backwardAndPush(store, keys, values)
  }

  /** Adds the outputs of the last run to a metric.
    *
    * @param labels labels of the whole batch
    */
  def updateMetric(evalMetric: EvalMetric, labels: IndexedSeq[NDArray]): Unit =
    if (devices.length == 1) evalMetric.update(labels, devices.head.executor.outputs.toIndexedSeq)
    else {
      val axes =
        labelShapes.map(_.map(desc => DataDesc.getBatchAxis(Option(desc.layout)))).getOrElse(labels.map(_ => 0))
      devices.indices.foreach { device =>
        val slices = labels.lazyZip(axes).map((label, axis) => sliceOf(label, axis, device))
        evalMetric.update(slices, devices(device).executor.outputs.toIndexedSeq)
        slices.foreach(_.dispose())
      }
    }

  /** Installs a monitor on all executors. */
  def installMonitor(monitor: Monitor): Unit = {
    this.monitor = Some(monitor)
    bindings.foreach(_.devices.foreach(device => monitor.install(device.executor)))
  }

  /** The executors and their arrays. */
  private[module] def resources: Iterator[Any] =
    bindings.iterator
      .flatMap(_.devices)
      .flatMap(device => Iterator(device.executor, device.args, device.grads, device.aux))

  /** Frees the executors. The garbage collector frees arrays that may be shared. */
  private[mxnet] def dispose(): Unit = bindings.foreach(_.devices.foreach(_.executor.dispose()))
}

/** One device's executor and the arrays that are bound to it, by name. */
private[module] final class DeviceExecutor(
    val executor: Executor,
    val args: Map[String, NDArray],
    val grads: Map[String, NDArray],
    val aux: Map[String, NDArray],
    val outputShapes: IndexedSeq[Shape]
)

/** The executors bound for certain shapes of the inputs. */
private final class Binding(
    val dataShapes: IndexedSeq[DataDesc],
    val labelShapes: Option[IndexedSeq[DataDesc]],
    val batchSize: Int,
    val slices: IndexedSeq[(Int, Int)],
    val devices: IndexedSeq[DeviceExecutor]
)

private[mxnet] object DataParallelExecutorGroup {

  /** Maximum number of shapes with bound executors. */
  private val MaxBindings = 4
  private val GradReqs = Seq("write", "add", "null")

  private def commonBatchSize(inputs: IndexedSeq[DataDesc]): Int = {
    require(inputs.nonEmpty, "a module needs at least one input; give dataShapes")
    val sizes = inputs.map { desc =>
      val axis = DataDesc.getBatchAxis(Option(desc.layout))
      require(axis < desc.shape.length, s"${desc.name} has the shape ${desc.shape}, which has no batch axis")
      desc.shape(axis)
    }
    val different = sizes.indexWhere(_ != sizes.head)
    require(
      different < 0,
      s"all inputs must have the same batch size, but ${inputs.head.name} has the shape ${inputs.head.shape} and " +
        inputs.lift(different).fold("")(desc => s"${desc.name} has ${desc.shape}")
    )
    sizes.head
  }

  /** Begin and end of each device's slice, in proportion to the work loads. */
  private[mxnet] def splitBatch(batchSize: Int, workLoads: IndexedSeq[Float]): IndexedSeq[(Int, Int)] = {
    require(workLoads.forall(_ > 0), s"work loads must be positive, not ${workLoads.mkString(", ")}")
    val total = workLoads.map(_.toDouble).sum
    val bounds = workLoads.scanLeft(0.0)(_ + _).map(sum => math.round(sum / total * batchSize).toInt)
    val slices = bounds.init.zip(bounds.tail)
    require(
      slices.forall { case (begin, end) => begin < end },
      s"a batch of $batchSize instances is too small for ${workLoads.length} devices with the work loads " +
        workLoads.mkString(", ")
    )
    slices
  }

  /** Concatenates arrays along an axis, on the device of the first. A single array is returned itself. */
  private def merge(arrays: IndexedSeq[NDArray], axis: Int): NDArray =
    if (arrays.length == 1) arrays.head
    else {
      val copies = arrays.map(_.asInContext(arrays.head.context))
      val merged = NDArray.concatenate(copies, axis, alwaysCopy = true)
      copies.lazyZip(arrays).foreach((copy, array) => if (copy ne array) copy.dispose())
      merged
    }

  private def meanInto(arrays: Array[NDArray], target: NDArray): Unit =
    if (arrays.length == 1) { if (arrays(0) ne target) arrays(0).copyTo(target) }
    else {
      arrays(0).copyTo(target)
      arrays.drop(1).foreach { array =>
        val copy = array.copyTo(target.context)
        target += copy
        copy.dispose()
      }
      target *= 1f / arrays.length
    }
}
