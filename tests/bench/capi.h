/* Shared by the C benchmarks: a macro that exits on an error, and clocks in microseconds. */
#ifndef FERROMX_BENCH_CAPI_H
#define FERROMX_BENCH_CAPI_H

#include <mxnet/c_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MUST(call)                                          \
  do {                                                      \
    if ((call) != 0) {                                      \
      fprintf(stderr, "%s: %s\n", #call, MXGetLastError()); \
      exit(1);                                              \
    }                                                       \
  } while (0)

static double microseconds(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

#endif
