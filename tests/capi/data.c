/* Reads files in batches. */
#include <sys/resource.h>

#include "check.h"

static DataIterCreator kind_named(const char *wanted, uint32_t *num_params) {
  uint32_t n = 0;
  DataIterCreator *all = NULL, found = NULL;
  OK(MXListDataIters(&n, &all));
  for (uint32_t i = 0; i < n; i++) {
    const char *name = NULL, *doc = NULL, **names = NULL, **types = NULL, **docs = NULL;
    OK(MXDataIterGetIterInfo(all[i], &name, &doc, num_params, &names, &types, &docs));
    CHECK(*doc != 0 && *names[0] != 0 && *types[0] != 0);
    if (strcmp(name, wanted) == 0) {
      found = all[i];
      break;
    }
  }
  CHECK(found != NULL);
  return found;
}

static void reads_batches(void) {
  char path[] = TEMPORARY_FILE;
  make_file(path, "1,2\n3,4\n5,6\n");
  uint32_t num_params = 0;
  DataIterCreator kind = kind_named("CSVIter", &num_params);
  CHECK(num_params > 2);
  const char *keys[] = {"data_csv", "data_shape", "batch_size", "round_batch"};
  const char *values[] = {path, "(2,)", "2", "False"};
  DataIterHandle iter = NULL;
  OK(MXDataIterCreateIter(kind, 4, keys, values, &iter));
  const float want[2][4] = {{1, 2, 3, 4}, {5, 6, 3, 4}};
  for (int epoch = 0; epoch < 2; epoch++) {
    int more = 0;
    OK(MXDataIterBeforeFirst(iter));
    for (int batch = 0; batch < 2; batch++) {
      NDArrayHandle data = NULL, label = NULL;
      float got[4];
      int pad = 9;
      uint64_t *index = NULL, n = 0;
      OK(MXDataIterNext(iter, &more));
      CHECK(more == 1);
      OK(MXDataIterGetData(iter, &data));
      OK(MXDataIterGetLabel(iter, &label));
      OK(MXNDArraySyncCopyToCPU(data, got, 4));
      for (int i = 0; i < 4; i++) NEAR(got[i], want[batch][i]);
      OK(MXDataIterGetPadNum(iter, &pad));
      CHECK(pad == batch);
      OK(MXDataIterGetIndex(iter, &index, &n));
      CHECK(n == 2 && index[0] == (uint64_t)(2 * batch));
      OK(MXNDArrayFree(data));
      OK(MXNDArrayFree(label));
    }
    OK(MXDataIterNext(iter, &more));
    CHECK(more == 0);
  }
  OK(MXDataIterFree(iter));
  remove(path);
  REFUSED(MXDataIterNext(iter, &(int){0}), "disposed");
  REFUSED(MXDataIterCreateIter(kind, 3, keys, values, &iter), path);
}

/* Sanitizers reserve more address space than any limit allows. */
extern void __asan_init(void) __attribute__((weak));
extern void __tsan_init(void) __attribute__((weak));

/* A batch of 2^32 - 1 examples of a file of two is refused before memory is allocated for it. */
static void huge_batches_are_errors(void) {
  const char *kinds[] = {"CSVIter", "LibSVMIter"}, *examples[] = {"1,2\n3,4\n", "1 0:2\n3 1:4\n"};
  const char *keys[] = {"data_csv", "data_shape", "batch_size"};
  struct rlimit old, low;
  if (__asan_init || __tsan_init) return;
  CHECK(getrlimit(RLIMIT_AS, &old) == 0);
  low = old;
  if (low.rlim_cur > (rlim_t)4 << 30) low.rlim_cur = (rlim_t)4 << 30;
  for (int k = 0; k < 2; k++) {
    char path[] = TEMPORARY_FILE;
    make_file(path, examples[k]);
    uint32_t num_params = 0;
    const char *values[] = {path, "(2,)", "4294967295"};
    DataIterHandle iter = NULL;
    keys[0] = k == 0 ? "data_csv" : "data_libsvm";
    OK(MXDataIterCreateIter(kind_named(kinds[k], &num_params), 3, keys, values, &iter));
    CHECK(setrlimit(RLIMIT_AS, &low) == 0);
    REFUSED(MXDataIterNext(iter, &(int){0}), "number of input must be bigger than batch size");
    CHECK(setrlimit(RLIMIT_AS, &old) == 0);
    OK(MXDataIterFree(iter));
    remove(path);
  }
}

int main(void) {
  RUN(reads_batches);
  RUN(huge_batches_are_errors);
  return failures != 0;
}
