/* Builds, binds and trains a network of two layers, and compares the results with values computed in C. */
#include "check.h"

enum { BATCH = 4, IN = 3, HIDDEN = 5, CLASSES = 2, ARGS = 6 };

static const char *const NAMES[ARGS] = {"data", "fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias", "softmax_label"};
static const uint32_t SHAPES[ARGS][2] = {{BATCH, IN}, {HIDDEN, IN}, {HIDDEN, 0}, {CLASSES, HIDDEN}, {CLASSES, 0}, {BATCH, 0}};
static const uint32_t RANKS[ARGS] = {2, 2, 1, 2, 1, 1};

static SymbolHandle network(void) {
  SymbolHandle data = NULL, fc1, act, fc2, out;
  OK(MXSymbolCreateVariable("data", &data));
  fc1 = node("FullyConnected", "fc1", "num_hidden", "5", &data, 1);
  act = node("Activation", "act", "act_type", "tanh", &fc1, 1);
  fc2 = node("FullyConnected", "fc2", "num_hidden", "2", &act, 1);
  out = node("SoftmaxOutput", "softmax", NULL, NULL, &fc2, 1);
  SymbolHandle parts[] = {data, fc1, act, fc2};
  for (int i = 0; i < 4; i++) OK(MXSymbolFree(parts[i]));
  return out;
}

static size_t size_of(int arg) { return RANKS[arg] == 2 ? (size_t)SHAPES[arg][0] * SHAPES[arg][1] : SHAPES[arg][0]; }

/* Initial values of an argument. */
static void fill(int arg, float *to) {
  for (size_t i = 0; i < size_of(arg); i++) {
    to[i] = arg == 5 ? (float)(i % CLASSES) : 0.5f * sinf((float)(i + 1) * (float)(arg + 1));
  }
}

/* Expected class probabilities. */
static void expected_outputs(float args[ARGS][16], float *out) {
  for (int b = 0; b < BATCH; b++) {
    float hidden[HIDDEN], score[CLASSES], sum = 0;
    for (int h = 0; h < HIDDEN; h++) {
      float x = args[2][h];
      for (int i = 0; i < IN; i++) x += args[0][b * IN + i] * args[1][h * IN + i];
      hidden[h] = tanhf(x);
    }
    for (int c = 0; c < CLASSES; c++) {
      float x = args[4][c];
      for (int h = 0; h < HIDDEN; h++) x += hidden[h] * args[3][c * HIDDEN + h];
      score[c] = expf(x);
      sum += score[c];
    }
    for (int c = 0; c < CLASSES; c++) out[b * CLASSES + c] = score[c] / sum;
  }
}

static void infers_and_lists(void) {
  SymbolHandle s = network();
  uint32_t n = 0;
  const char **names = NULL;
  OK(MXSymbolListArguments(s, &n, &names));
  CHECK(n == ARGS);
  for (uint32_t i = 0; i < n; i++) CHECK(strcmp(names[i], NAMES[i]) == 0);
  const char *key = "data";
  const uint32_t starts[] = {0, 2}, dims[] = {BATCH, IN};
  uint32_t sizes[3];
  const uint32_t *ranks[3], **shapes[3];
  int complete = 0;
  OK(MXSymbolInferShape(s, 1, &key, starts, dims, &sizes[0], &ranks[0], &shapes[0], &sizes[1], &ranks[1], &shapes[1], &sizes[2],
                        &ranks[2], &shapes[2], &complete));
  CHECK(complete == 1 && sizes[0] == ARGS && sizes[1] == 1 && sizes[2] == 0);
  for (uint32_t i = 0; i < sizes[0]; i++) {
    CHECK(ranks[0][i] == RANKS[i]);
    CHECK(memcmp(shapes[0][i], SHAPES[i], RANKS[i] * sizeof(uint32_t)) == 0);
  }
  CHECK(ranks[1][0] == 2 && shapes[1][0][0] == BATCH && shapes[1][0][1] == CLASSES);
  const int dims64_type = 0;
  const int *types[3];
  OK(MXSymbolInferType(s, 1, &key, &dims64_type, &sizes[0], &types[0], &sizes[1], &types[1], &sizes[2], &types[2], &complete));
  CHECK(complete == 1 && types[0][3] == 0 && types[1][0] == 0);
  OK(MXSymbolFree(s));
}

static void json_round_trip(void) {
  SymbolHandle s = network(), again = NULL;
  const char *json = NULL, *json_again = NULL;
  OK(MXSymbolSaveToJSON(s, &json));
  char *copy = strdup(json);
  OK(MXSymbolCreateFromJSON(copy, &again));
  OK(MXSymbolSaveToJSON(again, &json_again));
  CHECK(strcmp(copy, json_again) == 0);
  free(copy);
  OK(MXSymbolFree(s));
  OK(MXSymbolFree(again));
}

static void trains(void) {
  SymbolHandle s = network();
  NDArrayHandle args[ARGS], grads[ARGS];
  uint32_t reqs[ARGS];
  float values[ARGS][16], zeros[16] = {0};
  for (int i = 0; i < ARGS; i++) {
    fill(i, values[i]);
    args[i] = floats(values[i], SHAPES[i], RANKS[i]);
    reqs[i] = i == 0 || i == 5 ? 0 : 1;
    grads[i] = reqs[i] ? floats(zeros, SHAPES[i], RANKS[i]) : NULL;
  }
  ExecutorHandle executor = NULL;
  OK(MXExecutorBind(s, 1, 0, ARGS, args, grads, reqs, 0, NULL, &executor));
  uint32_t n = 0;
  NDArrayHandle *outputs = NULL, output = NULL;
  OK(MXExecutorOutputs(executor, &n, &outputs));
  CHECK(n == 1);
  output = outputs[0];
  float got[BATCH * CLASSES], want[BATCH * CLASSES], first_loss = 0, loss = 0;
  for (int step = 0; step < 200; step++) {
    OK(MXExecutorForward(executor, 1));
    OK(MXNDArraySyncCopyToCPU(output, got, BATCH * CLASSES));
    expected_outputs(values, want);
    loss = 0;
    for (int i = 0; i < BATCH * CLASSES; i++) NEAR(got[i], want[i]);
    for (int b = 0; b < BATCH; b++) loss -= logf(got[b * CLASSES + (int)values[5][b]]);
    if (step == 0) first_loss = loss;
    OK(MXExecutorBackward(executor, 0, NULL));
    for (int i = 1; i < 5; i++) {
      float g[16];
      OK(MXNDArraySyncCopyToCPU(grads[i], g, size_of(i)));
      if (i == 4) {
        /* The gradient of the last bias is the sum of (probability - target) over the batch. */
        for (int c = 0; c < CLASSES; c++) {
          float sum = 0;
          for (int b = 0; b < BATCH; b++) sum += got[b * CLASSES + c] - (values[5][b] == (float)c);
          NEAR(g[c], sum);
        }
      }
      for (size_t k = 0; k < size_of(i); k++) values[i][k] -= 0.2f * g[k];
      OK(MXNDArraySyncCopyFromCPU(args[i], values[i], size_of(i)));
    }
  }
  CHECK(loss < 0.2f * first_loss);
  OK(MXExecutorFree(executor));
  /* The output outlives its executor. */
  OK(MXNDArraySyncCopyToCPU(output, got, BATCH * CLASSES));
  OK(MXNDArrayFree(output));
  for (int i = 0; i < ARGS; i++) {
    OK(MXNDArrayFree(args[i]));
    OK(MXNDArrayFree(grads[i]));
  }
  OK(MXSymbolFree(s));
}

static int seen_by_monitor;

static void monitor(const char *name, NDArrayHandle array, void *data) {
  CHECK(data == &seen_by_monitor);
  if (strcmp(name, "act_output") == 0) seen_by_monitor++;
  OK(MXNDArrayFree(array));
}

static void reshapes_and_monitors(void) {
  SymbolHandle s = network();
  NDArrayHandle args[ARGS];
  float values[ARGS][16];
  uint32_t reqs[ARGS] = {0};
  for (int i = 0; i < ARGS; i++) {
    fill(i, values[i]);
    args[i] = floats(values[i], SHAPES[i], RANKS[i]);
  }
  ExecutorHandle executor = NULL, smaller = NULL;
  OK(MXExecutorBind(s, 1, 0, ARGS, args, NULL, reqs, 0, NULL, &executor));
  const char *key = "data";
  const int dims[] = {1, IN};
  const uint32_t starts[] = {0, 2};
  uint32_t num_args = 0, num_aux = 9, n = 0;
  NDArrayHandle *new_args = NULL, *new_grads = NULL, *new_aux = NULL, *outputs = NULL;
  OK(MXExecutorReshapeEx(1, 0, 1, 0, 0, NULL, NULL, NULL, 1, &key, dims, starts, &num_args, &new_args, &new_grads, &num_aux,
                         &new_aux, executor, &smaller));
  CHECK(num_args == ARGS && num_aux == 0);
  for (uint32_t i = 0; i < num_args; i++) {
    OK(MXNDArrayFree(new_args[i]));
    CHECK(new_grads[i] == NULL);
  }
  OK(MXExecutorSetMonitorCallback(smaller, monitor, &seen_by_monitor));
  OK(MXExecutorForward(smaller, 0));
  CHECK(seen_by_monitor == 1);
  OK(MXExecutorSetMonitorCallback(smaller, NULL, NULL));
  const char *plan = NULL;
  OK(MXExecutorPrint(smaller, &plan));
  CHECK(strstr(plan, " MB allocated\nTotal ") != NULL);
  OK(MXExecutorOutputs(smaller, &n, &outputs));
  float got[CLASSES], want[BATCH * CLASSES];
  OK(MXNDArraySyncCopyToCPU(outputs[0], got, CLASSES));
  expected_outputs(values, want);
  for (int c = 0; c < CLASSES; c++) NEAR(got[c], want[c]);
  OK(MXNDArrayFree(outputs[0]));
  OK(MXExecutorFree(smaller));
  OK(MXExecutorFree(executor));
  for (int i = 0; i < ARGS; i++) OK(MXNDArrayFree(args[i]));
  OK(MXSymbolFree(s));
}

static void records_and_differentiates(void) {
  const float values[] = {1, -2, 3}, zeros[] = {0, 0, 0};
  NDArrayHandle x = vector(values, 3), gradient = vector(zeros, 3), ins[2] = {x, x}, *outs = NULL, got_grad = NULL;
  uint32_t write = 1;
  int prev = 9, n = 0;
  const int *stypes = NULL;
  OK(MXAutogradMarkVariables(1, &x, &write, &gradient));
  OK(MXAutogradSetIsRecording(1, &prev));
  CHECK(prev == 0);
  OK(MXImperativeInvokeEx(operator_named("elemwise_mul"), 2, ins, &n, &outs, 0, NULL, NULL, &stypes));
  CHECK(n == 1 && stypes[0] == 0);
  NDArrayHandle product = outs[0], flat = NULL;
  int dims[] = {3, 1};
  /* Gradients flow through views. */
  OK(MXNDArrayReshape(product, 2, dims, &flat));
  OK(MXAutogradSetIsRecording(0, &prev));
  CHECK(prev == 1);
  OK(MXAutogradBackward(1, &flat, NULL, 0));
  OK(MXNDArrayGetGrad(x, &got_grad));
  float g[3];
  OK(MXNDArraySyncCopyToCPU(got_grad, g, 3));
  for (int i = 0; i < 3; i++) NEAR(g[i], 2 * values[i]);
  NDArrayHandle all[] = {x, gradient, product, flat, got_grad};
  for (int i = 0; i < 5; i++) OK(MXNDArrayFree(all[i]));
}

/* The results of `MXExecutorSimpleBindEx` for a batch size. */
typedef struct {
  ExecutorHandle executor;
  NDArrayHandle args[ARGS], grads[ARGS];
} Bound;

static void simple_bind(SymbolHandle s, int batch, Bound *out, ExecutorHandle shared, int *buffer_len, const char **buffer_names,
                        NDArrayHandle *buffer) {
  const char *key = "data", *all = "write", *shared_names[] = {NAMES[1], NAMES[2], NAMES[3], NAMES[4]}, **new_names = NULL;
  const int dims[] = {batch, IN};
  const uint32_t starts[] = {0, 2};
  uint32_t num_args = 0, num_aux = 9;
  NDArrayHandle *args = NULL, *grads = NULL, *aux = NULL, *new_buffer = NULL;
  OK(MXExecutorSimpleBindEx(s, 1, 0, 0, NULL, NULL, NULL, 0, NULL, &all, 1, &key, dims, starts, 0, NULL, NULL, 0, NULL, NULL, 4,
                            shared_names, buffer_len, buffer_names, buffer, &new_names, &new_buffer, &num_args, &args, &grads,
                            &num_aux, &aux, shared, &out->executor));
  CHECK(num_args == ARGS && num_aux == 0);
  memcpy(out->args, args, sizeof out->args);
  memcpy(out->grads, grads, sizeof out->grads);
  for (int i = 0; i < *buffer_len; i++) {
    OK(MXNDArrayFree(buffer[i]));
    static char kept[2 * ARGS][32];
    snprintf(kept[i], sizeof kept[i], "%s", new_names[i]);
    CHECK(strstr(kept[i], "data") != NULL || strstr(kept[i], "softmax_label") != NULL);
    buffer_names[i] = kept[i];
    buffer[i] = new_buffer[i];
  }
}

static void simple_bind_shares_requested_arrays(void) {
  SymbolHandle s = network();
  Bound large = {0}, small = {0};
  int len = 0;
  const char *names[2 * ARGS] = {0};
  NDArrayHandle buffer[2 * ARGS] = {0};
  simple_bind(s, BATCH, &large, NULL, &len, names, buffer);
  /* Data and label, and their gradients. */
  CHECK(len == 4);
  simple_bind(s, 2, &small, large.executor, &len, names, buffer);
  CHECK(len == 4);
  float values[ARGS][16], got[2 * CLASSES], want[BATCH * CLASSES];
  for (int i = 0; i < ARGS; i++) {
    fill(i, values[i]);
    OK(MXNDArraySyncCopyFromCPU(large.args[i], values[i], size_of(i)));
  }
  /* Parameters are the same arrays; inputs start at the same address. */
  uint32_t n = 0;
  NDArrayHandle *outputs = NULL;
  OK(MXExecutorForward(small.executor, 0));
  OK(MXExecutorOutputs(small.executor, &n, &outputs));
  OK(MXNDArraySyncCopyToCPU(outputs[0], got, 2 * CLASSES));
  OK(MXNDArrayFree(outputs[0]));
  expected_outputs(values, want);
  for (int i = 0; i < 2 * CLASSES; i++) NEAR(got[i], want[i]);
  Bound *both[] = {&large, &small};
  for (int b = 0; b < 2; b++) {
    OK(MXExecutorFree(both[b]->executor));
    for (int i = 0; i < ARGS; i++) {
      OK(MXNDArrayFree(both[b]->args[i]));
      OK(MXNDArrayFree(both[b]->grads[i]));
    }
  }
  for (int i = 0; i < len; i++) OK(MXNDArrayFree(buffer[i]));
  OK(MXSymbolFree(s));
}

/* The bytes of a parameter file. */
static char *saved_parameters(float values[ARGS][16], long *size) {
  char path[] = TEMPORARY_FILE;
  const char *keys[] = {"arg:fc1_weight", "arg:fc1_bias", "arg:fc2_weight", "arg:fc2_bias"};
  NDArrayHandle params[4];
  for (int i = 0; i < 4; i++) params[i] = floats(values[i + 1], SHAPES[i + 1], RANKS[i + 1]);
  make_file(path, "");
  OK(MXNDArraySave(path, 4, params, keys));
  for (int i = 0; i < 4; i++) OK(MXNDArrayFree(params[i]));
  const size_t capacity = 4096;
  char *bytes = malloc(capacity);
  CHECK(bytes != NULL);
  *size = (long)take_file(path, bytes, capacity);
  CHECK(*size > 0 && *size < (long)capacity);
  return bytes;
}

static void predicts(void) {
  SymbolHandle s = network();
  float values[ARGS][16], got[BATCH * HIDDEN], want[BATCH * CLASSES];
  for (int i = 0; i < ARGS; i++) fill(i, values[i]);
  long size = 0;
  char *bytes = saved_parameters(values, &size);
  const char *json = NULL, *key = "data", *layer = "act";
  OK(MXSymbolSaveToJSON(s, &json));
  const uint32_t starts[] = {0, 2}, dims[] = {BATCH, IN}, one[] = {1, IN};
  PredictorHandle predictor = NULL, single = NULL, hidden = NULL;
  OK(MXPredCreate(json, bytes, (int)size, 1, 0, 1, &key, starts, dims, &predictor));
  OK(MXPredReshape(1, &key, starts, one, predictor, &single));
  OK(MXPredCreatePartialOut(json, bytes, (int)size, 1, 0, 1, &key, starts, dims, 1, &layer, &hidden));
  expected_outputs(values, want);
  uint32_t *shape = NULL, ndim = 0;
  OK(MXPredSetInput(predictor, "data", values[0], BATCH * IN));
  OK(MXPredForward(predictor));
  OK(MXPredGetOutputShape(predictor, 0, &shape, &ndim));
  CHECK(ndim == 2 && shape[0] == BATCH && shape[1] == CLASSES);
  OK(MXPredGetOutput(predictor, 0, got, BATCH * CLASSES));
  for (int i = 0; i < BATCH * CLASSES; i++) NEAR(got[i], want[i]);
  OK(MXPredSetInput(single, "data", values[0], IN));
  OK(MXPredForward(single));
  OK(MXPredGetOutput(single, 0, got, CLASSES));
  for (int i = 0; i < CLASSES; i++) NEAR(got[i], want[i]);
  OK(MXPredSetInput(hidden, "data", values[0], BATCH * IN));
  OK(MXPredForward(hidden));
  OK(MXPredGetOutput(hidden, 0, got, BATCH * HIDDEN));
  float x = values[2][0];
  for (int i = 0; i < IN; i++) x += values[0][i] * values[1][i];
  NEAR(got[0], tanhf(x));
  REFUSED(MXPredSetInput(predictor, "label", values[0], 4), "no input 'label'");
  REFUSED(MXPredSetInput(predictor, "data", values[0], 4), "4 elements were given");
  REFUSED(MXPredGetOutput(predictor, 0, got, 3), "room for 3");
  REFUSED(MXPredGetOutput(predictor, 1, got, 3), "output 1");
  PredictorHandle damaged = NULL;
  REFUSED(MXPredCreate(json, bytes, (int)size / 2, 1, 0, 1, &key, starts, dims, &damaged), "");
  CHECK(damaged == NULL);
  OK(MXPredFree(predictor));
  OK(MXPredFree(single));
  OK(MXPredFree(hidden));
  NDListHandle list = NULL;
  uint32_t length = 0;
  const char *name = NULL;
  const float *data = NULL;
  const uint32_t *list_shape = NULL;
  OK(MXNDListCreate(bytes, (int)size, &list, &length));
  OK(MXNDListGet(list, 1, &name, &data, &list_shape, &ndim));
  CHECK(length == 4 && strcmp(name, "arg:fc1_bias") == 0 && ndim == 1 && list_shape[0] == HIDDEN && data[1] == values[2][1]);
  REFUSED(MXNDListGet(list, 4, &name, &data, &list_shape, &ndim), "array 4");
  OK(MXNDListFree(list));
  free(bytes);
  OK(MXSymbolFree(s));
}

int main(void) {
  RUN(infers_and_lists);
  RUN(json_round_trip);
  RUN(trains);
  RUN(reshapes_and_monitors);
  RUN(simple_bind_shares_requested_arrays);
  RUN(predicts);
  RUN(records_and_differentiates);
  return failures != 0;
}
