package org.apache.mxnet
package internal.jni

import org.apache.mxnet.internal.interop.HookBridge
import org.apache.mxnet.internal.userop.OperatorBridge

/** The native interface: all functions of `libmxnet` that the JVM calls, with their contract.
  *
  * ==Linking==
  * A method `m` is exported by the library as `Java_org_apache_mxnet_internal_jni_LibInfo_m`; no method is overloaded, and no name
  * holds an underscore. The second JNI parameter is the `LibInfo` instance and is not used.
  * {{{
  * Scala                  JNI                 descriptor
  * Boolean                jboolean            Z
  * Int                    jint                I
  * Long                   jlong               J
  * Double                 jdouble             D
  * Unit                   void                V
  * String                 jstring             Ljava/lang/String;
  * Array[Boolean]         jbooleanArray       [Z
  * Array[Byte]            jbyteArray          [B
  * Array[Int]             jintArray           [I
  * Array[Long]            jlongArray          [J
  * Array[Float]           jfloatArray         [F
  * Array[Double]          jdoubleArray        [D
  * Array[String]          jobjectArray        [Ljava/lang/String;
  * ByteBuffer             jobject             Ljava/nio/ByteBuffer;
  * }}}
  * Objects of other classes are a `jobject`, with the descriptor of their class. The library calls their methods and
  * constructors by name and descriptor; [[upcalls]] lists them.
  *
  * ==Errors==
  * A method throws an [[MXNetError]] with the engine's message. An exception of a callback reaches the
  * caller unchanged; one of a user-defined operator is the cause of the error. Unless documented otherwise, a `null`
  * and parallel arrays of different lengths are an [[MXNetError]] too.
  *
  * ==Handles==
  * A handle is a `Long` that identifies one object of one kind; 0 is null. The library checks kind and
  * generation, so a freed or foreign handle is an error and never an invalid access. Unless documented otherwise, '''a
  * returned handle belongs to the caller''', who frees it once with the `Free` method of its kind. Freeing 0 does
  * nothing; freeing twice is an error. An object that others depend on (an array that is bound to an executor, a symbol
  * that is part of another) may be freed: the engine keeps it alive. Operator handles are never freed.
  *
  * ==Codes==
  *  - `devType`: 1 cpu, 2 gpu, 3 cpu_pinned (see [[Context]]). `devId`: 0, 1, …
  *  - `dtype`: 0 float32, 1 float64, 2 float16, 3 uint8, 4 int32, 5 int8, 6 int64, 7 bool, 12 bfloat16, -1
  *    unknown (see [[DType]]).
  *  - `stype`: 0 dense, 1 row_sparse, 2 csr (see [[SparseFormat]]).
  *  - `gradReq`: 0 null, 1 write, 2 inplace (as write), 3 add.
  *  - A shape is `Array[Long]`. In legacy semantics a dimension of 0 is unknown and an empty array is a shape of
  *    unknown rank; in NumPy semantics these are -1 and `null`, and an empty array is a scalar's shape.
  * - Operator parameters, attributes and options are parallel arrays `keys`, `values`; both `null` if there are none.
  *
  * All methods may be called from any thread. Execution is synchronous.
  */
private[mxnet] final class LibInfo {

  // Library.

  /** The version of this interface that the library implements; see [[NativeInterface.Version]]. */
  @native def abiVersion(): Int

  /** The methods that the library calls, flat: class, name (`<init>` for a constructor) and descriptor of each, as in
    * class files.
    */
  @native def upcalls(): Array[String]

  /** MXNet's version as one number, major * 10000 + minor * 100 + patch: 10901. */
  @native def version(): Int

  /** Names of the run-time features that the library knows, such as `AVX512` or `OPENMP`. */
  @native def featureNames(): Array[String]

  /** Whether each feature of [[featureNames]] is enabled, in the same order. */
  @native def featureEnabled(): Array[Boolean]

  /** Bytes that arrays use on all devices, without free blocks that are cached for reuse. */
  @native def memoryInUse(): Long

  /** Returns the free blocks that are cached for reuse to the system. */
  @native def releaseCachedMemory(): Unit

  /** Sets NumPy shape semantics for the calling thread; returns the previous setting. */
  @native def setNumpyShape(active: Boolean): Boolean

  /** Whether the calling thread uses NumPy shape semantics. */
  @native def isNumpyShape(): Boolean

  /** Seeds the random number generators of all devices. */
  @native def randomSeed(seed: Int): Unit

  /** Gives the calling thread its own random numbers: `state` is their seed and the index of the next draw, or null for
    * the generators of the devices. Returns the previous setting.
    */
  @native def randomSetThread(state: Array[Long]): Array[Long]

  /** The state of the random number generators: the seed of unused devices, then `devType`, `devId`, seed and the index
    * of the next draw of each used device.
    */
  @native def randomState(): Array[Long]

  /** Restores a state of [[randomState]]. */
  @native def randomRestore(state: Array[Long]): Unit

  // Operators.

  /** The names of all registered operators, aliases included, as in `MXListAllOpNames`. */
  @native def listAllOpNames(): Array[String]

  /** The handle of the operator with this name or alias. Unknown names are an error. Never freed. */
  @native def opHandle(name: String): Long

  /** The metadata of an operator, flat: name, description, `key_var_num_args` ("" if not variadic), return type, then
    * name, type string and description of each argument, in metadata order.
    */
  @native def symbolAtomicInfo(op: Long): Array[String]

  // Imperative.

  /** Runs an operator. With `outputs` null, returns new arrays, one for each visible output. Otherwise writes into
    * `outputs` and returns `null`.
    */
  @native def imperativeInvoke(
      op: Long,
      inputs: Array[Long],
      outputs: Array[Long],
      keys: Array[String],
      values: Array[String]
  ): Array[Long]

  /** [[imperativeInvoke]] for an operator with one input, one visible output and no parameters given. Returns a new
    * array, or `out` itself if that is not 0.
    */
  @native def imperativeInvokeUnary(op: Long, data: Long, out: Long): Long

  /** [[imperativeInvoke]] for an operator with two inputs, one visible output and no parameters given. Returns a new
    * array, or `out` itself if that is not 0.
    */
  @native def imperativeInvokeBinary(op: Long, lhs: Long, rhs: Long, out: Long): Long

  /** [[imperativeInvoke]] for an operator with one input, one visible output and the parameter `scalar` alone (such as
    * `_plus_scalar`). Returns a new array, or `out` itself if that is not 0.
    */
  @native def imperativeInvokeScalar(op: Long, data: Long, scalar: Double, out: Long): Long

  // Autograd.

  /** Switches recording on the calling thread on or off; returns the previous setting. */
  @native def autogradSetRecording(recording: Boolean): Boolean

  /** Switches training mode of the calling thread on or off; returns the previous setting. */
  @native def autogradSetTraining(training: Boolean): Boolean

  /** Whether operations of the calling thread are recorded. */
  @native def autogradIsRecording(): Boolean

  /** Whether the calling thread is in training mode. */
  @native def autogradIsTraining(): Boolean

  /** Marks arrays as variables, whose gradients are written to `gradients` by `gradReqs`. The arrays have equal
    * lengths.
    */
  @native def autogradMarkVariables(variables: Array[Long], gradReqs: Array[Int], gradients: Array[Long]): Unit

  /** Runs the backward pass from `heads`. `headGradients` is null or of the same length; 0 in it means ones. */
  @native def autogradBackward(
      heads: Array[Long],
      headGradients: Array[Long],
      retainGraph: Boolean,
      isTrain: Boolean
  ): Unit

  /** The gradients of `heads` with respect to `variables`, as new handles. `headGradients` as above.
    *
    * @param createGraph whether the gradients are recorded, so that they can be differentiated again
    */
  @native def autogradGradients(
      heads: Array[Long],
      headGradients: Array[Long],
      variables: Array[Long],
      createGraph: Boolean,
      isTrain: Boolean
  ): Array[Long]

  /** The gradient array attached to a variable, as a new handle; 0 if there is none. */
  @native def ndarrayGrad(handle: Long): Long

  // NDArray.

  /** A new dense array. With `delayAlloc` memory is taken at the first write. Contents are undefined until written. */
  @native def ndarrayCreate(shape: Array[Long], devType: Int, devId: Int, delayAlloc: Boolean, dtype: Int): Long

  /** A new sparse array. `auxTypes` has a dtype for each auxiliary array (row_sparse: indices; csr: indptr, indices);
    * `auxNdims` their ranks, and `auxShapes` their dimensions, one after the other.
    */
  @native def ndarrayCreateSparse(
      stype: Int,
      shape: Array[Long],
      devType: Int,
      devId: Int,
      delayAlloc: Boolean,
      dtype: Int,
      auxTypes: Array[Int],
      auxNdims: Array[Int],
      auxShapes: Array[Long]
  ): Long

  /** Frees an array's handle. Memory is freed with its last view, executor and tape entry. */
  @native def ndarrayFree(handle: Long): Unit

  /** The dimensions of an array. */
  @native def ndarrayShape(handle: Long): Array[Long]

  /** The number of elements of an array. */
  @native def ndarraySize(handle: Long): Long

  /** The dtype code of an array. */
  @native def ndarrayDType(handle: Long): Int

  /** The stype code of an array. */
  @native def ndarrayStorageType(handle: Long): Int

  /** The device of an array: `devType` in the upper 32 bits, `devId` in the lower. */
  @native def ndarrayContext(handle: Long): Long

  /** Rows `begin` until `end` of axis 0, as a view that shares memory. */
  @native def ndarraySlice(handle: Long, begin: Long, end: Long): Long

  /** Row `index` of axis 0, with that axis dropped, as a view that shares memory. */
  @native def ndarrayAt(handle: Long, index: Long): Long

  /** A view of another shape that shares memory. Dimensions may be MXNet's special values 0, -1, -2, -3, -4; with
    * `reverse` they are resolved from the right.
    */
  @native def ndarrayReshape(handle: Long, dims: Array[Long], reverse: Boolean): Long

  /** Waits until an array is computed; throws the error of the operation that wrote it. */
  @native def ndarrayWaitToRead(handle: Long): Unit

  /** Waits for all operations. */
  @native def ndarrayWaitAll(): Unit

  /** Copies `source` (dense) to the values (`locator` -1) or the auxiliary array `locator` of `target`. */
  @native def ndarrayCopyFromNDArray(target: Long, source: Long, locator: Int): Unit

  /** The values of a sparse array as a new dense array (a copy). */
  @native def ndarrayGetData(handle: Long): Long

  /** The auxiliary array `index` of a sparse array (row_sparse: 0 indices; csr: 0 indptr, 1 indices) as a new dense
    * array (a copy).
    */
  @native def ndarrayGetAux(handle: Long, index: Int): Long

  // ndarraySet*: writes `length` values of `source`, from `sourceOffset`, over the elements `offset` until
  // `offset + length` of a dense array, converting to its dtype. Ranges outside either array are an error.
  // ndarrayGet*: the reverse; values are converted to the element type of `target` (as MXNet's Cast does).

  /** Writes floats into an array of any dtype. */
  @native def ndarraySetFloats(handle: Long, offset: Long, source: Array[Float], sourceOffset: Int, length: Int): Unit

  /** Writes doubles into an array of any dtype. */
  @native def ndarraySetDoubles(handle: Long, offset: Long, source: Array[Double], sourceOffset: Int, length: Int): Unit

  /** Writes ints into an array of any dtype. */
  @native def ndarraySetInts(handle: Long, offset: Long, source: Array[Int], sourceOffset: Int, length: Int): Unit

  /** Writes longs into an array of any dtype. */
  @native def ndarraySetLongs(handle: Long, offset: Long, source: Array[Long], sourceOffset: Int, length: Int): Unit

  /** Writes bytes (as numbers, -128 to 127, in an unsigned array modulo 256) into an array of any dtype. */
  @native def ndarraySetBytes(handle: Long, offset: Long, source: Array[Byte], sourceOffset: Int, length: Int): Unit

  /** Reads an array of any dtype into floats. */
  @native def ndarrayGetFloats(handle: Long, offset: Long, target: Array[Float], targetOffset: Int, length: Int): Unit

  /** Reads an array of any dtype into doubles. */
  @native def ndarrayGetDoubles(handle: Long, offset: Long, target: Array[Double], targetOffset: Int, length: Int): Unit

  /** Reads an array of any dtype into ints. */
  @native def ndarrayGetInts(handle: Long, offset: Long, target: Array[Int], targetOffset: Int, length: Int): Unit

  /** Reads an array of any dtype into longs. */
  @native def ndarrayGetLongs(handle: Long, offset: Long, target: Array[Long], targetOffset: Int, length: Int): Unit

  /** Reads an array of any dtype into bytes; unsigned values above 127 keep their bits. */
  @native def ndarrayGetBytes(handle: Long, offset: Long, target: Array[Byte], targetOffset: Int, length: Int): Unit

  /** The bytes of a dense array in memory order, little-endian: `size * bytes of dtype`. */
  @native def ndarrayGetRaw(handle: Long): Array[Byte]

  /** The only element of an array as a double. Arrays of other sizes are an error. */
  @native def ndarrayScalar(handle: Long): Double

  /** Writes arrays in MXNet's `.params` format. `names` is null (a list) or of the same length (a map). */
  @native def ndarraySave(fileName: String, handles: Array[Long], names: Array[String]): Unit

  /** Reads a `.params` file of any version of MXNet, or maps it into memory.
    *
    * @param isMapped whether large arrays are memory of the file: nothing may write to the file or shorten it while an array
    *                 exists, but its name may be deleted
    */
  @native def ndarrayLoad(fileName: String, isMapped: Boolean): LoadedNDArrays

  /** One array in MXNet's raw byte format (`MXNDArraySaveRawBytes`). */
  @native def ndarraySaveRawBytes(handle: Long): Array[Byte]

  /** Reads the format of [[ndarraySaveRawBytes]]. */
  @native def ndarrayLoadFromRawBytes(bytes: Array[Byte]): Long

  // Symbol.

  /** A variable. */
  @native def symbolCreateVariable(name: String): Long

  /** Creates and composes an operator node in one step: parameters are parsed, then attributes set, then inputs
    * composed. `inputKeys` is null (inputs are positional) or names the argument of each input. Missing inputs become
    * variables named `name_argument`.
    */
  @native def symbolCreate(
      op: Long,
      name: String,
      keys: Array[String],
      values: Array[String],
      attrKeys: Array[String],
      attrValues: Array[String],
      inputKeys: Array[String],
      inputs: Array[Long]
  ): Long

  /** Replaces variables of a symbol by other symbols, in place (`MXSymbolCompose` on a composed symbol). `keys` is null
    * (positional) or names the variable that each input replaces. `name` is null or the new name of the outputs' node.
    */
  @native def symbolCompose(handle: Long, name: String, keys: Array[String], inputs: Array[Long]): Unit

  /** Frees a symbol's handle. */
  @native def symbolFree(handle: Long): Unit

  /** A deep copy. */
  @native def symbolCopy(handle: Long): Long

  /** One symbol with the outputs of all of them, in order. */
  @native def symbolCreateGroup(handles: Array[Long]): Long

  /** A symbol with every internal output as output, in topological order. */
  @native def symbolGetInternals(handle: Long): Long

  /** A symbol with the inputs of the output nodes as outputs; 0 if there are none. */
  @native def symbolGetChildren(handle: Long): Long

  /** Output `index` as a symbol. */
  @native def symbolGetOutput(handle: Long, index: Int): Long

  /** The name of a symbol with one output node; null for a group. */
  @native def symbolGetName(handle: Long): String

  /** Names of the arguments in topological order. */
  @native def symbolListArguments(handle: Long): Array[String]

  /** Names of the outputs. */
  @native def symbolListOutputs(handle: Long): Array[String]

  /** Names of the auxiliary states in topological order. */
  @native def symbolListAuxiliaryStates(handle: Long): Array[String]

  /** An attribute of the output node; null if it is not set. */
  @native def symbolGetAttr(handle: Long, key: String): String

  /** Sets attributes of the output node. */
  @native def symbolSetAttrs(handle: Long, keys: Array[String], values: Array[String]): Unit

  /** All attributes of all nodes, flat: key, value, key, value, …; a key is `node$attribute`. */
  @native def symbolListAttr(handle: Long): Array[String]

  /** The attributes of the output node, flat: key, value, key, value, … */
  @native def symbolListAttrShallow(handle: Long): Array[String]

  /** Infers shapes. `keys` is null (positional, in the order of the arguments) or names the argument of each shape;
    * `ndims` has the ranks (-1: unknown), `dims` the dimensions one after the other. Inconsistent shapes are an error;
    * `complete` of the result is true if all are known.
    */
  @native def symbolInferShape(
      handle: Long,
      keys: Array[String],
      ndims: Array[Int],
      dims: Array[Long]
  ): InferredShapes

  /** Infers dtypes; see [[symbolInferShape]]. */
  @native def symbolInferType(handle: Long, keys: Array[String], dtypes: Array[Int]): InferredTypes

  /** Checks that all operators of a symbol can run; a missing user-defined operator is an error. */
  @native def symbolCheckReady(handle: Long): Unit

  /** The graph as readable text. */
  @native def symbolPrint(handle: Long): String

  /** The graph in MXNet's JSON format. */
  @native def symbolToJson(handle: Long): String

  /** Reads MXNet's JSON format, of this and earlier versions. */
  @native def symbolFromJson(json: String): Long

  /** Writes the JSON format to a file. */
  @native def symbolSave(handle: Long, fileName: String): Unit

  /** Reads the JSON format from a file. */
  @native def symbolLoad(fileName: String): Long

  // Models of other frameworks.

  /** Imports a model from a file, or from `bytes` if `fileName` is null. `framework` is `ONNX` or `NNEF`. `names`,
    * `ndims`, `dims` set shapes of inputs, as in [[symbolInferShape]]; -1 is a dynamic dimension. `hooks` may be null;
    * its methods are called on this thread. The processes in `mappingTexts` take precedence over the built-in ones;
    * messages name the texts by `mappingNames`.
    */
  @native def modelImport(
      framework: String,
      fileName: String,
      bytes: Array[Byte],
      externalData: Boolean,
      names: Array[String],
      ndims: Array[Int],
      dims: Array[Long],
      hooks: HookBridge,
      mappingNames: Array[String],
      mappingTexts: Array[String]
  ): ImportedParts

  /** The problems of a model, flat: location, message, location, message, … For the parameters see [[modelImport]]. */
  @native def modelCheck(
      framework: String,
      fileName: String,
      externalData: Boolean,
      names: Array[String],
      ndims: Array[Int],
      dims: Array[Long],
      hooks: HookBridge,
      mappingNames: Array[String],
      mappingTexts: Array[String]
  ): Array[String]

  /** The mapping processes of a framework and those in `mappingTexts`, which are checked. Each has ten fields: name,
    * domain, operator, first and last version (empty: none), arrow, `1` if it is from `mappingTexts`, file, line, text.
    */
  @native def mappingProcesses(
      framework: String,
      mappingNames: Array[String],
      mappingTexts: Array[String]
  ): Array[String]

  /** The mapping rules of a framework and those in `mappingTexts`, which are checked. Each has five fields: name,
    * signature, description, `1` if it has an inverse, `1` if it is from `mappingTexts`.
    */
  @native def mappingRules(framework: String, mappingNames: Array[String], mappingTexts: Array[String]): Array[String]

  /** Writes a symbol as an ONNX model. `names` and `handles` give arguments and auxiliary states with their arrays,
    * which become initializers; `inputs`, `ndims`, `dims` and `dtypes` give shapes and dtypes of the other arguments.
    * `opset` 0 is the default opset. `hooks`, `mappingNames` and `mappingTexts` are those of [[modelImport]].
    */
  @native def onnxExport(
      fileName: String,
      handle: Long,
      names: Array[String],
      handles: Array[Long],
      inputs: Array[String],
      ndims: Array[Int],
      dims: Array[Long],
      dtypes: Array[Int],
      opset: Int,
      hooks: HookBridge,
      mappingNames: Array[String],
      mappingTexts: Array[String]
  ): Unit

  // Executor.

  /** Binds a symbol to arrays. `args`, `grads` (0: none) and `gradReqs` follow the arguments, `aux` the auxiliary
    * states. The three group arrays map `ctx_group` names to devices and are null or of one length. `sharedExecutor`
    * (0: none) is an executor to share memory with.
    */
  @native def executorBind(
      symbol: Long,
      devType: Int,
      devId: Int,
      groupNames: Array[String],
      groupDevTypes: Array[Int],
      groupDevIds: Array[Int],
      args: Array[Long],
      grads: Array[Long],
      gradReqs: Array[Int],
      aux: Array[Long],
      sharedExecutor: Long
  ): Long

  /** Binds a symbol to new dense arrays of zeros. `gradReq` applies to all arguments but those whose names end in `data`
    * or `label`, which get no gradient. `names`, `ndims` and `dims` give shapes as in [[symbolInferShape]]; `typed` and
    * `dtypes` give dtypes (-1: unknown). Other shapes and dtypes are inferred; dtypes that stay unknown are float32.
    */
  @native def executorSimpleBind(
      symbol: Long,
      devType: Int,
      devId: Int,
      gradReq: Int,
      names: Array[String],
      ndims: Array[Int],
      dims: Array[Long],
      typed: Array[String],
      dtypes: Array[Int]
  ): Long

  /** Frees an executor's handle. Returned outputs stay valid. */
  @native def executorFree(handle: Long): Unit

  /** Runs the forward pass. */
  @native def executorForward(handle: Long, isTrain: Boolean): Unit

  /** Runs the backward pass. `headGrads` is null or has one array for each output. */
  @native def executorBackward(handle: Long, headGrads: Array[Long]): Unit

  /** Runs the backward pass and pushes arrays to a store: each key as soon as the executor's gradients among its arrays
    * are complete. `headGrads` is null or has one array for each output.
    */
  @native def executorBackwardPush(
      handle: Long,
      headGrads: Array[Long],
      store: Long,
      keys: Array[String],
      arrays: Array[Long]
  ): Unit

  /** The arguments, as new handles. */
  @native def executorArguments(handle: Long): Array[Long]

  /** The gradients of the arguments, as new handles; 0 where none was requested. */
  @native def executorGradients(handle: Long): Array[Long]

  /** The auxiliary states, as new handles. */
  @native def executorAuxiliaryStates(handle: Long): Array[Long]

  /** The outputs, as new handles to the arrays that every forward pass writes. */
  @native def executorOutputs(handle: Long): Array[Long]

  /** A new handle to the bound symbol. */
  @native def executorSymbol(handle: Long): Long

  /** An executor for other input shapes that shares memory and parameters with this one. With `partialShaping` shapes
    * of arguments that are not named may change too; without `allowUpSizing` a larger array is an error. `names`,
    * `ndims`, `dims` give the new shapes as in [[symbolInferShape]].
    */
  @native def executorReshape(
      handle: Long,
      partialShaping: Boolean,
      allowUpSizing: Boolean,
      devType: Int,
      devId: Int,
      groupNames: Array[String],
      groupDevTypes: Array[Int],
      groupDevIds: Array[Int],
      names: Array[String],
      ndims: Array[Int],
      dims: Array[Long]
  ): Long

  /** The execution plan as readable text. */
  @native def executorPrint(handle: Long): String

  /** Calls `callback` with name and array of each output of each node when it has been computed; with `monitorAll` for
    * inputs too. The array's handle belongs to the callback. Null removes the callback.
    */
  @native def executorSetMonitorCallback(handle: Long, callback: MXMonitorCallback, monitorAll: Boolean): Unit

  // Data iterators.

  /** The names of the data iterators, such as `MNISTIter`. */
  @native def dataIterList(): Array[String]

  /** The metadata of a data iterator, flat: name, description, then name, type string and description of each
    * parameter.
    */
  @native def dataIterInfo(name: String): Array[String]

  /** Creates a data iterator. */
  @native def dataIterCreate(name: String, keys: Array[String], values: Array[String]): Long

  /** Frees a data iterator. */
  @native def dataIterFree(handle: Long): Unit

  /** Rewinds to before the first batch. */
  @native def dataIterBeforeFirst(handle: Long): Unit

  /** Advances to the next batch; false at the end. */
  @native def dataIterNext(handle: Long): Boolean

  /** The data of the current batch. */
  @native def dataIterData(handle: Long): Long

  /** The label of the current batch. */
  @native def dataIterLabel(handle: Long): Long

  /** The indices of the current batch's examples. */
  @native def dataIterIndex(handle: Long): Array[Long]

  /** The number of examples at the end of the current batch that are padding. */
  @native def dataIterPad(handle: Long): Int

  /** The start of the current epoch: its number, and the index of its first example. */
  @native def dataIterEpoch(handle: Long): Array[Long]

  /** Rewinds to before the first batch of an epoch of [[dataIterEpoch]]. */
  @native def dataIterRestart(handle: Long, number: Long, first: Long): Unit

  // RecordIO.

  /** Creates or truncates a RecordIO file. */
  @native def recordWriterCreate(fileName: String): Long

  /** Appends a record. */
  @native def recordWriterWrite(handle: Long, record: Array[Byte]): Unit

  /** The byte offset of the next record. */
  @native def recordWriterTell(handle: Long): Long

  /** Flushes and closes the file, and frees the writer. */
  @native def recordWriterFree(handle: Long): Unit

  /** Opens a RecordIO file. */
  @native def recordReaderCreate(fileName: String): Long

  /** The next record; `null` at the end of the file. */
  @native def recordReaderRead(handle: Long): Array[Byte]

  /** Seeks to the record at a byte offset. */
  @native def recordReaderSeek(handle: Long, position: Long): Unit

  /** The byte offset of the next record. */
  @native def recordReaderTell(handle: Long): Long

  /** Closes the file and frees the reader. */
  @native def recordReaderFree(handle: Long): Unit

  // Key-value stores.

  /** An empty store, of a type such as `local`. */
  @native def kvstoreCreate(kind: String): Long

  /** Frees a store. */
  @native def kvstoreFree(handle: Long): Unit

  /** The type of a store. */
  @native def kvstoreType(handle: Long): String

  /** Initializes new keys with copies of arrays. */
  @native def kvstoreInit(handle: Long, keys: Array[String], arrays: Array[Long]): Unit

  /** Sums the arrays of each key. The sums are passed to the updater, or replace the stored arrays. */
  @native def kvstorePush(handle: Long, keys: Array[String], arrays: Array[Long]): Unit

  /** Copies the stored array of each key to the array that is given for it. */
  @native def kvstorePull(handle: Long, keys: Array[String], arrays: Array[Long]): Unit

  /** Sets the updater of stored arrays. It owns the handles that are passed to it. */
  @native def kvstoreSetUpdater(handle: Long, callback: KVStoreCallback): Unit

  /** The rank of this process among those that share a store. */
  @native def kvstoreRank(handle: Long): Int

  /** Number of processes that share a store. */
  @native def kvstoreNumWorkers(handle: Long): Int

  /** Number of workers that are lost or have ended, if `group` contains 4. */
  @native def kvstoreNumDead(handle: Long, group: Int): Int

  /** Waits for the other processes that share a store. */
  @native def kvstoreBarrier(handle: Long): Unit

  /** Sets whether freeing a store waits for the other processes. */
  @native def kvstoreWaitAtEnd(handle: Long, wait: Boolean): Unit

  /** Runs as a server or scheduler; returns at once in a worker. */
  @native def kvstoreServe(handle: Long): Unit

  /** Sets the compression of gradients. */
  @native def kvstoreCompress(handle: Long, keys: Array[String], values: Array[String]): Unit

  // Distributed jobs.

  /** Sets variables that describe the job of distributed stores, with precedence over the environment. */
  @native def jobEnvironment(keys: Array[String], values: Array[String]): Unit

  /** Opens the listener of a job; port 0 takes a free one. */
  @native def jobListen(host: String, port: Int): Long

  /** The port of a listener. */
  @native def jobPort(handle: Long): Int

  /** Connects to the other ranks; `timeout` is in milliseconds. */
  @native def jobJoin(handle: Long, rank: Int, peers: Array[String], secret: Array[Byte], timeout: Long): Unit

  /** The rank of this process in its job. */
  @native def jobRank(handle: Long): Int

  /** Number of ranks of a job. */
  @native def jobSize(handle: Long): Int

  /** Waits for the other ranks. */
  @native def jobBarrier(handle: Long): Unit

  /** An empty distributed store of a job. */
  @native def jobStore(handle: Long, kind: String): Long

  /** Leaves a job; threads that wait get an error. */
  @native def jobClose(handle: Long): Unit

  /** Frees a job, which ends with its last store unless it was closed. */
  @native def jobFree(handle: Long): Unit

  // Profiler.

  /** Configures the profiler; see [[Profiler.profilerSetConfig]]. */
  @native def profilerConfigure(keys: Array[String], values: Array[String]): Unit

  /** Starts or stops the profiler. */
  @native def profilerRun(active: Boolean): Unit

  /** Writes the trace to the configured file; with `finished`, the events are then discarded. */
  @native def profilerDump(finished: Boolean): Unit

  // User-defined operators.

  /** Sets the bridge that creates operators written in Scala or Java. Its methods are called on the thread that called
    * the engine.
    */
  @native def userOpInstall(bridge: OperatorBridge): Unit

  /** Registers an operator type that the bridge creates; true if it was registered already. */
  @native def userOpRegister(name: String): Boolean

  /** Another handle of the same array. */
  @native def ndarrayShare(handle: Long): Long

  /** The memory of a dense array, of 1 to 2147483647 bytes. It is valid as long as a handle of the array, so the caller
    * must keep one while the buffer is reachable.
    *
    * @param writable whether the memory will be written; the engine then assumes at every use that it has changed
    */
  @native def ndarrayBuffer(handle: Long, writable: Boolean): java.nio.ByteBuffer
}

/** The content of a `.params` file. `names` is empty if the file has no names, else as long as `handles`; the handles
  * belong to the receiver.
  */
private[mxnet] final class LoadedNDArrays(val handles: Array[Long], val names: Array[String])

/** An imported model. `names` begin with `arg:` or `aux:`; `inputs` is flat: name, element type, dimensions separated
  * by commas (`*` for an unknown rank). The handles belong to the receiver.
  */
private[mxnet] final class ImportedParts(
    val symbol: Long,
    val names: Array[String],
    val handles: Array[Long],
    val inputs: Array[String],
    val outputs: Array[String]
)

/** Inferred shapes of arguments, outputs and auxiliary states, in listing order. */
private[mxnet] final class InferredShapes(
    val complete: Boolean,
    val args: Array[Array[Long]],
    val outs: Array[Array[Long]],
    val aux: Array[Array[Long]]
)

/** Inferred dtype codes of arguments, outputs and auxiliary states, in listing order; -1 where unknown. */
private[mxnet] final class InferredTypes(
    val complete: Boolean,
    val args: Array[Int],
    val outs: Array[Int],
    val aux: Array[Int]
)

/** Updates a stored value when one is pushed for its key. */
private[mxnet] trait KVStoreCallback {

  /** Updates the stored value after a push.
    *
    * @param pushed a handle of the sum of the pushed values, which the callee frees
    * @param stored a handle of the stored array, which the callee frees
    */
  def update(key: String, pushed: Long, stored: Long): Unit
}
