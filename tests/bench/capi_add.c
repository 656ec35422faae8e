/* Measures an addition of one element through the C API.
 *   cc -O2 -I native/capi/include tests/bench/capi_add.c -o target/capi_add -L target/release -lmxnet -Wl,-rpath,target/release
 * An argument sets the number of additions per round. */
#include "capi.h"

/* Microseconds per call, the best of seven rounds. */
static double best(OpHandle op, NDArrayHandle *ins, int num_ins, const char *key, const char *value, NDArrayHandle target, int n) {
  double fastest = 1e30;
  for (int round = 0; round < 7; round++) {
    double start = microseconds(CLOCK_MONOTONIC);
    for (int i = 0; i < n; i++) {
      NDArrayHandle *outs = target ? &target : NULL;
      int num_outs = target ? 1 : 0;
      const int *types;
      MUST(MXImperativeInvokeEx(op, num_ins, ins, &num_outs, &outs, key ? 1 : 0, &key, &value, &types));
      if (!target) MUST(MXNDArrayFree(outs[0]));
    }
    double each = (microseconds(CLOCK_MONOTONIC) - start) / n;
    if (each < fastest) fastest = each;
  }
  return fastest;
}

int main(int argc, char **argv) {
  int n = argc > 1 ? atoi(argv[1]) : 100000;
  const uint32_t one = 1;
  const float value = 1;
  NDArrayHandle ins[2], out;
  OpHandle add, add_scalar;
  for (int i = 0; i < 2; i++) {
    MUST(MXNDArrayCreate(&one, 1, 1, 0, 0, &ins[i]));
    MUST(MXNDArraySyncCopyFromCPU(ins[i], &value, 1));
  }
  MUST(MXNDArrayCreate(&one, 1, 1, 0, 0, &out));
  MUST(NNGetOpHandle("elemwise_add", &add));
  MUST(NNGetOpHandle("_plus_scalar", &add_scalar));
  printf("elemwise_add, new output:   %.3f us\n", best(add, ins, 2, NULL, NULL, NULL, n));
  printf("elemwise_add, given output: %.3f us\n", best(add, ins, 2, NULL, NULL, out, n));
  printf("_plus_scalar, new output:   %.3f us\n", best(add_scalar, ins, 1, "scalar", "1", NULL, n));
  return 0;
}
