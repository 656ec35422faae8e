package org.apache.mxnet

/** The process that holds the values of a store of several machines. This library's stores live within one process, so
  * there is nothing to run: each use is an error that says so.
  */
private[mxnet] class KVStoreServer(kvStore: KVStore) {

  /** Serves until the workers have ended. */
  def run(): Unit = throw KVStoreServer.unsupported(s"KVStoreServer.run: the store is of type ${kvStore.`type`}")
}

object KVStoreServer {

  /** Serves, in a process that the environment makes a server or scheduler; does nothing in a worker.
    *
    * @param dieIfOthersGoOutTimeout seconds after which the process ends when others have
    */
  def start(dieIfOthersGoOutTimeout: Int = 0): Unit = {
    require(dieIfOthersGoOutTimeout >= 0, s"dieIfOthersGoOutTimeout is $dieIfOthersGoOutTimeout; it must be 0 or more")
    sys.env.get("DMLC_ROLE").filter(_ != "worker").foreach { role =>
      throw unsupported(s"KVStoreServer.start: DMLC_ROLE is '$role'")
    }
  }

  /** Takes the environment of a store of several machines. Only that of a single worker is accepted. */
  def init(env: Map[String, String]): Unit = {
    val isAlone = env.getOrElse("DMLC_ROLE", "worker") == "worker" && env.getOrElse("DMLC_NUM_WORKER", "1") == "1"
    if (!isAlone)
      throw unsupported(
        s"KVStoreServer.init: the environment is ${env.toSeq.sorted.map(_.productIterator.mkString("=")).mkString(", ")}"
      )
  }

  private def unsupported(what: String) = new MXNetError(
    s"$what, but there are no stores of several machines in this library; train in one process, on " +
      "several devices with a store of type 'device'"
  )
}

/** Receives commands that workers send to a server. */
private[mxnet] trait KVServerControllerCallback {
  def invoke(cmdId: Int, cmdBody: String): Unit
}
