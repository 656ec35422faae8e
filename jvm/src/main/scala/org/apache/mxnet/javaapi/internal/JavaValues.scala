package org.apache.mxnet.javaapi.internal

import java.lang.{Iterable => JIterable}

import scala.jdk.CollectionConverters._

import org.apache.mxnet.internal.util.NullChecks.requireNonNull
import org.apache.mxnet.javaapi.{Context, NDArray, Shape}
import org.apache.mxnet.{Context => CoreContext, NDArray => CoreArray, Shape => CoreShape}

/** Converts arguments from Java to those of the Scala API, which reports a null. */
private[mxnet] object JavaValues {
  def unwrapped(array: NDArray): CoreArray = if (array == null) null else array.nd

  def dims(shape: Shape): CoreShape = if (shape == null) null else shape.shape

  def device(context: Context): CoreContext = if (context == null) null else context.context

  /** The elements, each converted; an error names a collection that is null or contains null.
    *
    * @param owner the class and method
    * @param name the argument
    */
  def converted[A, B](owner: String, name: String, items: JIterable[A])(convert: A => B): IndexedSeq[B] = {
    if (items == null) requireNonNull(owner, name -> items)
    val all = items.asScala.toIndexedSeq
    requireNonNull(owner, name -> all)
    all.map(convert)
  }

  /** As [[converted]], for arrays. */
  def arrays(owner: String, name: String, items: Array[NDArray]): Seq[CoreArray] = {
    requireNonNull(owner, name -> items)
    items.toIndexedSeq.map(_.nd)
  }
}
