/* Measures the processor time of simple_bind through the C API, alone and with the names and outputs that a program asks for to find
 * arrays by name, for comparison with Scala (set OMP_NUM_THREADS=1; see ferromx.bench.Binding). As in Scala, data and labels have no
 * gradients.
 *   (cd tests/bench/scala && ../../../scripts/sbt "runMain ferromx.bench.Networks $PWD/target/lenet-symbol.json")
 *   cc -O2 -I native/capi/include tests/bench/capi_bind.c -o target/capi_bind -L target/release -lmxnet -Wl,-rpath,$PWD/target/release
 *   target/capi_bind tests/bench/scala/target/lenet-symbol.json 32,1,28,28 [ROUNDS [BINDS_PER_ROUND]] */
#include "capi.h"

#include <string.h>

/* A network with the inputs `data` and `softmax_label`. */
typedef struct {
  SymbolHandle symbol;
  const char **args, **requests;
  uint32_t num_args;
  int sizes[9];
  uint32_t ends[3];
} Network;

static int ends_with(const char *name, const char *end) {
  size_t length = strlen(name), of_end = strlen(end);
  return length >= of_end && strcmp(name + length - of_end, end) == 0;
}

static Network load(const char *file, char *shape) {
  Network n = {0};
  const char **listed;
  MUST(MXSymbolCreateFromFile(file, &n.symbol));
  MUST(MXSymbolListArguments(n.symbol, &n.num_args, &listed));
  n.args = malloc(n.num_args * sizeof *n.args);
  n.requests = malloc(n.num_args * sizeof *n.requests);
  if (!n.args || !n.requests) exit(1);
  for (uint32_t i = 0; i < n.num_args; i++) {
    n.args[i] = strdup(listed[i]);
    n.requests[i] = ends_with(listed[i], "data") || ends_with(listed[i], "label") ? "null" : "write";
  }
  uint32_t rank = 0;
  for (char *dim = strtok(shape, ","); dim && rank < 8; dim = strtok(NULL, ",")) n.sizes[rank++] = atoi(dim);
  n.sizes[rank] = n.sizes[0];
  n.ends[1] = rank;
  n.ends[2] = rank + 1;
  return n;
}

/* Binds the network for training and frees everything that it created. With `by_name`, lists the names and outputs, too. */
static void bind(const Network *n, int by_name) {
  const char *names[] = {"data", "softmax_label"};
  int buffer_len = -1;
  const char **buffer_names = NULL, **updated_names = NULL;
  NDArrayHandle *buffer = NULL, *updated = NULL, *in_args = NULL, *grads = NULL, *aux = NULL;
  uint32_t num_in = 0, num_aux = 0;
  ExecutorHandle executor;
  MUST(MXExecutorSimpleBindEx(n->symbol, 1, 0, 0, NULL, NULL, NULL, n->num_args, n->args, n->requests, 2, names, n->sizes, n->ends, 0,
                              NULL, NULL, 0, NULL, NULL, 0, NULL, &buffer_len, buffer_names, buffer, &updated_names, &updated, &num_in,
                              &in_args, &grads, &num_aux, &aux, NULL, &executor));
  if (by_name) {
    uint32_t num_names, num_outputs;
    const char **listed;
    NDArrayHandle *outputs;
    MUST(MXSymbolListArguments(n->symbol, &num_names, &listed));
    MUST(MXSymbolListAuxiliaryStates(n->symbol, &num_names, &listed));
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

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  if (argc < 3) return fprintf(stderr, "usage: capi_bind SYMBOL.json DATA_SHAPE [ROUNDS [BINDS_PER_ROUND]]\n"), 1;
  Network network = load(argv[1], argv[2]);
  int rounds = argc > 3 ? atoi(argv[3]) : 60, binds = argc > 4 ? atoi(argv[4]) : 100;
  double *times[2] = {malloc((size_t)rounds * sizeof(double)), malloc((size_t)rounds * sizeof(double))};
  if (rounds < 1 || binds < 1 || !times[0] || !times[1]) return 1;
  for (int round = 0; round < rounds; round++)
    for (int by_name = 0; by_name < 2; by_name++) {
      double start = microseconds(CLOCK_THREAD_CPUTIME_ID);
      for (int i = 0; i < binds; i++) bind(&network, by_name);
      times[by_name][round] = (microseconds(CLOCK_THREAD_CPUTIME_ID) - start) / binds;
    }
  for (int by_name = 0; by_name < 2; by_name++) {
    qsort(times[by_name], (size_t)rounds, sizeof(double), ascending);
    printf("C     simple_bind%s minimum %.1f median %.1f us\n", by_name ? ", names and outputs:" : ":                  ", times[by_name][0],
           times[by_name][rounds / 2]);
  }
  return 0;
}
