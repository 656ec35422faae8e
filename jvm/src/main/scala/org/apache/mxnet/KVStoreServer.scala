package org.apache.mxnet

import org.apache.mxnet.Base._LIB
import org.apache.mxnet.internal.util.NullChecks.requireNonNull

/** Runs a process with the role of a server or scheduler. A scheduler sends the workers each other's addresses. A
  * server has nothing to do, because every worker stores all values.
  */
private[mxnet] class KVStoreServer(kvStore: KVStore) {

  /** Runs in this process's role; returns at once in a worker. */
  def run(): Unit = kvStore.serve()
}

object KVStoreServer {
  @volatile private var role = sys.env.get("DMLC_ROLE")

  /** Runs as a server or scheduler if the environment sets this role; does nothing in a worker.
    *
    * @param dieIfOthersGoOutTimeout ignored, but must not be negative
    */
  def start(dieIfOthersGoOutTimeout: Int = 0): Unit = {
    require(dieIfOthersGoOutTimeout >= 0, s"dieIfOthersGoOutTimeout is $dieIfOthersGoOutTimeout; it must be 0 or more")
    if (role.exists(_ != "worker")) {
      val store = KVStore.create("dist")
      try new KVStoreServer(store).run()
      finally store.dispose()
    }
  }

  /** Sets variables such as `DMLC_ROLE` that describe the job of distributed stores, with precedence over the
    * environment.
    */
  def init(env: Map[String, String]): Unit = {
    requireNonNull("KVStoreServer.init", "env" -> env)
    val (names, values) = env.toArray.unzip
    _LIB.jobEnvironment(names, values)
    role = env.get("DMLC_ROLE").orElse(role)
  }
}

/** Handles commands that workers send to a server. */
private[mxnet] trait KVServerControllerCallback {
  def invoke(cmdId: Int, cmdBody: String): Unit
}
