/* Measures the processor time of simple_bind through the C API, alone and with the names and outputs that a program asks for to find
 * arrays by name, for comparison with Scala (set OMP_NUM_THREADS=1).
 *   (cd tests/bench/scala && ../../../scripts/sbt "runMain ferromx.bench.Networks $PWD/target/lenet-symbol.json")
 *   cc -O2 -I native/capi/include tests/bench/capi_bind.c -o target/capi_bind -L target/release -lmxnet -Wl,-rpath,$PWD/target/release
 *   target/capi_bind tests/bench/scala/target/lenet-symbol.json */
#include "capi.h"

/* Binds the network for training and frees everything that it created. With `by_name`, lists the names and outputs, too. */
static void bind(SymbolHandle symbol, int by_name) {
  const char *names[] = {"data", "softmax_label"}, *request = "write";
  const int sizes[] = {32, 1, 28, 28, 32};
  const uint32_t ends[] = {0, 4, 5};
  int buffer_len = -1;
  const char **buffer_names = NULL, **updated_names = NULL;
  NDArrayHandle *buffer = NULL, *updated = NULL, *in_args = NULL, *grads = NULL, *aux = NULL;
  uint32_t num_in = 0, num_aux = 0;
  ExecutorHandle executor;
  MUST(MXExecutorSimpleBindEx(symbol, 1, 0, 0, NULL, NULL, NULL, 0, NULL, &request, 2, names, sizes, ends, 0, NULL, NULL, 0, NULL, NULL, 0,
                              NULL, &buffer_len, buffer_names, buffer, &updated_names, &updated, &num_in, &in_args, &grads, &num_aux,
                              &aux, NULL, &executor));
  if (by_name) {
    uint32_t num_names, num_outputs;
    const char **listed;
    NDArrayHandle *outputs;
    MUST(MXSymbolListArguments(symbol, &num_names, &listed));
    MUST(MXSymbolListAuxiliaryStates(symbol, &num_names, &listed));
    MUST(MXExecutorOutputs(executor, &num_outputs, &outputs));
    for (uint32_t i = 0; i < num_outputs; i++) MUST(MXNDArrayFree(outputs[i]));
  }
  for (uint32_t i = 0; i < num_in; i++) {
    MUST(MXNDArrayFree(in_args[i]));
    if (grads[i]) MUST(MXNDArrayFree(grads[i]));
  }
  for (uint32_t i = 0; i < num_aux; i++) MUST(MXNDArrayFree(aux[i]));
  MUST(MXExecutorFree(executor));
}

#define ROUNDS 60

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  if (argc != 2) return fprintf(stderr, "usage: capi_bind SYMBOL.json\n"), 1;
  SymbolHandle symbol;
  MUST(MXSymbolCreateFromFile(argv[1], &symbol));
  double times[2][ROUNDS];
  for (int round = 0; round < ROUNDS; round++)
    for (int by_name = 0; by_name < 2; by_name++) {
      double start = microseconds(CLOCK_THREAD_CPUTIME_ID);
      for (int i = 0; i < 100; i++) bind(symbol, by_name);
      times[by_name][round] = (microseconds(CLOCK_THREAD_CPUTIME_ID) - start) / 100;
    }
  for (int by_name = 0; by_name < 2; by_name++) {
    qsort(times[by_name], ROUNDS, sizeof(double), ascending);
    printf("simple_bind of LeNet for training%s: minimum %.1f median %.1f us\n", by_name ? ", names and outputs" : "", times[by_name][0],
           times[by_name][ROUNDS / 2]);
  }
  return 0;
}
