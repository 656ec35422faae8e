/* Cached operators with and without recording, and subgraphs. */
#include "check.h"

/* y = relu(x w^T) */
static SymbolHandle layer(void) {
  const char *keys[] = {"num_hidden", "no_bias"}, *values[] = {"2", "True"};
  SymbolHandle in[2], fc = NULL, out;
  OK(MXSymbolCreateVariable("x", &in[0]));
  OK(MXSymbolCreateVariable("w", &in[1]));
  OK(MXSymbolCreateAtomicSymbol(operator_named("FullyConnected"), 2, keys, values, &fc));
  OK(MXSymbolCompose(fc, "fc", 2, NULL, in));
  out = node("relu", "act", NULL, NULL, &fc, 1);
  OK(MXSymbolFree(in[0]));
  OK(MXSymbolFree(in[1]));
  OK(MXSymbolFree(fc));
  return out;
}

static const float WEIGHT[] = {1, 0, -1, 2};
static const uint32_t SQUARE[] = {2, 2};

static void call(CachedOpHandle op, NDArrayHandle *in, float *got, size_t n) {
  NDArrayHandle *out = NULL;
  const int *types = NULL;
  int count = 0;
  OK(MXInvokeCachedOpEx(op, 2, in, &count, &out, &types));
  CHECK(count == 1 && types != NULL && types[0] == 0);
  OK(MXNDArraySyncCopyToCPU(out[0], got, n));
  OK(MXNDArrayFree(out[0]));
}

static void plans_for_every_shape(void) {
  const char *keys[] = {"static_alloc", "static_shape", "inline_limit"}, *values[] = {"True", "true", "2"};
  SymbolHandle s = layer();
  CachedOpHandle op = NULL;
  OK(MXCreateCachedOpEx(s, 3, keys, values, &op));
  NDArrayHandle w = floats(WEIGHT, SQUARE, 2);
  float got[6];
  /* New arrays of the same shape, another shape, the first shape again, and a changed weight. */
  for (int round = 0; round < 5; round++) {
    float x[] = {1, (float)round, 3, 4, 5, 6};
    const uint32_t shape[] = {round == 2 ? 3 : 2, 2};
    NDArrayHandle in[] = {floats(x, shape, 2), w};
    float weight[] = {1, 0, -1, round == 4 ? 5 : 2};
    OK(MXNDArraySyncCopyFromCPU(w, weight, 4));
    call(op, in, got, shape[0] * 2);
    for (uint32_t r = 0; r < shape[0]; r++) {
      float second = -x[2 * r] + weight[3] * x[2 * r + 1];
      NEAR(got[2 * r], x[2 * r]);
      NEAR(got[2 * r + 1], second > 0 ? second : 0);
    }
    OK(MXNDArrayFree(in[0]));
  }
  OK(MXNDArrayFree(w));
  OK(MXFreeCachedOp(op));
  const char *bad = "statik", *yes = "True";
  REFUSED(MXCreateCachedOpEx(s, 1, &bad, &yes, &op), "no flag 'statik'");
  OK(MXSymbolFree(s));
}

static int hooked;

static void hook(const char *name, const char *op, NDArrayHandle array) {
  hooked += strcmp(name, "fc_output") == 0 && strcmp(op, "FullyConnected") == 0;
  OK(MXNDArrayFree(array));
}

static void gradients_and_hooks(void) {
  SymbolHandle s = layer(), again = NULL;
  CachedOpHandle op = NULL;
  OK(MXCreateCachedOp(s, &op));
  const float x[] = {1, 2, 3, 1}, zero[4] = {0};
  NDArrayHandle in[] = {floats(x, SQUARE, 2), floats(WEIGHT, SQUARE, 2)}, grad = floats(zero, SQUARE, 2), *out = NULL;
  uint32_t write = 1;
  int previous = 0, n = 0;
  OK(MXAutogradMarkVariables(1, &in[1], &write, &grad));
  OK(MXCachedOpRegisterOpHook(op, hook, false));
  OK(MXAutogradSetIsRecording(1, &previous));
  OK(MXInvokeCachedOp(op, 2, in, &n, &out));
  OK(MXAutogradSetIsRecording(0, &previous));
  CHECK(n == 1 && hooked == 1);
  NDArrayHandle y = out[0];
  OK(MXAutogradGetSymbol(y, &again));
  uint32_t count = 0;
  const char **names = NULL;
  OK(MXSymbolListArguments(again, &count, &names));
  CHECK(count == 2);
  OK(MXAutogradBackward(1, &y, NULL, 0));
  float got[4];
  OK(MXNDArraySyncCopyToCPU(grad, got, 4));
  /* The second unit is active for the first row only. */
  NEAR(got[0], 4);
  NEAR(got[1], 3);
  NEAR(got[2], 1);
  NEAR(got[3], 2);
  OK(MXSymbolFree(s));
  OK(MXSymbolFree(again));
  OK(MXFreeCachedOp(op));
  NDArrayHandle arrays[] = {in[0], in[1], grad, y};
  for (int i = 0; i < 4; i++) OK(MXNDArrayFree(arrays[i]));
  REFUSED(MXFreeCachedOp(op), "already disposed");
}

/* A loop whose body reads the output of an operator outside, composed as front ends do. */
static void loops_over_subgraphs(void) {
  SymbolHandle data = NULL, w = NULL, outside, row = NULL, state = NULL, body, both, *cut = NULL;
  OK(MXSymbolCreateVariable("data", &data));
  OK(MXSymbolCreateVariable("w", &w));
  outside = node("_mul_scalar", "double", "scalar", "2", &w, 1);
  OK(MXSymbolCreateVariable("row", &row));
  OK(MXSymbolCreateVariable("state", &state));
  /* Front ends create the variables of the body within the attribute's scope; other variables are cut. */
  OK(MXSymbolSetAttr(row, "__subgraph_name__", "loop"));
  OK(MXSymbolSetAttr(state, "__subgraph_name__", "loop"));
  SymbolHandle first[] = {row, outside};
  SymbolHandle product = node("elemwise_mul", "product", "__subgraph_name__", "loop", first, 2);
  SymbolHandle second[] = {product, state};
  body = node("elemwise_add", "sum", "__subgraph_name__", "loop", second, 2);
  SymbolHandle copy = node("_copy", "copy", "__subgraph_name__", "loop", &body, 1);
  SymbolHandle outs[] = {body, copy};
  OK(MXSymbolCreateGroup(2, outs, &both));
  int n = 0;
  OK(MXSymbolCutSubgraph(both, &cut, &n));
  CHECK(n == 1);
  const char *name = NULL;
  int found = 0;
  OK(MXSymbolGetName(cut[0], &name, &found));
  CHECK(found == 1 && strcmp(name, "double") == 0);
  uint32_t count = 0;
  const char **names = NULL;
  OK(MXSymbolListArguments(both, &count, &names));
  CHECK(count == 3 && strcmp(names[1], "double_output") == 0);
  const char *keys[] = {"num_outputs", "num_out_data", "in_data_locs", "in_state_locs", "remain_locs"};
  const char *values[] = {"2", "1", "(0,)", "(2,)", "(1,)"};
  SymbolHandle loop = NULL, begin = NULL;
  OK(MXSymbolCreateVariable("begin", &begin));
  OK(MXSymbolCreateAtomicSymbol(operator_named("_foreach"), 5, keys, values, &loop));
  SymbolHandle inputs[] = {both, data, begin, cut[0]};
  OK(MXSymbolCompose(loop, "loop", 4, NULL, inputs));
  OK(MXSymbolListArguments(loop, &count, &names));
  CHECK(count == 3 && strcmp(names[0], "data") == 0 && strcmp(names[1], "begin") == 0 && strcmp(names[2], "w") == 0);

  const float rows[] = {1, 2, 3, 4, 5, 6}, start[] = {10, 20}, weight[] = {1, -1}, zero[6] = {0}, ones[6] = {1, 1, 1, 1, 1, 1};
  const uint32_t shape[] = {3, 2};
  NDArrayHandle args[] = {floats(rows, shape, 2), vector(start, 2), vector(weight, 2)};
  NDArrayHandle grads[] = {floats(zero, shape, 2), vector(zero, 2), vector(zero, 2)};
  NDArrayHandle heads[] = {floats(ones, shape, 2), vector(zero, 2)};
  uint32_t reqs[] = {1, 1, 1};
  ExecutorHandle executor = NULL;
  OK(MXExecutorBind(loop, 1, 0, 3, args, grads, reqs, 0, NULL, &executor));
  NDArrayHandle *out = NULL;
  float got[6];
  for (int round = 0; round < 2; round++) {
    OK(MXExecutorForward(executor, round));
    OK(MXExecutorOutputs(executor, &count, &out));
    CHECK(count == 2);
    OK(MXNDArraySyncCopyToCPU(out[0], got, 6));
    const float want[] = {12, 16, 18, 8, 28, -4};
    for (int i = 0; i < 6; i++) NEAR(got[i], want[i]);
    OK(MXNDArraySyncCopyToCPU(out[1], got, 2));
    NEAR(got[0], 28);
    NEAR(got[1], -4);
    OK(MXNDArrayFree(out[0]));
    OK(MXNDArrayFree(out[1]));
    OK(MXExecutorBackward(executor, 2, heads));
    OK(MXNDArraySyncCopyToCPU(grads[0], got, 6));
    /* Row t enters the outputs of steps t, t + 1, ... */
    for (int i = 0; i < 6; i++) NEAR(got[i], 2 * weight[i % 2] * (float)(3 - i / 2));
    OK(MXNDArraySyncCopyToCPU(grads[1], got, 2));
    CHECK(got[0] == 3 && got[1] == 3);
    OK(MXNDArraySyncCopyToCPU(grads[2], got, 2));
    NEAR(got[0], 2 * (3 * 1 + 2 * 3 + 5));
    NEAR(got[1], 2 * (3 * 2 + 2 * 4 + 6));
  }
  OK(MXExecutorFree(executor));
  SymbolHandle symbols[] = {data, w, outside, row, state, product, body, copy, both, cut[0], begin, loop};
  for (int i = 0; i < 12; i++) OK(MXSymbolFree(symbols[i]));
  for (int i = 0; i < 3; i++) OK(MXNDArrayFree(args[i]));
  for (int i = 0; i < 3; i++) OK(MXNDArrayFree(grads[i]));
  OK(MXNDArrayFree(heads[0]));
  OK(MXNDArrayFree(heads[1]));
}

int main(void) {
  RUN(plans_for_every_shape);
  RUN(gradients_and_hooks);
  RUN(loops_over_subgraphs);
  return failures != 0;
}
