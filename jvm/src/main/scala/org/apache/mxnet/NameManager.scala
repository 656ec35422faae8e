package org.apache.mxnet

import scala.collection.mutable

import org.apache.mxnet.internal.util.PerThread

/** Names unnamed symbols by a hint and a number, as in `activation0`. */
class NameManager {

  /** Number of names per hint. */
  val counter: mutable.Map[String, Int] = mutable.HashMap.empty[String, Int]

  /** The given name, or the next name for the hint. */
  def get(name: Option[String], hint: String): String = name.getOrElse {
    synchronized {
      val number = counter.getOrElse(hint, 0)
      counter(hint) = number + 1
      s"$hint$number"
    }
  }

  /** Runs `body` with this manager as [[NameManager.current]] of the calling thread. */
  def withScope[T](body: => T): T = {
    val outer = NameManager.scoped.get()
    NameManager.scoped.set(Some(this))
    try body
    finally NameManager.scoped.set(outer)
  }
}

object NameManager {
  private val global = new NameManager

  private val scoped = new PerThread[Option[NameManager]](None)

  /** The manager of this thread's innermost `withScope`, else the global one. */
  def current: NameManager = scoped.get().getOrElse(global)
}
