package org.apache.mxnet
package internal.util

import scala.language.implicitConversions

/** Lets the companion's type be given in any sequence, such as a `ListBuffer`, where an immutable one is expected.
  * Programs for Scala 2.11 and 2.12 do that: there, `Seq` includes mutable sequences.
  */
private[mxnet] trait BufferConversion[A] {

  /** An immutable copy. */
  implicit def bufferToIndexedSeq(buffer: scala.collection.Seq[A]): IndexedSeq[A] =
    if (buffer == null) null else buffer.toIndexedSeq
}
