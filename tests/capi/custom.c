/* User operators in C: in graphs and imperatively, with gradients, errors and auxiliary states; and recorded functions. */
#include "check.h"

/* Casts a function to the type of the callback list. */
#define ANY(function) ((int (*)(void))(void (*)(void))(function))

/* y = factor * x^2, with the number of calls in an auxiliary state; `fail` selects a callback to fail. */
typedef struct {
  float factor;
  int fail;
} Property;

typedef struct {
  Property *property;
  int calls;
} Instance;

static int properties_alive, instances_alive;

static float *load(NDArrayHandle array, size_t *n) {
  uint32_t rank = 0;
  const uint32_t *dims = NULL;
  *n = 1;
  OK(MXNDArrayGetShape(array, &rank, &dims));
  for (uint32_t i = 0; i < rank; i++) *n *= dims[i];
  float *values = malloc((*n + 1) * sizeof(float));
  OK(MXNDArraySyncCopyToCPU(array, values, *n));
  return values;
}

/* Stores values as requested: 1 write, 3 add. */
static void store(NDArrayHandle array, float *values, size_t n, int req) {
  if (req == 0) return;
  if (req == 3) {
    size_t m;
    float *old = load(array, &m);
    for (size_t i = 0; i < n; i++) values[i] += old[i];
    free(old);
  }
  OK(MXNDArraySyncCopyFromCPU(array, values, n));
}

static int run(int size, void **arrays, int *tags, const int *reqs, int is_train, void *state, int backward) {
  Instance *instance = state;
  NDArrayHandle of[5] = {NULL};
  (void)is_train;
  for (int i = 0; i < size; i++) of[tags[i]] = arrays[i];
  size_t n, m;
  float *x = load(of[0], &n);
  if (!backward) {
    for (size_t i = 0; i < n; i++) x[i] = instance->property->factor * x[i] * x[i];
    store(of[1], x, n, reqs[0]);
    float *count = load(of[4], &m);
    count[0] += 1;
    store(of[4], count, 1, 1);
    free(count);
  } else {
    float *dy = load(of[3], &m);
    for (size_t i = 0; i < n; i++) dy[i] *= 2 * instance->property->factor * x[i];
    store(of[2], dy, n, reqs[0]);
    free(dy);
  }
  free(x);
  for (int i = 0; i < size; i++) OK(MXNDArrayFree(arrays[i]));
  instance->calls++;
  return instance->property->fail != 2;
}

static int forward(int size, void **arrays, int *tags, const int *reqs, const int is_train, void *state) {
  return run(size, arrays, tags, reqs, is_train, state, 0);
}

static int backward(int size, void **arrays, int *tags, const int *reqs, const int is_train, void *state) {
  return run(size, arrays, tags, reqs, is_train, state, 1);
}

static int delete_instance(void *state) {
  instances_alive--;
  free(state);
  return 1;
}

static int delete_property(void *state) {
  properties_alive--;
  free(state);
  return 1;
}

static char *inputs[] = {"x", NULL}, *outputs[] = {"y", NULL}, *states[] = {"count", NULL};

static int list_inputs(char ***out, void *state) {
  (void)state;
  *out = inputs;
  return 1;
}

static int list_outputs(char ***out, void *state) {
  (void)state;
  *out = outputs;
  return 1;
}

static int list_states(char ***out, void *state) {
  (void)state;
  *out = states;
  return 1;
}

static int infer_shape(int n, int *ranks, int **shapes, void *state) {
  static int one = 1;
  Property *property = state;
  if (n != 3 || property->fail == 1) return 0;
  ranks[1] = ranks[0];
  shapes[1] = shapes[0];
  ranks[2] = 1;
  shapes[2] = &one;
  return 1;
}

static int infer_type(int n, int *types, void *state) {
  (void)state;
  for (int i = 1; i < n; i++) types[i] = types[0];
  return 1;
}

static int declare(const int *ograds, const int *ins, const int *outs, int *n, int **deps, void *state) {
  static int list[2];
  (void)outs, (void)state;
  list[0] = ograds[0];
  list[1] = ins[0];
  *n = 2;
  *deps = list;
  return 1;
}

static int create(const char *device, int n, unsigned **shapes, const int *ranks, const int *types, struct MXCallbackList *out,
                  void *state) {
  static int (*callbacks[3])(void);
  static void *contexts[3];
  CHECK(strcmp(device, "cpu(0)") == 0 && n == 1 && ranks[0] >= 1 && shapes[0][0] > 0 && types[0] == 0);
  Instance *instance = calloc(1, sizeof(Instance));
  instance->property = state;
  instances_alive++;
  callbacks[0] = ANY(delete_instance);
  callbacks[1] = ANY(forward);
  callbacks[2] = ANY(backward);
  for (int i = 0; i < 3; i++) contexts[i] = instance;
  out->num_callbacks = 3;
  out->callbacks = callbacks;
  out->contexts = contexts;
  return 1;
}

static int creator(const char *type, const int n, const char **keys, const char **values, struct MXCallbackList *out) {
  static int (*callbacks[8])(void);
  static void *contexts[8];
  if (strcmp(type, "square") != 0) return 0;
  Property *property = calloc(1, sizeof(Property));
  property->factor = 1;
  for (int i = 0; i < n; i++) {
    if (strcmp(keys[i], "factor") == 0) property->factor = (float)atof(values[i]);
    if (strcmp(keys[i], "fail") == 0) property->fail = atoi(values[i]);
  }
  properties_alive++;
  int (*all[8])(void) = {ANY(delete_property), ANY(list_inputs), ANY(list_outputs), ANY(list_states),
                         ANY(infer_shape),     ANY(declare),     ANY(create),       ANY(infer_type)};
  memcpy(callbacks, all, sizeof(all));
  for (int i = 0; i < 8; i++) contexts[i] = property;
  out->num_callbacks = 8;
  out->callbacks = callbacks;
  out->contexts = contexts;
  return 1;
}

static SymbolHandle square(const char *key, const char *value, SymbolHandle input) {
  const char *keys[] = {"op_type", key}, *values[] = {"square", value};
  SymbolHandle s = NULL;
  OK(MXSymbolCreateAtomicSymbol(operator_named("Custom"), key ? 2 : 1, keys, values, &s));
  OK(MXSymbolCompose(s, "sq", input ? 1 : 0, NULL, &input));
  return s;
}

static ExecutorHandle bind(SymbolHandle s, NDArrayHandle x, NDArrayHandle dx, uint32_t req, NDArrayHandle count) {
  ExecutorHandle executor = NULL;
  OK(MXExecutorBind(s, 1, 0, 1, &x, &dx, &req, 1, &count, &executor));
  return executor;
}

static void node_of_a_graph(void) {
  const float values[] = {1, -2, 3}, zero[] = {0, 0, 0}, ones[] = {1, 1, 1};
  SymbolHandle x = NULL, sq, out;
  OK(MXSymbolCreateVariable("x", &x));
  sq = square("factor", "0.5", x);
  out = node("_mul_scalar", "twice", "scalar", "2", &sq, 1);
  uint32_t n = 0;
  const char **names = NULL;
  OK(MXSymbolListAuxiliaryStates(out, &n, &names));
  CHECK(n == 1 && strcmp(names[0], "sq_count") == 0);
  OK(MXSymbolListOutputs(sq, &n, &names));
  CHECK(n == 1 && strcmp(names[0], "sq_y") == 0);
  NDArrayHandle data = vector(values, 3), grad = vector(ones, 3), head = vector(ones, 3), count = vector(zero, 1);
  ExecutorHandle executor = bind(out, data, grad, 3, count);
  NDArrayHandle *results = NULL;
  float got[3];
  for (int step = 1; step <= 2; step++) {
    OK(MXExecutorForward(executor, 1));
    OK(MXExecutorOutputs(executor, &n, &results));
    OK(MXNDArraySyncCopyToCPU(results[0], got, 3));
    for (int i = 0; i < 3; i++) NEAR(got[i], values[i] * values[i]);
    OK(MXNDArrayFree(results[0]));
    OK(MXExecutorBackward(executor, 1, &head));
    OK(MXNDArraySyncCopyToCPU(grad, got, 3));
    for (int i = 0; i < 3; i++) NEAR(got[i], 1 + step * 2 * values[i]);
    OK(MXNDArraySyncCopyToCPU(count, got, 1));
    CHECK(got[0] == (float)step);
  }
  CHECK(instances_alive == 1);
  const char *json = NULL;
  SymbolHandle again = NULL;
  OK(MXSymbolSaveToJSON(out, &json));
  OK(MXSymbolCreateFromJSON(json, &again));
  SymbolHandle symbols[] = {x, sq, out, again};
  NDArrayHandle arrays[] = {data, grad, head, count};
  OK(MXExecutorFree(executor));
  for (int i = 0; i < 4; i++) OK(MXSymbolFree(symbols[i]));
  for (int i = 0; i < 4; i++) OK(MXNDArrayFree(arrays[i]));
  CHECK(instances_alive == 0 && properties_alive == 0);
}

static void errors_of_callbacks(void) {
  const float values[] = {1, 2, 3}, zero[] = {0};
  SymbolHandle s = square("fail", "2", NULL), bad = square("fail", "1", NULL);
  NDArrayHandle data = vector(values, 3), count = vector(zero, 1), none = NULL;
  ExecutorHandle executor = bind(s, data, NULL, 0, count), never = NULL;
  for (int i = 0; i < 3; i++) REFUSED(MXExecutorForward(executor, 0), "forward of custom operator 'square' failed");
  OK(MXExecutorFree(executor));
  uint32_t req = 0;
  REFUSED(MXExecutorBind(bad, 1, 0, 1, &data, &none, &req, 1, &count, &never), "infer_shape of custom operator 'square' failed");
  const char *key = "op_type", *value = "cube";
  SymbolHandle missing = NULL;
  REFUSED(MXSymbolCreateAtomicSymbol(operator_named("Custom"), 1, &key, &value, &missing), "'cube' is not registered");
  OK(MXSymbolFree(s));
  OK(MXSymbolFree(bad));
  OK(MXNDArrayFree(data));
  OK(MXNDArrayFree(count));
}

static void on_arrays_with_gradient(void) {
  const float values[] = {1, -2, 3}, zero[] = {0, 0, 0};
  NDArrayHandle in[] = {vector(values, 3), vector(zero, 1)}, grad = vector(zero, 3), *out = NULL;
  uint32_t write = 1;
  int previous = 0, n = 0;
  const char *keys[] = {"op_type", "factor"}, *params[] = {"square", "3"};
  OK(MXAutogradMarkVariables(1, in, &write, &grad));
  OK(MXAutogradSetIsRecording(1, &previous));
  OK(MXImperativeInvoke(operator_named("Custom"), 2, in, &n, &out, 2, keys, params));
  OK(MXAutogradSetIsRecording(0, &previous));
  CHECK(n == 1);
  NDArrayHandle y = out[0];
  float got[3];
  OK(MXNDArraySyncCopyToCPU(y, got, 3));
  for (int i = 0; i < 3; i++) NEAR(got[i], 3 * values[i] * values[i]);
  OK(MXAutogradBackward(1, &y, NULL, 0));
  OK(MXNDArraySyncCopyToCPU(grad, got, 3));
  for (int i = 0; i < 3; i++) NEAR(got[i], 6 * values[i]);
  OK(MXNDArrayFree(y));
  OK(MXNDArrayFree(in[0]));
  OK(MXNDArrayFree(in[1]));
  OK(MXNDArrayFree(grad));
  CHECK(instances_alive == 0);
}

static int functions_deleted;

/* Every input gradient is seven times the output gradient. */
static int seven(int n_ograds, int n_igrads, void **arrays, const int *reqs, const int is_train, void *state) {
  (void)is_train, (void)state;
  size_t n;
  if (n_ograds != 1 || n_igrads != 1) return 0;
  float *g = load(arrays[0], &n);
  for (size_t i = 0; i < n; i++) g[i] *= 7;
  store(arrays[1], g, n, reqs[0]);
  free(g);
  OK(MXNDArrayFree(arrays[0]));
  OK(MXNDArrayFree(arrays[1]));
  return 1;
}

static int delete_function(void *state) {
  (void)state;
  functions_deleted++;
  return 1;
}

static void functions_on_the_tape(void) {
  const float values[] = {1, 2}, zero[] = {0, 0};
  NDArrayHandle x = vector(values, 2), y = vector(zero, 2), grad = vector(zero, 2);
  uint32_t write = 1;
  int previous = 0;
  int (*callbacks[])(void) = {ANY(seven), ANY(delete_function)};
  void *contexts[] = {NULL, NULL};
  struct MXCallbackList list = {2, callbacks, contexts};
  OK(MXAutogradMarkVariables(1, &x, &write, &grad));
  OK(MXAutogradSetIsRecording(1, &previous));
  OK(MXCustomFunctionRecord(1, &x, 1, &y, &list));
  OK(MXAutogradSetIsRecording(0, &previous));
  OK(MXAutogradBackward(1, &y, NULL, 0));
  float got[2];
  OK(MXNDArraySyncCopyToCPU(grad, got, 2));
  CHECK(got[0] == 7 && got[1] == 7);
  OK(MXNDArrayFree(y));
  CHECK(functions_deleted == 1);
  OK(MXNDArrayFree(x));
  OK(MXNDArrayFree(grad));
}

int main(void) {
  OK(MXCustomOpRegister("square", creator));
  RUN(node_of_a_graph);
  RUN(errors_of_callbacks);
  RUN(on_arrays_with_gradient);
  RUN(functions_on_the_tape);
  return failures != 0;
}
