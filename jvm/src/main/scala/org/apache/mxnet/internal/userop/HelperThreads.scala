package org.apache.mxnet
package internal.userop

import java.util.concurrent.ConcurrentLinkedQueue
import java.util.concurrent.atomic.{AtomicInteger, AtomicReference, AtomicReferenceArray}
import java.util.concurrent.locks.LockSupport

/** Threads that share the loops of user-defined operators with the threads that call these.
  *
  * A thread without work looks for some for a while before it sleeps, as those of the engine do: waking it takes as long as
  * half an operator on a million elements. It lets others run meanwhile, and ends when nothing was asked of it for seconds.
  */
private[mxnet] object HelperThreads {

  /** How many threads the engine uses too, the calling one included. */
  private val count: Int = Seq("MXNET_CPU_WORKER_NTHREADS", "OMP_NUM_THREADS")
    .flatMap(sys.env.get)
    .flatMap(_.trim.toIntOption)
    .find(_ > 0)
    .getOrElse(Runtime.getRuntime.availableProcessors)

  /** How often a thread looks for work before it lets others run between two looks. */
  private val SpinTurns = 2000

  /** Nanoseconds that a thread looks for work. */
  private val Watch = 200000L

  /** Nanoseconds that a thread sleeps before it ends. */
  private val Sleep = 5000000000L

  /** A loop: who takes part in it takes the next part when it is done with one, so that who comes late does less. */
  private final class Loop(parts: Int, work: Int => Unit) {
    private val (next, open) = (new AtomicInteger, new AtomicInteger(parts))
    private val failure = new AtomicReference[Throwable]

    def hasWork: Boolean = next.get < parts

    def takePart(): Unit = {
      var part = next.getAndIncrement()
      while (part < parts) {
        try if (failure.get == null) work(part)
        catch { case error: Throwable => failure.compareAndSet(null, error) }
        open.decrementAndGet()
        part = next.getAndIncrement()
      }
    }

    /** Returns when all parts are done; throws what the first one that failed threw. */
    def await(): Unit = {
      // What others still work on is done in some microseconds, unless they lost their processor.
      var turns = 0
      while (open.get > 0) turns = pause(turns)
      Option(failure.get).foreach(throw _)
    }
  }

  private val loops = new ConcurrentLinkedQueue[Loop]
  private val helpers = new AtomicReferenceArray[Helper](math.max(0, count - 1))

  /** Does `work` for the numbers below `parts`, each once, on this thread and others. */
  def run(parts: Int)(work: Int => Unit): Unit = {
    val loop = new Loop(parts, work)
    val wanted = math.min(count, parts) - 1
    if (wanted > 0) loops.add(loop)
    for (i <- 0 until wanted) call(i)
    loop.takePart()
    if (wanted > 0) loops.remove(loop)
    loop.await()
  }

  private def call(i: Int): Unit = {
    val helper = helpers.get(i)
    if (helper != null && !helper.ended) helper.wake()
    else {
      val fresh = new Helper(i + 1)
      if (helpers.compareAndSet(i, helper, fresh)) fresh.start()
    }
  }

  /** One turn of waiting; the number of turns. */
  private def pause(turns: Int): Int = {
    if (turns < SpinTurns) Thread.onSpinWait() else Thread.`yield`()
    turns + 1
  }

  private final class Helper(number: Int) extends Thread(s"ferromx-operators-$number") {
    @volatile var ended = false
    @volatile private var asleep = false
    setDaemon(true)

    def wake(): Unit = if (asleep) LockSupport.unpark(this)

    override def run(): Unit = {
      while (!ended) {
        watch()
        asleep = true
        if (loops.isEmpty) {
          val start = System.nanoTime()
          LockSupport.parkNanos(this, Sleep)
          ended = loops.isEmpty && System.nanoTime() - start >= Sleep
        }
        asleep = false
      }
    }

    /** Takes part in loops until there has been none for a while. */
    private def watch(): Unit = {
      var turns = 0
      var end = System.nanoTime() + Watch
      while (System.nanoTime() < end) {
        val loop = loops.peek()
        if (loop != null && loop.hasWork) {
          loop.takePart()
          turns = 0
          end = System.nanoTime() + Watch
        } else turns = pause(turns)
      }
    }
  }
}
