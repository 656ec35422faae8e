/* Symbols through both APIs, `MXSymbol*` and NNVM's, as the C++ package and DJL call them. */
#include "check.h"

static SymbolHandle variable(const char *name) {
  SymbolHandle s = NULL;
  OK(NNSymbolCreateVariable(name, &s));
  return s;
}

/* y = dense(x) + x, built with NNVM's functions. */
static SymbolHandle network(void) {
  const char *keys[] = {"num_hidden", "no_bias"}, *values[] = {"3", "True"}, *arg[] = {"data"};
  SymbolHandle x = variable("x"), dense = NULL, sum = NULL;
  OK(NNSymbolCreateAtomicSymbol(operator_named("FullyConnected"), 2, keys, values, &dense));
  OK(NNSymbolCompose(dense, "dense", 1, arg, &x));
  SymbolHandle both[] = {dense, x};
  OK(NNSymbolCreateAtomicSymbol(operator_named("elemwise_add"), 0, NULL, NULL, &sum));
  OK(NNSymbolCompose(sum, "y", 2, NULL, both));
  OK(NNSymbolFree(dense));
  OK(NNSymbolFree(x));
  return sum;
}

static void nodes_are_created_and_rejected(void) {
  SymbolHandle x = variable("x"), s = NULL;
  const char *key = "num_hidden", *bad = "many", *arg = "datum";
  REFUSED(NNSymbolCreateAtomicSymbol(operator_named("FullyConnected"), 1, &key, &bad, &s), "num_hidden");
  REFUSED(NNSymbolCreateAtomicSymbol(NULL, 0, NULL, NULL, &s), "is not an operator handle");
  REFUSED(NNSymbolCreateVariable(NULL, &s), "name is null");
  OK(NNSymbolCreateAtomicSymbol(operator_named("relu"), 0, NULL, NULL, &s));
  REFUSED(NNSymbolCompose(s, "r", 1, &arg, &x), "there is no input 'datum'");
  OK(NNSymbolFree(s));
  REFUSED(NNSymbolFree(s), "already disposed");
  OK(NNSymbolFree(x));
}

static int lists(const char **found, uint32_t n, const char *expected) {
  char all[512] = "";
  for (uint32_t i = 0; i < n; i++) {
    if (i) strcat(all, " ");
    strcat(all, found[i]);
  }
  if (strcmp(all, expected) != 0) printf("the list is %s\n", all);
  return strcmp(all, expected) == 0;
}

static void names_are_listed(void) {
  SymbolHandle s = network(), *inputs = NULL;
  const char **names = NULL, *name = NULL;
  uint32_t n = 0;
  int there = 0, count = 0;
  OK(NNSymbolListInputNames(s, 0, &n, &names));
  CHECK(lists(names, n, "x dense_weight"));
  OK(NNSymbolListInputNames(s, 2, &n, &names));
  CHECK(n == 0);
  REFUSED(NNSymbolListInputNames(s, 3, &n, &names), "option 3 is unknown");
  OK(NNSymbolListOutputNames(s, &n, &names));
  CHECK(lists(names, n, "y_output"));
  REFUSED(NNSymbolListOutputNames(NULL, &n, &names), "null");
  OK(NNSymbolListInputVariables(s, 1, &n, &inputs));
  CHECK(n == 2);
  OK(MXSymbolGetName(inputs[1], &name, &there));
  CHECK(there && strcmp(name, "dense_weight") == 0);
  for (uint32_t i = 0; i < n; i++) OK(NNSymbolFree(inputs[i]));
  REFUSED(NNSymbolListInputVariables(s, 9, &n, &inputs), "option 9 is unknown");
  OK(MXSymbolGetInputSymbols(s, &inputs, &count));
  CHECK(count == 2);
  for (int i = 0; i < count; i++) OK(MXSymbolFree(inputs[i]));
  REFUSED(MXSymbolGetInputSymbols(s, NULL, &count), "inputs is null");
  OK(NNSymbolPrint(s, &name));
  CHECK(strstr(name, "Op:FullyConnected, Name=dense") != NULL);
  OK(MXSymbolPrint(s, &name));
  CHECK(strstr(name, "Variable:x") != NULL);
  REFUSED(NNSymbolPrint(s, NULL), "null");
  REFUSED(MXSymbolPrint(NULL, &name), "null");
  OK(NNSymbolFree(s));
}

static void attributes_are_kept(void) {
  SymbolHandle s = network();
  const char *keys[] = {"__mood__", "ctx_group"}, *values[] = {"good", "g"}, *value = NULL, **all = NULL;
  uint32_t n = 0;
  int there = -1;
  OK(NNSymbolSetAttrs(s, 2, keys, values));
  REFUSED(NNSymbolSetAttrs(s, 2, keys, NULL), "vals is null");
  OK(NNSymbolGetAttr(s, "__mood__", &value, &there));
  CHECK(there == 1 && strcmp(value, "good") == 0);
  OK(NNSymbolGetAttr(s, "none", &value, &there));
  CHECK(there == 0);
  REFUSED(NNSymbolGetAttr(s, NULL, &value, &there), "key is null");
  OK(MXSymbolSetAttr(s, "__mood__", "better"));
  REFUSED(MXSymbolSetAttr(s, "__mood__", NULL), "value is null");
  OK(MXSymbolGetAttr(s, "__mood__", &value, &there));
  CHECK(there == 1 && strcmp(value, "better") == 0);
  REFUSED(MXSymbolGetAttr(NULL, "__mood__", &value, &there), "null");
  OK(MXSymbolSetAttr(s, "name", "renamed"));
  OK(MXSymbolGetName(s, &value, &there));
  CHECK(there == 1 && strcmp(value, "renamed") == 0);
  OK(MXSymbolListOutputs(s, &n, &all));
  CHECK(n == 1 && strcmp(all[0], "renamed_output") == 0);
  OK(MXSymbolSetAttr(s, "name", "dense"));
  OK(MXSymbolListAttr(s, &n, &all));
  int found = 0;
  for (uint32_t i = 0; i < 2 * n; i += 2) found += strcmp(all[i], "dense$num_hidden") == 0 && strcmp(all[i + 1], "3") == 0;
  CHECK(found == 1);
  REFUSED(MXSymbolListAttr(s, NULL, &all), "null");
  OK(MXSymbolListAttrShallow(s, &n, &all));
  CHECK(n == 2);
  REFUSED(MXSymbolListAttrShallow(NULL, &n, &all), "null");
  OK(NNSymbolListAttrs(s, 1, &n, &all));
  CHECK(n == 2);
  REFUSED(NNSymbolListAttrs(s, 1, &n, NULL), "null");
  OK(NNSymbolFree(s));
}

static void parameters_are_checked(void) {
  SymbolHandle s = network(), internals = NULL, dense = NULL;
  const char *value = NULL;
  int there = 0;
  OK(MXSymbolGetInternals(s, &internals));
  OK(MXSymbolGetOutput(internals, 2, &dense));
  REFUSED(MXSymbolSetAttr(dense, "num_hidden", "many"), "num_hidden");
  REFUSED(MXSymbolSetAttr(dense, "mood", "good"), "Cannot find argument 'mood'");
  REFUSED(MXSymbolSetAttr(dense, "no_bias", "False"), "which are 2 and 1");
  REFUSED(MXSymbolSetAttr(dense, "weight_lr_mult", "2"), "where the variable is created");
  OK(MXSymbolGetAttr(dense, "num_hidden", &value, &there));
  CHECK(there && strcmp(value, "3") == 0);
  OK(MXSymbolSetAttr(dense, "num_hidden", "4"));
  OK(MXSymbolSaveToJSON(s, &value));
  CHECK(strstr(value, "\"num_hidden\": \"4\"") != NULL);
  OK(NNSymbolFree(dense));
  OK(NNSymbolFree(internals));
  OK(NNSymbolFree(s));
}

static void subgraphs_and_copies(void) {
  SymbolHandle s = network(), made[9] = {NULL};
  uint32_t n = 0;
  const char **names = NULL;
  OK(NNSymbolGetInternals(s, &made[0]));
  OK(MXSymbolGetInternals(s, &made[1]));
  for (int i = 0; i < 2; i++) {
    OK(NNSymbolListOutputNames(made[i], &n, &names));
    CHECK(lists(names, n, "x dense_weight dense_output y_output"));
  }
  OK(NNSymbolGetNumOutputs(made[0], &n));
  CHECK(n == 4);
  OK(MXSymbolGetNumOutputs(made[1], &n));
  CHECK(n == 4);
  OK(NNSymbolGetOutput(made[0], 2, &made[2]));
  OK(NNSymbolListOutputNames(made[2], &n, &names));
  CHECK(lists(names, n, "dense_output"));
  REFUSED(NNSymbolGetOutput(made[0], 4, &made[3]), "output 4 was requested");
  OK(NNSymbolGetChildren(s, &made[3]));
  OK(MXSymbolGetChildren(s, &made[4]));
  OK(MXSymbolListOutputs(made[4], &n, &names));
  CHECK(lists(names, n, "dense_output x"));
  SymbolHandle group[] = {made[2], s};
  OK(NNSymbolCreateGroup(2, group, &made[5]));
  OK(MXSymbolListOutputs(made[5], &n, &names));
  CHECK(lists(names, n, "dense_output y_output"));
  REFUSED(NNSymbolCreateGroup(2, NULL, &made[6]), "symbols is null");
  OK(NNSymbolCopy(s, &made[6]));
  OK(MXSymbolCopy(s, &made[7]));
  OK(MXShallowCopySymbol(s, &made[8]));
  OK(MXSymbolSetAttr(made[6], "__k__", "v"));
  const char *value = NULL;
  int there = 1;
  OK(MXSymbolGetAttr(s, "__k__", &value, &there));
  CHECK(there == 0);
  REFUSED(NNSymbolCopy(NULL, &made[6]), "null");
  REFUSED(MXSymbolCopy(s, NULL), "null");
  REFUSED(MXShallowCopySymbol(NULL, &made[8]), "null");
  REFUSED(NNSymbolGetInternals(NULL, &made[0]), "null");
  REFUSED(MXSymbolGetInternals(s, NULL), "null");
  REFUSED(NNSymbolGetChildren(NULL, &made[0]), "null");
  REFUSED(MXSymbolGetChildren(NULL, &made[0]), "null");
  REFUSED(NNSymbolGetNumOutputs(s, NULL), "null");
  REFUSED(MXSymbolGetNumOutputs(NULL, &n), "null");
  for (int i = 0; i < 9; i++) OK(MXSymbolFree(made[i]));
  OK(MXSymbolFree(s));
}

static void files_hold_symbols(void) {
  SymbolHandle s = network(), back = NULL;
  char path[] = TEMPORARY_FILE;
  const char *json = NULL;
  char copy[4096];
  make_file(path, "");
  OK(MXSymbolSaveToFile(s, path));
  OK(MXSymbolCreateFromFile(path, &back));
  OK(MXSymbolSaveToJSON(s, &json));
  snprintf(copy, sizeof copy, "%s", json);
  OK(MXSymbolSaveToJSON(back, &json));
  CHECK(strcmp(copy, json) == 0);
  remove(path);
  REFUSED(MXSymbolCreateFromFile(path, &s), path);
  REFUSED(MXSymbolSaveToFile(back, "/no/such/folder/s.json"), "/no/such/folder");
  OK(MXSymbolFree(s));
  OK(MXSymbolFree(back));
}

/* For x of shape (2, 3), every variant of inference gives weights of shape (3, 3) and an output of shape (2, 3). */
static void shapes_and_types_are_inferred(void) {
  SymbolHandle s = network();
  const char *key = "x";
  uint32_t n[3];
  size_t wide[3];
  int complete = 0;
  const uint32_t starts[] = {0, 2}, dims[] = {2, 3};
  const int signed_dims[] = {2, 3};
  const int64_t starts64[] = {0, 2}, dims64[] = {2, 3};
  const uint32_t *ranks[3], **shapes[3];
  const int *ranks_i[3], **shapes_i[3];
  const int64_t **shapes64[3];
#define INFER(f, starts, dims, n, ranks, shapes)                                                                        \
  f(s, 1, &key, starts, dims, &n[0], &ranks[0], &shapes[0], &n[1], &ranks[1], &shapes[1], &n[2], &ranks[2], &shapes[2], \
    &complete)
#define GIVES(f, starts, dims, n, ranks, shapes)                                                     \
  do {                                                                                               \
    complete = 0;                                                                                    \
    OK(INFER(f, starts, dims, n, ranks, shapes));                                                    \
    CHECK(complete == 1 && n[0] == 2 && ranks[0][1] == 2 && shapes[0][1][0] == 3);                   \
    CHECK(n[1] == 1 && shapes[1][0][0] == 2 && shapes[1][0][1] == 3 && n[2] == 0);                   \
    CHECK(shapes[0][1] == shapes[0][0] + ranks[0][0]); /* DJL reads all shapes as one array */       \
    key = "none";                                                                                    \
    REFUSED(INFER(f, starts, dims, n, ranks, shapes), "there is no argument 'none'");                \
    key = "x";                                                                                       \
  } while (0)
  GIVES(MXSymbolInferShape, starts, dims, n, ranks, shapes);
  GIVES(MXSymbolInferShapePartial, starts, dims, n, ranks, shapes);
  GIVES(MXSymbolInferShapeEx, starts, signed_dims, n, ranks_i, shapes_i);
  GIVES(MXSymbolInferShapePartialEx, starts, signed_dims, n, ranks_i, shapes_i);
  GIVES(MXSymbolInferShapeEx64, starts64, dims64, wide, ranks_i, shapes64);
  GIVES(MXSymbolInferShapePartialEx64, starts64, dims64, wide, ranks_i, shapes64);
  const int half = 2, *types[3];
  OK(MXSymbolInferTypePartial(s, 1, &key, &half, &n[0], &types[0], &n[1], &types[1], &n[2], &types[2], &complete));
  CHECK(n[0] == 2 && types[0][1] == 2 && types[1][0] == 2);
  const int none = 77;
  REFUSED(MXSymbolInferTypePartial(s, 1, &key, &none, &n[0], &types[0], &n[1], &types[1], &n[2], &types[2], &complete), "77");
  OK(MXSymbolFree(s));
}

int main(void) {
  RUN(nodes_are_created_and_rejected);
  RUN(names_are_listed);
  RUN(attributes_are_kept);
  RUN(parameters_are_checked);
  RUN(subgraphs_and_copies);
  RUN(files_hold_symbols);
  RUN(shapes_and_types_are_inferred);
  return failures != 0;
}
