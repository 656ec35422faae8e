package org.apache.mxnet
package internal.userop

import java.util.concurrent.ConcurrentLinkedQueue
import java.util.concurrent.atomic.{AtomicInteger, AtomicReference, AtomicReferenceArray}
import java.util.concurrent.locks.LockSupport

/** A thread pool for the loops of user-defined operators, in which the calling thread works too.
  *
  * An idle thread spins before it sleeps, like those of the engine, because waking it takes as long as half an operator
  * on a million elements. It yields while spinning, and ends after some idle seconds.
  */
private[mxnet] object HelperThreads {

  /** Number of threads, the calling one included; equal to the engine's. */
  private val count: Int = Seq("MXNET_CPU_WORKER_NTHREADS", "OMP_NUM_THREADS")
    .flatMap(sys.env.get)
    .flatMap(_.trim.toIntOption)
    .find(_ > 0)
    .getOrElse(Runtime.getRuntime.availableProcessors)

  /** Number of spins before a thread yields between checks for work. */
  private val SpinTurns = 2000

  /** Nanoseconds that an idle thread spins. */
  private val Watch = 200000L

  /** Nanoseconds that an idle thread sleeps before it ends. */
  private val Sleep = 5000000000L

  /** A parallel loop, whose iterations are claimed one by one by the participating threads. */
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

    /** Waits for all iterations; throws the first exception of one. */
    def await(): Unit = {
      // Other threads finish within microseconds unless they were preempted.
      var turns = 0
      while (open.get > 0) turns = pause(turns)
      Option(failure.get).foreach(throw _)
    }
  }

  private val loops = new ConcurrentLinkedQueue[Loop]
  private val helpers = new AtomicReferenceArray[Helper](math.max(0, count - 1))

  /** Runs `work` for each number below `parts`, on this and other threads. */
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

  /** Spins once; returns the number of spins. */
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

    /** Runs loops until the thread has been idle for a while. */
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
