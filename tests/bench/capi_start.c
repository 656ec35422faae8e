/* Measures start-up through the C API: loading parameters, simple_bind, and the first inference. Prints milliseconds of wall-clock
 * time and, in brackets, of processor time, which depends less on other load.
 *   cc -O2 -I native/capi/include tests/bench/capi_start.c -o target/capi_start -L target/release -lmxnet -Wl,-rpath,$PWD/target/release
 *   target/capi_start bind SYMBOL.json DATA_SHAPE [null|write] [repeats]
 *   target/capi_start load FILE.params
 *   target/capi_start infer SYMBOL.json FILE.params DATA_SHAPE
 * DATA_SHAPE is the shape of the argument `data`, such as 1,3,224,224. With LD_LIBRARY_PATH the same program runs on MXNet. */
#include "capi.h"

#include <string.h>

typedef struct {
  double wall, processor;
} Time;

static Time now(void) {
  Time t = {microseconds(CLOCK_MONOTONIC) / 1e3, microseconds(CLOCK_PROCESS_CPUTIME_ID) / 1e3};
  return t;
}

static Time since(Time start) {
  Time t = now();
  t.wall -= start.wall;
  t.processor -= start.processor;
  return t;
}

/* The shorter time. Processor time decides. */
static Time shorter(Time a, Time b) { return a.processor < b.processor ? a : b; }

static void report(const char *what, Time t) { printf("%-26s %9.2f (%.2f)\n", what, t.wall, t.processor); }

/* Milliseconds since the system started this process; the clock of /proc has a resolution of 10 ms. */
static double process_age(void) {
  FILE *stat = fopen("/proc/self/stat", "r");
  unsigned long long start = 0;
  if (!stat) return 0;
  if (fscanf(stat, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &start) != 1) start = 0;
  fclose(stat);
  return microseconds(CLOCK_BOOTTIME) / 1e3 - (double)start * 10;
}

/* A bound network. */
typedef struct {
  ExecutorHandle executor;
  NDArrayHandle *args, *grads, *aux;
  uint32_t num_args, num_aux;
} Bound;

static NDArrayHandle *copied(NDArrayHandle *handles, uint32_t count) {
  NDArrayHandle *copy = malloc((count + 1) * sizeof *copy);
  if (!copy) exit(1);
  memcpy(copy, handles, count * sizeof *copy);
  return copy;
}

static int parse_shape(char *text, int *shape) {
  int rank = 0;
  for (char *d = strtok(text, ","); d && rank < 8; d = strtok(NULL, ",")) shape[rank++] = atoi(d);
  return rank;
}

static Bound bind(SymbolHandle symbol, const int *shape, int rank, const char *request) {
  const char *name = "data";
  const uint32_t ends[] = {0, (uint32_t)rank};
  int buffer_len = -1;
  NDArrayHandle *args, *grads, *aux;
  const char **updated_names = NULL;
  NDArrayHandle *updated = NULL;
  Bound b;
  MUST(MXExecutorSimpleBindEx(symbol, 1, 0, 0, NULL, NULL, NULL, 0, NULL, &request, 1, &name, shape, ends, 0, NULL, NULL, 0, NULL, NULL, 0,
                              NULL, &buffer_len, NULL, NULL, &updated_names, &updated, &b.num_args, &args, &grads, &b.num_aux, &aux, NULL,
                              &b.executor));
  b.args = copied(args, b.num_args);
  b.grads = copied(grads, b.num_args);
  b.aux = copied(aux, b.num_aux);
  return b;
}

static void release(Bound b) {
  for (uint32_t i = 0; i < b.num_args; i++) {
    MUST(MXNDArrayFree(b.args[i]));
    if (b.grads[i]) MUST(MXNDArrayFree(b.grads[i]));
  }
  for (uint32_t i = 0; i < b.num_aux; i++) MUST(MXNDArrayFree(b.aux[i]));
  MUST(MXExecutorFree(b.executor));
  free(b.args);
  free(b.grads);
  free(b.aux);
}

static int bench_bind(const char *file, char *shape_text, const char *request, int repeats) {
  int shape[8], rank = parse_shape(shape_text, shape);
  Time start = now();
  SymbolHandle symbol;
  MUST(MXSymbolCreateFromFile(file, &symbol));
  report("load symbol", since(start));
  Time fastest = {1e30, 1e30}, reshaped = fastest;
  for (int i = 0; i < repeats; i++) {
    start = now();
    Bound b = bind(symbol, shape, rank, request);
    Time took = since(start);
    if (i == 0) report("first simple_bind", took);
    if (i > 0) fastest = shorter(fastest, took);
    if (strcmp(request, "null") == 0) {
      int smaller[8];
      memcpy(smaller, shape, sizeof smaller);
      smaller[0] = shape[0] > 1 ? shape[0] - 1 : 1;
      const char *name = "data";
      const uint32_t ends[] = {0, (uint32_t)rank};
      uint32_t num_args, num_aux;
      NDArrayHandle *args, *grads, *aux;
      ExecutorHandle executor;
      start = now();
      MUST(MXExecutorReshapeEx(1, 0, 1, 0, 0, NULL, NULL, NULL, 1, &name, smaller, ends, &num_args, &args, &grads, &num_aux, &aux,
                               b.executor, &executor));
      reshaped = shorter(reshaped, since(start));
      for (uint32_t k = 0; k < num_args; k++) {
        MUST(MXNDArrayFree(args[k]));
        if (grads && grads[k]) MUST(MXNDArrayFree(grads[k]));
      }
      for (uint32_t k = 0; k < num_aux; k++) MUST(MXNDArrayFree(aux[k]));
      MUST(MXExecutorFree(executor));
    }
    release(b);
  }
  if (repeats > 1) report("fastest further simple_bind", fastest);
  if (strcmp(request, "null") == 0) report("fastest reshape", reshaped);
  return 0;
}

static int bench_load(const char *file, int repeats) {
  for (int i = 0; i < repeats; i++) {
    uint32_t count, num_names;
    NDArrayHandle *arrays;
    const char **names;
    Time start = now();
    MUST(MXNDArrayLoad(file, &count, &arrays, &num_names, &names));
    report(i == 0 ? "first load" : "further load", since(start));
    arrays = copied(arrays, count);
    for (uint32_t k = 0; k < count; k++) MUST(MXNDArrayFree(arrays[k]));
    free(arrays);
  }
  return 0;
}

static int bench_infer(const char *symbol_file, const char *params_file, char *shape_text) {
  int shape[8], rank = parse_shape(shape_text, shape);
  printf("process start to main %.0f\n", process_age());
  Time start = now(), begin = start;
  SymbolHandle symbol;
  MUST(MXSymbolCreateFromFile(symbol_file, &symbol));
  report("load symbol", since(start));
  start = now();
  uint32_t count, num_names;
  NDArrayHandle *arrays;
  const char **names;
  MUST(MXNDArrayLoad(params_file, &count, &arrays, &num_names, &names));
  arrays = copied(arrays, count);
  report("load parameters", since(start));
  start = now();
  /* Parameters are bound without a copy. */
  uint32_t num_args, num_aux;
  const char **listed;
  MUST(MXSymbolListArguments(symbol, &num_args, &listed));
  NDArrayHandle *args = malloc(num_args * sizeof *args), *none = calloc(num_args, sizeof *none);
  uint32_t *requests = calloc(num_args, sizeof *requests);
  if (!args || !none || !requests) exit(1);
  for (uint32_t i = 0; i < num_args; i++) {
    args[i] = NULL;
    for (uint32_t k = 0; k < num_names; k++)
      if (strncmp(names[k], "arg:", 4) == 0 && strcmp(names[k] + 4, listed[i]) == 0) args[i] = arrays[k];
    if (!args[i]) {
      uint32_t dims[8];
      for (int d = 0; d < rank; d++) dims[d] = (uint32_t)shape[d];
      MUST(MXNDArrayCreateEx(dims, (uint32_t)rank, 1, 0, 0, 0, &args[i]));
    }
  }
  MUST(MXSymbolListAuxiliaryStates(symbol, &num_aux, &listed));
  NDArrayHandle *aux = calloc(num_aux + 1, sizeof *aux);
  if (!aux) exit(1);
  for (uint32_t i = 0; i < num_aux; i++)
    for (uint32_t k = 0; k < num_names; k++)
      if (strncmp(names[k], "aux:", 4) == 0 && strcmp(names[k] + 4, listed[i]) == 0) aux[i] = arrays[k];
  ExecutorHandle executor;
  MUST(MXExecutorBind(symbol, 1, 0, num_args, args, none, requests, num_aux, aux, &executor));
  report("bind", since(start));
  for (int i = 0; i < 3; i++) {
    start = now();
    MUST(MXExecutorForward(executor, 0));
    uint32_t num_outputs;
    NDArrayHandle *outputs;
    MUST(MXExecutorOutputs(executor, &num_outputs, &outputs));
    MUST(MXNDArrayWaitToRead(outputs[0]));
    for (uint32_t k = 0; k < num_outputs; k++) MUST(MXNDArrayFree(outputs[k]));
    report(i == 0 ? "first inference" : "further inference", since(start));
    if (i == 0) report("main to first inference", since(begin));
    if (i == 0) printf("process start to first inference %.0f\n", process_age());
  }
  return 0;
}

int main(int argc, char **argv) {
  if (argc >= 4 && strcmp(argv[1], "bind") == 0)
    return bench_bind(argv[2], argv[3], argc > 4 ? argv[4] : "null", argc > 5 ? atoi(argv[5]) : 10);
  if (argc >= 3 && strcmp(argv[1], "load") == 0) return bench_load(argv[2], argc > 3 ? atoi(argv[3]) : 5);
  if (argc == 5 && strcmp(argv[1], "infer") == 0) return bench_infer(argv[2], argv[3], argv[4]);
  return fprintf(stderr, "usage: see the first lines of capi_start.c\n"), 1;
}
