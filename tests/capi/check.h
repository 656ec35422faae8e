/* Shared by the test programs. Each test prints its failures, then `ok NAME` or `FAIL NAME`. */
#ifndef FERROMX_CHECK_H_
#define FERROMX_CHECK_H_

#include <math.h>
#include <mxnet/c_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int failures_of_test;
static int failures;

/* Counts a failure. With STOP_AT_FAILURE in the environment, ends the program, since later calls rely on the failed one. */
static inline void fail(void) {
  failures_of_test++;
  if (getenv("STOP_AT_FAILURE")) exit(1);
}

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      printf("%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);        \
      fail();                                                                 \
    }                                                                         \
  } while (0)

/* The call succeeds. */
#define OK(call)                                                                                   \
  do {                                                                                             \
    if ((call) != 0) {                                                                             \
      printf("%s:%d: %s failed: %s\n", __FILE__, __LINE__, #call, MXGetLastError());               \
      fail();                                                                                      \
    }                                                                                              \
  } while (0)

/* The call fails, and its message has this text. */
#define REFUSED(call, text)                                                                        \
  do {                                                                                             \
    if ((call) != -1) {                                                                            \
      printf("%s:%d: %s did not fail\n", __FILE__, __LINE__, #call);                               \
      fail();                                                                                      \
    } else if (strstr(MXGetLastError(), text) == NULL) {                                           \
      printf("%s:%d: %s failed with \"%s\", which lacks \"%s\"\n", __FILE__, __LINE__, #call,      \
             MXGetLastError(), text);                                                              \
      fail();                                                                                      \
    }                                                                                              \
  } while (0)

#define NEAR(a, b) CHECK(fabs((double)(a) - (double)(b)) <= 1e-5 * (1.0 + fabs((double)(b))))

#define RUN(test)                                                    \
  do {                                                               \
    failures_of_test = 0;                                            \
    test();                                                          \
    printf("%s %s\n", failures_of_test ? "FAIL" : "ok", #test);      \
    failures += failures_of_test;                                    \
  } while (0)

#define TEMPORARY_FILE "/tmp/ferromx-capi-XXXXXX"

/* Makes a file of this process alone, as several programs run side by side, and fills in its name: path is TEMPORARY_FILE. */
static inline void make_file(char *path, const char *text) {
  int file = mkstemp(path);
  CHECK(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
  close(file);
}

/* Reads a file of up to capacity bytes into bytes and removes it. Returns its size. */
static inline size_t take_file(const char *path, char *bytes, size_t capacity) {
  FILE *file = fopen(path, "rb");
  CHECK(file != NULL);
  size_t size = file ? fread(bytes, 1, capacity, file) : 0;
  if (file) fclose(file);
  remove(path);
  return size;
}

/* A new array of 32-bit floats. */
static inline NDArrayHandle floats(const float *values, const uint32_t *shape, uint32_t ndim) {
  NDArrayHandle array = NULL;
  size_t n = 1;
  for (uint32_t i = 0; i < ndim; i++) n *= shape[i];
  OK(MXNDArrayCreateEx(shape, ndim, 1, 0, 0, 0, &array));
  OK(MXNDArraySyncCopyFromCPU(array, values, n));
  return array;
}

static inline NDArrayHandle vector(const float *values, uint32_t n) { return floats(values, &n, 1); }

static inline OpHandle operator_named(const char *name) {
  OpHandle op = NULL;
  OK(NNGetOpHandle(name, &op));
  return op;
}

/* An operator applied to inputs by position. */
static inline SymbolHandle node(const char *op, const char *name, const char *key, const char *value,
                                SymbolHandle *inputs, uint32_t n) {
  SymbolHandle s = NULL;
  OK(MXSymbolCreateAtomicSymbol(operator_named(op), key ? 1 : 0, &key, &value, &s));
  OK(MXSymbolCompose(s, name, n, NULL, inputs));
  return s;
}

#endif
