package org.apache.spark.sql.ferromx

import org.apache.spark.rpc.{RpcEnv, ThreadSafeRpcEndpoint}
import org.apache.spark.scheduler.SparkListenerEvent
import org.apache.spark.util.RpcUtils
import org.apache.spark.{SparkContext, SparkEnv}

/** Messages from running tasks to the driver. */
object DriverMessages {

  /** Receives messages while `body` runs.
    *
    * @param name name of the endpoint, for [[send]]
    * @param handle called with each message, one at a time
    */
  def during[A](context: SparkContext, name: String)(handle: Any => Unit)(body: => A): A = {
    val env = context.env.rpcEnv
    val endpoint = env.setupEndpoint(
      name,
      new ThreadSafeRpcEndpoint {
        override val rpcEnv: RpcEnv = env
        override def receive: PartialFunction[Any, Unit] = { case message => handle(message) }
      }
    )
    try body
    finally env.stop(endpoint)
  }

  /** Sends a message from a task, without waiting until it is handled. */
  def send(name: String, message: Any): Unit = {
    val env = SparkEnv.get
    RpcUtils.makeDriverRef(name, env.conf, env.rpcEnv).send(message)
  }

  /** Posts an event to the listeners of a Spark context. */
  def post(context: SparkContext, event: SparkListenerEvent): Unit = context.listenerBus.post(event)
}
