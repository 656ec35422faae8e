/* RecordIO files, key-value stores, the profiler, arrays shared with other libraries and processes, packed functions. */
#include "check.h"

static void values_are(NDArrayHandle array, const float *want, size_t n) {
  float got[16];
  OK(MXNDArraySyncCopyToCPU(array, got, n));
  for (size_t i = 0; i < n; i++) NEAR(got[i], want[i]);
}

static void records_survive_a_round_trip(void) {
  char path[] = TEMPORARY_FILE;
  make_file(path, "");
  RecordIOHandle writer = NULL, reader = NULL;
  OK(MXRecordIOWriterCreate(path, &writer));
  const char magic[] = "\x0a\x23\xd7\xce\x0a\x23\xd7\xce";
  size_t second = 0, at = 0, size = 9;
  OK(MXRecordIOWriterWriteRecord(writer, magic, 8));
  OK(MXRecordIOWriterTell(writer, &second));
  OK(MXRecordIOWriterWriteRecord(writer, "abcde", 5));
  OK(MXRecordIOWriterWriteRecord(writer, NULL, 0));
  REFUSED(MXRecordIOWriterWriteRecord(writer, NULL, 3), "buf is null");
  OK(MXRecordIOWriterFree(writer));
  REFUSED(MXRecordIOWriterTell(writer, &at), "disposed");

  const char *record = NULL;
  OK(MXRecordIOReaderCreate(path, &reader));
  OK(MXRecordIOReaderReadRecord(reader, &record, &size));
  CHECK(size == 8 && memcmp(record, magic, 8) == 0);
  OK(MXRecordIOReaderTell(reader, &at));
  CHECK(at == second);
  OK(MXRecordIOReaderReadRecord(reader, &record, &size));
  CHECK(size == 5 && memcmp(record, "abcde", 5) == 0);
  OK(MXRecordIOReaderReadRecord(reader, &record, &size));
  CHECK(size == 0 && record != NULL);
  OK(MXRecordIOReaderReadRecord(reader, &record, &size));
  CHECK(size == 0 && record == NULL);
  OK(MXRecordIOReaderSeek(reader, second));
  OK(MXRecordIOReaderReadRecord(reader, &record, &size));
  CHECK(size == 5);
  OK(MXRecordIOReaderSeek(reader, 4));
  REFUSED(MXRecordIOReaderReadRecord(reader, &record, &size), "at byte 4, no record begins there");
  REFUSED(MXRecordIOWriterTell(reader, &at), "RecordIO writer was expected");
  OK(MXRecordIOReaderFree(reader));
  REFUSED(MXRecordIOReaderCreate("/does/not/exist", &reader), "/does/not/exist");
  remove(path);
}

static void subtract(int key, NDArrayHandle pushed, NDArrayHandle stored, void *calls) {
  CHECK(key == 3);
  ++*(int *)calls;
  NDArrayHandle inputs[] = {stored, pushed}, *outputs = &stored;
  int n = 1;
  OK(MXImperativeInvoke(operator_named("elemwise_sub"), 2, inputs, &n, &outputs, 0, NULL, NULL));
  OK(MXNDArrayFree(pushed));
  OK(MXNDArrayFree(stored));
}

static void stores_sum_and_update(void) {
  KVStoreHandle store = NULL;
  const char *kind = NULL;
  int size = 0, rank = 9, keys[] = {3, 3};
  OK(MXKVStoreCreate("local", &store));
  OK(MXKVStoreGetType(store, &kind));
  OK(MXKVStoreGetGroupSize(store, &size));
  OK(MXKVStoreGetRank(store, &rank));
  CHECK(strcmp(kind, "local") == 0 && size == 1 && rank == 0);
  const float ones[] = {1, 1}, twos[] = {2, 2}, zeros[] = {0, 0};
  NDArrayHandle values[] = {vector(ones, 2), vector(twos, 2)}, out = vector(zeros, 2);
  OK(MXKVStoreInit(store, 1, keys, values));
  REFUSED(MXKVStoreInit(store, 1, keys, values), "duplicate init of key");
  OK(MXKVStorePush(store, 2, keys, values, 0));
  OK(MXKVStorePull(store, 1, keys, &out, 0));
  values_are(out, (const float[]){3, 3}, 2);
  int calls = 0;
  OK(MXKVStoreSetUpdater(store, subtract, &calls));
  OK(MXKVStorePushPull(store, 1, keys, 1, keys, values, &out, 0));
  values_are(out, (const float[]){2, 2}, 2);
  CHECK(calls == 1);
  const char *name = "a";
  REFUSED(MXKVStoreInitEx(store, 1, &name, values), "Mixed key types are not allowed");
  KVStoreHandle other = NULL;
  REFUSED(MXKVStoreCreate("dist_async", &other), "are not supported");
  OK(MXKVStoreCreate("device", &other));
  OK(MXKVStoreBroadcastEx(other, 1, &name, 1, &name, values, &out, 0));
  values_are(out, ones, 2);
  const char *param = "type", *two_bits = "2bit";
  OK(MXKVStoreSetGradientCompression(other, 1, &param, &two_bits));
  OK(MXKVStorePushEx(other, 1, &name, values, 0));
  OK(MXKVStorePullEx(other, 1, &name, &out, 0));
  values_are(out, (const float[]){0.5, 0.5}, 2);
  OK(MXKVStoreFree(other));
  OK(MXKVStoreFree(store));
  for (int i = 0; i < 2; i++) OK(MXNDArrayFree(values[i]));
  OK(MXNDArrayFree(out));
}

static void profiles_are_written(void) {
  char path[] = TEMPORARY_FILE;
  make_file(path, "");
  const char *keys[] = {"filename", "profile_all", "aggregate_stats"}, *values[] = {path, "1", "1"};
  OK(MXSetProcessProfilerConfig(3, keys, values, NULL));
  OK(MXSetProfilerState(1));
  REFUSED(MXSetProcessProfilerState(1, 1, NULL), "no servers");
  const float ones[] = {1, 1};
  NDArrayHandle x = vector(ones, 2), *outputs = NULL;
  int n = 0;
  OK(MXImperativeInvoke(operator_named("exp"), 1, &x, &n, &outputs, 0, NULL, NULL));
  OK(MXNDArrayFree(outputs[0]));
  ProfileHandle domain = NULL, task = NULL, counter = NULL;
  OK(MXProfileCreateDomain("mine", &domain));
  OK(MXProfileCreateTask(domain, "work", &task));
  OK(MXProfileCreateCounter(domain, "items", &counter));
  OK(MXProfileDurationStart(task));
  OK(MXProfileDurationStop(task));
  OK(MXProfileDurationStop(task)); /* A task that was not started has length 0. */
  OK(MXProfileSetCounter(counter, 4));
  OK(MXProfileAdjustCounter(counter, -1));
  OK(MXProfileSetMarker(domain, "here", "process"));
  OK(MXSetProfilerState(0));
  const char *table = NULL;
  OK(MXAggregateProfileStatsPrint(&table, 1));
  CHECK(strstr(table, "\nexp ") && strstr(table, "\nwork ") && strstr(table, "\nMXImperativeInvoke "));
  OK(MXDumpProfile(1));
  char trace[1 << 16] = "";
  CHECK(take_file(path, trace, sizeof trace - 1) > 0);
  CHECK(strstr(trace, "\"traceEvents\"") && strstr(trace, "\"exp\"") && strstr(trace, "\"here\""));
  CHECK(strstr(trace, "\"items\":3") != NULL);
  ProfileHandle all[] = {task, counter, domain};
  for (int i = 0; i < 3; i++) OK(MXProfileDestroyHandle(all[i]));
  OK(MXNDArrayFree(x));
}

/* The tensor types of dlpack.h. */
typedef struct {
  void *data;
  int device_type, device_id, ndim;
  uint8_t dtype_code, dtype_bits;
  uint16_t dtype_lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} DLTensor;

typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;

static int given_back;

static void delete_tensor(DLManagedTensor *tensor) {
  CHECK(tensor->manager_ctx == &given_back);
  given_back++;
}

static void arrays_are_exchanged_by_dlpack(void) {
  const float numbers[] = {1, 2, 3, 4, 5, 6};
  uint32_t shape[] = {2, 3};
  NDArrayHandle array = floats(numbers, shape, 2), back = NULL;
  DLManagedTensorHandle passed = NULL;
  OK(MXNDArrayToDLPack(array, &passed));
  DLTensor *tensor = &((DLManagedTensor *)passed)->dl_tensor;
  CHECK(tensor->ndim == 2 && tensor->shape[1] == 3 && tensor->dtype_code == 2 && tensor->dtype_bits == 32);
  ((float *)tensor->data)[5] = 60;
  values_are(array, (const float[]){1, 2, 3, 4, 5, 60}, 6);
  OK(MXNDArrayFree(array));
  OK(MXNDArrayFromDLPack(passed, &back));
  values_are(back, (const float[]){1, 2, 3, 4, 5, 60}, 6);
  OK(MXNDArrayFree(back));

  float mine[] = {7, 8, 9, 10};
  int64_t dims[] = {2, 2}, strides[] = {1, 2};
  DLManagedTensor foreign = {{mine, 1, 0, 2, 2, 32, 1, dims, NULL, 0}, &given_back, delete_tensor};
  OK(MXNDArrayFromDLPackEx(&foreign, true, &back));
  mine[0] = 70;
  values_are(back, (const float[]){70, 8, 9, 10}, 4);
  CHECK(given_back == 0);
  OK(MXNDArrayFree(back));
  CHECK(given_back == 1);
  foreign.dl_tensor.strides = strides;
  REFUSED(MXNDArrayFromDLPackEx(&foreign, true, &back), "is not contiguous");
  foreign.dl_tensor.device_type = 2;
  REFUSED(MXNDArrayFromDLPackEx(&foreign, true, &back), "device type 2");
  REFUSED(MXNDArrayFromDLPack(NULL, &back), "null");
  OK(MXNDArrayCallDLPackDeleter(&foreign));
  CHECK(given_back == 2);
}

static void memory_is_shared_between_processes(void) {
  const float numbers[] = {1, 2, 3};
  uint32_t shape[] = {3}, wrong[] = {1 << 20};
  NDArrayHandle array = vector(numbers, 3), shared = NULL, other = NULL, none = NULL;
  int pid = 0, id = -1;
  OK(MXNDArrayCreateEx(shape, 1, 5, 0, 0, 0, &shared));
  OK(MXNDArraySyncCopyFromCPU(shared, numbers, 3));
  OK(MXNDArrayGetSharedMemHandle(shared, &pid, &id));
  CHECK(pid == getpid() && id >= 0);
  OK(MXNDArrayCreateFromSharedMem(pid, id, shape, 1, 0, &other));
  OK(MXNDArraySyncCopyFromCPU(shared, (const float[]){4, 5, 6}, 3));
  values_are(other, (const float[]){4, 5, 6}, 3);
  REFUSED(MXNDArrayCreateFromSharedMem(pid, id, wrong, 1, 0, &none), "the shared memory has 12 bytes");
  OK(MXNDArrayFree(shared));
  values_are(other, (const float[]){4, 5, 6}, 3);
  OK(MXNDArrayFree(other));
  OK(MXNDArrayGetSharedMemHandle(array, &pid, &id));
  OK(MXNDArrayCreateFromSharedMem(pid, id, shape, 1, 0, &other));
  close(id);
  values_are(other, numbers, 3);
  REFUSED(MXNDArrayCreateFromSharedMem(pid, -1, shape, 1, 0, &none), "descriptor");
  OK(MXNDArrayFree(other));
  OK(MXNDArrayFree(array));
}

static MXNetFunctionHandle function_named(const char *name) {
  MXNetFunctionHandle function = NULL;
  OK(MXNetFuncGetGlobal(name, &function));
  CHECK(function != NULL);
  return function;
}

static void packed_functions_run(void) {
  MXNetValue values[3], result;
  int codes[3] = {0, 0, 0}, code = -1, n = 0;
  values[0].v_int64 = 2;
  OK(MXNetFuncCall(function_named("_Integer"), values, codes, 1, &result, &code));
  CHECK(code == 8);
  MXNetObjectHandle two = result.v_handle;
  values[0].v_handle = values[1].v_handle = two;
  codes[0] = codes[1] = 8;
  OK(MXNetFuncCall(function_named("_ADT"), values, codes, 2, &result, &code));
  MXNetObjectHandle shape = values[0].v_handle = result.v_handle;
  values[1].v_str = "int32";
  codes[1] = 11;
  codes[2] = 4;
  OK(MXNetFuncCall(function_named("_npi.zeros"), values, codes, 3, &result, &code));
  CHECK(code == 14);
  const int *dims = NULL;
  OK(MXNDArrayGetShapeEx(result.v_handle, &n, &dims));
  CHECK(n == 2 && dims[0] == 2 && dims[1] == 2);
  OK(MXNDArrayGetDType(result.v_handle, &n));
  CHECK(n == 4);
  OK(MXNDArrayFree(result.v_handle));
  codes[2] = 0;
  REFUSED(MXNetFuncCall(function_named("_npi.zeros"), values, codes, 3, &result, &code), "a string was expected");
  REFUSED(MXNetFuncCall(function_named("_npi.zeros"), values, codes, 2, &result, &code), "3 arguments");
  REFUSED(MXNetFuncCall((MXNetFunctionHandle)99, values, codes, 2, &result, &code), "is not a packed function");
  OK(MXNetObjectFree(two));
  OK(MXNetObjectFree(shape));
  REFUSED(MXNetObjectFree(shape), "disposed");
  MXNetFunctionHandle none = &n;
  OK(MXNetFuncGetGlobal("nothing", &none));
  CHECK(none == NULL);
}

static void environment_and_backends(void) {
  const char *value = NULL;
  OK(MXSetEnv("FERROMX_CAPI_TEST", "yes"));
  OK(MXGetEnv("FERROMX_CAPI_TEST", &value));
  CHECK(value && strcmp(value, "yes") == 0);
  OK(MXSetEnv("FERROMX_CAPI_TEST", NULL));
  OK(MXGetEnv("FERROMX_CAPI_TEST", &value));
  CHECK(value == NULL);
  uint64_t free_bytes = 1, all = 1;
  REFUSED(MXGetGPUMemoryInformation64(0, &free_bytes, &all), "no GPU backend");
  SymbolHandle x = NULL, out = NULL;
  OK(MXSymbolCreateVariable("x", &x));
  REFUSED(MXGenBackendSubgraph(x, "ONEDNN", &out), "ONEDNN is not found");
  OK(MXSymbolRemoveAmpCast(x, &out));
  OK(MXSymbolFree(out));
  REFUSED(MXGenAtomicSymbolFromSymbol(x, &out), "is a variable");
  OK(MXSymbolFree(x));
}

int main(void) {
  RUN(records_survive_a_round_trip);
  RUN(stores_sum_and_update);
  RUN(profiles_are_written);
  RUN(arrays_are_exchanged_by_dlpack);
  RUN(memory_is_shared_between_processes);
  RUN(packed_functions_run);
  RUN(environment_and_backends);
  return failures != 0;
}
