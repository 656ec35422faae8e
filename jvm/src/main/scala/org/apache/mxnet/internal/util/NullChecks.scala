package org.apache.mxnet
package internal.util

import org.apache.mxnet.MXNetError

import scala.collection.immutable.ArraySeq

/** Rejects null arguments, and arrays, sequences and maps that contain null. */
private[mxnet] object NullChecks {

  /** Throws an error with the name of the first argument that is null or contains null.
    *
    * @param owner the class and method, or the operator
    * @param arguments name and value of each
    */
  def requireNonNull(owner: String, arguments: (String, Any)*): Unit = arguments.foreach { case (name, value) =>
    value match {
      case null                 => fail(owner, name)
      case items: Array[AnyRef] => checkItems(owner, name, items.iterator)
      case items: Map[_, _]     => checkValues(owner, name, items)
      // Null varargs of Java arrive in Scala as a sequence that wraps null.
      case items: ArraySeq[_] if items.unsafeArray == null => fail(owner, name)
      case items: Seq[_] if items.knownSize >= 0           => checkItems(owner, name, items.iterator)
      case _                                               =>
    }
  }

  /** As [[requireNonNull]] for one argument that is not a collection. Loads no collections, so the first array can use it. */
  def requireValue(owner: String, name: String, value: Any): Unit = if (value == null) fail(owner, name)

  private def checkItems(owner: String, name: String, items: Iterator[Any]): Unit = {
    val index = items.indexWhere(_ == null)
    if (index >= 0) fail(owner, s"$name($index)")
  }

  private def checkValues(owner: String, name: String, items: Map[_, _]): Unit =
    items.foreach { case (key, value) =>
      if (key == null) fail(owner, s"a key of $name")
      if (value == null) fail(owner, s"'$key' of $name")
    }

  private def fail(owner: String, what: String): Nothing =
    throw new MXNetError(s"$owner: $what is null; give a value")
}
