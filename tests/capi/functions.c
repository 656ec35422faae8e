/* Legacy array functions. */
#include "check.h"

static FunctionHandle function_named(const char *name) {
  FunctionHandle function = NULL;
  OK(MXGetFunction(name, &function));
  return function;
}

static void values_are(NDArrayHandle array, const float *want, size_t n) {
  float got[16];
  OK(MXNDArraySyncCopyToCPU(array, got, n));
  for (size_t i = 0; i < n; i++) NEAR(got[i], want[i]);
}

static void functions_are_listed_and_described(void) {
  uint32_t n = 0, arrays = 0, numbers = 0, written = 0, args = 0;
  int mask = 0;
  FunctionHandle *all = NULL, unknown = NULL;
  const char *name = NULL, *text = NULL, **names = NULL, **types = NULL, **texts = NULL, *result = NULL;
  OK(MXListFunctions(&n, &all));
  CHECK(n == 4);
  OK(MXFuncGetInfo(all[3], &name, &text, &args, &names, &types, &texts, &result));
  CHECK(strcmp(name, "_imdecode") == 0 && args == 8 && strcmp(names[7], "size") == 0 && strcmp(types[7], "int") == 0);
  OK(MXFuncDescribe(all[3], &arrays, &numbers, &written, &mask));
  CHECK(arrays == 1 && numbers == 7 && written == 1 && mask == 5);
  OK(MXFuncDescribe(function_named("_set_value"), &arrays, &numbers, &written, &mask));
  CHECK(arrays == 0 && numbers == 1 && written == 1 && mask == 0);
  REFUSED(MXGetFunction("exp", &unknown), "the functions are _set_value");
  REFUSED(MXFuncDescribe(operator_named("exp"), &arrays, &numbers, &written, &mask), "call it by MXImperativeInvoke");
  REFUSED(MXFuncDescribe(NULL, &arrays, &numbers, &written, &mask), "is not an operator handle");
}

static void functions_write_arrays(void) {
  const float zeros[] = {0, 0, 0, 0, 0, 0}, indices[] = {1, 2};
  float value = 3.5f;
  NDArrayHandle x = vector(zeros, 4);
  OK(MXFuncInvoke(function_named("_set_value"), NULL, &value, &x));
  values_are(x, (const float[]){3.5, 3.5, 3.5, 3.5}, 4);
  const uint32_t shape[] = {2, 3};
  NDArrayHandle rows = floats(zeros, shape, 2), index = vector(indices, 2), used[] = {index, rows};
  OK(MXFuncInvoke(function_named("_onehot_encode"), used, NULL, &rows));
  values_are(rows, (const float[]){0, 1, 0, 0, 0, 1}, 6);
  REFUSED(MXFuncInvoke(function_named("_set_value"), NULL, NULL, &x), "scalar_args is null");
  REFUSED(MXFuncInvoke(function_named("_set_value"), NULL, &value, NULL), "mutate_vars is null");
  OK(MXNDArrayFree(x));
  OK(MXNDArrayFree(rows));
  OK(MXNDArrayFree(index));
}

/* A BMP image of two pixels with blue, green, red (10, 20, 30) and (40, 50, 60), followed by four padding bytes. It contains zeros. */
static size_t bmp_image(unsigned char *bmp) {
  memset(bmp, 0, 66);
  bmp[0] = 'B', bmp[1] = 'M', bmp[2] = 66, bmp[10] = 54, bmp[14] = 40, bmp[18] = 2, bmp[22] = 1, bmp[26] = 1, bmp[28] = 24;
  for (int i = 0; i < 6; i++) bmp[54 + i] = (unsigned char)(10 + 10 * i);
  return 66;
}

static void images_in_memory_are_decoded(void) {
  unsigned char bmp[66];
  float numbers[] = {0, 0, 0, 0, 0, 3, (float)bmp_image(bmp)};
  char key[] = "str_img", *keys[] = {key}, *values[] = {(char *)bmp};
  FunctionHandle decode = function_named("_imdecode");
  const float ones[] = {1, 1, 1, 1, 1, 1}, zeros[12] = {0};
  const uint32_t shape[] = {3, 1, 2}, batch[] = {2, 3, 1, 2};
  NDArrayHandle mean = floats(ones, shape, 3), none = NULL, out = NULL, examples = floats(zeros, batch, 4);
  OK(MXNDArrayCreateNone(&none));
  OK(MXNDArrayCreateNone(&out));
  OK(MXFuncInvokeEx(decode, &mean, numbers, &out, 1, keys, values));
  values_are(out, (const float[]){9, 39, 19, 49, 29, 59}, 6);
  numbers[0] = 1;
  OK(MXFuncInvokeEx(decode, &none, numbers, &examples, 1, keys, values));
  values_are(examples, (const float[]){0, 0, 0, 0, 0, 0, 10, 40, 20, 50, 30, 60}, 12);
  numbers[0] = 2;
  REFUSED(MXFuncInvokeEx(decode, &none, numbers, &examples, 1, keys, values), "beyond the 2 examples");
  REFUSED(MXFuncInvokeEx(decode, &mean, numbers, &out, 0, NULL, NULL), "one parameter, the encoded image");
  numbers[6] = 30;
  REFUSED(MXFuncInvokeEx(decode, &mean, numbers, &out, 1, keys, values), "damaged");
  OK(MXNDArrayFree(mean));
  OK(MXNDArrayFree(none));
  OK(MXNDArrayFree(out));
  OK(MXNDArrayFree(examples));
}

int main(void) {
  RUN(functions_are_listed_and_described);
  RUN(functions_write_arrays);
  RUN(images_in_memory_are_decoded);
  return failures != 0;
}
