package org.apache.mxnet.infer

import java.util.concurrent.{Callable, ExecutionException, ExecutorService, Executors}

/** Runs code in threads of its own. Programs written for MXNet's Scala package call the engine through it; here any
  * thread may call the engine.
  */
private[infer] trait MXNetHandler {

  /** The result of `f`, which a thread of this handler computes. Throws what `f` throws. */
  def execute[T](f: => T): T

  /** The threads. */
  val executor: ExecutorService
}

/** The kinds of handlers. */
private[infer] object MXNetHandlerType extends Enumeration {
  type MXNetHandlerType = Value

  /** One thread for all models. */
  val SingleThreadHandler: Value = Value("MXNetSingleThreadHandler")

  /** One thread for each model. */
  val OneThreadPerModelHandler: Value = Value("MXNetOneThreadPerModelHandler")
}

/** A handler with a fixed number of daemon threads, which start when they are needed. */
private[infer] class MXNetThreadPoolHandler(numThreads: Int = 1) extends MXNetHandler {
  require(numThreads > 0, s"numThreads is $numThreads; a handler needs at least one thread")

  private final class Worker(task: Runnable) extends Thread(task, classOf[MXNetThreadPoolHandler].getName) {
    setDaemon(true)

    def isOf(handler: MXNetThreadPoolHandler): Boolean = handler eq MXNetThreadPoolHandler.this
  }

  override val executor: ExecutorService = Executors.newFixedThreadPool(numThreads, task => new Worker(task))

  override def execute[T](f: => T): T = Thread.currentThread match {
    // A thread that waited for its own pool would wait forever.
    case worker: MXNetThreadPoolHandler#Worker if worker.isOf(this) => f
    case _                                                          =>
      try executor.submit(new Callable[T] { override def call(): T = f }).get()
      catch { case failed: ExecutionException => throw failed.getCause }
  }
}

private[infer] object MXNetThreadPoolHandler

/** The thread that all models share. */
private[infer] object MXNetSingleThreadHandler extends MXNetThreadPoolHandler(1)

private[infer] object MXNetHandler {

  /** A handler of the kind [[org.apache.mxnet.infer.handlerType]]. */
  def apply(): MXNetHandler = handlerType match {
    case MXNetHandlerType.OneThreadPerModelHandler => new MXNetThreadPoolHandler(1)
    case _                                         => MXNetSingleThreadHandler
  }
}
