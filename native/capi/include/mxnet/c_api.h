/* The C API of MXNet 1.9.1 as this library has it. Written by `cargo run -p capi-header`: change native/capi/src/c instead. */

#ifndef MXNET_C_API_H_
#define MXNET_C_API_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef MXNET_DLL
#define MXNET_DLL
#endif

typedef uint32_t mx_uint;
typedef float mx_float;
typedef int64_t dim_t;
typedef unsigned int nn_uint;

// Indices of the callbacks of a recorded function.
typedef enum CustomFunctionCallbacks {
  kCustomFunctionBackward,
  kCustomFunctionDelete,
} CustomFunctionCallbacks;

// Indices of the callbacks of an operator's instance.
typedef enum CustomOpCallbacks {
  kCustomOpDelete,
  kCustomOpForward,
  kCustomOpBackward,
} CustomOpCallbacks;

// Indices of the callbacks of an operator.
typedef enum CustomOpPropCallbacks {
  kCustomOpPropDelete,
  kCustomOpPropListArguments,
  kCustomOpPropListOutputs,
  kCustomOpPropListAuxiliaryStates,
  kCustomOpPropInferShape,
  kCustomOpPropDeclareBackwardDependency,
  kCustomOpPropCreateOperator,
  kCustomOpPropInferType,
  kCustomOpPropInferStorageType,
  kCustomOpPropBackwardInferStorageType,
} CustomOpPropCallbacks;

// An array.
typedef void *NDArrayHandle;

// A symbol.
typedef void *SymbolHandle;

// A graph that is called like an operator.
typedef void *CachedOpHandle;

// Called for each array of a cached operator. Arguments: name of the array, name of its operator, array. The callee owns the array handle.
typedef void (*CachedOpMonitorCallback)(const char*, const char*, NDArrayHandle);

// A callback of unknown type.
typedef int (*MXGenericCallback)(void);

// A list of callbacks with their contexts.
typedef struct MXCallbackList {
  // Number of callbacks.
  int num_callbacks;
  // The callbacks; each must be cast to its type.
  MXGenericCallback *callbacks;
  // The last argument of each callback.
  void **contexts;
} MXCallbackList;

// Creates the callbacks of a custom operator. Arguments: operator type, number of parameters, their keys and values, the list to fill in.
// Returns 0 on failure.
typedef int (*CustomOpPropCreator)(const char*, int, const char**, const char**, struct MXCallbackList*);

// A kind of data iterator.
typedef void *DataIterCreator;

// A data iterator.
typedef void *DataIterHandle;

// A [`DLManagedTensor`].
typedef void *DLManagedTensorHandle;

// An asynchronous function, which reports its completion by a callback. Arguments: run context, callback, parameter.
typedef void (*EngineAsyncFunc)(void*, void*, void*);

// Frees the parameter of a function.
typedef void (*EngineFuncParamDeleter)(void*);

// A device: two consecutive integers, type and id.
typedef const void *ContextHandle;

// A variable of MXNet's engine.
typedef void *EngineVarHandle;

// Scheduling properties of a function for the engine.
typedef const void *EngineFnPropertyHandle;

// A synchronous function. Arguments: run context, parameter.
typedef void (*EngineSyncFunc)(void*, void*);

// A symbol bound to arrays.
typedef void *ExecutorHandle;

// A key-value store.
typedef void *KVStoreHandle;

// Called for each output that an executor computes. Arguments: name, array, user data. The callee owns the array handle.
typedef void (*ExecutorMonitorCallback)(const char*, NDArrayHandle, void*);

// A legacy array function.
typedef const void *FunctionHandle;

// A graph with attributes, in NNVM's functions.
typedef void *GraphHandle;

// An operator.
typedef void *AtomicSymbolCreator;

// A membership in a distributed job.
typedef void *FerroJobHandle;

// Updates the stored array of an integer key. Arguments: key, pushed array, stored array, user data. The callee owns both array handles.
typedef void (*MXKVStoreUpdater)(int, NDArrayHandle, NDArrayHandle, void*);

// Like `MXKVStoreUpdater`, for string keys.
typedef void (*MXKVStoreStrUpdater)(const char*, NDArrayHandle, NDArrayHandle, void*);

// Called for a command to a server. Arguments: command id, body, user data.
typedef void (*MXKVStoreServerController)(int, const char*, void*);

// A feature of the build.
typedef struct LibFeature {
  // Name, such as `CPU_AVX2`.
  const char *name;
  // Whether it is enabled.
  bool enabled;
} LibFeature;

// An operator, in NNVM's functions.
typedef void *OpHandle;

// A packed function.
typedef void *MXNetFunctionHandle;

// An argument or the result of a packed function.
typedef union MXNetValue {
  // An integer.
  int64_t v_int64;
  // A floating-point number.
  double v_float64;
  // A handle.
  void *v_handle;
  // A string.
  const char *v_str;
} MXNetValue;

// An object of a packed function.
typedef void *MXNetObjectHandle;

// A network bound for prediction.
typedef void *PredictorHandle;

// Like `ExecutorMonitorCallback`, for predictors.
typedef ExecutorMonitorCallback PredMonitorCallback;

// A list of arrays from a file.
typedef void *NDListHandle;

// A profiling object: domain, task, frame, event or counter.
typedef void *ProfileHandle;

// A RecordIO file.
typedef void *RecordIOHandle;

// CUDA code in early versions of MXNet.
typedef void *RtcHandle;

// Compiled CUDA code.
typedef void *CudaModuleHandle;

// A kernel of compiled CUDA code.
typedef void *CudaKernelHandle;

// An operator of a graph.
typedef void *AtomicSymbolHandle;

// Computes the gradients of a function. Arguments: numbers of output and input gradients, the arrays, requests, whether in training mode.
typedef int (*CustomFunctionBwdFunc)(int, int, void**, const int*, int, void*);

// Deletes the context of a function.
typedef int (*CustomFunctionDelFunc)(void*);

// Infers the storage types of the gradients. Arguments: number of arrays, their codes, their tags.
typedef int (*CustomOpBackwardInferStorageTypeFunc)(int, int*, int*, void*);

// Declares the dependencies of the gradient. Arguments: ids of output gradients, inputs and outputs; returns number and ids of those it
// reads.
typedef int (*CustomOpBwdDepFunc)(const int*, const int*, const int*, int*, int**, void*);

// Creates an instance. Arguments: device, number of inputs, their shapes, ranks and types, the list of callbacks to fill in.
typedef int (*CustomOpCreateFunc)(const char*, int, uint32_t**, const int*, const int*, struct MXCallbackList*, void*);

// Deletes a context.
typedef int (*CustomOpDelFunc)(void*);

// Runs forward or backward. Arguments: number of arrays, the arrays, their tags, requests, whether in training mode.
typedef int (*CustomOpFBFunc)(int, void**, int*, const int*, int, void*);

// Infers shapes. Arguments: number of arrays, their ranks, their dimensions.
typedef int (*CustomOpInferShapeFunc)(int, int*, int**, void*);

// Infers storage types. Arguments: number of arrays, their codes.
typedef int (*CustomOpInferStorageTypeFunc)(int, int*, void*);

// Infers element types. Arguments: number of arrays, their type codes.
typedef int (*CustomOpInferTypeFunc)(int, int*, void*);

// Lists names; the list is terminated by null.
typedef int (*CustomOpListFunc)(char***, void*);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the message of the last failed call on this thread. It is valid until the next call fails.
MXNET_DLL const char *MXGetLastError(void);

// Like `MXGetLastError`.
MXNET_DLL const char *NNGetLastError(void);

// Switches recording on this thread on or off and returns the previous state.
MXNET_DLL int MXAutogradSetIsRecording(int is_recording, int *prev);

// Switches training mode on this thread on or off and returns the previous state.
MXNET_DLL int MXAutogradSetIsTraining(int is_training, int *prev);

// Returns whether operators on this thread are recorded.
MXNET_DLL int MXAutogradIsRecording(bool *curr);

// Returns whether operators on this thread run in training mode.
MXNET_DLL int MXAutogradIsTraining(bool *curr);

// Marks arrays as variables, each with a gradient array and a request: 0 null, 1 write, 3 add.
MXNET_DLL
int MXAutogradMarkVariables(uint32_t num_var,
                            NDArrayHandle *var_handles,
                            uint32_t *reqs_array,
                            NDArrayHandle *grad_handles);

// Computes the gradients of recorded outputs and writes them to the gradient arrays of the variables. A null head gradient means ones.
// Unless `retain_graph` is set, the recorded graph is freed, and a second backward pass is an error.
MXNET_DLL
int MXAutogradBackward(uint32_t num_output,
                       NDArrayHandle *output_handles,
                       NDArrayHandle *ograd_handles,
                       int retain_graph);

// Like `MXAutogradBackward`. With variables, returns their gradients instead, as new handles, which the caller frees, with their storage
// types; the lists are valid until the next call on this thread. `create_graph` records the computation of the gradients for
// higher-order gradients.
MXNET_DLL
int MXAutogradBackwardEx(uint32_t num_output,
                         NDArrayHandle *output_handles,
                         NDArrayHandle *ograd_handles,
                         uint32_t num_variables,
                         NDArrayHandle *var_handles,
                         int retain_graph,
                         int create_graph,
                         int is_train,
                         NDArrayHandle **grad_handles,
                         int **grad_stypes);

// Like `MXAutogradBackward`, with head gradients of ones.
MXNET_DLL int MXAutogradComputeGradient(uint32_t num_output, NDArrayHandle *output_handles);

// Creates a symbol from the recorded computation of an array.
MXNET_DLL int MXAutogradGetSymbol(NDArrayHandle handle, SymbolHandle *out);

// Partitions a graph for a backend: `MKLDNN` and `MKLDNN_QUANTIZE` group layers with their epilogues, `default` and `default_v2` group the
// operators whose names were set.
MXNET_DLL
int MXGenBackendSubgraph(SymbolHandle sym_handle,
                         const char *backend,
                         SymbolHandle *ret_sym_handle);

// Like `MXGenBackendSubgraph`; there are no new arguments. As in MXNet, an unknown backend leaves the graph unchanged. Shapes and types
// have no effect.
MXNET_DLL
int MXOptimizeForBackend(SymbolHandle sym_handle,
                         const char *backend_name,
                         int dev_type,
                         SymbolHandle *ret_sym_handle,
                         uint32_t args_len,
                         NDArrayHandle *in_args_handle,
                         uint32_t aux_len,
                         NDArrayHandle *in_aux_handle,
                         uint32_t num_options,
                         const char **keys,
                         const char **vals,
                         uint32_t num_input_shapes,
                         const char **input_shape_names,
                         const int64_t *input_shape_data,
                         const uint32_t *input_shape_idx,
                         uint32_t num_input_dtypes,
                         const char **input_dtype_names,
                         const int *input_dtypes,
                         uint32_t num_input_stypes,
                         const char **input_stype_names,
                         const int *input_stypes,
                         bool skip_infer,
                         int *new_args_cnt,
                         NDArrayHandle **new_args_handle,
                         char ***new_arg_names_handle,
                         int *new_aux_cnt,
                         NDArrayHandle **new_aux_handle,
                         char ***new_aux_names_handle);

// Creates a symbol in which every maximal group of connected operators with these names is a `_CachedOp` node. The backend, `default` or
// `default_v2`, keeps the names.
MXNET_DLL
int MXBuildSubgraphByOpNames(SymbolHandle sym_handle,
                             const char *prop_name,
                             uint32_t num_ops,
                             const char **op_names,
                             SymbolHandle *ret_sym_handle);

// Sets the names of operators that backend `MXNET_SUBGRAPH_BACKEND` groups when an executor is bound. Accepted without effect: executors
// compile whole graphs, where groups change no result.
MXNET_DLL
int MXSetSubgraphPropertyOpNames(const char *prop_name,
                                 uint32_t num_ops,
                                 const char **op_names);

// Sets the names of operators that a backend groups.
MXNET_DLL int MXSetSubgraphPropertyOpNamesV2(const char *prop_name, uint32_t num_ops, const char **op_names);

// Removes the names that `MXSetSubgraphPropertyOpNames` set.
MXNET_DLL int MXRemoveSubgraphPropertyOpNames(const char *prop_name);

// Removes the names that `MXSetSubgraphPropertyOpNamesV2` set.
MXNET_DLL int MXRemoveSubgraphPropertyOpNamesV2(const char *prop_name);

// Creates an operator from a graph; its inputs are the graph's variables.
MXNET_DLL int MXCreateCachedOp(SymbolHandle handle, CachedOpHandle *out);

// Like `MXCreateCachedOp`, with flags such as `static_alloc`, `static_shape` and `inline_limit`, which are checked.
MXNET_DLL
int MXCreateCachedOpEx(SymbolHandle handle,
                       int num_flags,
                       const char **keys,
                       const char **vals,
                       CachedOpHandle *out);

// Like `MXCreateCachedOpEx`. Several threads may call the operator whatever `thread_safe` is.
MXNET_DLL
int MXCreateCachedOpEX(SymbolHandle handle,
                       int num_flags,
                       const char **keys,
                       const char **vals,
                       CachedOpHandle *out,
                       bool thread_safe);

// Frees a handle; null is ignored.
MXNET_DLL int MXFreeCachedOp(CachedOpHandle handle);

// Calls the graph. If `*outputs` is null, returns the number and handles of new arrays, which the caller frees; the list is valid until
// the next call on this thread. Otherwise writes the results to the `*num_outputs` given arrays.
MXNET_DLL
int MXInvokeCachedOp(CachedOpHandle handle,
                     int num_inputs,
                     NDArrayHandle *inputs,
                     int *num_outputs,
                     NDArrayHandle **outputs);

// Like `MXInvokeCachedOp`; also returns the storage types of the outputs (0 dense, 1 row_sparse, 2 csr), valid until the next call on this
// thread.
MXNET_DLL
int MXInvokeCachedOpEx(CachedOpHandle handle,
                       int num_inputs,
                       NDArrayHandle *inputs,
                       int *num_outputs,
                       NDArrayHandle **outputs,
                       const int **out_stypes);

// Installs a callback that gets a copy of every output of every operator that runs, and with `monitor_all` of every input; null removes
// it.
MXNET_DLL
int MXCachedOpRegisterOpHook(CachedOpHandle handle,
                             CachedOpMonitorCallback callback,
                             bool monitor_all);

// Registers a user operator for `Custom`. `creator` fills the list with the callbacks of the operator, in the order of
// `CustomOpPropCallbacks`: delete, list arguments, outputs and auxiliary states, infer shapes, declare the dependencies of the gradient,
// create an instance, infer types, infer storage types, infer storage types of gradients. An instance has the callbacks delete, forward
// and backward. Callbacks return 0 on failure. They own the array handles that they get.
MXNET_DLL
int MXCustomOpRegister(const char *op_type,
                       CustomOpPropCreator creator);

// Records a function that computed `outputs` from `inputs`. Its callbacks are backward and delete; backward gets handles of the output
// gradients and of arrays for the input gradients, which it frees.
MXNET_DLL
int MXCustomFunctionRecord(int num_inputs,
                           NDArrayHandle *inputs,
                           int num_outputs,
                           NDArrayHandle *outputs,
                           struct MXCallbackList *callbacks);

// Lists the kinds of data iterators. The list is valid until the next call on this thread.
MXNET_DLL int MXListDataIters(uint32_t *out_size, DataIterCreator **out_array);

// Describes a kind of data iterator: name, description, parameters with type strings and descriptions. All pointers are valid
// until the next call on this thread.
MXNET_DLL
int MXDataIterGetIterInfo(DataIterCreator creator,
                          const char **name,
                          const char **description,
                          uint32_t *num_args,
                          const char ***arg_names,
                          const char ***arg_type_infos,
                          const char ***arg_descriptions);

// Creates a data iterator.
MXNET_DLL
int MXDataIterCreateIter(DataIterCreator handle,
                         uint32_t num_param,
                         const char **keys,
                         const char **vals,
                         DataIterHandle *out);

// Frees a data iterator; null is ignored.
MXNET_DLL int MXDataIterFree(DataIterHandle handle);

// Advances to the next batch; `out` is 0 at the end.
MXNET_DLL int MXDataIterNext(DataIterHandle handle, int *out);

// Rewinds to before the first batch.
MXNET_DLL int MXDataIterBeforeFirst(DataIterHandle handle);

// Returns the examples of the batch as a new handle.
MXNET_DLL int MXDataIterGetData(DataIterHandle handle, NDArrayHandle *out);

// Returns the labels of the batch as a new handle.
MXNET_DLL int MXDataIterGetLabel(DataIterHandle handle, NDArrayHandle *out);

// Returns the indices of the batch's examples in the file, valid until the next call on this thread.
MXNET_DLL int MXDataIterGetIndex(DataIterHandle handle, uint64_t **out_index, uint64_t *out_size);

// Returns the number of examples at the end of the batch that are padding.
MXNET_DLL int MXDataIterGetPadNum(DataIterHandle handle, int *pad);

// Returns an array as a DLPack tensor on the same memory. The consumer frees it by its deleter or by `MXNDArrayCallDLPackDeleter`. From
// now on, the library assumes that the array's content may change at any time.
MXNET_DLL
int MXNDArrayToDLPack(NDArrayHandle handle,
                      DLManagedTensorHandle *out_dlpack);

// Creates an array on the memory of a DLPack tensor, which is released after its last use. Booleans are copied.
MXNET_DLL int MXNDArrayFromDLPack(DLManagedTensorHandle dlpack, NDArrayHandle *out_handle);

// Like `MXNDArrayFromDLPack`; with `transient_handle`, the tensor description need only be valid during the call.
MXNET_DLL int MXNDArrayFromDLPackEx(DLManagedTensorHandle dlpack, bool transient_handle, NDArrayHandle *out_handle);

// Frees a DLPack tensor that was not consumed; null is ignored.
MXNET_DLL int MXNDArrayCallDLPackDeleter(DLManagedTensorHandle dlpack);

// Runs an asynchronous function and waits for its completion callback; its failure is an error. Then calls `deleter`, unless it is null,
// with the parameter. Engine variables are not supported: pass arrays by `MXEnginePushAsyncND`.
MXNET_DLL
int MXEnginePushAsync(EngineAsyncFunc async_func,
                      void *func_param,
                      EngineFuncParamDeleter deleter,
                      ContextHandle ctx_handle,
                      EngineVarHandle const_vars_handle,
                      int num_const_vars,
                      EngineVarHandle mutable_vars_handle,
                      int num_mutable_vars,
                      EngineFnPropertyHandle prop_handle,
                      int priority,
                      const char *opr_name,
                      bool wait);

// Runs a function. Then calls `deleter`, unless it is null, with the parameter. Engine variables are not supported: pass arrays by
// `MXEnginePushSyncND`.
MXNET_DLL
int MXEnginePushSync(EngineSyncFunc sync_func,
                     void *func_param,
                     EngineFuncParamDeleter deleter,
                     ContextHandle ctx_handle,
                     EngineVarHandle const_vars_handle,
                     int num_const_vars,
                     EngineVarHandle mutable_vars_handle,
                     int num_mutable_vars,
                     EngineFnPropertyHandle prop_handle,
                     int priority,
                     const char *opr_name);

// Like `MXEnginePushAsync`, with the arrays that the function reads and those that it writes.
MXNET_DLL
int MXEnginePushAsyncND(EngineAsyncFunc async_func,
                        void *func_param,
                        EngineFuncParamDeleter deleter,
                        ContextHandle ctx_handle,
                        NDArrayHandle *const_nds_handle,
                        int num_const_nds,
                        NDArrayHandle *mutable_nds_handle,
                        int num_mutable_nds,
                        EngineFnPropertyHandle prop_handle,
                        int priority,
                        const char *opr_name,
                        bool wait);

// Like `MXEnginePushSync`, with the arrays that the function reads and those that it writes.
MXNET_DLL
int MXEnginePushSyncND(EngineSyncFunc sync_func,
                       void *func_param,
                       EngineFuncParamDeleter deleter,
                       ContextHandle ctx_handle,
                       NDArrayHandle *const_nds_handle,
                       int num_const_nds,
                       NDArrayHandle *mutable_nds_handle,
                       int num_mutable_nds,
                       EngineFnPropertyHandle prop_handle,
                       int priority,
                       const char *opr_name);

// Binds a symbol to arrays for its arguments, gradients (null for none) with requests (0 null, 1 write, 3 add), and auxiliary states. The
// arrays are shared with the caller, whose changes take effect in the next run.
MXNET_DLL
int MXExecutorBind(SymbolHandle symbol_handle,
                   int dev_type,
                   int dev_id,
                   uint32_t len,
                   NDArrayHandle *in_args,
                   NDArrayHandle *arg_grad_store,
                   uint32_t *grad_req_type,
                   uint32_t aux_states_len,
                   NDArrayHandle *aux_states,
                   ExecutorHandle *out);

// Like `MXExecutorBind`, with devices for context groups, which the attribute `ctx_group` of nodes names.
MXNET_DLL
int MXExecutorBindX(SymbolHandle symbol_handle,
                    int dev_type,
                    int dev_id,
                    uint32_t num_map_keys,
                    const char **map_keys,
                    const int *map_dev_types,
                    const int *map_dev_ids,
                    uint32_t len,
                    NDArrayHandle *in_args,
                    NDArrayHandle *arg_grad_store,
                    uint32_t *grad_req_type,
                    uint32_t aux_states_len,
                    NDArrayHandle *aux_states,
                    ExecutorHandle *out);

// Like `MXExecutorBindX`, sharing the memory of intermediate results with another executor unless `shared_exec` is null.
MXNET_DLL
int MXExecutorBindEX(SymbolHandle symbol_handle,
                     int dev_type,
                     int dev_id,
                     uint32_t num_map_keys,
                     const char **map_keys,
                     const int *map_dev_types,
                     const int *map_dev_ids,
                     uint32_t len,
                     NDArrayHandle *in_args,
                     NDArrayHandle *arg_grad_store,
                     uint32_t *grad_req_type,
                     uint32_t aux_states_len,
                     NDArrayHandle *aux_states,
                     ExecutorHandle shared_exec,
                     ExecutorHandle *out);

// Frees an executor; null is ignored. Arrays with handles stay valid.
MXNET_DLL int MXExecutorFree(ExecutorHandle handle);

// Computes the outputs from the current values of the arguments.
MXNET_DLL int MXExecutorForward(ExecutorHandle handle, int is_train);

// Computes the gradients after a forward pass in training mode. `head_grads` has the gradients of the outputs; it may be null if all
// outputs are losses.
MXNET_DLL
int MXExecutorBackward(ExecutorHandle handle,
                       uint32_t len,
                       NDArrayHandle *head_grads);

// Like `MXExecutorBackward`, with `is_train` for operators that behave differently in training mode.
MXNET_DLL int MXExecutorBackwardEx(ExecutorHandle handle, uint32_t len, NDArrayHandle *head_grads, int is_train);

// Like `MXExecutorBackwardEx` and then `MXKVStorePushEx`, but pushes each key as soon as those of its `vals` that are gradients of the
// executor are complete, so that a distributed store sends them while others are computed. The order of pushes is that of the gradients
// in the graph, whatever the order of `keys`.
MXNET_DLL
int FerroExecutorBackwardPush(ExecutorHandle handle,
                              uint32_t len,
                              NDArrayHandle *head_grads,
                              int is_train,
                              KVStoreHandle store,
                              uint32_t num,
                              const char **keys,
                              NDArrayHandle *vals);

// Returns new handles of the outputs, which the caller frees; the list is valid until the next call on this thread. The next
// forward pass overwrites the arrays.
MXNET_DLL
int MXExecutorOutputs(ExecutorHandle handle,
                      uint32_t *out_size,
                      NDArrayHandle **out);

// Returns a description of the plan, valid until the next call on this thread.
MXNET_DLL int MXExecutorPrint(ExecutorHandle handle, const char **out_str);

// Creates an executor of the same symbol for other shapes, which shares arrays where possible. The caller frees the executor and the
// handles of its arrays; the lists are valid until the next call on this thread.
MXNET_DLL
int MXExecutorReshape(int partial_shaping,
                      int allow_up_sizing,
                      int dev_type,
                      int dev_id,
                      uint32_t num_map_keys,
                      const char **map_keys,
                      const int *map_dev_types,
                      const int *map_dev_ids,
                      uint32_t num_provided_arg_shapes,
                      const char **provided_arg_shape_names,
                      const uint32_t *provided_arg_shape_data,
                      const uint32_t *provided_arg_shape_idx,
                      uint32_t *num_in_args,
                      NDArrayHandle **in_args,
                      NDArrayHandle **arg_grads,
                      uint32_t *num_aux_states,
                      NDArrayHandle **aux_states,
                      ExecutorHandle shared_exec,
                      ExecutorHandle *out);

// Like `MXExecutorReshape`, with signed dimensions.
MXNET_DLL
int MXExecutorReshapeEx(int partial_shaping,
                        int allow_up_sizing,
                        int dev_type,
                        int dev_id,
                        uint32_t num_map_keys,
                        const char **map_keys,
                        const int *map_dev_types,
                        const int *map_dev_ids,
                        uint32_t num_provided_arg_shapes,
                        const char **provided_arg_shape_names,
                        const int *provided_arg_shape_data,
                        const uint32_t *provided_arg_shape_idx,
                        uint32_t *num_in_args,
                        NDArrayHandle **in_args,
                        NDArrayHandle **arg_grads,
                        uint32_t *num_aux_states,
                        NDArrayHandle **aux_states,
                        ExecutorHandle shared_exec,
                        ExecutorHandle *out);

// Installs a callback that gets the name and array of every output of every node that a run computes; null removes it.
MXNET_DLL
int MXExecutorSetMonitorCallback(ExecutorHandle handle,
                                 ExecutorMonitorCallback callback,
                                 void *callback_handle);

// Like `MXExecutorSetMonitorCallback`; with `monitor_all`, the callback also gets inputs.
MXNET_DLL
int MXExecutorSetMonitorCallbackEX(ExecutorHandle handle,
                                   ExecutorMonitorCallback callback,
                                   void *callback_handle,
                                   bool monitor_all);

// Creates a symbol of the graph of an executor, without common subexpressions.
MXNET_DLL int MXExecutorGetOptimizedSymbol(ExecutorHandle handle, SymbolHandle *out);

// Saves arrays to a file, with names unless `keys` is null.
MXNET_DLL int MXNDArraySave(const char *fname, uint32_t num_args, NDArrayHandle *args, const char **keys);

// Loads arrays from a file. The caller frees their handles; the lists are valid until the next call on this thread.
MXNET_DLL
int MXNDArrayLoad(const char *fname,
                  uint32_t *out_size,
                  NDArrayHandle **out_arr,
                  uint32_t *out_name_size,
                  const char ***out_names);

// Like `MXNDArrayLoad`, from the bytes of a file.
MXNET_DLL
int MXNDArrayLoadFromBuffer(const void *ndarray_buffer,
                            size_t size,
                            uint32_t *out_size,
                            NDArrayHandle **out_arr,
                            uint32_t *out_name_size,
                            const char ***out_names);

// Serializes an array to bytes, which are valid until the next call on this thread.
MXNET_DLL int MXNDArraySaveRawBytes(NDArrayHandle handle, size_t *out_size, const char **out_buf);

// Deserializes an array from the bytes of `MXNDArraySaveRawBytes`.
MXNET_DLL int MXNDArrayLoadFromRawBytes(const void *buf, size_t size, NDArrayHandle *out);

// Lists the legacy array functions. The array is valid until the next call on this thread.
MXNET_DLL int MXListFunctions(uint32_t *out_size, FunctionHandle **out_array);

// Returns the handle of a function. It is never freed.
MXNET_DLL int MXGetFunction(const char *name, FunctionHandle *out);

// Describes a function like `MXSymbolGetAtomicSymbolInfo`. All pointers are valid until the next call on this thread.
MXNET_DLL
int MXFuncGetInfo(FunctionHandle fun,
                  const char **name,
                  const char **description,
                  uint32_t *num_args,
                  const char ***arg_names,
                  const char ***arg_type_infos,
                  const char ***arg_descriptions,
                  const char **return_type);

// Returns the numbers of a function's input arrays, scalars and output arrays, and a bit mask: arrays come before scalars (1), output
// arrays may be empty (4).
MXNET_DLL
int MXFuncDescribe(FunctionHandle fun,
                   uint32_t *num_use_vars,
                   uint32_t *num_scalars,
                   uint32_t *num_mutate_vars,
                   int *type_mask);

// Calls a function with the numbers of arrays and scalars that `MXFuncDescribe` returns.
MXNET_DLL int MXFuncInvoke(FunctionHandle fun, NDArrayHandle *use_vars, float *scalar_args, NDArrayHandle *mutate_vars);

// Like `MXFuncInvoke`, with further parameters as text. The parameter of `_imdecode` is the encoded image, which has `size` bytes and may
// contain zeros.
MXNET_DLL
int MXFuncInvokeEx(FunctionHandle fun,
                   NDArrayHandle *use_vars,
                   float *scalar_args,
                   NDArrayHandle *mutate_vars,
                   int num_params,
                   char **param_keys,
                   char **param_vals);

// Sets the message that `NNGetLastError` returns on this thread.
MXNET_DLL void NNAPISetLastError(const char *msg);

// Creates a graph from a symbol; the caller frees it.
MXNET_DLL int NNGraphCreate(SymbolHandle symbol_handle, GraphHandle *graph_out);

// Frees a graph; null is ignored.
MXNET_DLL int NNGraphFree(GraphHandle graph_handle);

// Creates a symbol with the outputs of a graph.
MXNET_DLL int NNGraphGetSymbol(GraphHandle graph_handle, SymbolHandle *symbol_out);

// Sets an attribute of a graph from JSON of the form `["TYPE", VALUE]`, of type `str`, `int`, `size_t`, `list_str`, `list_int` or
// `list_shape`.
MXNET_DLL
int NNGraphSetJSONAttr(GraphHandle graph_handle,
                       const char *key,
                       const char *json_value);

// Returns an attribute of a graph as JSON, valid until the next call on this thread; `success` is 0 if there is none.
MXNET_DLL int NNGraphGetJSONAttr(GraphHandle graph_handle, const char *key, const char **json_out, int *success);

// Sets an attribute of a graph to the outputs of a symbol.
MXNET_DLL int NNGraphSetNodeEntryListAttr_(GraphHandle graph_handle, const char *key, SymbolHandle list);

// Creates a graph by applying passes in order: `SaveJSON` stores the graph in its attribute `json`, `LoadJSON` loads it from there.
MXNET_DLL
int NNGraphApplyPasses(GraphHandle src,
                       uint32_t num_pass,
                       const char **pass_names,
                       GraphHandle *dst);

// Always an error: control dependencies are not supported. Nodes run after their inputs, in no other order.
MXNET_DLL int NNAddControlDeps(SymbolHandle symbol_handle, SymbolHandle src_dep);

// Runs an operator. If `*outputs` is null, returns the number and handles of new arrays, which the caller frees; the list is valid until
// the next call on this thread. Otherwise writes the results to the `*num_outputs` given arrays.
MXNET_DLL
int MXImperativeInvoke(AtomicSymbolCreator creator,
                       int num_inputs,
                       NDArrayHandle *inputs,
                       int *num_outputs,
                       NDArrayHandle **outputs,
                       int num_params,
                       const char **param_keys,
                       const char **param_vals);

// Like `MXImperativeInvoke`; also returns the storage types of the outputs (0 dense, 1 row_sparse, 2 csr), valid until the next call on
// this thread.
MXNET_DLL
int MXImperativeInvokeEx(AtomicSymbolCreator creator,
                         int num_inputs,
                         NDArrayHandle *inputs,
                         int *num_outputs,
                         NDArrayHandle **outputs,
                         int num_params,
                         const char **param_keys,
                         const char **param_vals,
                         const int **out_stypes);

// Infers the shapes of arguments, outputs and auxiliary states from those of some arguments. Argument `i` has the dimensions
// `arg_shape_data[arg_ind_ptr[i] .. arg_ind_ptr[i + 1]]`; `keys` names the arguments, or is null for the first ones in order. `complete`
// is 0 if any shape remains unknown. The results are valid until the next call on this thread.
MXNET_DLL
int MXSymbolInferShape(SymbolHandle handle,
                       uint32_t num_args,
                       const char **keys,
                       const uint32_t *arg_ind_ptr,
                       const uint32_t *arg_shape_data,
                       uint32_t *in_shape_size,
                       const uint32_t **in_shape_ndim,
                       const uint32_t ***in_shape_data,
                       uint32_t *out_shape_size,
                       const uint32_t **out_shape_ndim,
                       const uint32_t ***out_shape_data,
                       uint32_t *aux_shape_size,
                       const uint32_t **aux_shape_ndim,
                       const uint32_t ***aux_shape_data,
                       int *complete);

// Like `MXSymbolInferShape`, with signed dimensions.
MXNET_DLL
int MXSymbolInferShapeEx(SymbolHandle handle,
                         uint32_t num_args,
                         const char **keys,
                         const uint32_t *arg_ind_ptr,
                         const int *arg_shape_data,
                         uint32_t *in_shape_size,
                         const int **in_shape_ndim,
                         const int ***in_shape_data,
                         uint32_t *out_shape_size,
                         const int **out_shape_ndim,
                         const int ***out_shape_data,
                         uint32_t *aux_shape_size,
                         const int **aux_shape_ndim,
                         const int ***aux_shape_data,
                         int *complete);

// Like `MXSymbolInferShape`, with 64-bit dimensions.
MXNET_DLL
int MXSymbolInferShapeEx64(SymbolHandle handle,
                           uint32_t num_args,
                           const char **keys,
                           const int64_t *arg_ind_ptr,
                           const int64_t *arg_shape_data,
                           size_t *in_shape_size,
                           const int **in_shape_ndim,
                           const int64_t ***in_shape_data,
                           size_t *out_shape_size,
                           const int **out_shape_ndim,
                           const int64_t ***out_shape_data,
                           size_t *aux_shape_size,
                           const int **aux_shape_ndim,
                           const int64_t ***aux_shape_data,
                           int *complete);

// Like `MXSymbolInferShape`, but shapes may remain unknown.
MXNET_DLL
int MXSymbolInferShapePartial(SymbolHandle handle,
                              uint32_t num_args,
                              const char **keys,
                              const uint32_t *arg_ind_ptr,
                              const uint32_t *arg_shape_data,
                              uint32_t *in_shape_size,
                              const uint32_t **in_shape_ndim,
                              const uint32_t ***in_shape_data,
                              uint32_t *out_shape_size,
                              const uint32_t **out_shape_ndim,
                              const uint32_t ***out_shape_data,
                              uint32_t *aux_shape_size,
                              const uint32_t **aux_shape_ndim,
                              const uint32_t ***aux_shape_data,
                              int *complete);

// Like `MXSymbolInferShapePartial`, with signed dimensions.
MXNET_DLL
int MXSymbolInferShapePartialEx(SymbolHandle handle,
                                uint32_t num_args,
                                const char **keys,
                                const uint32_t *arg_ind_ptr,
                                const int *arg_shape_data,
                                uint32_t *in_shape_size,
                                const int **in_shape_ndim,
                                const int ***in_shape_data,
                                uint32_t *out_shape_size,
                                const int **out_shape_ndim,
                                const int ***out_shape_data,
                                uint32_t *aux_shape_size,
                                const int **aux_shape_ndim,
                                const int ***aux_shape_data,
                                int *complete);

// Like `MXSymbolInferShapePartial`, with 64-bit dimensions.
MXNET_DLL
int MXSymbolInferShapePartialEx64(SymbolHandle handle,
                                  uint32_t num_args,
                                  const char **keys,
                                  const int64_t *arg_ind_ptr,
                                  const int64_t *arg_shape_data,
                                  size_t *in_shape_size,
                                  const int **in_shape_ndim,
                                  const int64_t ***in_shape_data,
                                  size_t *out_shape_size,
                                  const int **out_shape_ndim,
                                  const int64_t ***out_shape_data,
                                  size_t *aux_shape_size,
                                  const int **aux_shape_ndim,
                                  const int64_t ***aux_shape_data,
                                  int *complete);

// Infers the element types of arguments, outputs and auxiliary states from those of some arguments; -1 means unknown. `keys` names the
// arguments, or is null for the first ones in order. The results are valid until the next call on this thread.
MXNET_DLL
int MXSymbolInferType(SymbolHandle handle,
                      uint32_t num_args,
                      const char **keys,
                      const int *arg_type_data,
                      uint32_t *in_type_size,
                      const int **in_type_data,
                      uint32_t *out_type_size,
                      const int **out_type_data,
                      uint32_t *aux_type_size,
                      const int **aux_type_data,
                      int *complete);

// Like `MXSymbolInferType`, but types may remain unknown.
MXNET_DLL
int MXSymbolInferTypePartial(SymbolHandle handle,
                             uint32_t num_args,
                             const char **keys,
                             const int *arg_type_data,
                             uint32_t *in_type_size,
                             const int **in_type_data,
                             uint32_t *out_type_size,
                             const int **out_type_data,
                             uint32_t *aux_type_size,
                             const int **aux_type_data,
                             int *complete);

// Opens the listener of a distributed job on a local address; port 0 takes a free one. The program sends the port to the other ranks; then
// all ranks join.
MXNET_DLL
int FerroJobListen(const char *host,
                   int port,
                   FerroJobHandle *out);

// Returns the port of the listener of a job.
MXNET_DLL int FerroJobGetPort(FerroJobHandle handle, int *port);

// Connects to all other ranks of a job. `peers` has `host:port` for each of the `size` ranks. `secret` has 16 or more bytes, the same for
// all ranks. `timeout_ms` is the maximum time in milliseconds to wait for other ranks, now and in each later operation.
MXNET_DLL
int FerroJobJoin(FerroJobHandle handle,
                 int rank,
                 int size,
                 const char **peers,
                 const void *secret,
                 size_t secret_len,
                 uint64_t timeout_ms);

// Returns the rank of this process in a job.
MXNET_DLL int FerroJobGetRank(FerroJobHandle handle, int *rank);

// Returns the number of ranks of a job.
MXNET_DLL int FerroJobGetSize(FerroJobHandle handle, int *size);

// Waits for the other ranks of a job.
MXNET_DLL int FerroJobBarrier(FerroJobHandle handle);

// Creates a store of kind `dist_sync` or `dist_device_sync` of a job. All ranks create their stores in the same order.
MXNET_DLL int FerroJobCreateStore(FerroJobHandle handle, const char *kind, KVStoreHandle *out);

// Leaves a job. Threads that wait get an error.
MXNET_DLL int FerroJobClose(FerroJobHandle handle);

// Frees the handle of a job; null is ignored. The job ends with its last store, unless it was closed before.
MXNET_DLL int FerroJobFree(FerroJobHandle handle);

// Creates a store: of this process (kind `local` or `device`), or shared by the workers of a job (`dist_sync` or `dist_device_sync`). The
// environment variables `DMLC_*` describe the job.
MXNET_DLL
int MXKVStoreCreate(const char *type_,
                    KVStoreHandle *out);

// Frees a store; null is ignored.
MXNET_DLL int MXKVStoreFree(KVStoreHandle handle);

// Returns the kind of a store, valid until the next call on this thread.
MXNET_DLL int MXKVStoreGetType(KVStoreHandle handle, const char **type_);

// Returns the rank of this process among those that share the store.
MXNET_DLL int MXKVStoreGetRank(KVStoreHandle handle, int *ret);

// Returns the number of processes that share the store.
MXNET_DLL int MXKVStoreGetGroupSize(KVStoreHandle handle, int *ret);

// Waits for the other processes that share the store.
MXNET_DLL int MXKVStoreBarrier(KVStoreHandle handle);

// Returns whether this process sends its optimizer to servers: 1 for a worker by `DMLC_ROLE`; 0 once it has a distributed store of its
// environment, because it then stores all values and runs the optimizer itself.
MXNET_DLL
int MXKVStoreIsWorkerNode(int *ret);

// Returns whether this process is a server by `DMLC_ROLE`.
MXNET_DLL int MXKVStoreIsServerNode(int *ret);

// Returns whether this process is a scheduler by `DMLC_ROLE`.
MXNET_DLL int MXKVStoreIsSchedulerNode(int *ret);

// Sets gradient compression: `type` (`none` or `2bit`) and `threshold`. Stores of kind `device` and distributed stores support it.
MXNET_DLL
int MXKVStoreSetGradientCompression(KVStoreHandle handle,
                                    uint32_t num_params,
                                    const char **keys,
                                    const char **vals);

// Sets the updater that pushes to integer keys call. It gets the key, the sum of the pushed arrays, the stored array, and
// `updater_handle`; it frees both array handles.
MXNET_DLL
int MXKVStoreSetUpdater(KVStoreHandle handle,
                        MXKVStoreUpdater updater,
                        void *updater_handle);

// Like `MXKVStoreSetUpdater`, with a second function for string keys.
MXNET_DLL
int MXKVStoreSetUpdaterEx(KVStoreHandle handle,
                          MXKVStoreUpdater updater,
                          MXKVStoreStrUpdater str_updater,
                          void *updater_handle);

// Initializes new keys with copies of arrays.
MXNET_DLL int MXKVStoreInit(KVStoreHandle handle, uint32_t num, const int *keys, NDArrayHandle *vals);

// Like `MXKVStoreInit`, with string keys.
MXNET_DLL int MXKVStoreInitEx(KVStoreHandle handle, uint32_t num, const char **keys, NDArrayHandle *vals);

// Sums the arrays of each key and updates or replaces its stored array. The arrays of a distributed store are the gradients of this
// worker's shards. `priority` has no effect, since operators run when they are called.
MXNET_DLL
int MXKVStorePush(KVStoreHandle handle,
                  uint32_t num,
                  const int *keys,
                  NDArrayHandle *vals,
                  int priority);

// Like `MXKVStorePush`, with string keys.
MXNET_DLL int MXKVStorePushEx(KVStoreHandle handle, uint32_t num, const char **keys, NDArrayHandle *vals, int priority);

// Copies stored arrays to `vals`; sparse outputs are skipped.
MXNET_DLL int MXKVStorePull(KVStoreHandle handle, uint32_t num, const int *keys, NDArrayHandle *vals, int priority);

// Like `MXKVStorePull`, with string keys.
MXNET_DLL int MXKVStorePullEx(KVStoreHandle handle, uint32_t num, const char **keys, NDArrayHandle *vals, int priority);

// Like `MXKVStorePull`; sparse outputs are skipped only if `ignore_sparse` is set.
MXNET_DLL
int MXKVStorePullWithSparse(KVStoreHandle handle,
                            uint32_t num,
                            const int *keys,
                            NDArrayHandle *vals,
                            int priority,
                            bool ignore_sparse);

// Like `MXKVStorePullWithSparse`, with string keys.
MXNET_DLL
int MXKVStorePullWithSparseEx(KVStoreHandle handle,
                              uint32_t num,
                              const char **keys,
                              NDArrayHandle *vals,
                              int priority,
                              bool ignore_sparse);

// Copies the rows with indices `row_ids` to row_sparse arrays.
MXNET_DLL
int MXKVStorePullRowSparse(KVStoreHandle handle,
                           uint32_t num,
                           const int *keys,
                           NDArrayHandle *vals,
                           const NDArrayHandle *row_ids,
                           int priority);

// Like `MXKVStorePullRowSparse`, with string keys.
MXNET_DLL
int MXKVStorePullRowSparseEx(KVStoreHandle handle,
                             uint32_t num,
                             const char **keys,
                             NDArrayHandle *vals,
                             const NDArrayHandle *row_ids,
                             int priority);

// Pushes arrays, then pulls the results.
MXNET_DLL
int MXKVStorePushPull(KVStoreHandle handle,
                      uint32_t vnum,
                      const int *vkeys,
                      uint32_t onum,
                      const int *okeys,
                      NDArrayHandle *vals,
                      NDArrayHandle *outs,
                      int priority);

// Like `MXKVStorePushPull`, with string keys.
MXNET_DLL
int MXKVStorePushPullEx(KVStoreHandle handle,
                        uint32_t vnum,
                        const char **vkeys,
                        uint32_t onum,
                        const char **okeys,
                        NDArrayHandle *vals,
                        NDArrayHandle *outs,
                        int priority);

// Initializes new keys with arrays, then pulls them.
MXNET_DLL
int MXKVStoreBroadcast(KVStoreHandle handle,
                       uint32_t vnum,
                       const int *vkeys,
                       uint32_t onum,
                       const int *okeys,
                       NDArrayHandle *vals,
                       NDArrayHandle *outs,
                       int priority);

// Like `MXKVStoreBroadcast`, with string keys.
MXNET_DLL
int MXKVStoreBroadcastEx(KVStoreHandle handle,
                         uint32_t vnum,
                         const char **vkeys,
                         uint32_t onum,
                         const char **okeys,
                         NDArrayHandle *vals,
                         NDArrayHandle *outs,
                         int priority);

// Sets variables such as `DMLC_ROLE` that describe the job of distributed stores, with precedence over the environment.
MXNET_DLL int MXInitPSEnv(uint32_t num_vars, const char **keys, const char **vals);

// Returns the number of workers that are lost or have ended, if the group `node_id` contains workers (4).
MXNET_DLL int MXKVStoreGetNumDeadNode(KVStoreHandle handle, int node_id, int *number, int timeout_sec);

// Sets whether the end of a store waits for the other processes.
MXNET_DLL int MXKVStoreSetBarrierBeforeExit(KVStoreHandle handle, int barrier_before_exit);

// Runs in this process's role. A scheduler sends the workers each other's addresses. A server has nothing to do and returns at once, as
// does a worker.
MXNET_DLL
int MXKVStoreRunServer(KVStoreHandle handle,
                       MXKVStoreServerController controller,
                       void *controller_handle);

// Sends a command to the servers of a store: ignored by a local store, an error for a distributed one, because every worker stores all
// values.
MXNET_DLL
int MXKVStoreSendCommmandToServers(KVStoreHandle handle,
                                   int cmd_id,
                                   const char *cmd_body);

// Returns the version of MXNet that this library implements: 10901.
MXNET_DLL int MXGetVersion(int *out);

// Lists the features that a build may have. The array stays valid.
MXNET_DLL int MXLibInfoFeatures(const struct LibFeature **lib_feature, size_t *size);

// Seeds the random number generators of all devices.
MXNET_DLL int MXRandomSeed(int seed);

// Seeds the random number generator of one device.
MXNET_DLL int MXRandomSeedContext(int seed, int dev_type, int dev_id);

// Notifies the library of the end of the process. Does nothing: operators have finished when their call returns.
MXNET_DLL int MXNotifyShutdown(void);

// Sets the number of threads per operator, including the caller.
MXNET_DLL int MXSetNumOMPThreads(int thread_num);

// Sets the bulk size of this thread and returns the previous one. The value is stored without effect, since operators run when they are
// called.
MXNET_DLL
int MXEngineSetBulkSize(int bulk_size,
                        int *prev_bulk_size);

// Returns whether NumPy shape semantics (dimensions of size zero and scalars) are on: 0 off, 1 on for this thread, 2 on globally.
MXNET_DLL
int MXIsNumpyShape(int *curr);

// Switches NumPy shape semantics off (0), on for this thread (1) or on globally (2), and returns whether they were on before.
MXNET_DLL
int MXSetIsNumpyShape(int is_np_shape,
                      int *prev);

// Returns the number of GPUs that this build can use: 0.
MXNET_DLL int MXGetGPUCount(int *out);

// Always an error: this build has no GPU backend. Would return free and total memory of a GPU in MiB.
MXNET_DLL int MXGetGPUMemoryInformation(int dev, int *free_mem, int *total_mem);

// Like `MXGetGPUMemoryInformation`, in bytes.
MXNET_DLL int MXGetGPUMemoryInformation64(int dev, uint64_t *free_mem, uint64_t *total_mem);

// Returns the value of an environment variable, or null if it is not set. Valid until the next call on this thread.
MXNET_DLL int MXGetEnv(const char *name, const char **value);

// Sets an environment variable; a null value removes it. No other thread may access the environment during the call.
MXNET_DLL int MXSetEnv(const char *name, const char *value);

// Releases cached memory of freed arrays to the system.
MXNET_DLL int MXStorageEmptyCache(int dev_type, int dev_id);

// Creates an empty array, which gets shape and memory when an operator writes its output to it.
MXNET_DLL int MXNDArrayCreateNone(NDArrayHandle *out);

// Creates an uninitialized float32 array. Memory is reserved at once, whatever `delay_alloc` is; the system commits it on first use.
MXNET_DLL
int MXNDArrayCreate(const uint32_t *shape,
                    uint32_t ndim,
                    int dev_type,
                    int dev_id,
                    int delay_alloc,
                    NDArrayHandle *out);

// Like `MXNDArrayCreate`, with any element type.
MXNET_DLL
int MXNDArrayCreateEx(const uint32_t *shape,
                      uint32_t ndim,
                      int dev_type,
                      int dev_id,
                      int delay_alloc,
                      int dtype,
                      NDArrayHandle *out);

// Like `MXNDArrayCreateEx`, with 64-bit dimensions.
MXNET_DLL
int MXNDArrayCreateEx64(const int64_t *shape,
                        int ndim,
                        int dev_type,
                        int dev_id,
                        int delay_alloc,
                        int dtype,
                        NDArrayHandle *out);

// Frees a handle; null is ignored. The memory is released when no view, executor or recorded operator uses it any more.
MXNET_DLL int MXNDArrayFree(NDArrayHandle handle);

// Creates a second handle of an array.
MXNET_DLL int MXShallowCopyNDArray(NDArrayHandle src, NDArrayHandle *out);

// Creates a view of rows `slice_begin` to `slice_end` (exclusive), recorded like an operator.
MXNET_DLL int MXNDArraySlice(NDArrayHandle handle, uint32_t slice_begin, uint32_t slice_end, NDArrayHandle *out);

// Like `MXNDArraySlice`, with 64-bit indices.
MXNET_DLL int MXNDArraySlice64(NDArrayHandle handle, int64_t slice_begin, int64_t slice_end, NDArrayHandle *out);

// Creates a view of row `idx` without the first axis, recorded like an operator.
MXNET_DLL int MXNDArrayAt(NDArrayHandle handle, uint32_t idx, NDArrayHandle *out);

// Like `MXNDArrayAt`, with a 64-bit index.
MXNET_DLL int MXNDArrayAt64(NDArrayHandle handle, int64_t idx, NDArrayHandle *out);

// Creates a view with another shape, recorded like an operator. The special values 0, -1, -2, -3 and -4 have the same meaning as in the
// operator `Reshape`.
MXNET_DLL
int MXNDArrayReshape(NDArrayHandle handle,
                     int ndim,
                     int *dims,
                     NDArrayHandle *out);

// Like `MXNDArrayReshape`, with 64-bit dimensions; `reverse` matches special values from the right.
MXNET_DLL int MXNDArrayReshape64(NDArrayHandle handle, int ndim, int64_t *dims, bool reverse, NDArrayHandle *out);

// Returns the shape, valid until the next call on this thread.
MXNET_DLL int MXNDArrayGetShape(NDArrayHandle handle, uint32_t *out_dim, const uint32_t **out_pdata);

// Returns the shape with signed dimensions; an unknown rank is -1 in NumPy semantics. Valid until the next call on this thread.
MXNET_DLL
int MXNDArrayGetShapeEx(NDArrayHandle handle,
                        int *out_dim,
                        const int **out_pdata);

// Returns the shape with 64-bit dimensions, valid until the next call on this thread.
MXNET_DLL int MXNDArrayGetShapeEx64(NDArrayHandle handle, int *out_dim, const int64_t **out_pdata);

// Returns the element type code; -1 for an array that was not written yet.
MXNET_DLL int MXNDArrayGetDType(NDArrayHandle handle, int *out_dtype);

// Returns device type (1 is the CPU) and device id; zeros for an array that was not written yet.
MXNET_DLL int MXNDArrayGetContext(NDArrayHandle handle, int *out_dev_type, int *out_dev_id);

// Returns the address of the elements, which is valid as long as the array. From now on, the library assumes that the content may change
// at any time.
MXNET_DLL
int MXNDArrayGetData(NDArrayHandle handle,
                     void **out_pdata);

// Copies all `size` elements to the caller's memory.
MXNET_DLL int MXNDArraySyncCopyToCPU(NDArrayHandle handle, void *data, size_t size);

// Copies all `size` elements from the caller's memory.
MXNET_DLL int MXNDArraySyncCopyFromCPU(NDArrayHandle handle, const void *data, size_t size);

// Waits until the array can be read. Fails, once, if an operator that it depends on has failed.
MXNET_DLL int MXNDArrayWaitToRead(NDArrayHandle handle);

// Waits until the array can be written. Fails like `MXNDArrayWaitToRead`.
MXNET_DLL int MXNDArrayWaitToWrite(NDArrayHandle handle);

// Waits for all operators. Fails if a failure was not reported yet.
MXNET_DLL int MXNDArrayWaitAll(void);

// Returns the gradient array of a marked variable, or null. The caller frees the handle.
MXNET_DLL int MXNDArrayGetGrad(NDArrayHandle handle, NDArrayHandle *out);

// Creates an array on the same memory that is not recorded.
MXNET_DLL int MXNDArrayDetach(NDArrayHandle handle, NDArrayHandle *out);

// Returns whether the gradient was computed since the flag was last cleared.
MXNET_DLL int MXNDArrayGetGradState(NDArrayHandle handle, int *out);

// Sets the flag of `MXNDArrayGetGradState`.
MXNET_DLL int MXNDArraySetGradState(NDArrayHandle handle, int state);

// Lists the names and aliases of all operators, and the names of gradient operators. The array is valid until the next call on this
// thread.
MXNET_DLL
int MXListAllOpNames(uint32_t *out_size,
                     const char ***out_array);

// Like `MXListAllOpNames`.
MXNET_DLL int NNListAllOpNames(uint32_t *out_size, const char ***out_array);

// Lists the handles of all operators, without aliases, and of all gradient operators. The array is valid until the next call on this
// thread.
MXNET_DLL
int MXSymbolListAtomicSymbolCreators(uint32_t *out_size,
                                     AtomicSymbolCreator **out_array);

// Like `MXSymbolListAtomicSymbolCreators`.
MXNET_DLL int NNListUniqueOps(uint32_t *out_size, OpHandle **out_array);

// Returns the handle of an operator. It is never freed.
MXNET_DLL int NNGetOpHandle(const char *op_name, OpHandle *op_out);

// Returns the canonical name of an operator, valid until the next call on this thread.
MXNET_DLL int MXSymbolGetAtomicSymbolName(AtomicSymbolCreator creator, const char **name);

// Describes an operator: name, description, arguments with type strings and descriptions, the argument that counts its inputs (empty if
// their number is fixed), and return type. A gradient operator has no arguments. All pointers are valid until the next call on this
// thread.
MXNET_DLL
int MXSymbolGetAtomicSymbolInfo(AtomicSymbolCreator creator,
                                const char **name,
                                const char **description,
                                uint32_t *num_args,
                                const char ***arg_names,
                                const char ***arg_type_infos,
                                const char ***arg_descriptions,
                                const char **key_var_num_args,
                                const char **return_type);

// Like `MXSymbolGetAtomicSymbolInfo`; `real_name` is the canonical name.
MXNET_DLL
int NNGetOpInfo(OpHandle op,
                const char **real_name,
                const char **description,
                uint32_t *num_doc_args,
                const char ***arg_names,
                const char ***arg_type_infos,
                const char ***arg_descriptions,
                const char **return_type);

// Lists the packed functions. The list is valid until the next call on this thread.
MXNET_DLL int MXNetFuncListGlobalNames(int *out_size, const char ***out_array);

// Looks up a packed function by name; null if there is none.
MXNET_DLL int MXNetFuncGetGlobal(const char *name, MXNetFunctionHandle *out);

// Frees a packed function. Does nothing, since those of this library are static.
MXNET_DLL int MXNetFuncFree(MXNetFunctionHandle func);

// Calls a packed function. Type codes: 0 integer, 2 floating-point number, 4 null, 8 object, 11 string, 14 array. The caller frees a
// result that is an array (`MXNDArrayFree`) or an object (`MXNetObjectFree`).
MXNET_DLL
int MXNetFuncCall(MXNetFunctionHandle func,
                  union MXNetValue *arg_values,
                  int *type_codes,
                  int num_args,
                  union MXNetValue *ret_val,
                  int *ret_type_code);

// Frees an object; null is ignored.
MXNET_DLL int MXNetObjectFree(MXNetObjectHandle obj);

// Quantizes a symbol to 8-bit integers and lists the outputs whose ranges are to be calibrated; the list is valid until the next call on
// this thread. Nodes and operators may be excluded; parameters that are quantized offline become variables. The mode is `full` or `smart`,
// the quantized type `int8`, `uint8` or `auto`, the granularity `tensor-wise` or `channel-wise`.
MXNET_DLL
int MXQuantizeSymbol(SymbolHandle sym_handle,
                     SymbolHandle *ret_sym_handle,
                     const int *dev_type,
                     uint32_t num_excluded_sym_names,
                     const char **excluded_sym_names,
                     uint32_t num_excluded_op_names,
                     const char **excluded_op_names,
                     uint32_t num_offline,
                     const char **offline_params,
                     const char *quantized_dtype,
                     bool calib_quantize,
                     const char *quantize_mode,
                     const char *quantize_granularity,
                     uint32_t *out_num_calib_names,
                     const char ***out_calib_names);

// Sets calibrated ranges in a quantized symbol: the minimum and maximum of each output that `MXQuantizeSymbol` lists.
MXNET_DLL
int MXSetCalibTableToQuantizedSymbol(SymbolHandle qsym_handle,
                                     uint32_t num_layers,
                                     const char **layer_names,
                                     const float *low_quantiles,
                                     const float *high_quantiles,
                                     SymbolHandle *ret_sym_handle);

// Converts a symbol to mixed precision: some operators run in a 16-bit type, some in float32, some in the widest type of their inputs,
// with casts between them. `arg_type_data` has the types of the variables `arg_names`. With `cast_optional_params`, parameters that are
// read in the 16-bit type get that type as their attribute `__dtype__` instead of a cast. Conditional operator `i` runs in float32 if its
// parameter has one of the values `ind_ptr[i] .. ind_ptr[i + 1]` of `conditional_param_vals`.
MXNET_DLL
int MXReducePrecisionSymbol(SymbolHandle sym_handle,
                            SymbolHandle *ret_sym_handle,
                            uint32_t num_args,
                            const int *arg_type_data,
                            uint32_t num_ind_ptr,
                            const int *ind_ptr,
                            const int *target_dtype,
                            int cast_optional_params,
                            uint32_t num_target_dtype_op_names,
                            uint32_t num_fp32_op_names,
                            uint32_t num_widest_dtype_op_names,
                            uint32_t num_conditional_fp32_op_names,
                            uint32_t num_excluded_symbols,
                            uint32_t num_model_params,
                            const char **target_dtype_op_names,
                            const char **fp32_op_names,
                            const char **widest_dtype_op_names,
                            const char **conditional_fp32_op_names,
                            const char **excluded_symbols,
                            const char **conditional_param_names,
                            const char **conditional_param_vals,
                            const char **model_param_names,
                            const char **arg_names);

// Creates a predictor from a network as JSON and the bytes of a `.params` file. Input `i` has the dimensions
// `input_shape_data[input_shape_indptr[i] .. input_shape_indptr[i + 1]]`.
MXNET_DLL
int MXPredCreate(const char *symbol_json_str,
                 const void *param_bytes,
                 int param_size,
                 int dev_type,
                 int dev_id,
                 uint32_t num_input_nodes,
                 const char **input_keys,
                 const uint32_t *input_shape_indptr,
                 const uint32_t *input_shape_data,
                 PredictorHandle *out);

// Like `MXPredCreate`, with element types of some arguments.
MXNET_DLL
int MXPredCreateEx(const char *symbol_json_str,
                   const void *param_bytes,
                   int param_size,
                   int dev_type,
                   int dev_id,
                   uint32_t num_input_nodes,
                   const char **input_keys,
                   const uint32_t *input_shape_indptr,
                   const uint32_t *input_shape_data,
                   uint32_t num_provided_arg_dtypes,
                   const char **provided_arg_dtype_names,
                   const int *provided_arg_dtypes,
                   PredictorHandle *out);

// Like `MXPredCreate`, with the named outputs or nodes as outputs.
MXNET_DLL
int MXPredCreatePartialOut(const char *symbol_json_str,
                           const void *param_bytes,
                           int param_size,
                           int dev_type,
                           int dev_id,
                           uint32_t num_input_nodes,
                           const char **input_keys,
                           const uint32_t *input_shape_indptr,
                           const uint32_t *input_shape_data,
                           uint32_t num_output_nodes,
                           const char **output_keys,
                           PredictorHandle *out);

// Creates a predictor of the same network for other input shapes. Parameters are shared; the old predictor is unchanged.
MXNET_DLL
int MXPredReshape(uint32_t num_input_nodes,
                  const char **input_keys,
                  const uint32_t *input_shape_indptr,
                  const uint32_t *input_shape_data,
                  PredictorHandle handle,
                  PredictorHandle *out);

// Like `MXPredCreate`, with one predictor per thread; they share the parameters. `out` has room for `num_threads` handles.
MXNET_DLL
int MXPredCreateMultiThread(const char *symbol_json_str,
                            const void *param_bytes,
                            int param_size,
                            int dev_type,
                            int dev_id,
                            uint32_t num_input_nodes,
                            const char **input_keys,
                            const uint32_t *input_shape_indptr,
                            const uint32_t *input_shape_data,
                            int num_threads,
                            PredictorHandle *out);

// Returns the shape of an output, valid until the next call on this thread.
MXNET_DLL int MXPredGetOutputShape(PredictorHandle handle, uint32_t index, uint32_t **shape_data, uint32_t *shape_ndim);

// Returns the element type code of an output.
MXNET_DLL int MXPredGetOutputType(PredictorHandle handle, uint32_t out_index, int *out_dtype);

// Overwrites an input of `size` elements.
MXNET_DLL int MXPredSetInput(PredictorHandle handle, const char *key, const float *data, uint32_t size);

// Computes the outputs.
MXNET_DLL int MXPredForward(PredictorHandle handle);

// Runs one step of the network. Call it with `step` = 0, 1, 2, ... until `step_left`, the number of remaining steps, is 0; then the
// outputs are valid. A step past the end does nothing.
MXNET_DLL
int MXPredPartialForward(PredictorHandle handle,
                         int step,
                         int *step_left);

// Installs a callback that gets the name and array of every output of every node that a run computes, and with `monitor_all` of every
// input; null removes it. The callee owns the array handle.
MXNET_DLL
int MXPredSetMonitorCallback(PredictorHandle handle,
                             PredMonitorCallback callback,
                             void *callback_handle,
                             bool monitor_all);

// Copies an output of `size` elements to `data`, converted to float32.
MXNET_DLL int MXPredGetOutput(PredictorHandle handle, uint32_t index, float *data, uint32_t size);

// Frees a predictor; null is ignored.
MXNET_DLL int MXPredFree(PredictorHandle handle);

// Creates a list of arrays from the bytes of a file and returns its length.
MXNET_DLL int MXNDListCreate(const char *nd_file_bytes, int nd_file_size, NDListHandle *out, uint32_t *out_length);

// Returns name (empty if it has none), elements and shape of an array, valid until the list is freed.
MXNET_DLL
int MXNDListGet(NDListHandle handle,
                uint32_t index,
                const char **out_key,
                const float **out_data,
                const uint32_t **out_shape,
                uint32_t *out_ndim);

// Frees a list; null is ignored.
MXNET_DLL int MXNDListFree(NDListHandle handle);

// Configures the profiler. The parameters are `filename`, `profile_all`, `profile_symbolic`, `profile_imperative`, `profile_memory`,
// `profile_api`, `continuous_dump`, `dump_period` and `aggregate_stats`.
MXNET_DLL
int MXSetProfilerConfig(int num_params,
                        const char *const *keys,
                        const char *const *vals);

// Like `MXSetProfilerConfig`. The store is ignored: stores have no servers here.
MXNET_DLL
int MXSetProcessProfilerConfig(int num_params,
                               const char *const *keys,
                               const char *const *vals,
                               KVStoreHandle kv_store_handle);

// Stops (0) or starts (1) the profiler.
MXNET_DLL int MXSetProfilerState(int state);

// Like `MXSetProfilerState`, for the worker (`profile_process` 0).
MXNET_DLL int MXSetProcessProfilerState(int state, int profile_process, KVStoreHandle kv_store_handle);

// Pauses (1) or resumes (0) the profiler.
MXNET_DLL int MXProfilePause(int paused);

// Like `MXProfilePause`, for the worker (`profile_process` 0).
MXNET_DLL int MXProcessProfilePause(int paused, int profile_process, KVStoreHandle kv_store_handle);

// Writes the trace to the configured file, in the format of `chrome://tracing`. With `finished`, its events are then discarded; otherwise
// the next trace contains them, too.
MXNET_DLL
int MXDumpProfile(int finished);

// Like `MXDumpProfile`, for the worker (`profile_process` 0).
MXNET_DLL int MXDumpProcessProfile(int finished, int profile_process, KVStoreHandle kv_store_handle);

// Returns the statistics as a table, valid until the next call on this thread. With `reset`, they then start again at zero.
MXNET_DLL
int MXAggregateProfileStatsPrint(const char **out_str,
                                 int reset);

// Like `MXAggregateProfileStatsPrint`, as a table (`format` 0) or JSON (1), sorted by total (0), average, minimum, maximum or count (4).
MXNET_DLL
int MXAggregateProfileStatsPrintEx(const char **out_str,
                                   int reset,
                                   int format,
                                   int sort_by,
                                   int ascending);

// Creates a domain, which groups other profiling objects.
MXNET_DLL int MXProfileCreateDomain(const char *domain, ProfileHandle *out);

// Creates a task, which lasts from a start to a stop.
MXNET_DLL int MXProfileCreateTask(ProfileHandle domain, const char *task_name, ProfileHandle *out);

// Creates a frame, which lasts from a start to a stop.
MXNET_DLL int MXProfileCreateFrame(ProfileHandle domain, const char *frame_name, ProfileHandle *out);

// Creates an event without a domain, which lasts from a start to a stop.
MXNET_DLL int MXProfileCreateEvent(const char *event_name, ProfileHandle *out);

// Creates a counter of value 0.
MXNET_DLL int MXProfileCreateCounter(ProfileHandle domain, const char *counter_name, ProfileHandle *out);

// Frees a domain, task, frame, event or counter; null is ignored.
MXNET_DLL int MXProfileDestroyHandle(ProfileHandle frame_handle);

// Starts a task, frame or event.
MXNET_DLL int MXProfileDurationStart(ProfileHandle duration_handle);

// Stops a task, frame or event.
MXNET_DLL int MXProfileDurationStop(ProfileHandle duration_handle);

// Sets a counter.
MXNET_DLL int MXProfileSetCounter(ProfileHandle counter_handle, uint64_t value);

// Adds to a counter.
MXNET_DLL int MXProfileAdjustCounter(ProfileHandle counter_handle, int64_t value);

// Records an instant marker; the scope is `global`, `process`, `thread`, `task` or `marker`.
MXNET_DLL int MXProfileSetMarker(ProfileHandle domain, const char *instant_marker_name, const char *scope);

// Creates a RecordIO file, or truncates an existing one.
MXNET_DLL int MXRecordIOWriterCreate(const char *uri, RecordIOHandle *out);

// Flushes and closes a file; null is ignored.
MXNET_DLL int MXRecordIOWriterFree(RecordIOHandle handle);

// Appends a record of `size` bytes.
MXNET_DLL int MXRecordIOWriterWriteRecord(RecordIOHandle handle, const char *buf, size_t size);

// Returns the byte offset of the next record.
MXNET_DLL int MXRecordIOWriterTell(RecordIOHandle handle, size_t *pos);

// Opens a RecordIO file.
MXNET_DLL int MXRecordIOReaderCreate(const char *uri, RecordIOHandle *out);

// Closes a file; null is ignored.
MXNET_DLL int MXRecordIOReaderFree(RecordIOHandle handle);

// Reads the next record. At the end of the file, `buf` is null; for an empty record it is not null and `size` is 0. The bytes are valid
// until the next call on this thread.
MXNET_DLL
int MXRecordIOReaderReadRecord(RecordIOHandle handle,
                               const char **buf,
                               size_t *size);

// Seeks to the record at byte offset `pos`.
MXNET_DLL int MXRecordIOReaderSeek(RecordIOHandle handle, size_t pos);

// Returns the byte offset of the next record.
MXNET_DLL int MXRecordIOReaderTell(RecordIOHandle handle, size_t *pos);

// Returns the id of this process and a file descriptor of the array's memory to send to another process. The descriptor is valid as long
// as the array. For an array that is not on `cpu_shared`, it refers to a copy and the caller closes it.
MXNET_DLL
int MXNDArrayGetSharedMemHandle(NDArrayHandle handle,
                                int *shared_pid,
                                int *shared_id);

// Creates an array on memory that process `shared_pid` shares. Takes over the file descriptor `shared_id`, except if `shared_pid` is this
// process.
MXNET_DLL
int MXNDArrayCreateFromSharedMem(int shared_pid,
                                 int shared_id,
                                 const uint32_t *shape,
                                 uint32_t ndim,
                                 int dtype,
                                 NDArrayHandle *out);

// Like `MXNDArrayCreateFromSharedMem`, with signed dimensions.
MXNET_DLL
int MXNDArrayCreateFromSharedMemEx(int shared_pid,
                                   int shared_id,
                                   const int *shape,
                                   int ndim,
                                   int dtype,
                                   NDArrayHandle *out);

// Binds a symbol to new arrays of zeros, whose shapes and types are inferred from the given ones. There is one gradient request for all
// arguments (`provided_grad_req_list_len` is 0), one per argument, or one per name. Arguments in `shared_arg_name_list` share the arrays
// of `shared_exec_handle`; others use memory of the shared buffer unless its length is -1. The caller frees the executor and all handles;
// the lists are valid until the next call on this thread.
MXNET_DLL
int MXExecutorSimpleBind(SymbolHandle symbol_handle,
                         int dev_type,
                         int dev_id,
                         uint32_t num_g2c_keys,
                         const char **g2c_keys,
                         const int *g2c_dev_types,
                         const int *g2c_dev_ids,
                         uint32_t provided_grad_req_list_len,
                         const char **provided_grad_req_names,
                         const char **provided_grad_req_types,
                         uint32_t num_provided_arg_shapes,
                         const char **provided_arg_shape_names,
                         const uint32_t *provided_arg_shape_data,
                         const uint32_t *provided_arg_shape_idx,
                         uint32_t num_provided_arg_dtypes,
                         const char **provided_arg_dtype_names,
                         const int *provided_arg_dtypes,
                         uint32_t num_provided_arg_stypes,
                         const char **provided_arg_stype_names,
                         const int *provided_arg_stypes,
                         uint32_t num_shared_arg_names,
                         const char **shared_arg_name_list,
                         int *shared_buffer_len,
                         const char **shared_buffer_name_list,
                         NDArrayHandle *shared_buffer_handle_list,
                         const char ***updated_shared_buffer_name_list,
                         NDArrayHandle **updated_shared_buffer_handle_list,
                         uint32_t *num_in_args,
                         NDArrayHandle **in_args,
                         NDArrayHandle **arg_grads,
                         uint32_t *num_aux_states,
                         NDArrayHandle **aux_states,
                         ExecutorHandle shared_exec_handle,
                         ExecutorHandle *out);

// Like `MXExecutorSimpleBind`, with signed dimensions.
MXNET_DLL
int MXExecutorSimpleBindEx(SymbolHandle symbol_handle,
                           int dev_type,
                           int dev_id,
                           uint32_t num_g2c_keys,
                           const char **g2c_keys,
                           const int *g2c_dev_types,
                           const int *g2c_dev_ids,
                           uint32_t provided_grad_req_list_len,
                           const char **provided_grad_req_names,
                           const char **provided_grad_req_types,
                           uint32_t num_provided_arg_shapes,
                           const char **provided_arg_shape_names,
                           const int *provided_arg_shape_data,
                           const uint32_t *provided_arg_shape_idx,
                           uint32_t num_provided_arg_dtypes,
                           const char **provided_arg_dtype_names,
                           const int *provided_arg_dtypes,
                           uint32_t num_provided_arg_stypes,
                           const char **provided_arg_stype_names,
                           const int *provided_arg_stypes,
                           uint32_t num_shared_arg_names,
                           const char **shared_arg_name_list,
                           int *shared_buffer_len,
                           const char **shared_buffer_name_list,
                           NDArrayHandle *shared_buffer_handle_list,
                           const char ***updated_shared_buffer_name_list,
                           NDArrayHandle **updated_shared_buffer_handle_list,
                           uint32_t *num_in_args,
                           NDArrayHandle **in_args,
                           NDArrayHandle **arg_grads,
                           uint32_t *num_aux_states,
                           NDArrayHandle **aux_states,
                           ExecutorHandle shared_exec_handle,
                           ExecutorHandle *out);

// Like `MXExecutorSimpleBind`, with 64-bit dimensions.
MXNET_DLL
int MXExecutorSimpleBindEx64(SymbolHandle symbol_handle,
                             int dev_type,
                             int dev_id,
                             uint32_t num_g2c_keys,
                             const char **g2c_keys,
                             const int *g2c_dev_types,
                             const int *g2c_dev_ids,
                             uint32_t provided_grad_req_list_len,
                             const char **provided_grad_req_names,
                             const char **provided_grad_req_types,
                             uint32_t num_provided_arg_shapes,
                             const char **provided_arg_shape_names,
                             const int64_t *provided_arg_shape_data,
                             const uint32_t *provided_arg_shape_idx,
                             uint32_t num_provided_arg_dtypes,
                             const char **provided_arg_dtype_names,
                             const int *provided_arg_dtypes,
                             uint32_t num_provided_arg_stypes,
                             const char **provided_arg_stype_names,
                             const int *provided_arg_stypes,
                             uint32_t num_shared_arg_names,
                             const char **shared_arg_name_list,
                             int *shared_buffer_len,
                             const char **shared_buffer_name_list,
                             NDArrayHandle *shared_buffer_handle_list,
                             const char ***updated_shared_buffer_name_list,
                             NDArrayHandle **updated_shared_buffer_handle_list,
                             uint32_t *num_in_args,
                             NDArrayHandle **in_args,
                             NDArrayHandle **arg_grads,
                             uint32_t *num_aux_states,
                             NDArrayHandle **aux_states,
                             ExecutorHandle shared_exec_handle,
                             ExecutorHandle *out);

// Creates an empty sparse array (storage type 1 is row_sparse, 2 csr). `MXNDArraySyncCopyFromNDArray` sets its values and index arrays
// with their shapes. Index arrays are of type int64.
MXNET_DLL
int MXNDArrayCreateSparseEx(int storage_type,
                            const uint32_t *shape,
                            uint32_t ndim,
                            int dev_type,
                            int dev_id,
                            int delay_alloc,
                            int dtype,
                            uint32_t num_aux,
                            int *aux_type,
                            uint32_t *aux_ndims,
                            const uint32_t *aux_shape,
                            NDArrayHandle *out);

// Like `MXNDArrayCreateSparseEx`, with 64-bit dimensions.
MXNET_DLL
int MXNDArrayCreateSparseEx64(int storage_type,
                              const int64_t *shape,
                              int ndim,
                              int dev_type,
                              int dev_id,
                              int delay_alloc,
                              int dtype,
                              uint32_t num_aux,
                              int *aux_type,
                              int *aux_ndims,
                              const int64_t *aux_shape,
                              NDArrayHandle *out);

// Returns the storage type: 0 dense, 1 row_sparse, 2 csr, or -1 for an array that has not been written yet.
MXNET_DLL int MXNDArrayGetStorageType(NDArrayHandle handle, int *out_storage_type);

// Returns the element type of index array `i` of a sparse array (csr: 0 row pointers, 1 columns; row_sparse: 0 rows).
MXNET_DLL int MXNDArrayGetAuxType(NDArrayHandle handle, uint32_t i, int *out_type);

// Like `MXNDArrayGetAuxType`, with a 64-bit index.
MXNET_DLL int MXNDArrayGetAuxType64(NDArrayHandle handle, int64_t i, int *out_type);

// Creates a copy of index array `i` of a sparse array, in the order of `MXNDArrayGetAuxType`.
MXNET_DLL int MXNDArrayGetAuxNDArray(NDArrayHandle handle, uint32_t i, NDArrayHandle *out);

// Like `MXNDArrayGetAuxNDArray`, with a 64-bit index.
MXNET_DLL int MXNDArrayGetAuxNDArray64(NDArrayHandle handle, int64_t i, NDArrayHandle *out);

// Creates a copy of the stored values of a sparse array.
MXNET_DLL int MXNDArrayGetDataNDArray(NDArrayHandle handle, NDArrayHandle *out);

// Copies an array to another. For a sparse destination, `i` is the index array to set, or -1 for the values.
MXNET_DLL int MXNDArraySyncCopyFromNDArray(NDArrayHandle handle_dst, NDArrayHandle handle_src, int i);

// Checks the consistency of a sparse array: the lengths of its values and index arrays and, with `full_check`, the range and order of the
// indices. Dense arrays are always consistent.
MXNET_DLL
int MXNDArraySyncCheckFormat(NDArrayHandle handle,
                             bool full_check);

// Creates a symbol of an operator without inputs, which `MXSymbolCompose` sets.
MXNET_DLL
int MXSymbolCreateAtomicSymbol(AtomicSymbolCreator creator,
                               uint32_t num_param,
                               const char **keys,
                               const char **vals,
                               SymbolHandle *out);

// Like `MXSymbolCreateAtomicSymbol`.
MXNET_DLL
int NNSymbolCreateAtomicSymbol(OpHandle op,
                               uint32_t num_param,
                               const char **keys,
                               const char **vals,
                               SymbolHandle *out);

// Creates a variable.
MXNET_DLL int MXSymbolCreateVariable(const char *name, SymbolHandle *out);

// Like `MXSymbolCreateVariable`.
MXNET_DLL int NNSymbolCreateVariable(const char *name, SymbolHandle *out);

// Groups symbols to one with all their outputs in order.
MXNET_DLL int MXSymbolCreateGroup(uint32_t num_symbols, SymbolHandle *symbol_list, SymbolHandle *out);

// Like `MXSymbolCreateGroup`.
MXNET_DLL int NNSymbolCreateGroup(uint32_t num_symbols, SymbolHandle *symbol_list, SymbolHandle *out);

// Loads a symbol from JSON.
MXNET_DLL int MXSymbolCreateFromJSON(const char *json, SymbolHandle *out);

// Loads a symbol from a JSON file.
MXNET_DLL int MXSymbolCreateFromFile(const char *fname, SymbolHandle *out);

// Saves a symbol as JSON, valid until the next call on this thread.
MXNET_DLL int MXSymbolSaveToJSON(SymbolHandle handle, const char **out_json);

// Saves a symbol to a JSON file.
MXNET_DLL int MXSymbolSaveToFile(SymbolHandle handle, const char *fname);

// Frees a handle; null is ignored. Symbols and executors that use its nodes stay valid.
MXNET_DLL int MXSymbolFree(SymbolHandle handle);

// Like `MXSymbolFree`.
MXNET_DLL int NNSymbolFree(SymbolHandle handle);

// Creates a deep copy, which shares no nodes.
MXNET_DLL int MXSymbolCopy(SymbolHandle handle, SymbolHandle *out);

// Like `MXSymbolCopy`.
MXNET_DLL int NNSymbolCopy(SymbolHandle handle, SymbolHandle *out);

// Creates a second symbol with the same nodes.
MXNET_DLL int MXShallowCopySymbol(SymbolHandle src, SymbolHandle *out);

// Returns a description of the graph, valid until the next call on this thread.
MXNET_DLL int MXSymbolPrint(SymbolHandle handle, const char **out_str);

// Like `MXSymbolPrint`.
MXNET_DLL int NNSymbolPrint(SymbolHandle handle, const char **out_str);

// Returns the name of a symbol with a single node, valid until the next call on this thread; `success` is 0 for a group.
MXNET_DLL
int MXSymbolGetName(SymbolHandle handle,
                    const char **out,
                    int *success);

// Returns an attribute, valid until the next call on this thread; `success` is 0 if there is none.
MXNET_DLL int MXSymbolGetAttr(SymbolHandle handle, const char *key, const char **out, int *success);

// Like `MXSymbolGetAttr`.
MXNET_DLL int NNSymbolGetAttr(SymbolHandle handle, const char *key, const char **out, int *success);

// Sets an attribute of a symbol with a single node.
MXNET_DLL int MXSymbolSetAttr(SymbolHandle handle, const char *key, const char *value);

// Sets several attributes of a symbol with a single node.
MXNET_DLL int NNSymbolSetAttrs(SymbolHandle handle, uint32_t num_param, const char **keys, const char **values);

// Lists the attributes of all nodes as alternating `node$key` and value; `out_size` counts pairs. Valid until the next call on this
// thread.
MXNET_DLL
int MXSymbolListAttr(SymbolHandle handle,
                     uint32_t *out_size,
                     const char ***out);

// Like `MXSymbolListAttr`, for the symbol's node only.
MXNET_DLL int MXSymbolListAttrShallow(SymbolHandle handle, uint32_t *out_size, const char ***out);

// Lists attributes: option 0 like `MXSymbolListAttr`, 1 like `MXSymbolListAttrShallow`.
MXNET_DLL int NNSymbolListAttrs(SymbolHandle handle, int recursive_option, uint32_t *out_size, const char ***out);

// Lists the arguments in the order of binding. Valid until the next call on this thread.
MXNET_DLL int MXSymbolListArguments(SymbolHandle handle, uint32_t *out_size, const char ***out_str_array);

// Lists the outputs. Valid until the next call on this thread.
MXNET_DLL int MXSymbolListOutputs(SymbolHandle handle, uint32_t *out_size, const char ***out_str_array);

// Like `MXSymbolListOutputs`.
MXNET_DLL int NNSymbolListOutputNames(SymbolHandle handle, uint32_t *out_size, const char ***out_str_array);

// Lists the auxiliary states. Valid until the next call on this thread.
MXNET_DLL int MXSymbolListAuxiliaryStates(SymbolHandle handle, uint32_t *out_size, const char ***out_str_array);

// Lists the names of variables: option 0 all, 1 arguments, 2 auxiliary states. Valid until the next call on this thread.
MXNET_DLL
int NNSymbolListInputNames(SymbolHandle handle,
                           int option,
                           uint32_t *out_size,
                           const char ***out_str_array);

// Lists variables as new symbols, which the caller frees; options as in `NNSymbolListInputNames`. The list is valid until the
// next call on this thread.
MXNET_DLL
int NNSymbolListInputVariables(SymbolHandle handle,
                               int option,
                               uint32_t *out_size,
                               SymbolHandle **out_sym_array);

// Lists the variables of the graph as new symbols, which the caller frees. The list is valid until the next call on this thread.
MXNET_DLL
int MXSymbolGetInputSymbols(SymbolHandle handle,
                            SymbolHandle **inputs,
                            int *input_size);

// Creates a symbol with every output of every node.
MXNET_DLL int MXSymbolGetInternals(SymbolHandle handle, SymbolHandle *out);

// Like `MXSymbolGetInternals`.
MXNET_DLL int NNSymbolGetInternals(SymbolHandle handle, SymbolHandle *out);

// Creates a symbol with the inputs of the output nodes; for a variable, it has no outputs.
MXNET_DLL int MXSymbolGetChildren(SymbolHandle handle, SymbolHandle *out);

// Like `MXSymbolGetChildren`.
MXNET_DLL int NNSymbolGetChildren(SymbolHandle handle, SymbolHandle *out);

// Creates a symbol with one output.
MXNET_DLL int MXSymbolGetOutput(SymbolHandle handle, uint32_t index, SymbolHandle *out);

// Like `MXSymbolGetOutput`.
MXNET_DLL int NNSymbolGetOutput(SymbolHandle handle, uint32_t index, SymbolHandle *out);

// Returns the number of outputs.
MXNET_DLL int MXSymbolGetNumOutputs(SymbolHandle handle, uint32_t *output_count);

// Like `MXSymbolGetNumOutputs`.
MXNET_DLL int NNSymbolGetNumOutputs(SymbolHandle handle, uint32_t *output_count);

// Composes an operator with its inputs, by position if `keys` is null and by name otherwise; missing inputs become variables. If the
// symbol already has inputs, replaces its variables. The symbol is changed in place; `name` may be null.
MXNET_DLL
int MXSymbolCompose(SymbolHandle handle,
                    const char *name,
                    uint32_t num_args,
                    const char **keys,
                    SymbolHandle *args);

// Like `MXSymbolCompose`.
MXNET_DLL
int NNSymbolCompose(SymbolHandle handle,
                    const char *name,
                    uint32_t num_args,
                    const char **keys,
                    SymbolHandle *args);

// Reduces the symbol in place to the subgraph of its first output: the nodes with the same attribute `__subgraph_name__`. Outputs of other
// operators become variables. Returns those outputs in the order of the variables, as new symbols, which the caller frees; the list is
// valid until the next call on this thread.
MXNET_DLL
int MXSymbolCutSubgraph(SymbolHandle sym,
                        SymbolHandle **inputs,
                        int *input_size);

// Always an error, as in MXNet: would create a symbol of the gradients, which executors and autograd compute instead.
MXNET_DLL int MXSymbolGrad(SymbolHandle sym, uint32_t num_wrt, const char **wrt, SymbolHandle *out);

// Creates a symbol of the same graph without the casts of mixed precision.
MXNET_DLL int MXSymbolRemoveAmpCast(SymbolHandle sym_handle, SymbolHandle *ret_sym_handle);

// Creates an operator without inputs from the operator and parameters of a symbol with a single node.
MXNET_DLL int MXGenAtomicSymbolFromSymbol(SymbolHandle sym_handle, SymbolHandle *ret_sym_handle);

// Always an error: compiled CUDA code in early versions of MXNet.
MXNET_DLL
int MXRtcCreate(char *name,
                uint32_t num_input,
                uint32_t num_output,
                char **input_names,
                char **output_names,
                NDArrayHandle *inputs,
                NDArrayHandle *outputs,
                char *kernel,
                RtcHandle *out);

// Always an error: ran CUDA code in early versions of MXNet.
MXNET_DLL
int MXRtcPush(RtcHandle handle,
              uint32_t num_input,
              uint32_t num_output,
              NDArrayHandle *inputs,
              NDArrayHandle *outputs,
              uint32_t grid_dim_x,
              uint32_t grid_dim_y,
              uint32_t grid_dim_z,
              uint32_t block_dim_x,
              uint32_t block_dim_y,
              uint32_t block_dim_z);

// Always an error: freed CUDA code in early versions of MXNet.
MXNET_DLL int MXRtcFree(RtcHandle handle);

// Always an error: compiling CUDA code needs a GPU backend.
MXNET_DLL
int MXRtcCudaModuleCreate(const char *source,
                          int num_options,
                          const char **options,
                          int num_exports,
                          const char **exports,
                          CudaModuleHandle *out);

// Always an error: compiled CUDA code needs a GPU backend.
MXNET_DLL int MXRtcCudaModuleFree(CudaModuleHandle handle);

// Always an error: CUDA kernels need a GPU backend.
MXNET_DLL
int MXRtcCudaKernelCreate(CudaModuleHandle handle,
                          const char *name,
                          int num_args,
                          int *is_ndarray,
                          int *is_const,
                          int *arg_types,
                          CudaKernelHandle *out);

// Always an error: CUDA kernels need a GPU backend.
MXNET_DLL int MXRtcCudaKernelFree(CudaKernelHandle handle);

// Always an error: CUDA kernels need a GPU backend.
MXNET_DLL
int MXRtcCudaKernelCall(CudaKernelHandle handle,
                        int dev_id,
                        void **args,
                        uint32_t grid_dim_x,
                        uint32_t grid_dim_y,
                        uint32_t grid_dim_z,
                        uint32_t block_dim_x,
                        uint32_t block_dim_y,
                        uint32_t block_dim_z,
                        uint32_t shared_mem);

// Always an error: libraries of operators built against `lib_api.h` need MXNet's own C++ types.
MXNET_DLL int MXLoadLib(const char *path, unsigned int verbose);

// Always an error: TVM's functions need MXNet's own C++ types.
MXNET_DLL int MXTVMBridge(void *pregister);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* MXNET_C_API_H_ */
