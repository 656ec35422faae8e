package org.apache.mxnet
package internal.userop

import java.util.concurrent.ConcurrentLinkedQueue
import java.util.concurrent.atomic.{AtomicInteger, AtomicReference, AtomicReferenceArray}
import java.util.concurrent.locks.LockSupport

/** A thread pool for the loops of user-defined operators, in which the calling thread works too.
  *
  * An idle thread spins before it sleeps, like those of the engine, because waking a thread takes half as long as an
  * operator on a million elements. It yields while spinning, and ends after five idle seconds.
  */
private[mxnet] object HelperThreads {

  /** Number of threads, including the calling one. It is the number with which the engine starts. */
  private val numThreads: Int = Seq("MXNET_CPU_WORKER_NTHREADS", "OMP_NUM_THREADS")
    .flatMap(sys.env.get)
    .flatMap(_.takeWhile(_ != ',').trim.toIntOption)
    .find(_ > 0)
    .getOrElse(Runtime.getRuntime.availableProcessors)

  /** Number of spins before a thread yields between checks for work. */
  private val SpinsBeforeYield = 2000

  /** Nanoseconds that an idle thread spins. */
  private val SpinNanos = 200000L

  /** Nanoseconds that an idle thread sleeps before it ends. */
  private val SleepNanos = 5000000000L

  /** A parallel loop, whose iterations are claimed one by one by the participating threads. */
  private final class Loop(iterations: Int, body: Int => Unit) {
    private val (next, unfinished) = (new AtomicInteger, new AtomicInteger(iterations))
    private val failure = new AtomicReference[Throwable]

    def hasWork: Boolean = next.get < iterations

    /** Runs iterations until all are claimed. */
    def work(): Unit = {
      var i = next.getAndIncrement()
      while (i < iterations) {
        try if (failure.get == null) body(i)
        catch { case error: Throwable => failure.compareAndSet(null, error) }
        unfinished.decrementAndGet()
        i = next.getAndIncrement()
      }
    }

    /** Waits for all iterations; throws the first exception of one. */
    def await(): Unit = {
      // Other threads finish within microseconds unless they were preempted.
      var spins = 0
      while (unfinished.get > 0) spins = pause(spins)
      Option(failure.get).foreach(throw _)
    }
  }

  private val loops = new ConcurrentLinkedQueue[Loop]
  private val helpers = new AtomicReferenceArray[Helper](math.max(0, numThreads - 1))

  /** Runs `body` for each number below `iterations`, on this and other threads. */
  def run(iterations: Int)(body: Int => Unit): Unit = {
    val loop = new Loop(iterations, body)
    val numHelpers = math.min(numThreads, iterations) - 1
    if (numHelpers > 0) loops.add(loop)
    for (i <- 0 until numHelpers) wakeOrStart(i)
    loop.work()
    if (numHelpers > 0) loops.remove(loop)
    loop.await()
  }

  private def wakeOrStart(i: Int): Unit = {
    val helper = helpers.get(i)
    if (helper != null && !helper.ended) helper.wake()
    else {
      val fresh = new Helper(i + 1)
      if (helpers.compareAndSet(i, helper, fresh)) fresh.start()
    }
  }

  /** Spins once, or yields after many spins; returns the number of spins. */
  private def pause(spins: Int): Int = {
    if (spins < SpinsBeforeYield) Thread.onSpinWait() else Thread.`yield`()
    spins + 1
  }

  private final class Helper(number: Int) extends Thread(s"ferromx-operators-$number") {
    @volatile var ended = false
    @volatile private var asleep = false
    setDaemon(true)

    def wake(): Unit = if (asleep) LockSupport.unpark(this)

    override def run(): Unit = {
      while (!ended) {
        workWhileBusy()
        asleep = true
        if (loops.isEmpty) {
          val start = System.nanoTime()
          LockSupport.parkNanos(this, SleepNanos)
          ended = loops.isEmpty && System.nanoTime() - start >= SleepNanos
        }
        asleep = false
      }
    }

    /** Runs loops until there was none for `SpinNanos`. */
    private def workWhileBusy(): Unit = {
      var spins = 0
      var end = System.nanoTime() + SpinNanos
      while (System.nanoTime() < end) {
        val loop = loops.peek()
        if (loop != null && loop.hasWork) {
          loop.work()
          spins = 0
          end = System.nanoTime() + SpinNanos
        } else spins = pause(spins)
      }
    }
  }
}
