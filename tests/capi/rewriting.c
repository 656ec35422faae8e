/* Graph rewriting: quantization, mixed precision, partitioning and NNVM's graphs; and functions pushed to the engine. */
#include "check.h"

#include <pthread.h>

/* conv(3x3) -> relu -> fully connected; "x" is the data. */
static SymbolHandle network(void) {
  const char *keys[] = {"kernel", "num_filter", "no_bias"}, *values[] = {"(3, 3)", "2", "True"};
  SymbolHandle x = NULL, conv = NULL, act, out;
  OK(MXSymbolCreateVariable("x", &x));
  OK(MXSymbolCreateAtomicSymbol(operator_named("Convolution"), 3, keys, values, &conv));
  OK(MXSymbolCompose(conv, "c", 1, NULL, &x));
  act = node("Activation", "a", "act_type", "relu", &conv, 1);
  out = node("FullyConnected", "f", "num_hidden", "3", &act, 1);
  SymbolHandle parts[] = {x, conv, act};
  for (int i = 0; i < 3; i++) OK(MXSymbolFree(parts[i]));
  return out;
}

/* Checks the names of all operator nodes, including those of subgraphs. */
static int has_nodes(SymbolHandle s, const char *expected) {
  const char *json = NULL;
  char found[1024] = "", word[128];
  OK(MXSymbolSaveToJSON(s, &json));
  for (const char *at = json; (at = strstr(at, "\"op\": \"")) != NULL;) {
    int is_variable = strncmp(at += 7, "null", 4) == 0;
    at = strstr(at, "\"name\": \"") + 9;
    size_t n = strcspn(at, "\"");
    if (is_variable || n >= sizeof word) continue;
    memcpy(word, at, n);
    word[n] = 0;
    strcat(found, found[0] ? " " : "");
    strcat(found, word);
  }
  if (strcmp(found, expected) != 0) printf("the nodes are %s\n", found);
  return strcmp(found, expected) == 0;
}

static int quantize(SymbolHandle s, const char *mode, const char *dtype, const char *granularity, SymbolHandle *out,
                    uint32_t *n, const char ***calibrated) {
  int cpu = 1;
  const char *excluded[] = {"nothing"}, *offline[] = {"c_weight", "f_weight", "f_bias"};
  return MXQuantizeSymbol(s, out, &cpu, 1, excluded, 0, NULL, 3, offline, dtype, true, mode, granularity, n, calibrated);
}

static void quantizes(void) {
  SymbolHandle s = network(), q = NULL, ranged = NULL;
  uint32_t n = 0;
  const char **names = NULL;
  OK(quantize(s, "full", "int8", "tensor-wise", &q, &n, &names));
  CHECK(n == 3 && !strcmp(names[0], "x") && !strcmp(names[1], "c_output") && !strcmp(names[2], "f_output"));
  CHECK(has_nodes(q, "x_quantize quantized_c requantize_c quantized_a quantized_f requantize_f f_dequantize"));
  const float low[] = {-1, -2, -3}, high[] = {1, 2, 3};
  const char *layers[] = {"x", "c_output", "f_output"};
  OK(MXSetCalibTableToQuantizedSymbol(q, 3, layers, low, high, &ranged));
  const char *json = NULL;
  OK(MXSymbolSaveToJSON(ranged, &json));
  CHECK(strstr(json, "\"min_calib_range\": \"-2.000000\"") != NULL);
  REFUSED(MXSetCalibTableToQuantizedSymbol(q, 3, layers, NULL, high, &ranged), "low_quantiles is null");
  REFUSED(quantize(s, "some", "int8", "tensor-wise", &q, &n, &names), "unrecognized quantize mode: some");
  REFUSED(quantize(s, "full", "int4", "tensor-wise", &q, &n, &names), "use int8, uint8 or auto");
  REFUSED(quantize(s, "full", "int8", "row-wise", &q, &n, &names), "use tensor-wise or channel-wise");
  REFUSED(quantize(NULL, "full", "int8", "tensor-wise", &q, &n, &names), "null");
  SymbolHandle all[] = {s, q, ranged};
  for (int i = 0; i < 3; i++) OK(MXSymbolFree(all[i]));
}

static int reduce(SymbolHandle s, int target, const int *starts, SymbolHandle *out) {
  const char *narrow[] = {"FullyConnected"}, *wide[] = {"softmax"}, *conditional[] = {"Activation"}, *params[] = {"act_type"};
  const char *values[] = {"relu"}, *data[] = {"x"}, *model[] = {"f_weight"};
  const int types[] = {0};
  return MXReducePrecisionSymbol(s, out, 1, types, 2, starts, &target, 0, 1, 1, 0, 1, 0, 1, narrow, wide, NULL, conditional,
                                 NULL, params, values, model, data);
}

static void reduces_precision(void) {
  SymbolHandle s = network(), mixed = NULL;
  const int starts[] = {0, 1}, wrong[] = {1, 0};
  OK(reduce(s, 2, starts, &mixed));
  CHECK(has_nodes(mixed, "c c_output_amp_cast_float32 a a_output_amp_cast_float16 f_weight_amp_cast_float16 "
                         "f_bias_amp_cast_float16 f f_output_amp_cast_float32"));
  const char *json = NULL;
  OK(MXSymbolSaveToJSON(mixed, &json));
  CHECK(strstr(json, "\"__dtype__\": \"0\"") != NULL);
  REFUSED(reduce(s, 0, starts, &mixed), "Only float16 and bfloat16");
  REFUSED(reduce(s, 2, wrong, &mixed), "ind_ptr");
  REFUSED(reduce(NULL, 2, starts, &mixed), "null");
  OK(MXSymbolFree(mixed));
  OK(MXSymbolFree(s));
}

/* Runs a graph with "x" of shape (1, 2, 5, 5) and fixed weights, and returns the sum of the outputs. */
static float sum_of(SymbolHandle s) {
  const char **names = NULL;
  uint32_t n = 0, sizes[3];
  const uint32_t *ranks[3], **shapes[3], starts[] = {0, 4}, dims[] = {1, 2, 5, 5};
  const char *key = "x";
  int complete = 0;
  NDArrayHandle args[8], *outputs = NULL;
  uint32_t none[8] = {0};
  OK(MXSymbolListArguments(s, &n, &names));
  OK(MXSymbolInferShape(s, 1, &key, starts, dims, &sizes[0], &ranks[0], &shapes[0], &sizes[1], &ranks[1], &shapes[1],
                        &sizes[2], &ranks[2], &shapes[2], &complete));
  for (uint32_t i = 0; i < n; i++) {
    float values[256];
    for (int k = 0; k < 256; k++) values[k] = sinf((float)(k + 1) * (float)strlen(names[i]));
    args[i] = floats(values, shapes[0][i], ranks[0][i]);
  }
  ExecutorHandle executor = NULL;
  OK(MXExecutorBind(s, 1, 0, n, args, NULL, none, 0, NULL, &executor));
  OK(MXExecutorForward(executor, 0));
  OK(MXExecutorOutputs(executor, &n, &outputs));
  float got[3] = {0, 0, 0};
  OK(MXNDArraySyncCopyToCPU(outputs[0], got, 3));
  OK(MXExecutorFree(executor));
  return got[0] + 10 * got[1] + 100 * got[2];
}

static int optimize(SymbolHandle s, const char *backend, int device, SymbolHandle *out) {
  int num_args = -1, num_aux = -1, status;
  NDArrayHandle *args = NULL, *aux = NULL;
  char **arg_names = NULL, **aux_names = NULL;
  status = MXOptimizeForBackend(s, backend, device, out, 0, NULL, 0, NULL, 0, NULL, NULL, 0, NULL, NULL, NULL, 0, NULL, NULL, 0,
                                NULL, NULL, true, &num_args, &args, &arg_names, &num_aux, &aux, &aux_names);
  CHECK(status != 0 || (num_args == 0 && num_aux == 0));
  return status;
}

static void partitions(void) {
  const char *ops[] = {"Convolution", "Activation"};
  SymbolHandle s = network(), by_name = NULL, layers = NULL, same = NULL;
  float plain = sum_of(s);
  OK(MXBuildSubgraphByOpNames(s, "default", 2, ops, &by_name));
  const char *json = NULL;
  OK(MXSymbolSaveToJSON(by_name, &json));
  CHECK(strstr(json, "\"op\": \"_CachedOp\"") && strstr(json, "\"subgraphs\""));
  NEAR(sum_of(by_name), plain);
  SymbolHandle read = NULL;
  OK(MXSymbolCreateFromJSON(json, &read));
  NEAR(sum_of(read), plain);
  OK(MXGenBackendSubgraph(s, "MKLDNN", &layers));
  CHECK(has_nodes(layers, "sg_mkldnn_conv_act_0 c a sg_mkldnn_fully_connected_0 f"));
  NEAR(sum_of(layers), plain);
  OK(optimize(s, "no such backend", 1, &same));
  CHECK(has_nodes(same, "c a f"));
  REFUSED(optimize(s, "default", 77, &same), "77");
  REFUSED(MXGenBackendSubgraph(s, "none", &layers), "is not found in SubgraphBackendRegistry");
  REFUSED(MXBuildSubgraphByOpNames(s, "none", 2, ops, &layers), "is not found in SubgraphBackendRegistry");
  OK(MXSymbolFree(same));
  OK(MXBuildSubgraphByOpNames(s, "none", 0, ops, &same));
  CHECK(has_nodes(same, "c a f"));
  OK(MXSetSubgraphPropertyOpNames("default", 2, ops));
  REFUSED(MXSetSubgraphPropertyOpNames(NULL, 2, ops), "null");
  OK(MXRemoveSubgraphPropertyOpNames("default"));
  REFUSED(MXRemoveSubgraphPropertyOpNames(NULL), "null");
  OK(MXSetSubgraphPropertyOpNamesV2("default", 1, ops));
  REFUSED(MXSetSubgraphPropertyOpNamesV2("none", 1, ops), "is not found");
  OK(MXRemoveSubgraphPropertyOpNamesV2("default"));
  REFUSED(MXRemoveSubgraphPropertyOpNamesV2("none"), "is not found");
  REFUSED(MXGenBackendSubgraph(s, "default", &layers), "Cannot find attribute op_names");
  SymbolHandle all[] = {s, by_name, read, layers, same};
  for (int i = 0; i < 5; i++) OK(MXSymbolFree(all[i]));
}

static void graphs_have_attributes(void) {
  SymbolHandle s = network(), back = NULL;
  GraphHandle graph = NULL, saved = NULL, other = NULL;
  const char *text = NULL, *save = "SaveJSON", *load = "LoadJSON", *none = "Fold";
  int there = -1;
  OK(NNGraphCreate(s, &graph));
  REFUSED(NNGraphCreate(NULL, &graph), "null");
  OK(NNGraphSetJSONAttr(graph, "k", "[\"list_int\", [1, 2]]"));
  REFUSED(NNGraphSetJSONAttr(graph, "k", "[\"float\", 1]"), "Typename float");
  OK(NNGraphGetJSONAttr(graph, "k", &text, &there));
  CHECK(there == 1 && strcmp(text, "[\"list_int\", [1, 2]]") == 0);
  OK(NNGraphGetJSONAttr(graph, "none", &text, &there));
  CHECK(there == 0);
  OK(NNGraphSetNodeEntryListAttr_(graph, "outputs", s));
  REFUSED(NNGraphSetNodeEntryListAttr_(graph, "outputs", NULL), "null");
  REFUSED(NNGraphGetJSONAttr(graph, "outputs", &text, &there), "no JSON representation");
  OK(NNGraphApplyPasses(graph, 1, &save, &saved));
  OK(NNGraphApplyPasses(saved, 1, &load, &other));
  REFUSED(NNGraphApplyPasses(graph, 1, &none, &other), "Cannot find pass Fold");
  OK(NNGraphGetSymbol(other, &back));
  REFUSED(NNGraphGetSymbol(s, &back), "of kind Symbol");
  CHECK(has_nodes(back, "c a f"));
  REFUSED(NNAddControlDeps(s, back), "control dependencies are not supported");
  REFUSED(NNAddControlDeps(s, NULL), "null");
  GraphHandle all[] = {graph, saved, other};
  for (int i = 0; i < 3; i++) OK(NNGraphFree(all[i]));
  REFUSED(NNGraphFree(graph), "already disposed");
  OK(MXSymbolFree(s));
  OK(MXSymbolFree(back));
  NNAPISetLastError("a message");
  CHECK(strcmp(NNGetLastError(), "a message") == 0);
}

/* The work of pushed functions: count calls and double an array. */
struct Work {
  int runs, deleted;
  NDArrayHandle array;
};

/* `CallbackOnComplete` of MXNet's engine.h. */
struct Done {
  void (*callback)(void *, void *, const void *);
  void *engine, *param;
};

static void twice(void *context, void *parameter) {
  struct Work *work = parameter;
  CHECK(((const int *)context)[0] == 1);
  if (work->array) {
    float x[2];
    OK(MXNDArraySyncCopyToCPU(work->array, x, 2));
    for (int i = 0; i < 2; i++) x[i] *= 2;
    OK(MXNDArraySyncCopyFromCPU(work->array, x, 2));
  }
  work->runs++;
}

static void deleted(void *parameter) { ((struct Work *)parameter)->deleted++; }

static void *finish(void *callback) {
  struct Done *done = callback;
  done->callback(done->engine, done->param, NULL);
  return NULL;
}

static pthread_t helper;

static void later(void *context, void *callback, void *parameter) {
  twice(context, parameter);
  CHECK(pthread_create(&helper, NULL, finish, callback) == 0);
}

static void failing(void *context, void *callback, void *parameter) {
  struct Done *done = callback;
  twice(context, parameter);
  done->callback(done->engine, done->param, "an error");
}

static void functions_are_run(void) {
  const float ones[] = {1, 1};
  NDArrayHandle x = vector(ones, 2), y = vector(ones, 2);
  struct Work work = {0, 0, x};
  int device[] = {1, 0}, nowhere[] = {99, 0};
  OK(MXEnginePushSyncND(twice, &work, deleted, device, &y, 1, &x, 1, NULL, 0, "twice"));
  OK(MXEnginePushAsyncND(later, &work, NULL, device, NULL, 0, &x, 1, NULL, 0, "later", true));
  CHECK(pthread_join(helper, NULL) == 0);
  float got[2];
  OK(MXNDArraySyncCopyToCPU(x, got, 2));
  CHECK(work.runs == 2 && work.deleted == 1 && got[0] == 4 && got[1] == 4);
  OK(MXEnginePushSync(twice, &work, NULL, device, NULL, 0, NULL, 0, NULL, 0, NULL));
  OK(MXEnginePushAsync(later, &work, deleted, device, NULL, 0, NULL, 0, NULL, 0, NULL, false));
  CHECK(pthread_join(helper, NULL) == 0);
  CHECK(work.runs == 4 && work.deleted == 2);
  REFUSED(MXEnginePushAsync(failing, &work, NULL, device, NULL, 0, NULL, 0, NULL, 0, "failing", true), "'failing' reported");
  REFUSED(MXEnginePushSync(NULL, &work, NULL, device, NULL, 0, NULL, 0, NULL, 0, "none"), "sync_func is null");
  REFUSED(MXEnginePushSync(twice, &work, NULL, nowhere, NULL, 0, NULL, 0, NULL, 0, NULL), "99");
  REFUSED(MXEnginePushSync(twice, &work, NULL, device, NULL, -1, NULL, 0, NULL, 0, NULL), "Non-negative number of const vars");
  REFUSED(MXEnginePushAsync(later, &work, NULL, device, NULL, 1, NULL, 0, NULL, 0, NULL, true), "MXEnginePushAsyncND");
  REFUSED(MXEnginePushSyncND(twice, &work, NULL, device, &x, 1, &x, 1, NULL, 0, NULL), "duplicate items found");
  REFUSED(MXEnginePushAsyncND(later, &work, NULL, device, NULL, 0, NULL, 1, NULL, 0, NULL, true), "null");
  CHECK(work.runs == 5);
  OK(MXNDArrayFree(x));
  OK(MXNDArrayFree(y));
}

static int monitored;

static void count(const char *name, NDArrayHandle array, void *data) {
  CHECK(data == &monitored && name[0] != 0);
  OK(MXNDArrayFree(array));
  monitored++;
}

static void predictors_run_step_by_step(void) {
  SymbolHandle s = network();
  const char *json = NULL, *key = "x", *names[] = {"arg:c_weight", "arg:f_weight", "arg:f_bias"};
  char path[] = TEMPORARY_FILE;
  const uint32_t starts[] = {0, 4}, dims[] = {1, 2, 5, 5}, weight[] = {2, 2, 3, 3}, dense[] = {3, 18}, bias[] = {3};
  float numbers[64], data[50], whole[3], stepped[3];
  for (int i = 0; i < 64; i++) numbers[i] = 0.1f * (float)(i % 7);
  for (int i = 0; i < 50; i++) data[i] = (float)(i % 5);
  NDArrayHandle params[] = {floats(numbers, weight, 4), floats(numbers, dense, 2), floats(numbers, bias, 1)};
  make_file(path, "");
  OK(MXNDArraySave(path, 3, params, names));
  char bytes[4096];
  size_t size = take_file(path, bytes, sizeof bytes);
  OK(MXSymbolSaveToJSON(s, &json));
  PredictorHandle p[2] = {NULL, NULL}, none[2] = {NULL, NULL};
  OK(MXPredCreateMultiThread(json, bytes, (int)size, 1, 0, 1, &key, starts, dims, 2, p));
  REFUSED(MXPredCreateMultiThread(json, bytes, (int)size, 1, 0, 1, &key, starts, dims, 0, none), "num_threads is 0");
  REFUSED(MXPredCreateMultiThread(json, bytes, (int)size, 1, 0, 1, &key, starts, dims, 2, NULL), "out is null");
  for (int i = 0; i < 2; i++) OK(MXPredSetInput(p[i], "x", data, 50));
  OK(MXPredForward(p[0]));
  OK(MXPredGetOutput(p[0], 0, whole, 3));
  int left = -1, steps = 0;
  do {
    OK(MXPredPartialForward(p[1], steps++, &left));
  } while (left > 0 && steps < 100);
  CHECK(left == 0 && steps == 3);
  OK(MXPredPartialForward(p[1], 50, &left));
  CHECK(left == 0);
  REFUSED(MXPredPartialForward(p[1], -1, &left), "negative");
  OK(MXPredGetOutput(p[1], 0, stepped, 3));
  for (int i = 0; i < 3; i++) NEAR(stepped[i], whole[i]);
  OK(MXPredSetMonitorCallback(p[1], count, &monitored, false));
  OK(MXPredForward(p[1]));
  CHECK(monitored == 3);
  OK(MXPredSetMonitorCallback(p[1], NULL, NULL, false));
  REFUSED(MXPredSetMonitorCallback(s, count, NULL, false), "of kind Symbol");
  int dtype = -1;
  OK(MXPredGetOutputType(p[0], 0, &dtype));
  CHECK(dtype == 0);
  REFUSED(MXPredGetOutputType(p[0], 1, &dtype), "output 1 was requested");
  PredictorHandle typed = NULL;
  const char *typed_name = "x";
  const int type = 0;
  OK(MXPredCreateEx(json, bytes, (int)size, 1, 0, 1, &key, starts, dims, 1, &typed_name, &type, &typed));
  REFUSED(MXPredCreateEx(json, bytes, (int)size, 1, 0, 1, &key, starts, dims, 1, &typed_name, NULL, &typed), "null");
  OK(MXPredFree(typed));
  for (int i = 0; i < 2; i++) OK(MXPredFree(p[i]));
  for (int i = 0; i < 3; i++) OK(MXNDArrayFree(params[i]));
  OK(MXSymbolFree(s));
}

static void controller(int head, const char *body, void *handle) { CHECK(head + (body != NULL) + (handle != NULL) < 0); }

static void unsupported_functions_are_errors(void) {
  void *out = NULL;
  const char *text = "x", *wrt = "x";
  SymbolHandle s = network();
  REFUSED(MXSymbolGrad(s, 1, &wrt, &out), "no symbol of the gradients");
  REFUSED(MXRtcCreate(NULL, 0, 0, NULL, NULL, NULL, NULL, NULL, &out), "Please use CudaModule");
  REFUSED(MXRtcPush(NULL, 0, 0, NULL, NULL, 1, 1, 1, 1, 1, 1), "Please use CudaModule");
  REFUSED(MXRtcFree(NULL), "Please use CudaModule");
  REFUSED(MXRtcCudaModuleCreate("", 0, NULL, 0, NULL, &out), "USE_CUDA=1");
  REFUSED(MXRtcCudaModuleFree(NULL), "USE_CUDA=1");
  REFUSED(MXRtcCudaKernelCreate(NULL, "k", 0, NULL, NULL, NULL, &out), "USE_CUDA=1");
  REFUSED(MXRtcCudaKernelFree(NULL), "USE_CUDA=1");
  REFUSED(MXRtcCudaKernelCall(NULL, 0, NULL, 1, 1, 1, 1, 1, 1, 0), "USE_CUDA=1");
  REFUSED(MXLoadLib("/tmp/lib.so", 1), "Error loading library: '/tmp/lib.so'");
  REFUSED(MXTVMBridge(NULL), "DLPack");
  OK(MXInitPSEnv(1, &text, &text));
  KVStoreHandle store = NULL;
  OK(MXKVStoreCreate("local", &store));
  int number = -1;
  OK(MXKVStoreGetNumDeadNode(store, 1, &number, 60));
  CHECK(number == 0);
  OK(MXKVStoreSetBarrierBeforeExit(store, 1));
  OK(MXKVStoreRunServer(store, controller, NULL));
  OK(MXKVStoreSendCommmandToServers(store, 0, "x"));
  OK(MXKVStoreFree(store));
  REFUSED(MXKVStoreGetNumDeadNode(store, 1, &number, 60), "already disposed");
  REFUSED(MXKVStoreSetBarrierBeforeExit(store, 1), "already disposed");
  REFUSED(MXKVStoreRunServer(NULL, controller, NULL), "null");
  REFUSED(MXKVStoreSendCommmandToServers(store, 0, NULL), "cmd_body is null");
  OK(MXSymbolFree(s));
}

static void gradients_have_names(void) {
  OpHandle op = operator_named("_backward_Activation");
  const char *name = NULL, *text = NULL, **args = NULL, **types = NULL, **docs = NULL;
  uint32_t n = 1;
  OK(MXSymbolGetAtomicSymbolName(op, &name));
  CHECK(strcmp(name, "_backward_Activation") == 0);
  OK(NNGetOpInfo(op, &name, &text, &n, &args, &types, &docs, NULL));
  CHECK(n == 0);
  SymbolHandle s = NULL;
  REFUSED(MXSymbolCreateAtomicSymbol(op, 0, NULL, NULL, &s), "cannot be called by name");
  OK(MXSymbolGetAtomicSymbolName(operator_named("_plus"), &name));
  CHECK(strcmp(name, "elemwise_add") == 0);
  OK(NNGetOpInfo(operator_named("flatten"), &name, &text, &n, &args, &types, &docs, NULL));
  CHECK(strcmp(name, "Flatten") == 0 && n == 1 && strcmp(args[0], "data") == 0);
  REFUSED(NNGetOpInfo(NULL, &name, &text, &n, &args, &types, &docs, NULL), "is not an operator handle");
  const char **names = NULL;
  void **ops = NULL;
  uint32_t listed = 0, unique = 0;
  OK(NNListAllOpNames(&listed, &names));
  REFUSED(NNListAllOpNames(&listed, NULL), "null");
  OK(NNListUniqueOps(&unique, &ops));
  REFUSED(NNListUniqueOps(NULL, &ops), "null");
  CHECK(unique > 800 && listed > unique);
}

int main(void) {
  RUN(quantizes);
  RUN(reduces_precision);
  RUN(partitions);
  RUN(graphs_have_attributes);
  RUN(functions_are_run);
  RUN(predictors_run_step_by_step);
  RUN(unsupported_functions_are_errors);
  RUN(gradients_have_names);
  return failures != 0;
}
