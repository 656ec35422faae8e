/* Functions for arrays, executors, gradients, stores and settings that no other program here calls. */
#include "check.h"

static const float NUMBERS[] = {1, 2, 3, 4, 5, 6};

static int holds(NDArrayHandle x, const float *expected, size_t n) {
  float got[16];
  OK(MXNDArraySyncCopyToCPU(x, got, n));
  for (size_t i = 0; i < n; i++) {
    if (fabsf(got[i] - expected[i]) > 1e-5f) return 0;
  }
  return 1;
}

static void arrays_are_sliced_and_shared(void) {
  const uint32_t shape[] = {3, 2};
  NDArrayHandle x = floats(NUMBERS, shape, 2), made[6] = {NULL};
  int64_t dims[] = {2, -1};
  int device = 0, number = -1, type = 0, state = -1;
  OK(MXNDArraySlice64(x, 1, 3, &made[0]));
  CHECK(holds(made[0], NUMBERS + 2, 4));
  REFUSED(MXNDArraySlice64(x, 2, 9, &made[1]), "9");
  OK(MXNDArrayAt64(x, 2, &made[1]));
  CHECK(holds(made[1], NUMBERS + 4, 2));
  REFUSED(MXNDArrayAt64(x, 3, &made[2]), "3");
  OK(MXNDArrayReshape64(x, 2, dims, false, &made[2]));
  CHECK(holds(made[2], NUMBERS, 6));
  dims[0] = 4, dims[1] = 2;
  REFUSED(MXNDArrayReshape64(x, 2, dims, false, &made[3]), "(6 vs. 8) : target shape size is larger than the current shape");
  OK(MXShallowCopyNDArray(x, &made[3]));
  OK(MXNDArraySyncCopyFromCPU(x, NUMBERS, 6));
  CHECK(holds(made[3], NUMBERS, 6));
  REFUSED(MXShallowCopyNDArray(NULL, &made[4]), "null");
  OK(MXNDArrayDetach(x, &made[4]));
  REFUSED(MXNDArrayDetach(NULL, &made[5]), "null");
  OK(MXNDArrayGetContext(x, &device, &number));
  CHECK(device == 1 && number == 0);
  REFUSED(MXNDArrayGetContext(x, NULL, &number), "null");
  OK(MXNDArrayGetGradState(x, &state));
  CHECK(state == 0);
  REFUSED(MXNDArrayGetGradState(NULL, &state), "null");
  OK(MXNDArrayWaitToRead(x));
  OK(MXNDArrayWaitToWrite(x));
  OK(MXNDArrayWaitAll());
  REFUSED(MXNDArrayWaitToRead(NULL), "null");
  REFUSED(MXNDArrayWaitToWrite(NULL), "null");
  char path[] = TEMPORARY_FILE;
  const char *key = "x", **names = NULL;
  char bytes[512];
  make_file(path, "");
  OK(MXNDArraySave(path, 1, &x, &key));
  size_t size = take_file(path, bytes, sizeof bytes);
  NDArrayHandle *loaded = NULL;
  uint32_t n = 0, num_names = 0;
  OK(MXNDArrayLoadFromBuffer(bytes, size, &n, &loaded, &num_names, &names));
  CHECK(n == 1 && num_names == 1 && strcmp(names[0], "x") == 0 && holds(loaded[0], NUMBERS, 6));
  OK(MXNDArrayFree(loaded[0]));
  REFUSED(MXNDArrayLoadFromBuffer(bytes, size / 2, &n, &loaded, &num_names, &names), "");
  OK(MXNDArrayGetDType(x, &type));
  for (int i = 0; i < 5; i++) OK(MXNDArrayFree(made[i]));
  OK(MXNDArrayFree(x));
}

static void indices_without_coordinates_select_the_array(void) {
  const uint32_t shape[] = {0, 2};
  const float twice[] = {1, 2, 3, 1, 2, 3};
  NDArrayHandle ins[] = {vector(NUMBERS, 3), NULL}, *out = NULL;
  int n = 0, was = 0;
  OK(MXSetIsNumpyShape(1, &was));
  OK(MXNDArrayCreateEx(shape, 2, 1, 0, 0, 0, &ins[1]));
  OK(MXImperativeInvoke(operator_named("gather_nd"), 2, ins, &n, &out, 0, NULL, NULL));
  CHECK(n == 1 && holds(out[0], twice, 6));
  NDArrayHandle gathered = out[0], pair[] = {gathered, ins[1]};
  const char *key = "shape", *value = "(3,)";
  n = 0;
  out = NULL;
  OK(MXImperativeInvoke(operator_named("scatter_nd"), 2, pair, &n, &out, 1, &key, &value));
  CHECK(n == 1 && holds(out[0], NUMBERS, 3));
  OK(MXNDArrayFree(out[0]));
  OK(MXNDArrayFree(gathered));
  for (int i = 0; i < 2; i++) OK(MXNDArrayFree(ins[i]));
  OK(MXSetIsNumpyShape(was, &was));
}

static void arrays_are_shared_between_processes(void) {
  const uint32_t shape[] = {6};
  const int dims[] = {6};
  NDArrayHandle x = floats(NUMBERS, shape, 1), other = NULL;
  int process = 0, id = 0;
  OK(MXNDArrayGetSharedMemHandle(x, &process, &id));
  OK(MXNDArrayCreateFromSharedMemEx(process, id, dims, 1, 0, &other));
  CHECK(holds(other, NUMBERS, 6));
  REFUSED(MXNDArrayCreateFromSharedMemEx(process, id, dims, -1, 0, &other), "-1");
  OK(MXNDArrayFree(other));
  OK(MXNDArrayFree(x));
}

static void sparse_arrays_have_components(void) {
  const uint32_t shape[] = {4, 2}, aux_shape[] = {2}, values_shape[] = {2, 2};
  const int64_t shape64[] = {4, 2}, aux_shape64[] = {2};
  uint32_t aux_ndims[] = {1};
  int aux_type[] = {6}, aux_ndims64[] = {1}, type = -1;
  NDArrayHandle x = NULL, y = NULL, part = NULL, rows = NULL, values = floats(NUMBERS, values_shape, 2);
  const int64_t which[] = {0, 3};
  OK(MXNDArrayCreateSparseEx(1, shape, 2, 1, 0, 0, 0, 1, aux_type, aux_ndims, aux_shape, &x));
  OK(MXNDArrayCreateSparseEx64(1, shape64, 2, 1, 0, 0, 0, 1, aux_type, aux_ndims64, aux_shape64, &y));
  REFUSED(MXNDArrayCreateSparseEx(9, shape, 2, 1, 0, 0, 0, 1, aux_type, aux_ndims, aux_shape, &part), "9");
  REFUSED(MXNDArrayCreateSparseEx64(9, shape64, 2, 1, 0, 0, 0, 1, aux_type, aux_ndims64, aux_shape64, &part), "9");
  OK(MXNDArrayCreateEx(aux_shape, 1, 1, 0, 0, 6, &rows));
  OK(MXNDArraySyncCopyFromCPU(rows, which, 2));
  OK(MXNDArraySyncCopyFromNDArray(x, values, -1));
  OK(MXNDArraySyncCopyFromNDArray(x, rows, 0));
  REFUSED(MXNDArraySyncCopyFromNDArray(x, rows, 7), "7");
  OK(MXNDArraySyncCheckFormat(x, true));
  REFUSED(MXNDArraySyncCheckFormat(NULL, true), "null");
  OK(MXNDArrayGetAuxType(x, 0, &type));
  CHECK(type == 6);
  OK(MXNDArrayGetAuxType64(x, 0, &type));
  CHECK(type == 6);
  REFUSED(MXNDArrayGetAuxType(x, 3, &type), "3");
  REFUSED(MXNDArrayGetAuxType64(x, 3, &type), "3");
  OK(MXNDArrayGetAuxNDArray(x, 0, &part));
  OK(MXNDArrayFree(part));
  OK(MXNDArrayGetAuxNDArray64(x, 0, &part));
  int64_t got[2];
  OK(MXNDArraySyncCopyToCPU(part, got, 2));
  CHECK(got[0] == 0 && got[1] == 3);
  OK(MXNDArrayFree(part));
  REFUSED(MXNDArrayGetAuxNDArray(x, 3, &part), "3");
  REFUSED(MXNDArrayGetAuxNDArray64(x, -1, &part), "-1");
  OK(MXNDArrayGetDataNDArray(x, &part));
  CHECK(holds(part, NUMBERS, 4));
  OK(MXNDArrayFree(part));
  REFUSED(MXNDArrayGetDataNDArray(NULL, &part), "null");
  /* Pull rows of a store. */
  KVStoreHandle store = NULL;
  const char *name = "k";
  const int key = 3;
  NDArrayHandle out = NULL;
  OK(MXNDArrayCreateSparseEx(1, shape, 2, 1, 0, 0, 0, 1, aux_type, aux_ndims, aux_shape, &out));
  OK(MXKVStoreCreate("local", &store));
  OK(MXKVStoreInitEx(store, 1, &name, &x));
  OK(MXKVStorePullRowSparseEx(store, 1, &name, &out, &rows, 0));
  OK(MXNDArrayGetDataNDArray(out, &part));
  CHECK(holds(part, NUMBERS, 4));
  OK(MXNDArrayFree(part));
  OK(MXKVStorePullWithSparseEx(store, 1, &name, &out, 0, false));
  REFUSED(MXKVStorePullWithSparseEx(store, 1, NULL, &out, 0, false), "keys is null");
  REFUSED(MXKVStorePullRowSparseEx(store, 1, &name, &out, NULL, 0), "row_ids is null");
  OK(MXKVStoreFree(store));
  OK(MXKVStoreCreate("local", &store));
  OK(MXKVStoreInit(store, 1, &key, &x));
  OK(MXKVStorePullRowSparse(store, 1, &key, &out, &rows, 0));
  OK(MXKVStorePullWithSparse(store, 1, &key, &out, 0, false));
  REFUSED(MXKVStorePullRowSparse(NULL, 1, &key, &out, &rows, 0), "null");
  REFUSED(MXKVStorePullWithSparse(NULL, 1, &key, &out, 0, false), "null");
  OK(MXKVStoreFree(store));
  NDArrayHandle all[] = {x, y, rows, values, out};
  for (int i = 0; i < 5; i++) OK(MXNDArrayFree(all[i]));
}

static int updates;

static void add_by_number(int key, NDArrayHandle pushed, NDArrayHandle stored, void *data) {
  CHECK(key == 7 && data == &updates);
  updates++;
  OK(MXNDArrayFree(pushed));
  OK(MXNDArrayFree(stored));
}

static void add_by_name(const char *key, NDArrayHandle pushed, NDArrayHandle stored, void *data) {
  CHECK(strcmp(key, "k") == 0 && data == &updates);
  updates += 10;
  OK(MXNDArrayFree(pushed));
  OK(MXNDArrayFree(stored));
}

static void stores_know_their_process(void) {
  int is = -1;
  OK(MXKVStoreIsWorkerNode(&is));
  CHECK(is == 1);
  OK(MXKVStoreIsServerNode(&is));
  CHECK(is == 0);
  OK(MXKVStoreIsSchedulerNode(&is));
  CHECK(is == 0);
  REFUSED(MXKVStoreIsWorkerNode(NULL), "null");
  REFUSED(MXKVStoreIsServerNode(NULL), "null");
  REFUSED(MXKVStoreIsSchedulerNode(NULL), "null");
  KVStoreHandle store = NULL;
  NDArrayHandle x = vector(NUMBERS, 2), out = vector(NUMBERS + 2, 2);
  const char *name = "k";
  const int key = 7;
  OK(MXKVStoreCreate("local", &store));
  OK(MXKVStoreBroadcast(store, 1, &key, 1, &key, &x, &out, 0));
  CHECK(holds(out, NUMBERS, 2));
  REFUSED(MXKVStoreBroadcast(store, 1, &key, 1, &key, NULL, &out, 0), "vals is null");
  OK(MXKVStoreSetUpdaterEx(store, add_by_number, add_by_name, &updates));
  REFUSED(MXKVStoreSetUpdaterEx(NULL, add_by_number, add_by_name, &updates), "null");
  OK(MXKVStorePush(store, 1, &key, &x, 0));
  CHECK(updates == 1);
  OK(MXKVStoreFree(store));
  OK(MXKVStoreCreate("local", &store));
  OK(MXKVStoreInitEx(store, 1, &name, &x));
  OK(MXKVStoreSetUpdaterEx(store, add_by_number, add_by_name, &updates));
  OK(MXKVStorePushPullEx(store, 1, &name, 1, &name, &x, &out, 0));
  CHECK(updates == 11 && holds(out, NUMBERS, 2));
  REFUSED(MXKVStorePushPullEx(store, 1, &name, 1, NULL, &x, &out, 0), "keys is null");
  OK(MXKVStoreBarrier(store));
  OK(MXKVStoreFree(store));
  REFUSED(MXKVStoreBarrier(store), "already disposed");
  OK(MXNDArrayFree(x));
  OK(MXNDArrayFree(out));
}

static void gradients_are_returned(void) {
  bool is = true;
  int before = -1;
  OK(MXAutogradIsRecording(&is));
  CHECK(!is);
  REFUSED(MXAutogradIsRecording(NULL), "null");
  OK(MXAutogradSetIsTraining(1, &before));
  CHECK(before == 0);
  OK(MXAutogradIsTraining(&is));
  CHECK(is);
  REFUSED(MXAutogradIsTraining(NULL), "null");
  REFUSED(MXAutogradSetIsTraining(1, NULL), "null");
  OK(MXAutogradSetIsRecording(1, &before));
  NDArrayHandle x = vector(NUMBERS, 2), grad = vector(NUMBERS + 2, 2), *out = NULL, *found = NULL;
  uint32_t write = 1;
  int n = 0, *types = NULL;
  OK(MXAutogradMarkVariables(1, &x, &write, &grad));
  OK(MXImperativeInvoke(operator_named("square"), 1, &x, &n, &out, 0, NULL, NULL));
  NDArrayHandle y = out[0];
  OK(MXAutogradBackwardEx(1, &y, NULL, 1, &x, 1, 0, 1, &found, &types));
  const float twice[] = {2, 4};
  CHECK(holds(found[0], twice, 2) && types[0] == 0);
  OK(MXNDArrayFree(found[0]));
  REFUSED(MXAutogradBackwardEx(1, NULL, NULL, 1, &x, 1, 0, 1, &found, &types), "null");
  OK(MXAutogradComputeGradient(1, &y));
  CHECK(holds(grad, twice, 2));
  REFUSED(MXAutogradComputeGradient(1, NULL), "null");
  OK(MXAutogradSetIsRecording(0, &before));
  OK(MXAutogradSetIsTraining(0, &before));
  NDArrayHandle all[] = {x, y, grad};
  for (int i = 0; i < 3; i++) OK(MXNDArrayFree(all[i]));
}

static int seen;

static void collect_name(const char *name, NDArrayHandle array, void *data) {
  CHECK(name[0] != 0 && data == &seen);
  OK(MXNDArrayFree(array));
  seen++;
}

static void executors_are_bound_in_all_ways(void) {
  SymbolHandle x = NULL, s;
  OK(MXSymbolCreateVariable("x", &x));
  s = node("square", "y", NULL, NULL, &x, 1);
  NDArrayHandle arg = vector(NUMBERS, 2), grad = vector(NUMBERS, 2), head = vector(NUMBERS + 1, 2), *out = NULL;
  uint32_t write = 1, n = 0, aux = 0;
  ExecutorHandle e[5] = {NULL};
  const char *group = "g", *key = "x";
  const int cpu = 1, first = 0;
  OK(MXExecutorBindX(s, 1, 0, 1, &group, &cpu, &first, 1, &arg, &grad, &write, 0, NULL, &e[0]));
  REFUSED(MXExecutorBindX(s, 1, 0, 1, &group, NULL, &first, 1, &arg, &grad, &write, 0, NULL, &e[1]), "null");
  OK(MXExecutorBindEX(s, 1, 0, 0, NULL, NULL, NULL, 1, &arg, &grad, &write, 0, NULL, e[0], &e[1]));
  REFUSED(MXExecutorBindEX(s, 1, 0, 0, NULL, NULL, NULL, 2, &arg, NULL, &write, 0, NULL, NULL, &e[2]), "");
  OK(MXExecutorSetMonitorCallbackEX(e[0], collect_name, &seen, true));
  REFUSED(MXExecutorSetMonitorCallbackEX(NULL, collect_name, &seen, true), "null");
  OK(MXExecutorForward(e[0], 1));
  CHECK(seen == 3);
  OK(MXExecutorBackwardEx(e[0], 1, &head, 1));
  const float expected[] = {4, 12};
  CHECK(holds(grad, expected, 2));
  REFUSED(MXExecutorBackwardEx(NULL, 1, &head, 1), "null");
  SymbolHandle same = NULL;
  OK(MXExecutorGetOptimizedSymbol(e[0], &same));
  REFUSED(MXExecutorGetOptimizedSymbol(NULL, &same), "null");
  OK(MXSymbolFree(same));
  const uint32_t dims[] = {1}, starts[] = {0, 1};
  const int64_t dims64[] = {3};
  NDArrayHandle *args = NULL, *grads = NULL, *states = NULL;
  OK(MXExecutorReshape(1, 0, 1, 0, 0, NULL, NULL, NULL, 1, &key, dims, starts, &n, &args, &grads, &aux, &states, e[0], &e[2]));
  CHECK(n == 1 && aux == 0);
  for (uint32_t i = 0; i < n; i++) {
    OK(MXNDArrayFree(args[i]));
    if (grads[i]) OK(MXNDArrayFree(grads[i]));
  }
  REFUSED(MXExecutorReshape(1, 0, 1, 0, 0, NULL, NULL, NULL, 1, &key, dims, starts, &n, &args, &grads, &aux, &states, NULL, &e[3]),
          "null");
#define BIND(f, dims, to)                                                                                                       \
  f(s, 1, 0, 0, NULL, NULL, NULL, 0, NULL, NULL, 1, &key, dims, starts, 0, NULL, NULL, 0, NULL, NULL, 0, NULL, NULL, NULL, NULL, \
    NULL, NULL, &n, &args, &grads, &aux, &states, NULL, to)
  OK(BIND(MXExecutorSimpleBind, dims, &e[3]));
  for (uint32_t i = 0; i < n; i++) {
    OK(MXNDArrayFree(args[i]));
    if (grads[i]) OK(MXNDArrayFree(grads[i]));
  }
  OK(BIND(MXExecutorSimpleBindEx64, dims64, &e[4]));
  for (uint32_t i = 0; i < n; i++) {
    OK(MXNDArrayFree(args[i]));
    if (grads[i]) OK(MXNDArrayFree(grads[i]));
  }
  OK(MXExecutorForward(e[4], 0));
  OK(MXExecutorOutputs(e[4], &n, &out));
  const float zeros[] = {0, 0, 0};
  CHECK(n == 1 && holds(out[0], zeros, 3));
  OK(MXNDArrayFree(out[0]));
  REFUSED(BIND(MXExecutorSimpleBind, NULL, &e[4]), "null");
  REFUSED(BIND(MXExecutorSimpleBindEx64, NULL, &e[4]), "null");
  for (int i = 0; i < 5; i++) OK(MXExecutorFree(e[i]));
  CachedOpHandle op = NULL;
  OK(MXCreateCachedOpEX(s, 0, NULL, NULL, &op, true));
  REFUSED(MXCreateCachedOpEX(NULL, 0, NULL, NULL, &op, true), "null");
  OK(MXFreeCachedOp(op));
  NDArrayHandle all[] = {arg, grad, head};
  for (int i = 0; i < 3; i++) OK(MXNDArrayFree(all[i]));
  OK(MXSymbolFree(x));
  OK(MXSymbolFree(s));
}

static void the_library_is_set_up(void) {
  const struct LibFeature *features = NULL;
  size_t num_features = 0;
  int before = -1, gpus = -1, free_memory, all_memory, n = 0;
  const char **names = NULL;
  OK(MXLibInfoFeatures(&features, &num_features));
  CHECK(num_features > 20 && strcmp(features[0].name, "CUDA") == 0 && !features[0].enabled);
  REFUSED(MXLibInfoFeatures(NULL, &num_features), "null");
  OK(MXRandomSeed(3));
  OK(MXRandomSeedContext(3, 1, 0));
  REFUSED(MXRandomSeedContext(3, 99, 0), "99");
  OK(MXSetNumOMPThreads(2));
  REFUSED(MXSetNumOMPThreads(-2), "-2");
  OK(MXEngineSetBulkSize(5, &before));
  CHECK(before == 0);
  OK(MXEngineSetBulkSize(0, &before));
  CHECK(before == 5);
  REFUSED(MXEngineSetBulkSize(0, NULL), "null");
  OK(MXGetGPUCount(&gpus));
  CHECK(gpus == 0);
  REFUSED(MXGetGPUCount(NULL), "null");
  REFUSED(MXGetGPUMemoryInformation(0, &free_memory, &all_memory), "GPU");
  OK(MXStorageEmptyCache(1, 0));
  REFUSED(MXStorageEmptyCache(99, 0), "99");
  OK(MXNetFuncListGlobalNames(&n, &names));
  CHECK(n == 5);
  REFUSED(MXNetFuncListGlobalNames(NULL, &names), "null");
  REFUSED(MXNetFuncFree(NULL), "packed function");
}

static void profiles_have_all_marks(void) {
  char path[] = TEMPORARY_FILE;
  const char *text = NULL;
  const char *keys[] = {"filename", "aggregate_stats"}, *values[] = {path, "1"}, *bad = "profile_none";
  ProfileHandle domain = NULL, frame = NULL, event = NULL;
  make_file(path, "");
  OK(MXSetProfilerConfig(2, keys, values));
  REFUSED(MXSetProfilerConfig(1, &bad, values), "profile_none");
  REFUSED(MXDumpProcessProfile(1, 0, NULL), "Profiler hasn't been run");
  OK(MXSetProfilerState(1));
  OK(MXProfileCreateDomain("d", &domain));
  OK(MXProfileCreateFrame(domain, "frame", &frame));
  REFUSED(MXProfileCreateFrame(NULL, "frame", &event), "null");
  OK(MXProfileCreateEvent("event", &event));
  REFUSED(MXProfileCreateEvent(NULL, &event), "event_name is null");
  OK(MXProfileDurationStart(frame));
  OK(MXProfileDurationStop(frame));
  OK(MXProfilePause(1));
  OK(MXProfileDurationStart(event));
  OK(MXProfileDurationStop(event));
  OK(MXProcessProfilePause(0, 0, NULL));
  REFUSED(MXProcessProfilePause(0, 1, NULL), "no servers");
  OK(MXProfilePause(0));
  OK(MXSetProfilerState(0));
  OK(MXAggregateProfileStatsPrintEx(&text, 0, 1, 4, 1));
  CHECK(strstr(text, "\"d,frame\"") && strstr(text, "\"frame\"") && !strstr(text, "\"event\""));
  REFUSED(MXAggregateProfileStatsPrintEx(&text, 0, 7, 4, 1), "format 7");
  OK(MXDumpProcessProfile(1, 0, NULL));
  REFUSED(MXDumpProcessProfile(1, 1, NULL), "no servers");
  OK(MXProfileDestroyHandle(frame));
  OK(MXProfileDestroyHandle(event));
  OK(MXProfileDestroyHandle(domain));
  remove(path);
}

int main(void) {
  RUN(arrays_are_sliced_and_shared);
  RUN(indices_without_coordinates_select_the_array);
  RUN(arrays_are_shared_between_processes);
  RUN(sparse_arrays_have_components);
  RUN(stores_know_their_process);
  RUN(gradients_are_returned);
  RUN(executors_are_bound_in_all_ways);
  RUN(the_library_is_set_up);
  RUN(profiles_have_all_marks);
  OK(MXNotifyShutdown());
  return failures != 0;
}
