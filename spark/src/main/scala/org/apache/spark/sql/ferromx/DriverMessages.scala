package org.apache.spark.sql.ferromx

import java.util.concurrent.{CountDownLatch, TimeUnit}

import org.apache.spark.rpc.{RpcEnv, ThreadSafeRpcEndpoint}
import org.apache.spark.scheduler.SparkListenerEvent
import org.apache.spark.util.RpcUtils
import org.apache.spark.{SparkContext, SparkEnv}

/** Messages from running tasks to the driver. */
object DriverMessages {

  private val patienceSeconds = 10L

  /** Receives messages while `body` runs. All that arrive before its end are handled when this returns.
    *
    * @param name name of the endpoint, for [[send]]
    * @param handle called with each message, one at a time
    */
  def during[A](context: SparkContext, name: String)(handle: Any => Unit)(body: => A): A = {
    val env = context.env.rpcEnv
    val stopped = new CountDownLatch(1)
    val endpoint = env.setupEndpoint(
      name,
      new ThreadSafeRpcEndpoint {
        override val rpcEnv: RpcEnv = env
        override def receive: PartialFunction[Any, Unit] = { case message => handle(message) }
        override def onStop(): Unit = stopped.countDown()
      }
    )
    try body
    finally {
      env.stop(endpoint)
      try { stopped.await(patienceSeconds, TimeUnit.SECONDS); () }
      catch { case _: InterruptedException => Thread.currentThread().interrupt() }
    }
  }

  /** Sends a message from a task, without waiting until it is handled. */
  def send(name: String, message: Any): Unit = {
    val env = SparkEnv.get
    RpcUtils.makeDriverRef(name, env.conf, env.rpcEnv).send(message)
  }

  /** Posts an event to the listeners of a Spark context. */
  def post(context: SparkContext, event: SparkListenerEvent): Unit = context.listenerBus.post(event)
}
