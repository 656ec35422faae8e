package org.apache.mxnet

import org.apache.mxnet.Base._LIB
import org.apache.mxnet.internal.util.Given

/** What a process with the role of a server or scheduler does. A scheduler introduces the workers to each other. A server
  * has nothing to do, since every worker holds all values.
  */
private[mxnet] class KVStoreServer(kvStore: KVStore) {

  /** Does the work of this process's role; returns at once in a worker. */
  def run(): Unit = kvStore.serve()
}

object KVStoreServer {
  @volatile private var role = sys.env.get("DMLC_ROLE")

  /** Does the work of a process that the environment makes a server or scheduler; does nothing in a worker.
    *
    * @param dieIfOthersGoOutTimeout changes nothing, since no process serves until others end; 0 or more
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
    Given("KVStoreServer.init", "env" -> env)
    val (names, values) = env.toArray.unzip
    _LIB.jobEnvironment(names, values)
    role = env.get("DMLC_ROLE").orElse(role)
  }
}

/** Receives commands that workers send to a server. */
private[mxnet] trait KVServerControllerCallback {
  def invoke(cmdId: Int, cmdBody: String): Unit
}
