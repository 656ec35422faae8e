/* Invalid arguments of every kind: each one is an error with a message, and the process continues. */
#include "check.h"

static float numbers[6] = {1, 2, 3, 4, 5, 6};
static const uint32_t two_by_three[] = {2, 3};

static void null_handles(void) {
  int code;
  void *p;
  uint32_t n;
  const char **names;
  REFUSED(MXNDArrayGetDType(NULL, &code), "null");
  REFUSED(MXNDArrayGetData(NULL, &p), "null");
  REFUSED(MXNDArraySyncCopyToCPU(NULL, numbers, 6), "null");
  REFUSED(MXSymbolListArguments(NULL, &n, &names), "null");
  REFUSED(MXExecutorForward(NULL, 0), "null");
  REFUSED(MXDataIterNext(NULL, &code), "null");
  REFUSED(MXAutogradBackward(1, &(NDArrayHandle){NULL}, NULL, 0), "null");
  /* Freeing null is ignored, as by free(). */
  OK(MXNDArrayFree(NULL));
  OK(MXSymbolFree(NULL));
  OK(MXExecutorFree(NULL));
}

static void foreign_handles(void) {
  int code, local = 0;
  NDArrayHandle out;
  REFUSED(MXNDArrayGetDType(&local, &code), "is not a handle of kind NDArray");
  REFUSED(MXNDArrayGetDType(numbers, &code), "is not a handle of kind NDArray");
  REFUSED(MXNDArrayGetDType((void *)-1, &code), "is not a handle of kind NDArray");
  REFUSED(MXNDArrayFree((void *)0x7fffffff), "is not a handle of kind NDArray");
  REFUSED(MXSymbolFree(&local), "is not a handle of kind Symbol");
  REFUSED(MXExecutorForward(&local, 0), "is not a handle of kind Executor");
  const char *name;
  REFUSED(MXSymbolGetAtomicSymbolName(&local, &name), "is not an operator handle");
  REFUSED(MXSymbolCreateAtomicSymbol(NULL, 0, NULL, NULL, &out), "is not an operator handle");
  REFUSED(MXDataIterCreateIter(&local, 0, NULL, NULL, &out), "is not a kind of data iterator");
}

static void freed_and_wrong_kinds(void) {
  int code;
  NDArrayHandle array = floats(numbers, two_by_three, 2), view = NULL;
  SymbolHandle variable = NULL;
  OK(MXSymbolCreateVariable("x", &variable));
  REFUSED(MXNDArrayGetDType(variable, &code), "of kind Symbol");
  REFUSED(MXExecutorForward(array, 0), "of kind NDArray");
  REFUSED(MXSymbolFree(array), "of kind NDArray");
  OK(MXNDArraySlice(array, 0, 1, &view));
  OK(MXNDArrayFree(array));
  REFUSED(MXNDArrayGetDType(array, &code), "disposed");
  REFUSED(MXNDArrayFree(array), "disposed");
  /* A later array does not reuse the freed handle. */
  NDArrayHandle next = floats(numbers, two_by_three, 2);
  CHECK(next != array);
  REFUSED(MXNDArrayGetDType(array, &code), "disposed");
  /* A view keeps the memory alive. */
  float row[3];
  OK(MXNDArraySyncCopyToCPU(view, row, 3));
  CHECK(row[0] == 1 && row[2] == 3);
  OK(MXNDArrayFree(next));
  OK(MXNDArrayFree(view));
  OK(MXSymbolFree(variable));
}

static void null_pointers(void) {
  NDArrayHandle array = floats(numbers, two_by_three, 2), out;
  REFUSED(MXNDArrayGetDType(array, NULL), "out_dtype is null");
  REFUSED(MXNDArrayCreate(NULL, 2, 1, 0, 0, &out), "shape is null");
  REFUSED(MXNDArrayCreate(two_by_three, 2, 1, 0, 0, NULL), "out is null");
  REFUSED(MXNDArraySyncCopyToCPU(array, NULL, 6), "data is null");
  REFUSED(MXNDArraySyncCopyFromCPU(array, NULL, 6), "data is null");
  REFUSED(NNGetOpHandle(NULL, &out), "op_name is null");
  REFUSED(MXSymbolCreateVariable(NULL, &out), "name is null");
  REFUSED(MXSymbolCreateFromJSON(NULL, &out), "json is null");
  REFUSED(MXGetVersion(NULL), "null");
  REFUSED(MXListAllOpNames(NULL, NULL), "null");
  int n = 0;
  NDArrayHandle *outputs = NULL;
  REFUSED(MXImperativeInvoke(operator_named("elemwise_add"), 2, NULL, &n, &outputs, 0, NULL, NULL), "inputs is null");
  REFUSED(MXImperativeInvoke(operator_named("elemwise_add"), -2, &array, &n, &outputs, 0, NULL, NULL), "negative");
  OK(MXNDArrayFree(array));
}

static void wrong_sizes_and_codes(void) {
  NDArrayHandle array = floats(numbers, two_by_three, 2), out;
  int dims[] = {4, 4};
  const int64_t huge[] = {(int64_t)1 << 40, (int64_t)1 << 40}, negative[] = {-2, 3};
  REFUSED(MXNDArraySyncCopyToCPU(array, numbers, 5), "6 elements");
  REFUSED(MXNDArraySyncCopyFromCPU(array, numbers, 7), "6 elements");
  REFUSED(MXNDArraySlice(array, 1, 3, &out), "outside");
  REFUSED(MXNDArraySlice(array, 2, 1, &out), "slice");
  REFUSED(MXNDArrayAt(array, 2, &out), "outside");
  REFUSED(MXNDArrayReshape(array, 2, dims, &out), "reshape");
  REFUSED(MXNDArrayCreateEx64(huge, 2, 1, 0, 0, 0, &out), "");
  REFUSED(MXNDArrayCreateEx64(negative, 2, 1, 0, 0, 0, &out), "negative");
  REFUSED(MXNDArrayCreateEx(two_by_three, 2, 1, 0, 0, 77, &out), "type code 77");
  REFUSED(MXNDArrayCreate(two_by_three, 2, 2, 0, 0, &out), "gpu(0)");
  REFUSED(MXNDArrayCreate(two_by_three, 2, 9, 0, 0, &out), "device type 9");
  REFUSED(MXNDArrayLoad("no/such/file", &(uint32_t){0}, &(NDArrayHandle *){NULL}, &(uint32_t){0}, &(const char **){NULL}),
          "no/such/file");
  REFUSED(MXNDArrayLoadFromRawBytes(numbers, 3, &out), "");
  REFUSED(MXNDArraySetGradState(array, 1), "MXAutogradMarkVariables");
  REFUSED(MXAutogradBackward(1, &array, NULL, 0), "not in a computational graph");
  OK(MXNDArrayFree(array));
}

static void operators_and_graphs(void) {
  OpHandle op;
  SymbolHandle s = NULL, x = NULL;
  REFUSED(NNGetOpHandle("NoSuchOperator", &op), "NoSuchOperator");
  const char *key = "num_hidden", *value = "many", *unknown = "no_such_parameter", *five = "5";
  REFUSED(MXSymbolCreateAtomicSymbol(operator_named("FullyConnected"), 1, &key, &value, &s), "num_hidden");
  REFUSED(MXSymbolCreateAtomicSymbol(operator_named("FullyConnected"), 1, &unknown, &five, &s), "no_such_parameter");
  REFUSED(MXSymbolCreateFromJSON("{\"nodes\": 3", &s), "");
  OK(MXSymbolCreateVariable("x", &x));
  OK(MXSymbolCreateAtomicSymbol(operator_named("FullyConnected"), 1, &key, &five, &s));
  const char *wrong = "nothing";
  REFUSED(MXSymbolCompose(s, "fc", 1, &wrong, &x), "nothing");
  OK(MXSymbolCompose(s, "fc", 1, NULL, &x));
  SymbolHandle part = NULL;
  REFUSED(MXSymbolGetOutput(s, 3, &part), "output 3");
  const float values[] = {1, 2};
  NDArrayHandle a = vector(numbers, 3), b = vector(values, 2), ins[] = {a, b}, *outs = NULL;
  int n = 0;
  REFUSED(MXImperativeInvoke(operator_named("elemwise_add"), 2, ins, &n, &outs, 0, NULL, NULL), "elemwise_add");
  CHECK(n == 0 && outs == NULL);
  REFUSED(MXImperativeInvoke(operator_named("elemwise_add"), 1, ins, &n, &outs, 0, NULL, NULL), "elemwise_add");
  uint32_t reqs[3] = {1, 1, 1};
  NDArrayHandle args[3] = {a, a, a};
  ExecutorHandle executor = NULL;
  REFUSED(MXExecutorBind(s, 1, 0, 1, args, NULL, reqs, 0, NULL, &executor), "");
  REFUSED(MXExecutorBind(s, 1, 0, 3, args, NULL, reqs, 0, NULL, &executor), "");
  CHECK(executor == NULL);
  OK(MXNDArrayFree(a));
  OK(MXNDArrayFree(b));
  OK(MXSymbolFree(s));
  OK(MXSymbolFree(x));
}

static void not_a_number_is_a_value(void) {
  const float values[] = {NAN, INFINITY, 1};
  NDArrayHandle x = vector(values, 3), *outs = NULL;
  const char *key = "scalar", *one = "1", *nan = "nan";
  int n = 0;
  OK(MXImperativeInvoke(operator_named("_plus_scalar"), 1, &x, &n, &outs, 1, &key, &one));
  float got[3];
  OK(MXNDArraySyncCopyToCPU(outs[0], got, 3));
  CHECK(isnan(got[0]) && isinf(got[1]) && got[2] == 2);
  OK(MXNDArrayFree(outs[0]));
  outs = NULL;
  OK(MXImperativeInvoke(operator_named("_plus_scalar"), 1, &x, &n, &outs, 1, &key, &nan));
  OK(MXNDArraySyncCopyToCPU(outs[0], got, 3));
  CHECK(isnan(got[0]) && isnan(got[1]) && isnan(got[2]));
  OK(MXNDArrayFree(outs[0]));
  OK(MXNDArrayFree(x));
}

static void empty_arrays(void) {
  NDArrayHandle none = NULL;
  int code = 9, stype = 9, ndim = 9;
  const int *dims;
  OK(MXNDArrayCreateNone(&none));
  OK(MXNDArrayGetDType(none, &code));
  OK(MXNDArrayGetStorageType(none, &stype));
  OK(MXNDArrayGetShapeEx(none, &ndim, &dims));
  CHECK(code == -1 && stype == -1 && ndim == 0);
  REFUSED(MXNDArraySyncCopyToCPU(none, numbers, 0), "empty");
  /* Writing to the array sets its shape and memory. */
  NDArrayHandle x = floats(numbers, two_by_three, 2), ins[] = {x, x}, *out = &none;
  int n = 1;
  OK(MXImperativeInvoke(operator_named("elemwise_add"), 2, ins, &n, &out, 0, NULL, NULL));
  float got[6];
  OK(MXNDArraySyncCopyToCPU(none, got, 6));
  CHECK(got[5] == 12);
  OK(MXNDArrayFree(x));
  OK(MXNDArrayFree(none));
}

static void numpy_semantics(void) {
  int prev = 9, curr = 9;
  OK(MXSetIsNumpyShape(1, &prev));
  OK(MXIsNumpyShape(&curr));
  CHECK(prev == 0 && curr == 1);
  const int64_t empty[] = {0, 3};
  NDArrayHandle a = NULL;
  int ndim = 9;
  const int64_t *dims;
  OK(MXNDArrayCreateEx64(empty, 2, 1, 0, 0, 0, &a));
  OK(MXNDArrayGetShapeEx64(a, &ndim, &dims));
  CHECK(ndim == 2 && dims[0] == 0 && dims[1] == 3);
  OK(MXNDArrayFree(a));
  OK(MXNDArrayCreateNone(&a));
  OK(MXNDArrayGetShapeEx64(a, &ndim, &dims));
  CHECK(ndim == -1);
  OK(MXNDArrayFree(a));
  REFUSED(MXSetIsNumpyShape(7, &prev), "7");
  OK(MXSetIsNumpyShape(0, &prev));
  CHECK(prev == 1);
}

int main(void) {
  RUN(null_handles);
  RUN(foreign_handles);
  RUN(freed_and_wrong_kinds);
  RUN(null_pointers);
  RUN(wrong_sizes_and_codes);
  RUN(operators_and_graphs);
  RUN(not_a_number_is_a_value);
  RUN(empty_arrays);
  RUN(numpy_semantics);
  return failures != 0;
}
