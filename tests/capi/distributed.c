/* Stores that several processes share: child processes that join a job by environment variables, and jobs that a program sets up. */
#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

/* A port that is free now. */
static int free_port(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  int s = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(bind(s, (struct sockaddr *)&address, sizeof address) == 0);
  CHECK(getsockname(s, (struct sockaddr *)&address, &length) == 0);
  close(s);
  return ntohs(address.sin_port);
}

/* Describes the job to this process. */
static void environment(const char *role, int rank, int size, int port, const char *timeout) {
  char id[16], workers[16], root[16];
  snprintf(id, sizeof id, "%d", rank);
  snprintf(workers, sizeof workers, "%d", size);
  snprintf(root, sizeof root, "%d", port);
  setenv("FERROMX_JOB_TIMEOUT", timeout, 1);
  setenv("DMLC_ROLE", "worker", 1);
  const char *keys[] = {"DMLC_ROLE", "DMLC_NUM_WORKER", "DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT", "DMLC_WORKER_ID"};
  const char *values[] = {role, workers, "127.0.0.1", root, id};
  OK(MXInitPSEnv(rank < 0 ? 4 : 5, keys, values));
}

static void values_are(NDArrayHandle array, float first, float second) {
  float values[2];
  OK(MXNDArraySyncCopyToCPU(array, values, 2));
  NEAR(values[0], first);
  NEAR(values[1], second);
}

/* Two shards of each of `size` workers are summed. */
static void work(int rank, int size, int port) {
  environment("worker", rank, size, port, "20");
  KVStoreHandle store = NULL;
  int is_worker = 0, is_server = 1, own = -1, all = 0, dead = -1;
  OK(MXKVStoreIsWorkerNode(&is_worker));
  OK(MXKVStoreIsServerNode(&is_server));
  CHECK(is_worker == 1 && is_server == 0);
  OK(MXKVStoreCreate("dist_sync", &store));
  OK(MXKVStoreGetRank(store, &own));
  OK(MXKVStoreGetGroupSize(store, &all));
  OK(MXKVStoreGetNumDeadNode(store, 4, &dead, 1));
  OK(MXKVStoreIsWorkerNode(&is_worker));
  CHECK((rank < 0 || own == rank) && all == size && dead == 0 && is_worker == 0);
  const char *keys[] = {"a", "a"};
  const float mine[] = {own + 1, 2}, other[] = {10, 0};
  NDArrayHandle values[] = {vector(mine, 2), vector(other, 2)}, out = vector(mine, 2);
  OK(MXKVStoreBroadcastEx(store, 1, keys, 1, keys, values, &out, 0));
  values_are(out, 1, 2);
  OK(MXKVStorePushEx(store, 2, keys, values, 0));
  OK(MXKVStorePullEx(store, 1, keys, &out, 0));
  values_are(out, size * (size + 1) / 2 + 10 * size, 2 * size);
  OK(MXKVStoreBarrier(store));
  REFUSED(MXKVStoreSendCommmandToServers(store, 0, "optimizer"), "there are no servers");
  OK(MXKVStoreSetBarrierBeforeExit(store, 1));
  OK(MXKVStoreFree(store));
  OK(MXKVStoreIsWorkerNode(&is_worker));
  CHECK(is_worker == 1);
}

/* A scheduler introduces the workers; a server has nothing to do. Both hold no values. */
static void serve(const char *role, int size, int port) {
  environment(role, -1, size, port, "20");
  KVStoreHandle store = NULL;
  int is_worker = 1, is_scheduler = -1, all = 0;
  OK(MXKVStoreIsWorkerNode(&is_worker));
  OK(MXKVStoreIsSchedulerNode(&is_scheduler));
  CHECK(is_worker == 0 && is_scheduler == (strcmp(role, "scheduler") == 0));
  OK(MXKVStoreCreate("dist", &store));
  OK(MXKVStoreGetGroupSize(store, &all));
  CHECK(all == size);
  const float zero[] = {0, 0};
  const int key = 1;
  NDArrayHandle value = vector(zero, 2);
  REFUSED(MXKVStoreInit(store, 1, &key, &value), "holds no values");
  OK(MXKVStoreRunServer(store, NULL, NULL));
  OK(MXKVStoreFree(store));
}

/* Starts a process that runs `call`. */
#define CHILD(call)               \
  do {                            \
    fflush(stdout);               \
    if (fork() == 0) {            \
      call;                       \
      fflush(stdout);             \
      _exit(failures_of_test);    \
    }                             \
  } while (0)

static void children_succeed(int n) {
  for (int i = 0; i < n; i++) {
    int status = -1;
    CHECK(wait(&status) > 0);
    CHECK(status == 0);
  }
}

static void workers_need_no_scheduler(void) {
  int port = free_port();
  for (int rank = 0; rank < 3; rank++) CHILD(work(rank, 3, port));
  children_succeed(3);
}

static void schedulers_and_servers_may_be_started(void) {
  int port = free_port();
  CHILD(serve("scheduler", 2, port));
  CHILD(serve("server", 2, port));
  for (int i = 0; i < 2; i++) CHILD(work(-1, 2, port));
  children_succeed(4);
}

static void lose(int rank, int port) {
  environment("worker", rank, 2, port, "20");
  KVStoreHandle store = NULL;
  const float zero[] = {0, 0};
  const int key = 1;
  NDArrayHandle value = vector(zero, 2);
  OK(MXKVStoreCreate("dist_sync", &store));
  OK(MXKVStoreInit(store, 1, &key, &value));
  if (rank == 1) _exit(failures_of_test);
  int dead = 0;
  REFUSED(MXKVStoreBarrier(store), "rank 1 (127.0.0.1:");
  OK(MXKVStoreGetNumDeadNode(store, 4, &dead, 1));
  CHECK(dead == 1);
  OK(MXKVStorePull(store, 1, &key, &value, 0));
  OK(MXKVStoreFree(store));
}

static void lost_workers_are_named(void) {
  int port = free_port();
  for (int rank = 0; rank < 2; rank++) CHILD(lose(rank, port));
  children_succeed(2);
}

enum { NUM_PARAMETERS = 4 };
static const char *const parameter_names[] = {"one_weight", "one_bias", "two_weight", "two_bias"};

/* An array whose element i is (i % 7 - 3) * scale. */
static NDArrayHandle ramp(uint32_t rows, uint32_t columns, float scale) {
  const uint32_t shape[] = {rows, columns};
  uint32_t n = columns > 0 ? rows * columns : rows;
  float *values = malloc(n * sizeof *values);
  for (uint32_t i = 0; i < n; i++) values[i] = ((int)(i % 7) - 3) * scale;
  NDArrayHandle array = floats(values, shape, columns > 0 ? 2 : 1);
  free(values);
  return array;
}

/* Binds two layers and runs the forward pass. The gradients of the second layer, which are complete first, fill a bucket. */
static ExecutorHandle two_layers(NDArrayHandle *gradients) {
  SymbolHandle x = NULL;
  OK(MXSymbolCreateVariable("data", &x));
  x = node("FullyConnected", "one", "num_hidden", "1000", &x, 1);
  x = node("FullyConnected", "two", "num_hidden", "1200", &x, 1);
  x = node("LinearRegressionOutput", "out", NULL, NULL, &x, 1);
  const uint32_t dims[NUM_PARAMETERS][2] = {{1000, 8}, {1000, 0}, {1200, 1000}, {1200, 0}};
  NDArrayHandle args[NUM_PARAMETERS + 2], grads[NUM_PARAMETERS + 2] = {NULL};
  uint32_t reqs[NUM_PARAMETERS + 2] = {0};
  args[0] = ramp(2, 8, 1);
  args[NUM_PARAMETERS + 1] = ramp(2, 1200, 1);
  for (int i = 0; i < NUM_PARAMETERS; i++) {
    args[i + 1] = ramp(dims[i][0], dims[i][1], 0.01f);
    grads[i + 1] = gradients[i] = ramp(dims[i][0], dims[i][1], 0);
    reqs[i + 1] = 1;
  }
  ExecutorHandle executor = NULL;
  OK(MXExecutorBind(x, 1, 0, NUM_PARAMETERS + 2, args, grads, reqs, 0, NULL, &executor));
  OK(MXExecutorForward(executor, 1));
  return executor;
}

/* The sum of the absolute values of all elements. */
static double total(NDArrayHandle *arrays, const size_t *sizes) {
  double sum = 0;
  for (int i = 0; i < NUM_PARAMETERS; i++) {
    float *values = malloc(sizes[i] * sizeof *values);
    OK(MXNDArraySyncCopyToCPU(arrays[i], values, sizes[i]));
    for (size_t k = 0; k < sizes[i]; k++) sum += fabs(values[k]);
    free(values);
  }
  return sum;
}

static void push_in_backward(int rank, int port, int killed) {
  environment("worker", rank, 2, port, "20");
  const char **keys = (const char **)parameter_names;
  const size_t sizes[] = {8000, 1000, 1200000, 1200};
  NDArrayHandle gradients[NUM_PARAMETERS];
  KVStoreHandle store = NULL;
  ExecutorHandle executor = two_layers(gradients);
  OK(MXKVStoreCreate("dist_sync", &store));
  OK(MXKVStoreInitEx(store, NUM_PARAMETERS, keys, gradients));
  if (killed && rank == 1) {
    OK(MXExecutorBackward(executor, 0, NULL));
    OK(MXKVStorePushEx(store, 1, &keys[2], &gradients[2], 0));
    fflush(stdout);
    raise(SIGKILL);
  }
  int status = FerroExecutorBackwardPush(executor, 0, NULL, 1, store, NUM_PARAMETERS, keys, gradients);
  if (killed) {
    /* The pass fails if it notices the loss; the pull fails otherwise. */
    CHECK(status == 0 || strstr(MXGetLastError(), "rank 1 (127.0.0.1:") != NULL);
    REFUSED(MXKVStorePullEx(store, NUM_PARAMETERS, keys, gradients, 0), "rank 1 (127.0.0.1:");
    return;
  }
  OK(status);
  double own = total(gradients, sizes);
  OK(MXKVStorePullEx(store, NUM_PARAMETERS, keys, gradients, 0));
  CHECK(own > 0);
  NEAR(total(gradients, sizes), 2 * own);
  const char *unknown[] = {"one_weight", "one_bias", "two_weight", "other"};
  REFUSED(FerroExecutorBackwardPush(executor, 0, NULL, 1, store, NUM_PARAMETERS, unknown, gradients), "key other doesn't exist");
  OK(MXKVStoreBarrier(store));
  OK(MXKVStoreFree(store));
  OK(MXExecutorFree(executor));
}

static void gradients_are_pushed_during_the_backward_pass(void) {
  int port = free_port();
  for (int rank = 0; rank < 2; rank++) CHILD(push_in_backward(rank, port, 0));
  children_succeed(2);
}

static void a_worker_that_is_killed_during_the_backward_pass_is_named(void) {
  int port = free_port(), num_killed = 0;
  for (int rank = 0; rank < 2; rank++) CHILD(push_in_backward(rank, port, 1));
  for (int i = 0; i < 2; i++) {
    int status = -1;
    CHECK(wait(&status) > 0);
    if (WIFSIGNALED(status)) num_killed++; else CHECK(status == 0);
  }
  CHECK(num_killed == 1);
}

static void misuse(void) {
  KVStoreHandle store = NULL;
  unsetenv("DMLC_NUM_WORKER");
  REFUSED(MXKVStoreCreate("dist_sync", &store), "DMLC_NUM_WORKER is not set");
  REFUSED(MXKVStoreCreate("dist_async", &store), "'dist_async' are not supported");
  const char *keys[] = {"DMLC_NUM_WORKER", "DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT"}, *values[] = {"2", "192.0.2.1", "9"};
  OK(MXInitPSEnv(3, keys, values));
  REFUSED(MXKVStoreCreate("dist_sync", &store), "FERROMX_JOB_SECRET is not set");
  const char *role = "DMLC_ROLE", *unknown = "manager";
  REFUSED(MXInitPSEnv(1, &role, &unknown), "the roles are worker, server and scheduler");
}

static void mistakes_are_named(void) {
  CHILD(misuse());
  children_succeed(1);
}

struct member {
  FerroJobHandle job;
  int rank;
  const char *peers[2];
};

static void *take_part(void *argument) {
  struct member *m = argument;
  const char *secret = "sixteen bytes...", *kind = NULL;
  int rank = -1, size = 0;
  KVStoreHandle store = NULL;
  REFUSED(FerroJobCreateStore(m->job, "dist_sync", &store), "call join first");
  REFUSED(FerroJobJoin(m->job, -1, 2, m->peers, secret, 16, 20000), "rank is -1");
  OK(FerroJobJoin(m->job, m->rank, 2, m->peers, secret, 16, 20000));
  OK(FerroJobGetRank(m->job, &rank));
  OK(FerroJobGetSize(m->job, &size));
  CHECK(rank == m->rank && size == 2);
  OK(FerroJobCreateStore(m->job, "dist_device_sync", &store));
  OK(MXKVStoreGetType(store, &kind));
  CHECK(strcmp(kind, "dist_device_sync") == 0);
  const float ones[] = {1, 3};
  const int key = 1;
  NDArrayHandle value = vector(ones, 2);
  OK(MXKVStoreInit(store, 1, &key, &value));
  OK(MXKVStorePushPull(store, 1, &key, 1, &key, &value, &value, 0));
  values_are(value, 2, 6);
  OK(FerroJobBarrier(m->job));
  OK(FerroJobClose(m->job));
  REFUSED(FerroJobBarrier(m->job), "has closed");
  OK(MXNDArrayFree(value));
  OK(MXKVStoreFree(store));
  return NULL;
}

static void jobs_are_set_up_by_programs(void) {
  struct member members[2];
  char addresses[2][32];
  FerroJobHandle none = NULL;
  REFUSED(FerroJobListen("127.0.0.1", 70000, &none), "port is 70000");
  for (int i = 0; i < 2; i++) {
    int port = 0;
    OK(FerroJobListen("127.0.0.1", 0, &members[i].job));
    OK(FerroJobGetPort(members[i].job, &port));
    snprintf(addresses[i], sizeof addresses[i], "127.0.0.1:%d", port);
  }
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) {
    members[i].rank = i;
    for (int peer = 0; peer < 2; peer++) members[i].peers[peer] = addresses[peer];
    CHECK(pthread_create(&threads[i], NULL, take_part, &members[i]) == 0);
  }
  for (int i = 0; i < 2; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0);
    OK(FerroJobFree(members[i].job));
  }
}

int main(void) {
  RUN(workers_need_no_scheduler);
  RUN(schedulers_and_servers_may_be_started);
  RUN(lost_workers_are_named);
  RUN(gradients_are_pushed_during_the_backward_pass);
  RUN(a_worker_that_is_killed_during_the_backward_pass_is_named);
  RUN(mistakes_are_named);
  RUN(jobs_are_set_up_by_programs);
  return failures != 0;
}
