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

// An array.
typedef void *NDArrayHandle;

// A symbol.
typedef void *SymbolHandle;

// A graph that is called like an operator.
typedef void *CachedOpHandle;

// Called with the names of an array and its operator, and the array, whose handle the callee owns.
typedef void (*CachedOpMonitorCallback)(const char*, const char*, NDArrayHandle);

// A callback of unknown type.
typedef int (*MXGenericCallback)(void);

// Callbacks and what each is called with.
typedef struct MXCallbackList {
  // How many there are.
  int num_callbacks;
  // The callbacks, each to be cast to its type.
  MXGenericCallback *callbacks;
  // The last argument of each.
  void **contexts;
} MXCallbackList;

// Fills in the callbacks of an operator: type, number of parameters, their keys and values, the list. Returns 0 if it fails.
typedef int (*CustomOpPropCreator)(const char*, int, const char**, const char**, struct MXCallbackList*);

// A kind of data iterator.
typedef void *DataIterCreator;

// A data iterator.
typedef void *DataIterHandle;

// A [`DLManagedTensor`].
typedef void *DLManagedTensorHandle;

// A function that says by a callback when it has finished: run context, callback, parameter.
typedef void (*EngineAsyncFunc)(void*, void*, void*);

// Frees the parameter of a function.
typedef void (*EngineFuncParamDeleter)(void*);

// A device: its kind and its number, two integers one after the other.
typedef const void *ContextHandle;

// A variable of MXNet's engine.
typedef void *EngineVarHandle;

// How the engine is to treat a function.
typedef const void *EngineFnPropertyHandle;

// A function that has finished when it returns: run context, parameter.
typedef void (*EngineSyncFunc)(void*, void*);

// A symbol bound to arrays.
typedef void *ExecutorHandle;

// Called with the name and the array of each output that an executor computes, and the pointer given when it was installed.
// The callee owns the array's handle.
typedef void (*ExecutorMonitorCallback)(const char*, NDArrayHandle, void*);

// A legacy function on arrays.
typedef const void *FunctionHandle;

// A graph with attributes, as nnvm's functions have it.
typedef void *GraphHandle;

// An operator.
typedef void *AtomicSymbolCreator;

// A key-value store.
typedef void *KVStoreHandle;

// Updates what is stored under a number: key, what was pushed, what is stored, the pointer given when it was installed. It owns both
// arrays' handles.
typedef void (*MXKVStoreUpdater)(int, NDArrayHandle, NDArrayHandle, void*);

// Updates what is stored under a name; otherwise as `MXKVStoreUpdater`.
typedef void (*MXKVStoreStrUpdater)(const char*, NDArrayHandle, NDArrayHandle, void*);

// Called with a command for a server: its number, its text, the pointer given when it was installed.
typedef void (*MXKVStoreServerController)(int, const char*, void*);

// What this build has or lacks.
typedef struct LibFeature {
  // Name, such as `CPU_AVX2`.
  const char *name;
  // Whether it is there.
  bool enabled;
} LibFeature;

// An operator, as nnvm's functions name it.
typedef void *OpHandle;

// A packed function.
typedef void *MXNetFunctionHandle;

// An argument or the result of a packed function.
typedef union MXNetValue {
  // An integer.
  int64_t v_int64;
  // A number.
  double v_float64;
  // A handle.
  void *v_handle;
  // A string.
  const char *v_str;
} MXNetValue;

// An object of a packed function.
typedef void *MXNetObjectHandle;

// A network that is ready for prediction.
typedef void *PredictorHandle;

// As `ExecutorMonitorCallback`, for networks that predict.
typedef ExecutorMonitorCallback PredMonitorCallback;

// A list of arrays that was read from a file.
typedef void *NDListHandle;

// Something that the profiler measures for a user.
typedef void *ProfileHandle;

// A file of records.
typedef void *RecordIOHandle;

// CUDA code of MXNet's early versions.
typedef void *RtcHandle;

// Compiled CUDA code.
typedef void *CudaModuleHandle;

// A kernel of compiled CUDA code.
typedef void *CudaKernelHandle;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The message of the last call that failed on this thread. It stays valid until the next one fails.
MXNET_DLL const char *MXGetLastError(void);

// As `MXGetLastError`.
MXNET_DLL const char *NNGetLastError(void);

// Switches recording on this thread and gives what it was.
MXNET_DLL int MXAutogradSetIsRecording(int is_recording, int *prev);

// Switches training mode on this thread and gives what it was.
MXNET_DLL int MXAutogradSetIsTraining(int is_training, int *prev);

// Tells whether operators on this thread are recorded.
MXNET_DLL int MXAutogradIsRecording(bool *curr);

// Tells whether operators on this thread run in training mode.
MXNET_DLL int MXAutogradIsTraining(bool *curr);

// Marks arrays as variables. Each has an array for its gradient and a request: 0 none, 1 write, 3 add.
MXNET_DLL
int MXAutogradMarkVariables(uint32_t num_var,
                            NDArrayHandle *var_handles,
                            uint32_t *reqs_array,
                            NDArrayHandle *grad_handles);

// Computes the gradients of recorded outputs into the gradient arrays of the variables. A null head gradient is one of ones. Unless
// `retain_graph` is set, what was recorded is freed, and a second pass over it is an error.
MXNET_DLL
int MXAutogradBackward(uint32_t num_output,
                       NDArrayHandle *output_handles,
                       NDArrayHandle *ograd_handles,
                       int retain_graph);

// As `MXAutogradBackward`; with variables, their gradients are returned instead: new handles, which the caller frees, and their
// storage types, in lists that are valid until the next call on this thread. `create_graph` records the computation of the
// gradients, so that they have gradients themselves.
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

// As `MXAutogradBackward` with gradients of ones.
MXNET_DLL int MXAutogradComputeGradient(uint32_t num_output, NDArrayHandle *output_handles);

// Makes a symbol of the recorded computation of an array.
MXNET_DLL int MXAutogradGetSymbol(NDArrayHandle handle, SymbolHandle *out);

// Gives a graph whose parts a backend takes over: `MKLDNN` and `MKLDNN_QUANTIZE` take layers with what follows them, `default` and
// `default_v2` operators of names that were set.
MXNET_DLL
int MXGenBackendSubgraph(SymbolHandle sym_handle,
                         const char *backend,
                         SymbolHandle *ret_sym_handle);

// Gives a graph as `MXGenBackendSubgraph` does, and the arrays that it needs besides the old ones, of which there are none. As in MXNet, a
// name that is no backend leaves the graph as it is. Shapes and types do not matter to the backends here.
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

// Makes a symbol in which every largest group of connected operators of these names is one node, a `_CachedOp`. The backend, `default` or
// `default_v2`, keeps the names.
MXNET_DLL
int MXBuildSubgraphByOpNames(SymbolHandle sym_handle,
                             const char *prop_name,
                             uint32_t num_ops,
                             const char **op_names,
                             SymbolHandle *ret_sym_handle);

// Sets the names of operators that a backend groups when an executor is bound and the variable `MXNET_SUBGRAPH_BACKEND` names it. Graphs
// are compiled whole when they are bound, where such groups change no result, so that the names have no further use.
MXNET_DLL
int MXSetSubgraphPropertyOpNames(const char *prop_name,
                                 uint32_t num_ops,
                                 const char **op_names);

// Sets the names of operators that a backend groups.
MXNET_DLL int MXSetSubgraphPropertyOpNamesV2(const char *prop_name, uint32_t num_ops, const char **op_names);

// Forgets names that `MXSetSubgraphPropertyOpNames` set.
MXNET_DLL int MXRemoveSubgraphPropertyOpNames(const char *prop_name);

// Forgets names that `MXSetSubgraphPropertyOpNamesV2` set.
MXNET_DLL int MXRemoveSubgraphPropertyOpNamesV2(const char *prop_name);

// Makes an operator of a graph; its inputs are the graph's variables.
MXNET_DLL int MXCreateCachedOp(SymbolHandle handle, CachedOpHandle *out);

// As `MXCreateCachedOp`, with flags (`static_alloc`, `static_shape`, `inline_limit` and the like), which are checked.
MXNET_DLL
int MXCreateCachedOpEx(SymbolHandle handle,
                       int num_flags,
                       const char **keys,
                       const char **vals,
                       CachedOpHandle *out);

// As `MXCreateCachedOpEx`. Several threads may call the operator whatever `thread_safe` is.
MXNET_DLL
int MXCreateCachedOpEX(SymbolHandle handle,
                       int num_flags,
                       const char **keys,
                       const char **vals,
                       CachedOpHandle *out,
                       bool thread_safe);

// Frees a handle; null is nothing.
MXNET_DLL int MXFreeCachedOp(CachedOpHandle handle);

// Calls the graph. If `*outputs` is null, the outputs are new arrays: their number and handles, which the caller frees, are returned,
// and the list is valid until the next call on this thread. Otherwise results go to the given `*num_outputs` arrays.
MXNET_DLL
int MXInvokeCachedOp(CachedOpHandle handle,
                     int num_inputs,
                     NDArrayHandle *inputs,
                     int *num_outputs,
                     NDArrayHandle **outputs);

// As `MXInvokeCachedOp`, and gives the storage types of the outputs (0, dense), valid until the next call on this thread.
MXNET_DLL
int MXInvokeCachedOpEx(CachedOpHandle handle,
                       int num_inputs,
                       NDArrayHandle *inputs,
                       int *num_outputs,
                       NDArrayHandle **outputs,
                       const int **out_stypes);

// Installs a callback that sees a copy of every output of every operator that runs, and with `monitor_all` the inputs too; null removes
// it.
MXNET_DLL
int MXCachedOpRegisterOpHook(CachedOpHandle handle,
                             CachedOpMonitorCallback callback,
                             bool monitor_all);

// Registers a type of operators for `Custom`. `creator` fills the list with the callbacks of an operator, in the order of
// `CustomOpPropCallbacks`: delete, list arguments, outputs and auxiliary states, infer shapes, declare what the gradient reads, create
// an instance, infer types. An instance has delete, forward and backward. Callbacks return 0 where they fail. The arrays that they get
// are new handles, which they free.
MXNET_DLL
int MXCustomOpRegister(const char *op_type,
                       CustomOpPropCreator creator);

// Records that a function made `outputs` of `inputs`. Its callbacks are backward and delete; backward gets the gradients of the
// outputs and then arrays for those of the inputs, as new handles, which it frees.
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

// Makes a data iterator with parameters.
MXNET_DLL
int MXDataIterCreateIter(DataIterCreator handle,
                         uint32_t num_param,
                         const char **keys,
                         const char **vals,
                         DataIterHandle *out);

// Frees a data iterator; null is nothing.
MXNET_DLL int MXDataIterFree(DataIterHandle handle);

// Goes to the next batch; gives 0 at the end.
MXNET_DLL int MXDataIterNext(DataIterHandle handle, int *out);

// Goes back before the first batch.
MXNET_DLL int MXDataIterBeforeFirst(DataIterHandle handle);

// Gives the examples of the batch as a new handle.
MXNET_DLL int MXDataIterGetData(DataIterHandle handle, NDArrayHandle *out);

// Gives the labels of the batch as a new handle.
MXNET_DLL int MXDataIterGetLabel(DataIterHandle handle, NDArrayHandle *out);

// Gives the positions of the batch's examples in the file, valid until the next call on this thread.
MXNET_DLL int MXDataIterGetIndex(DataIterHandle handle, uint64_t **out_index, uint64_t *out_size);

// Gives how many examples at the end of the batch repeat earlier ones.
MXNET_DLL int MXDataIterGetPadNum(DataIterHandle handle, int *pad);

// Gives an array as a DLPack tensor on the same memory. Whoever takes it frees it by its deleter or by
// `MXNDArrayCallDLPackDeleter`. From now on the array's content counts as changed at every use.
MXNET_DLL int MXNDArrayToDLPack(NDArrayHandle handle, DLManagedTensorHandle *out_dlpack);

// Makes an array on the memory of a DLPack tensor, which is given back when nothing uses it any more. Booleans are copied.
MXNET_DLL
int MXNDArrayFromDLPack(DLManagedTensorHandle dlpack,
                        NDArrayHandle *out_handle);

// As `MXNDArrayFromDLPack`; with `transient_handle` the description itself, not the memory, may go after the call.
MXNET_DLL int MXNDArrayFromDLPackEx(DLManagedTensorHandle dlpack, bool transient_handle, NDArrayHandle *out_handle);

// Gives back a DLPack tensor that nobody took; null is nothing.
MXNET_DLL int MXNDArrayCallDLPackDeleter(DLManagedTensorHandle dlpack);

// Runs a function that says by a callback when it has finished, and waits until then; its failure is an error. Then `deleter`, unless
// it is null, gets the parameter. There are no variables: name arrays by `MXEnginePushAsyncND`.
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

// Runs a function. Then `deleter`, unless it is null, gets the parameter. There are no variables: name arrays by `MXEnginePushSyncND`.
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

// As `MXEnginePushAsync`, with the arrays that the function reads and those that it writes.
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

// As `MXEnginePushSync`, with the arrays that the function reads and those that it writes.
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

// Binds a symbol to arrays for its arguments, gradients (null for none) with requests (0 none, 1 write, 3 add), and auxiliary
// states. They are shared with the caller: what is written to them counts in the next run.
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

// As `MXExecutorBind`, with devices for the groups of nodes that the attribute `ctx_group` names.
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

// As `MXExecutorBindX`, sharing the memory of intermediate results with another executor unless `shared_exec` is null.
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

// Frees an executor; null is nothing. Arrays of which there are handles live on.
MXNET_DLL int MXExecutorFree(ExecutorHandle handle);

// Computes the outputs from the current content of the arguments.
MXNET_DLL int MXExecutorForward(ExecutorHandle handle, int is_train);

// Computes the gradients after a forward pass in training mode. `head_grads` has the gradient of each output; null where the
// outputs are losses.
MXNET_DLL
int MXExecutorBackward(ExecutorHandle handle,
                       uint32_t len,
                       NDArrayHandle *head_grads);

// As `MXExecutorBackward`; operators that behave differently in training see `is_train`.
MXNET_DLL int MXExecutorBackwardEx(ExecutorHandle handle, uint32_t len, NDArrayHandle *head_grads, int is_train);

// Gives new handles of the outputs, which the caller frees; the list is valid until the next call on this thread. The next
// forward pass overwrites the arrays.
MXNET_DLL
int MXExecutorOutputs(ExecutorHandle handle,
                      uint32_t *out_size,
                      NDArrayHandle **out);

// Describes the plan in words, valid until the next call on this thread.
MXNET_DLL int MXExecutorPrint(ExecutorHandle handle, const char **out_str);

// Makes an executor of the same symbol for other shapes, sharing arrays where it can. The caller frees the executor and the
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

// As `MXExecutorReshape` with signed dimensions.
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

// Calls a function with the name and array of every output of every node that a run computes; null removes it.
MXNET_DLL
int MXExecutorSetMonitorCallback(ExecutorHandle handle,
                                 ExecutorMonitorCallback callback,
                                 void *callback_handle);

// As `MXExecutorSetMonitorCallback`; `monitor_all` shows inputs too.
MXNET_DLL
int MXExecutorSetMonitorCallbackEX(ExecutorHandle handle,
                                   ExecutorMonitorCallback callback,
                                   void *callback_handle,
                                   bool monitor_all);

// Makes a symbol of what an executor was bound to, without the expressions that were there before.
MXNET_DLL int MXExecutorGetOptimizedSymbol(ExecutorHandle handle, SymbolHandle *out);

// Writes arrays to a file, with names unless `keys` is null.
MXNET_DLL int MXNDArraySave(const char *fname, uint32_t num_args, NDArrayHandle *args, const char **keys);

// Reads arrays from a file. The caller frees their handles; the lists are valid until the next call on this thread.
MXNET_DLL
int MXNDArrayLoad(const char *fname,
                  uint32_t *out_size,
                  NDArrayHandle **out_arr,
                  uint32_t *out_name_size,
                  const char ***out_names);

// Reads arrays from the bytes of a file; otherwise as `MXNDArrayLoad`.
MXNET_DLL
int MXNDArrayLoadFromBuffer(const void *ndarray_buffer,
                            size_t size,
                            uint32_t *out_size,
                            NDArrayHandle **out_arr,
                            uint32_t *out_name_size,
                            const char ***out_names);

// Writes one array to bytes, which are valid until the next call on this thread.
MXNET_DLL int MXNDArraySaveRawBytes(NDArrayHandle handle, size_t *out_size, const char **out_buf);

// Reads one array from the bytes of `MXNDArraySaveRawBytes`.
MXNET_DLL int MXNDArrayLoadFromRawBytes(const void *buf, size_t size, NDArrayHandle *out);

// Lists the functions on arrays from before there were operators. The array is valid until the next call on this thread.
MXNET_DLL
int MXListFunctions(uint32_t *out_size,
                    FunctionHandle **out_array);

// Gives the handle of a function. It is never freed.
MXNET_DLL int MXGetFunction(const char *name, FunctionHandle *out);

// Describes a function as `MXSymbolGetAtomicSymbolInfo` does an operator. All pointers are valid until the next call on this thread.
MXNET_DLL
int MXFuncGetInfo(FunctionHandle fun,
                  const char **name,
                  const char **description,
                  uint32_t *num_args,
                  const char ***arg_names,
                  const char ***arg_type_infos,
                  const char ***arg_descriptions,
                  const char **return_type);

// Says how many arrays a function reads, how many numbers it takes, how many arrays it writes, and in a mask of bits that arrays come
// before numbers (1) and that arrays to be written may be without shape (4).
MXNET_DLL
int MXFuncDescribe(FunctionHandle fun,
                   uint32_t *num_use_vars,
                   uint32_t *num_scalars,
                   uint32_t *num_mutate_vars,
                   int *type_mask);

// Calls a function with as many arrays and numbers as `MXFuncDescribe` says.
MXNET_DLL int MXFuncInvoke(FunctionHandle fun, NDArrayHandle *use_vars, float *scalar_args, NDArrayHandle *mutate_vars);

// As `MXFuncInvoke`, with further parameters as text. That of `_imdecode` is the encoded picture, of as many bytes as its number `size`
// says, zeros included.
MXNET_DLL
int MXFuncInvokeEx(FunctionHandle fun,
                   NDArrayHandle *use_vars,
                   float *scalar_args,
                   NDArrayHandle *mutate_vars,
                   int num_params,
                   char **param_keys,
                   char **param_vals);

// Sets the message that `NNGetLastError` gives on this thread.
MXNET_DLL void NNAPISetLastError(const char *msg);

// Makes a graph of a symbol; the caller frees it.
MXNET_DLL int NNGraphCreate(SymbolHandle symbol_handle, GraphHandle *graph_out);

// Frees a graph; null is nothing.
MXNET_DLL int NNGraphFree(GraphHandle graph_handle);

// Makes a symbol of the outputs of a graph.
MXNET_DLL int NNGraphGetSymbol(GraphHandle graph_handle, SymbolHandle *symbol_out);

// Sets an attribute of a graph from JSON of the form `["TYPE", VALUE]`, of type `str`, `int`, `size_t`, `list_str`, `list_int` or
// `list_shape`.
MXNET_DLL
int NNGraphSetJSONAttr(GraphHandle graph_handle,
                       const char *key,
                       const char *json_value);

// Gives an attribute as JSON, valid until the next call on this thread; `success` is 0 if there is none.
MXNET_DLL int NNGraphGetJSONAttr(GraphHandle graph_handle, const char *key, const char **json_out, int *success);

// Sets an attribute of a graph to the outputs of a symbol.
MXNET_DLL int NNGraphSetNodeEntryListAttr_(GraphHandle graph_handle, const char *key, SymbolHandle list);

// Applies passes one after the other and makes a new graph: `SaveJSON` writes the graph to its attribute `json`, `LoadJSON` reads it
// from there.
MXNET_DLL
int NNGraphApplyPasses(GraphHandle src,
                       uint32_t num_pass,
                       const char **pass_names,
                       GraphHandle *dst);

// Would make the nodes of a symbol run after those of another, besides what they compute from; always an error: nodes keep no other order
// than that of their inputs.
MXNET_DLL
int NNAddControlDeps(SymbolHandle symbol_handle,
                     SymbolHandle src_dep);

// Runs an operator. If `*outputs` is null, the outputs are new arrays: their number and handles, which the caller frees, are
// returned, and the list is valid until the next call on this thread. Otherwise results go to the given `*num_outputs` arrays.
MXNET_DLL
int MXImperativeInvoke(AtomicSymbolCreator creator,
                       int num_inputs,
                       NDArrayHandle *inputs,
                       int *num_outputs,
                       NDArrayHandle **outputs,
                       int num_params,
                       const char **param_keys,
                       const char **param_vals);

// As `MXImperativeInvoke`, and gives the storage types of the outputs (0 dense, 1 row_sparse, 2 csr), valid until the next call on this thread.
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

// Completes the shapes of arguments, outputs and auxiliary states from those of some arguments. Argument `i` has the dimensions
// `arg_shape_data[arg_ind_ptr[i] .. arg_ind_ptr[i + 1]]`; arguments are named by `keys`, or come in order if it is null. `complete`
// is 0 if something remains unknown. Everything is valid until the next call on this thread.
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

// As `MXSymbolInferShape` with signed dimensions.
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

// As `MXSymbolInferShape` with 64-bit dimensions.
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

// As `MXSymbolInferShape`, and content with what remains unknown.
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

// As `MXSymbolInferShapePartial` with signed dimensions.
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

// As `MXSymbolInferShapePartial` with 64-bit dimensions.
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

// Completes the element types of arguments, outputs and auxiliary states from those of some arguments; -1 is unknown. Arguments are
// named by `keys`, or come in order if it is null. Everything is valid until the next call on this thread.
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

// As `MXSymbolInferType`, and content with what remains unknown.
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

// Makes a store: `local` or `device`. Stores across machines are not part of this library.
MXNET_DLL int MXKVStoreCreate(const char *type_, KVStoreHandle *out);

// Frees a store; null is nothing.
MXNET_DLL int MXKVStoreFree(KVStoreHandle handle);

// Gives the kind of a store, valid until the next call on this thread.
MXNET_DLL int MXKVStoreGetType(KVStoreHandle handle, const char **type_);

// Gives the number of this process among those that share the store: 0, the only one.
MXNET_DLL int MXKVStoreGetRank(KVStoreHandle handle, int *ret);

// Gives how many processes share the store: 1.
MXNET_DLL int MXKVStoreGetGroupSize(KVStoreHandle handle, int *ret);

// Waits for the other processes that share the store, of which there are none.
MXNET_DLL int MXKVStoreBarrier(KVStoreHandle handle);

// Tells whether this process serves parameters to others (1). It never does.
MXNET_DLL int MXKVStoreIsServerNode(int *ret);

// Tells whether this process schedules others (1). It never does.
MXNET_DLL int MXKVStoreIsSchedulerNode(int *ret);

// Sets how gradients are compressed: `type` (`none`, `2bit`) and `threshold`. Stores of kind `device` can.
MXNET_DLL
int MXKVStoreSetGradientCompression(KVStoreHandle handle,
                                    uint32_t num_params,
                                    const char **keys,
                                    const char **vals);

// Sets what happens to stored arrays when something is pushed under a number: the function gets the key, the sum of what was
// pushed, the stored array, and `updater_handle`; it frees both handles.
MXNET_DLL
int MXKVStoreSetUpdater(KVStoreHandle handle,
                        MXKVStoreUpdater updater,
                        void *updater_handle);

// As `MXKVStoreSetUpdater`, with a second function for keys that are names.
MXNET_DLL
int MXKVStoreSetUpdaterEx(KVStoreHandle handle,
                          MXKVStoreUpdater updater,
                          MXKVStoreStrUpdater str_updater,
                          void *updater_handle);

// Stores copies of arrays under new keys.
MXNET_DLL int MXKVStoreInit(KVStoreHandle handle, uint32_t num, const int *keys, NDArrayHandle *vals);

// As `MXKVStoreInit`, with names as keys.
MXNET_DLL int MXKVStoreInitEx(KVStoreHandle handle, uint32_t num, const char **keys, NDArrayHandle *vals);

// Sums the arrays of each key, and updates or replaces what is stored. Operators run when they are called, so that `priority`
// changes nothing.
MXNET_DLL
int MXKVStorePush(KVStoreHandle handle,
                  uint32_t num,
                  const int *keys,
                  NDArrayHandle *vals,
                  int priority);

// As `MXKVStorePush`, with names as keys.
MXNET_DLL int MXKVStorePushEx(KVStoreHandle handle, uint32_t num, const char **keys, NDArrayHandle *vals, int priority);

// Copies what is stored to arrays; sparse arrays are left out.
MXNET_DLL int MXKVStorePull(KVStoreHandle handle, uint32_t num, const int *keys, NDArrayHandle *vals, int priority);

// As `MXKVStorePull`, with names as keys.
MXNET_DLL int MXKVStorePullEx(KVStoreHandle handle, uint32_t num, const char **keys, NDArrayHandle *vals, int priority);

// As `MXKVStorePull`; sparse arrays are copied too unless `ignore_sparse`.
MXNET_DLL
int MXKVStorePullWithSparse(KVStoreHandle handle,
                            uint32_t num,
                            const int *keys,
                            NDArrayHandle *vals,
                            int priority,
                            bool ignore_sparse);

// As `MXKVStorePullWithSparse`, with names as keys.
MXNET_DLL
int MXKVStorePullWithSparseEx(KVStoreHandle handle,
                              uint32_t num,
                              const char **keys,
                              NDArrayHandle *vals,
                              int priority,
                              bool ignore_sparse);

// Copies the rows with the numbers in `row_ids` to row_sparse arrays.
MXNET_DLL
int MXKVStorePullRowSparse(KVStoreHandle handle,
                           uint32_t num,
                           const int *keys,
                           NDArrayHandle *vals,
                           const NDArrayHandle *row_ids,
                           int priority);

// As `MXKVStorePullRowSparse`, with names as keys.
MXNET_DLL
int MXKVStorePullRowSparseEx(KVStoreHandle handle,
                             uint32_t num,
                             const char **keys,
                             NDArrayHandle *vals,
                             const NDArrayHandle *row_ids,
                             int priority);

// Pushes arrays, then copies what is stored under the keys to others.
MXNET_DLL
int MXKVStorePushPull(KVStoreHandle handle,
                      uint32_t vnum,
                      const int *vkeys,
                      uint32_t onum,
                      const int *okeys,
                      NDArrayHandle *vals,
                      NDArrayHandle *outs,
                      int priority);

// As `MXKVStorePushPull`, with names as keys.
MXNET_DLL
int MXKVStorePushPullEx(KVStoreHandle handle,
                        uint32_t vnum,
                        const char **vkeys,
                        uint32_t onum,
                        const char **okeys,
                        NDArrayHandle *vals,
                        NDArrayHandle *outs,
                        int priority);

// Stores arrays under new keys, then copies what is stored to others.
MXNET_DLL
int MXKVStoreBroadcast(KVStoreHandle handle,
                       uint32_t vnum,
                       const int *vkeys,
                       uint32_t onum,
                       const int *okeys,
                       NDArrayHandle *vals,
                       NDArrayHandle *outs,
                       int priority);

// As `MXKVStoreBroadcast`, with names as keys.
MXNET_DLL
int MXKVStoreBroadcastEx(KVStoreHandle handle,
                         uint32_t vnum,
                         const char **vkeys,
                         uint32_t onum,
                         const char **okeys,
                         NDArrayHandle *vals,
                         NDArrayHandle *outs,
                         int priority);

// Would set up this process as a scheduler, server or worker among several. There are no stores across processes yet, so that it is an
// error.
MXNET_DLL
int MXInitPSEnv(uint32_t num_vars,
                const char **keys,
                const char **vals);

// Gives how many of the processes of a group have gone: none, as the store lives in this process alone.
MXNET_DLL int MXKVStoreGetNumDeadNode(KVStoreHandle handle, int node_id, int *number, int timeout_sec);

// Makes the end of a store wait for the other processes that share it, or not; there are no others.
MXNET_DLL int MXKVStoreSetBarrierBeforeExit(KVStoreHandle handle, int barrier_before_exit);

// Serves a store until its workers have stopped; it has no workers elsewhere, so that the function returns at once, as in MXNet.
MXNET_DLL
int MXKVStoreRunServer(KVStoreHandle handle,
                       MXKVStoreServerController controller,
                       void *controller_handle);

// Sends a command to the servers of a store, of which there are none.
MXNET_DLL int MXKVStoreSendCommmandToServers(KVStoreHandle handle, int cmd_id, const char *cmd_body);

// Gives the version of MXNet that this library stands in for: 10901.
MXNET_DLL int MXGetVersion(int *out);

// Lists the features that a build may have. The array is valid until the next call on this thread.
MXNET_DLL int MXLibInfoFeatures(const struct LibFeature **lib_feature, size_t *size);

// Seeds the random numbers of every device.
MXNET_DLL int MXRandomSeed(int seed);

// Seeds the random numbers of one device.
MXNET_DLL int MXRandomSeedContext(int seed, int dev_type, int dev_id);

// Announces the end of the process. Operators have finished when their call returns, so nothing is left to wait for.
MXNET_DLL int MXNotifyShutdown(void);

// Sets the number of threads that one operator may use, the caller included.
MXNET_DLL int MXSetNumOMPThreads(int thread_num);

// Sets how many operators are pushed at once on this thread and gives the last setting. Operators run when they are called, so
// that the size changes nothing; programs that set it and set it back find what they set.
MXNET_DLL
int MXEngineSetBulkSize(int bulk_size,
                        int *prev_bulk_size);

// Tells whether dimensions of size zero and scalars exist: 0 no, 1 on this thread, 2 everywhere.
MXNET_DLL int MXIsNumpyShape(int *curr);

// Switches dimensions of size zero and scalars off (0), on for this thread (1) or on everywhere (2), and gives whether they
// were on before.
MXNET_DLL
int MXSetIsNumpyShape(int is_np_shape,
                      int *prev);

// Gives the number of GPUs that this build can use: none.
MXNET_DLL int MXGetGPUCount(int *out);

// Gives free and all memory of a GPU, in MiB. This build can use none, so that every number is an error.
MXNET_DLL int MXGetGPUMemoryInformation(int dev, int *free_mem, int *total_mem);

// As `MXGetGPUMemoryInformation`, in bytes.
MXNET_DLL int MXGetGPUMemoryInformation64(int dev, uint64_t *free_mem, uint64_t *total_mem);

// Gives the value of a variable of the process's environment, null if there is none. Valid until the next call on this thread.
MXNET_DLL
int MXGetEnv(const char *name,
             const char **value);

// Sets a variable of the process's environment; a null value removes it. No other thread may read the environment meanwhile.
MXNET_DLL
int MXSetEnv(const char *name,
             const char *value);

// Gives memory that freed arrays left back to the system.
MXNET_DLL int MXStorageEmptyCache(int dev_type, int dev_id);

// Tells whether this process trains (1) rather than serves parameters to others. It always does: there are no servers.
MXNET_DLL int MXKVStoreIsWorkerNode(int *ret);

// Makes an array without shape and memory, for an operator to write its output to.
MXNET_DLL int MXNDArrayCreateNone(NDArrayHandle *out);

// Makes an array of 32-bit floats with unspecified content. Memory is reserved at once whatever `delay_alloc` is; the system
// provides it when it is first written.
MXNET_DLL
int MXNDArrayCreate(const uint32_t *shape,
                    uint32_t ndim,
                    int dev_type,
                    int dev_id,
                    int delay_alloc,
                    NDArrayHandle *out);

// Makes an array of any type with unspecified content; otherwise as `MXNDArrayCreate`.
MXNET_DLL
int MXNDArrayCreateEx(const uint32_t *shape,
                      uint32_t ndim,
                      int dev_type,
                      int dev_id,
                      int delay_alloc,
                      int dtype,
                      NDArrayHandle *out);

// Makes an array with 64-bit dimensions; otherwise as `MXNDArrayCreateEx`.
MXNET_DLL
int MXNDArrayCreateEx64(const int64_t *shape,
                        int ndim,
                        int dev_type,
                        int dev_id,
                        int delay_alloc,
                        int dtype,
                        NDArrayHandle *out);

// Frees a handle; null is nothing. The memory lives on while views, executors or recorded operators use it.
MXNET_DLL int MXNDArrayFree(NDArrayHandle handle);

// Makes a second handle of an array.
MXNET_DLL int MXShallowCopyNDArray(NDArrayHandle src, NDArrayHandle *out);

// Makes a view of rows `slice_begin` to `slice_end` (exclusive), recorded like an operator.
MXNET_DLL int MXNDArraySlice(NDArrayHandle handle, uint32_t slice_begin, uint32_t slice_end, NDArrayHandle *out);

// As `MXNDArraySlice`, with 64-bit positions.
MXNET_DLL int MXNDArraySlice64(NDArrayHandle handle, int64_t slice_begin, int64_t slice_end, NDArrayHandle *out);

// Makes a view of row `idx` without the first axis, recorded like an operator.
MXNET_DLL int MXNDArrayAt(NDArrayHandle handle, uint32_t idx, NDArrayHandle *out);

// As `MXNDArrayAt`, with a 64-bit position.
MXNET_DLL int MXNDArrayAt64(NDArrayHandle handle, int64_t idx, NDArrayHandle *out);

// Makes a view under another shape, recorded like an operator. The special values 0, -1, -2, -3 and -4 mean what they mean to
// the operator `Reshape`.
MXNET_DLL
int MXNDArrayReshape(NDArrayHandle handle,
                     int ndim,
                     int *dims,
                     NDArrayHandle *out);

// As `MXNDArrayReshape`, with 64-bit dimensions; `reverse` matches special values from the right.
MXNET_DLL int MXNDArrayReshape64(NDArrayHandle handle, int ndim, int64_t *dims, bool reverse, NDArrayHandle *out);

// Gives the shape. The numbers are valid until the next call on this thread.
MXNET_DLL int MXNDArrayGetShape(NDArrayHandle handle, uint32_t *out_dim, const uint32_t **out_pdata);

// Gives the shape with signed numbers; an unknown rank is -1 in numpy semantics. Valid until the next call on this thread.
MXNET_DLL
int MXNDArrayGetShapeEx(NDArrayHandle handle,
                        int *out_dim,
                        const int **out_pdata);

// Gives the shape with 64-bit numbers. Valid until the next call on this thread.
MXNET_DLL int MXNDArrayGetShapeEx64(NDArrayHandle handle, int *out_dim, const int64_t **out_pdata);

// Gives the code of the element type; -1 for an array that nothing was written to.
MXNET_DLL int MXNDArrayGetDType(NDArrayHandle handle, int *out_dtype);

// Gives the device: its kind (1 is the host's processor) and number; zeros for an array that nothing was written to.
MXNET_DLL int MXNDArrayGetContext(NDArrayHandle handle, int *out_dev_type, int *out_dev_id);

// Gives the address of the elements. It is valid while the array lives; from now on its content counts as changed at every use.
MXNET_DLL
int MXNDArrayGetData(NDArrayHandle handle,
                     void **out_pdata);

// Copies `size` elements, all of them, to the caller's memory.
MXNET_DLL int MXNDArraySyncCopyToCPU(NDArrayHandle handle, void *data, size_t size);

// Copies `size` elements, as many as the array has, from the caller's memory.
MXNET_DLL int MXNDArraySyncCopyFromCPU(NDArrayHandle handle, const void *data, size_t size);

// Waits until the array can be read. Fails, once, if an operator on which it depends has failed.
MXNET_DLL int MXNDArrayWaitToRead(NDArrayHandle handle);

// Waits until the array can be written. Fails as `MXNDArrayWaitToRead` does.
MXNET_DLL int MXNDArrayWaitToWrite(NDArrayHandle handle);

// Waits for all operators. Fails if one has failed of which no wait has reported it.
MXNET_DLL int MXNDArrayWaitAll(void);

// Gives the gradient array of a marked variable, or null. The caller frees the handle.
MXNET_DLL int MXNDArrayGetGrad(NDArrayHandle handle, NDArrayHandle *out);

// Makes an array on the same memory that gradients do not flow through.
MXNET_DLL int MXNDArrayDetach(NDArrayHandle handle, NDArrayHandle *out);

// Gives whether a gradient was computed since the flag was last cleared.
MXNET_DLL int MXNDArrayGetGradState(NDArrayHandle handle, int *out);

// Sets the flag of `MXNDArrayGetGradState`.
MXNET_DLL int MXNDArraySetGradState(NDArrayHandle handle, int state);

// Lists the names and aliases of all operators, and the names of gradients. The array is valid until the next call on this thread.
MXNET_DLL
int MXListAllOpNames(uint32_t *out_size,
                     const char ***out_array);

// As `MXListAllOpNames`.
MXNET_DLL int NNListAllOpNames(uint32_t *out_size, const char ***out_array);

// Lists the handle of every operator once, without its aliases, and of every gradient. The array is valid until the next call on this thread.
MXNET_DLL
int MXSymbolListAtomicSymbolCreators(uint32_t *out_size,
                                     AtomicSymbolCreator **out_array);

// As `MXSymbolListAtomicSymbolCreators`.
MXNET_DLL int NNListUniqueOps(uint32_t *out_size, OpHandle **out_array);

// Gives the handle of an operator. It is never freed.
MXNET_DLL int NNGetOpHandle(const char *op_name, OpHandle *op_out);

// Gives the name of an operator, which its aliases stand for, valid until the next call on this thread.
MXNET_DLL int MXSymbolGetAtomicSymbolName(AtomicSymbolCreator creator, const char **name);

// Describes an operator: its name, description, arguments with type strings and descriptions, the argument that counts its inputs
// (empty if their number is fixed), and its return type; a gradient has no arguments. All pointers are valid until the next call on this thread.
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

// Describes an operator as `MXSymbolGetAtomicSymbolInfo`; `real_name` is the name that its aliases stand for.
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

// Gives the packed function of a name; null says that there is none.
MXNET_DLL int MXNetFuncGetGlobal(const char *name, MXNetFunctionHandle *out);

// Frees a packed function. Those of this library are never freed.
MXNET_DLL int MXNetFuncFree(MXNetFunctionHandle func);

// Calls a packed function. Codes of types: 0 an integer, 2 a number, 4 nothing, 8 an object, 11 a string, 14 an array. The caller frees
// a result that is an array (`MXNDArrayFree`) or an object (`MXNetObjectFree`).
MXNET_DLL
int MXNetFuncCall(MXNetFunctionHandle func,
                  union MXNetValue *arg_values,
                  int *type_codes,
                  int num_args,
                  union MXNetValue *ret_val,
                  int *ret_type_code);

// Frees an object; null is nothing.
MXNET_DLL int MXNetObjectFree(MXNetObjectHandle obj);

// Makes a symbol whose operators compute with 8-bit integers, where they have such a form, and lists the outputs whose ranges calibration
// needs; the list is valid until the next call on this thread. Nodes and operators may be excluded; parameters that are quantized before
// the graph runs become variables. The mode is `full` or `smart`, the type of data `int8`, `uint8` or `auto`, the granularity
// `tensor-wise` or `channel-wise`.
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

// Makes a symbol of a quantized one with the ranges of a table: the smallest and the largest value of each of the outputs that
// `MXQuantizeSymbol` lists.
MXNET_DLL
int MXSetCalibTableToQuantizedSymbol(SymbolHandle qsym_handle,
                                     uint32_t num_layers,
                                     const char **layer_names,
                                     const float *low_quantiles,
                                     const float *high_quantiles,
                                     SymbolHandle *ret_sym_handle);

// Makes a symbol of mixed precision: some operators run in a narrow type, some in 32 bits, some in the widest type of their inputs, and
// conversions stand between them. `arg_type_data` has the types of the variables `arg_names`; with `cast_optional_params` parameters
// that are read in the narrow type get it themselves, as attribute `__dtype__`. Values of parameters for which operators need 32 bits
// lie at `ind_ptr[i] .. ind_ptr[i + 1]` of `conditional_param_vals`.
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

// Binds a network, given as JSON, with the parameters in the bytes of a `.params` file. Input `i` has the dimensions
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

// As `MXPredCreate`, with element types of some arguments.
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

// As `MXPredCreate`, computing the outputs of the named nodes instead.
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

// Binds the network of a predictor for inputs of other shapes; parameters are shared. The old predictor stays as it is.
MXNET_DLL
int MXPredReshape(uint32_t num_input_nodes,
                  const char **input_keys,
                  const uint32_t *input_shape_indptr,
                  const uint32_t *input_shape_data,
                  PredictorHandle handle,
                  PredictorHandle *out);

// Binds a network for `num_threads` threads, one predictor for each, which share the parameters. Otherwise as `MXPredCreate`; `out` has
// room for as many handles.
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

// Gives the shape of an output, valid until the next call on this thread.
MXNET_DLL int MXPredGetOutputShape(PredictorHandle handle, uint32_t index, uint32_t **shape_data, uint32_t *shape_ndim);

// Gives the code of an output's element type.
MXNET_DLL int MXPredGetOutputType(PredictorHandle handle, uint32_t out_index, int *out_dtype);

// Overwrites an input by `size` numbers, as many as it has.
MXNET_DLL int MXPredSetInput(PredictorHandle handle, const char *key, const float *data, uint32_t size);

// Computes the outputs.
MXNET_DLL int MXPredForward(PredictorHandle handle);

// Runs one step of the network: call it with `step` from 0 on until `step_left`, the number of steps behind it, is 0. Then the outputs
// are there. A step behind the last one does nothing.
MXNET_DLL
int MXPredPartialForward(PredictorHandle handle,
                         int step,
                         int *step_left);

// Calls a function with the name and array of every output of every node that a run computes, and with `monitor_all` of inputs too; null
// removes it. The callee owns the array's handle.
MXNET_DLL
int MXPredSetMonitorCallback(PredictorHandle handle,
                             PredMonitorCallback callback,
                             void *callback_handle,
                             bool monitor_all);

// Copies an output, as 32-bit floats, to memory for `size` numbers, as many as it has.
MXNET_DLL int MXPredGetOutput(PredictorHandle handle, uint32_t index, float *data, uint32_t size);

// Frees a predictor; null is nothing.
MXNET_DLL int MXPredFree(PredictorHandle handle);

// Reads the bytes of a file of arrays and gives their number.
MXNET_DLL int MXNDListCreate(const char *nd_file_bytes, int nd_file_size, NDListHandle *out, uint32_t *out_length);

// Gives an array of a list: its name (empty if it has none), elements and shape, valid until the list is freed.
MXNET_DLL
int MXNDListGet(NDListHandle handle,
                uint32_t index,
                const char **out_key,
                const float **out_data,
                const uint32_t **out_shape,
                uint32_t *out_ndim);

// Frees a list; null is nothing.
MXNET_DLL int MXNDListFree(NDListHandle handle);

// Sets parameters of the profiler: `filename`, `profile_all`, `profile_symbolic`, `profile_imperative`, `profile_memory`,
// `profile_api`, `continuous_dump`, `dump_period`, `aggregate_stats`.
MXNET_DLL
int MXSetProfilerConfig(int num_params,
                        const char *const *keys,
                        const char *const *vals);

// As `MXSetProfilerConfig`. The store, whose servers there are none of, does not matter.
MXNET_DLL
int MXSetProcessProfilerConfig(int num_params,
                               const char *const *keys,
                               const char *const *vals,
                               KVStoreHandle kv_store_handle);

// Stops the profiler (0) or lets it run (1).
MXNET_DLL int MXSetProfilerState(int state);

// As `MXSetProfilerState`, for the worker (`profile_process` 0).
MXNET_DLL int MXSetProcessProfilerState(int state, int profile_process, KVStoreHandle kv_store_handle);

// Holds the profiler (1) or lets it go on (0).
MXNET_DLL int MXProfilePause(int paused);

// As `MXProfilePause`, for the worker (`profile_process` 0).
MXNET_DLL int MXProcessProfilePause(int paused, int profile_process, KVStoreHandle kv_store_handle);

// Writes the trace to the file, for Chrome's viewer (`chrome://tracing`). A finished trace is forgotten; else the next one has it too.
MXNET_DLL
int MXDumpProfile(int finished);

// As `MXDumpProfile`, for the worker (`profile_process` 0).
MXNET_DLL int MXDumpProcessProfile(int finished, int profile_process, KVStoreHandle kv_store_handle);

// Gives the table of what everything took, valid until the next call on this thread; `reset` empties it.
MXNET_DLL int MXAggregateProfileStatsPrint(const char **out_str, int reset);

// As `MXAggregateProfileStatsPrint`, as a table (`format` 0) or JSON (1), sorted by total (0), average, minimum, maximum or count (4).
MXNET_DLL
int MXAggregateProfileStatsPrintEx(const char **out_str,
                                   int reset,
                                   int format,
                                   int sort_by,
                                   int ascending);

// Makes a domain, a name that others are grouped under.
MXNET_DLL int MXProfileCreateDomain(const char *domain, ProfileHandle *out);

// Makes a task, which takes from a start to a stop.
MXNET_DLL int MXProfileCreateTask(ProfileHandle domain, const char *task_name, ProfileHandle *out);

// Makes a frame, which takes from a start to a stop.
MXNET_DLL int MXProfileCreateFrame(ProfileHandle domain, const char *frame_name, ProfileHandle *out);

// Makes an event without a domain, which takes from a start to a stop.
MXNET_DLL int MXProfileCreateEvent(const char *event_name, ProfileHandle *out);

// Makes a counter, at 0.
MXNET_DLL int MXProfileCreateCounter(ProfileHandle domain, const char *counter_name, ProfileHandle *out);

// Frees a domain, task, frame, event or counter; null is nothing.
MXNET_DLL int MXProfileDestroyHandle(ProfileHandle frame_handle);

// Starts a task, frame or event.
MXNET_DLL int MXProfileDurationStart(ProfileHandle duration_handle);

// Stops a task, frame or event.
MXNET_DLL int MXProfileDurationStop(ProfileHandle duration_handle);

// Sets a counter.
MXNET_DLL int MXProfileSetCounter(ProfileHandle counter_handle, uint64_t value);

// Adds to a counter.
MXNET_DLL int MXProfileAdjustCounter(ProfileHandle counter_handle, int64_t value);

// Marks a moment; the scope is `global`, `process`, `thread`, `task` or `marker`.
MXNET_DLL int MXProfileSetMarker(ProfileHandle domain, const char *instant_marker_name, const char *scope);

// Makes a file of records, or an existing one empty.
MXNET_DLL int MXRecordIOWriterCreate(const char *uri, RecordIOHandle *out);

// Writes what is left and closes the file; null is nothing.
MXNET_DLL int MXRecordIOWriterFree(RecordIOHandle handle);

// Appends a record of `size` bytes.
MXNET_DLL int MXRecordIOWriterWriteRecord(RecordIOHandle handle, const char *buf, size_t size);

// Gives the position of the next record, in bytes from the start of the file.
MXNET_DLL int MXRecordIOWriterTell(RecordIOHandle handle, size_t *pos);

// Opens a file of records.
MXNET_DLL int MXRecordIOReaderCreate(const char *uri, RecordIOHandle *out);

// Closes a file; null is nothing.
MXNET_DLL int MXRecordIOReaderFree(RecordIOHandle handle);

// Reads the next record; null and 0 at the end of the file, an address and 0 for an empty record. The bytes are valid until the
// next call on this thread.
MXNET_DLL
int MXRecordIOReaderReadRecord(RecordIOHandle handle,
                               const char **buf,
                               size_t *size);

// Goes to the record that begins `pos` bytes from the start of the file.
MXNET_DLL int MXRecordIOReaderSeek(RecordIOHandle handle, size_t pos);

// Gives the position of the next record, in bytes from the start of the file.
MXNET_DLL int MXRecordIOReaderTell(RecordIOHandle handle, size_t *pos);

// Gives this process's number and a file descriptor of the array's memory, to be sent to another process. It lives as long as the
// array; of an array that is not on `cpu_shared` it is that of a copy, and the caller closes it.
MXNET_DLL
int MXNDArrayGetSharedMemHandle(NDArrayHandle handle,
                                int *shared_pid,
                                int *shared_id);

// Makes an array on memory that another process shares: its number, and a file descriptor of this process, which it takes over.
// Of this process itself, the descriptor stays the caller's.
MXNET_DLL
int MXNDArrayCreateFromSharedMem(int shared_pid,
                                 int shared_id,
                                 const uint32_t *shape,
                                 uint32_t ndim,
                                 int dtype,
                                 NDArrayHandle *out);

// As `MXNDArrayCreateFromSharedMem`, with signed dimensions.
MXNET_DLL
int MXNDArrayCreateFromSharedMemEx(int shared_pid,
                                   int shared_id,
                                   const int *shape,
                                   int ndim,
                                   int dtype,
                                   NDArrayHandle *out);

// Binds a symbol to new arrays of zeros: shapes and types are inferred from the given ones. Gradients are requested by one word for
// all arguments (`provided_grad_req_list_len` is 0), one for each, or by name. Arguments in `shared_arg_name_list` are those of
// `shared_exec_handle`; others take memory from the buffer of arrays unless its length is -1. The caller frees the executor and all
// handles; the lists are valid until the next call on this thread.
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

// As `MXExecutorSimpleBind` with signed dimensions.
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

// As `MXExecutorSimpleBind` with 64-bit dimensions.
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

// Makes a sparse array (storage type 1 is row_sparse, 2 csr) that stores nothing; its parts are set by
// `MXNDArraySyncCopyFromNDArray`, which gives them their shapes. Index arrays are of type int64.
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

// As `MXNDArrayCreateSparseEx`, with 64-bit dimensions.
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

// Gives the storage type: 0 is dense, 1 row_sparse, 2 csr, -1 an array that nothing was written to.
MXNET_DLL int MXNDArrayGetStorageType(NDArrayHandle handle, int *out_storage_type);

// Gives the element type of index array `i` of a sparse array (csr: 0 row pointers, 1 columns; row_sparse: 0 rows).
MXNET_DLL int MXNDArrayGetAuxType(NDArrayHandle handle, uint32_t i, int *out_type);

// As `MXNDArrayGetAuxType`, with a 64-bit number.
MXNET_DLL int MXNDArrayGetAuxType64(NDArrayHandle handle, int64_t i, int *out_type);

// Makes a copy of index array `i` of a sparse array, in the order of `MXNDArrayGetAuxType`.
MXNET_DLL int MXNDArrayGetAuxNDArray(NDArrayHandle handle, uint32_t i, NDArrayHandle *out);

// As `MXNDArrayGetAuxNDArray`, with a 64-bit number.
MXNET_DLL int MXNDArrayGetAuxNDArray64(NDArrayHandle handle, int64_t i, NDArrayHandle *out);

// Makes a copy of the stored values of a sparse array.
MXNET_DLL int MXNDArrayGetDataNDArray(NDArrayHandle handle, NDArrayHandle *out);

// Copies one array over another. Of a sparse destination, `i` is the index array to set, or -1 for the values.
MXNET_DLL int MXNDArraySyncCopyFromNDArray(NDArrayHandle handle_dst, NDArrayHandle handle_src, int i);

// Checks that the parts of a sparse array fit together: lengths, ranges and order of the indices, whatever `full_check` is.
// Dense arrays have no format to check.
MXNET_DLL
int MXNDArraySyncCheckFormat(NDArrayHandle handle,
                             bool full_check);

// Makes a symbol of an operator that waits for its inputs, which `MXSymbolCompose` gives it.
MXNET_DLL
int MXSymbolCreateAtomicSymbol(AtomicSymbolCreator creator,
                               uint32_t num_param,
                               const char **keys,
                               const char **vals,
                               SymbolHandle *out);

// As `MXSymbolCreateAtomicSymbol`.
MXNET_DLL
int NNSymbolCreateAtomicSymbol(OpHandle op,
                               uint32_t num_param,
                               const char **keys,
                               const char **vals,
                               SymbolHandle *out);

// Makes a variable.
MXNET_DLL int MXSymbolCreateVariable(const char *name, SymbolHandle *out);

// As `MXSymbolCreateVariable`.
MXNET_DLL int NNSymbolCreateVariable(const char *name, SymbolHandle *out);

// Makes one symbol of several, with all their outputs in order.
MXNET_DLL int MXSymbolCreateGroup(uint32_t num_symbols, SymbolHandle *symbol_list, SymbolHandle *out);

// As `MXSymbolCreateGroup`.
MXNET_DLL int NNSymbolCreateGroup(uint32_t num_symbols, SymbolHandle *symbol_list, SymbolHandle *out);

// Reads a symbol from JSON.
MXNET_DLL int MXSymbolCreateFromJSON(const char *json, SymbolHandle *out);

// Reads a symbol from a file of JSON.
MXNET_DLL int MXSymbolCreateFromFile(const char *fname, SymbolHandle *out);

// Gives a symbol as JSON, valid until the next call on this thread.
MXNET_DLL int MXSymbolSaveToJSON(SymbolHandle handle, const char **out_json);

// Writes a symbol as JSON to a file.
MXNET_DLL int MXSymbolSaveToFile(SymbolHandle handle, const char *fname);

// Frees a handle; null is nothing. What was composed or bound with the symbol keeps its nodes.
MXNET_DLL int MXSymbolFree(SymbolHandle handle);

// As `MXSymbolFree`.
MXNET_DLL int NNSymbolFree(SymbolHandle handle);

// Makes a copy that shares no node.
MXNET_DLL int MXSymbolCopy(SymbolHandle handle, SymbolHandle *out);

// As `MXSymbolCopy`.
MXNET_DLL int NNSymbolCopy(SymbolHandle handle, SymbolHandle *out);

// Makes a second symbol of the same nodes.
MXNET_DLL int MXShallowCopySymbol(SymbolHandle src, SymbolHandle *out);

// Describes the graph in words, valid until the next call on this thread.
MXNET_DLL int MXSymbolPrint(SymbolHandle handle, const char **out_str);

// As `MXSymbolPrint`.
MXNET_DLL int NNSymbolPrint(SymbolHandle handle, const char **out_str);

// Gives the name of a symbol of one node, valid until the next call on this thread; `success` is 0 for a group.
MXNET_DLL int MXSymbolGetName(SymbolHandle handle, const char **out, int *success);

// Gives an attribute, valid until the next call on this thread; `success` is 0 if there is none.
MXNET_DLL int MXSymbolGetAttr(SymbolHandle handle, const char *key, const char **out, int *success);

// As `MXSymbolGetAttr`.
MXNET_DLL int NNSymbolGetAttr(SymbolHandle handle, const char *key, const char **out, int *success);

// Sets an attribute of a symbol of one node.
MXNET_DLL int MXSymbolSetAttr(SymbolHandle handle, const char *key, const char *value);

// Sets several attributes of a symbol of one node.
MXNET_DLL int NNSymbolSetAttrs(SymbolHandle handle, uint32_t num_param, const char **keys, const char **values);

// Lists the attributes of all nodes as `node$key` and value one after the other; `out_size` counts pairs. Valid until the next
// call on this thread.
MXNET_DLL
int MXSymbolListAttr(SymbolHandle handle,
                     uint32_t *out_size,
                     const char ***out);

// Lists the attributes of the symbol's own node; otherwise as `MXSymbolListAttr`.
MXNET_DLL int MXSymbolListAttrShallow(SymbolHandle handle, uint32_t *out_size, const char ***out);

// Lists attributes: option 0 as `MXSymbolListAttr`, 1 as `MXSymbolListAttrShallow`.
MXNET_DLL int NNSymbolListAttrs(SymbolHandle handle, int recursive_option, uint32_t *out_size, const char ***out);

// Lists the arguments in the order in which executors take them. Valid until the next call on this thread.
MXNET_DLL int MXSymbolListArguments(SymbolHandle handle, uint32_t *out_size, const char ***out_str_array);

// Lists the outputs. Valid until the next call on this thread.
MXNET_DLL int MXSymbolListOutputs(SymbolHandle handle, uint32_t *out_size, const char ***out_str_array);

// As `MXSymbolListOutputs`.
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

// Makes a symbol of every output of every node.
MXNET_DLL int MXSymbolGetInternals(SymbolHandle handle, SymbolHandle *out);

// As `MXSymbolGetInternals`.
MXNET_DLL int NNSymbolGetInternals(SymbolHandle handle, SymbolHandle *out);

// Makes a symbol of the inputs of the symbol's nodes; that of a variable has no outputs.
MXNET_DLL int MXSymbolGetChildren(SymbolHandle handle, SymbolHandle *out);

// As `MXSymbolGetChildren`.
MXNET_DLL int NNSymbolGetChildren(SymbolHandle handle, SymbolHandle *out);

// Makes a symbol of one output.
MXNET_DLL int MXSymbolGetOutput(SymbolHandle handle, uint32_t index, SymbolHandle *out);

// As `MXSymbolGetOutput`.
MXNET_DLL int NNSymbolGetOutput(SymbolHandle handle, uint32_t index, SymbolHandle *out);

// Gives the number of outputs.
MXNET_DLL int MXSymbolGetNumOutputs(SymbolHandle handle, uint32_t *output_count);

// As `MXSymbolGetNumOutputs`.
MXNET_DLL int NNSymbolGetNumOutputs(SymbolHandle handle, uint32_t *output_count);

// Gives an operator its inputs, by position if `keys` is null and by name otherwise, and makes variables of those left out. On a
// symbol that has its inputs it replaces variables. The symbol itself changes; `name` may be null.
MXNET_DLL
int MXSymbolCompose(SymbolHandle handle,
                    const char *name,
                    uint32_t num_args,
                    const char **keys,
                    SymbolHandle *args);

// As `MXSymbolCompose`.
MXNET_DLL
int NNSymbolCompose(SymbolHandle handle,
                    const char *name,
                    uint32_t num_args,
                    const char **keys,
                    SymbolHandle *args);

// Cuts the graph off from operators whose attribute `__subgraph_name__` is not that of its first output; outputs of those become
// variables. The symbol itself changes. The list has what each new variable stands for, as new symbols, which the caller frees; it is
// valid until the next call on this thread.
MXNET_DLL
int MXSymbolCutSubgraph(SymbolHandle sym,
                        SymbolHandle **inputs,
                        int *input_size);

// Would make a symbol of the gradients; always an error, as in MXNet: executors compute gradients, and autograd records them.
MXNET_DLL
int MXSymbolGrad(SymbolHandle sym,
                 uint32_t num_wrt,
                 const char **wrt,
                 SymbolHandle *out);

// Makes a symbol of the same graph without conversions for mixed precision.
MXNET_DLL int MXSymbolRemoveAmpCast(SymbolHandle sym_handle, SymbolHandle *ret_sym_handle);

// Makes a new operator, without inputs, of the operator and parameters of a symbol of one node.
MXNET_DLL int MXGenAtomicSymbolFromSymbol(SymbolHandle sym_handle, SymbolHandle *ret_sym_handle);

// Compiled CUDA code in MXNet's early versions; always an error.
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

// Ran CUDA code in MXNet's early versions; always an error.
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

// Freed CUDA code in MXNet's early versions; always an error.
MXNET_DLL int MXRtcFree(RtcHandle handle);

// Compiles CUDA code; an error, as there is no GPU backend.
MXNET_DLL
int MXRtcCudaModuleCreate(const char *source,
                          int num_options,
                          const char **options,
                          int num_exports,
                          const char **exports,
                          CudaModuleHandle *out);

// Frees compiled CUDA code; an error, as there is no GPU backend.
MXNET_DLL int MXRtcCudaModuleFree(CudaModuleHandle handle);

// Gives a kernel of compiled CUDA code; an error, as there is no GPU backend.
MXNET_DLL
int MXRtcCudaKernelCreate(CudaModuleHandle handle,
                          const char *name,
                          int num_args,
                          int *is_ndarray,
                          int *is_const,
                          int *arg_types,
                          CudaKernelHandle *out);

// Frees a CUDA kernel; an error, as there is no GPU backend.
MXNET_DLL int MXRtcCudaKernelFree(CudaKernelHandle handle);

// Runs a CUDA kernel; an error, as there is no GPU backend.
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

// Loads a library of operators written against MXNet's `lib_api.h`; an error, as code of other libraries is not run.
MXNET_DLL int MXLoadLib(const char *path, unsigned int verbose);

// Connected MXNet to TVM's functions; an error, as they are linked to MXNet's own C++ types.
MXNET_DLL int MXTVMBridge(void *pregister);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* MXNET_C_API_H_ */
