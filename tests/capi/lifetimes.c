/* Results returned by pointer are valid until the same function is called again on the same thread; other calls do not affect them. */
#include <pthread.h>

#include "check.h"

static void texts_live_until_the_same_call(void) {
  SymbolHandle x = NULL, group = NULL;
  OK(MXSymbolCreateVariable("first", &x));
  OK(MXSymbolCreateGroup(1, &x, &group));
  const char *name = NULL, *json = NULL, **outputs = NULL, **arguments = NULL;
  uint32_t n = 0;
  int success = 0;
  OK(MXSymbolGetName(x, &name, &success));
  OK(MXSymbolListOutputs(group, &n, &outputs));
  OK(MXSymbolListArguments(group, &n, &arguments));
  OK(MXSymbolSaveToJSON(group, &json));
  OK(MXSymbolFree(x));
  OK(MXSymbolFree(group));
  CHECK(success == 1 && strcmp(name, "first") == 0);
  CHECK(strcmp(outputs[0], "first") == 0 && strcmp(arguments[0], "first") == 0);
  CHECK(strstr(json, "\"first\"") != NULL);
}

static void shapes_live_on(void) {
  const float values[] = {1, 2, 3, 4, 5, 6};
  const uint32_t shape[] = {2, 3};
  NDArrayHandle a = floats(values, shape, 2), b = vector(values, 6);
  int ndim = 0, other = 0;
  const int *dims = NULL;
  const int64_t *dims64 = NULL;
  OK(MXNDArrayGetShapeEx(a, &ndim, &dims));
  OK(MXNDArrayGetShapeEx64(b, &other, &dims64));
  OK(MXNDArrayFree(a));
  CHECK(ndim == 2 && dims[0] == 2 && dims[1] == 3 && other == 1 && dims64[0] == 6);
  OK(MXNDArrayFree(b));
}

static void files_and_bytes(void) {
  const float values[] = {1, 2, 3};
  NDArrayHandle a = vector(values, 3), again = NULL, *loaded = NULL;
  const char *bytes = NULL, *key = "arg:w", **names = NULL;
  char path[] = TEMPORARY_FILE;
  size_t size = 0;
  uint32_t n = 0, n_names = 0;
  OK(MXNDArraySaveRawBytes(a, &size, &bytes));
  OK(MXNDArrayFree(a));
  OK(MXNDArrayLoadFromRawBytes(bytes, size, &again));
  make_file(path, "");
  OK(MXNDArraySave(path, 1, &again, &key));
  OK(MXNDArrayLoad(path, &n, &loaded, &n_names, &names));
  remove(path);
  float got[3];
  OK(MXNDArraySyncCopyToCPU(loaded[0], got, 3));
  CHECK(n == 1 && n_names == 1 && strcmp(names[0], "arg:w") == 0 && memcmp(got, values, sizeof got) == 0);
  OK(MXNDArrayFree(loaded[0]));
  OK(MXNDArrayFree(again));
}

static void data_pointer_is_the_array(void) {
  const float values[] = {1, 2, 3, 4};
  const uint32_t shape[] = {2, 2};
  NDArrayHandle a = floats(values, shape, 2), row = NULL;
  float *p = NULL, got[2];
  OK(MXNDArrayAt(a, 1, &row));
  OK(MXNDArrayGetData(row, (void **)&p));
  CHECK(p[0] == 3 && (uintptr_t)(p - 2) % 64 == 0);
  p[1] = 40;
  OK(MXNDArraySyncCopyToCPU(row, got, 2));
  CHECK(got[1] == 40);
  OK(MXNDArrayFree(row));
  OK(MXNDArrayFree(a));
}

static void *fail_on_another_thread(void *unused) {
  int code;
  (void)unused;
  REFUSED(MXNDArrayCreate(NULL, 2, 1, 0, 0, &(NDArrayHandle){NULL}), "shape is null");
  return MXNDArrayGetDType((void *)-1, &code) == -1 ? NULL : &failures;
}

static void errors_belong_to_a_thread(void) {
  OpHandle op;
  REFUSED(NNGetOpHandle("NoSuchOperator", &op), "NoSuchOperator");
  pthread_t thread;
  void *result = NULL;
  CHECK(pthread_create(&thread, NULL, fail_on_another_thread, NULL) == 0 && pthread_join(thread, &result) == 0);
  CHECK(result == NULL && strstr(MXGetLastError(), "NoSuchOperator") != NULL);
  /* A successful call keeps the message. */
  int version = 0;
  OK(MXGetVersion(&version));
  CHECK(version == 10901 && strstr(MXGetLastError(), "NoSuchOperator") != NULL);
}

static void operators_describe_themselves(void) {
  uint32_t n = 0, args = 0;
  AtomicSymbolCreator *all = NULL;
  OK(MXSymbolListAtomicSymbolCreators(&n, &all));
  CHECK(n > 0);
  for (uint32_t i = 0; i < n; i++) {
    const char *name = NULL, *doc = NULL, **names = NULL, **types = NULL, **docs = NULL, *key = NULL, *returns = NULL;
    OK(MXSymbolGetAtomicSymbolInfo(all[i], &name, &doc, &args, &names, &types, &docs, &key, &returns));
    CHECK(*name != 0 && *doc != 0 && key != NULL && returns != NULL);
    for (uint32_t k = 0; k < args; k++) CHECK(*names[k] != 0 && *types[k] != 0 && *docs[k] != 0);
  }
}

static void outputs_survive_other_calls(void) {
  const float values[] = {1, 2};
  NDArrayHandle x = vector(values, 2), *outs = NULL;
  int n = 0, ndim = 0;
  const int *dims = NULL;
  const char *key = "scalar", *two = "2";
  OK(MXImperativeInvoke(operator_named("_mul_scalar"), 1, &x, &n, &outs, 1, &key, &two));
  OK(MXNDArrayGetShapeEx(x, &ndim, &dims));
  OK(MXNDArrayFree(x));
  float got[2];
  OK(MXNDArraySyncCopyToCPU(outs[0], got, 2));
  CHECK(n == 1 && got[0] == 2 && got[1] == 4);
  OK(MXNDArrayFree(outs[0]));
}

int main(void) {
  RUN(texts_live_until_the_same_call);
  RUN(shapes_live_on);
  RUN(files_and_bytes);
  RUN(data_pointer_is_the_array);
  RUN(errors_belong_to_a_thread);
  RUN(operators_describe_themselves);
  RUN(outputs_survive_other_calls);
  return failures != 0;
}
