package org.apache.mxnet.javaapi

import java.util.{List => JList}

import scala.jdk.CollectionConverters._
import scala.language.implicitConversions

import org.apache.mxnet.javaapi.internal.JavaValues

/** The dimensions of an array, for Java.
  *
  * @param shape the corresponding shape of the Scala API
  */
class Shape private[mxnet] (val shape: org.apache.mxnet.Shape) {

  /** A shape of these dimensions. */
  def this(dims: JList[Integer]) =
    this(new org.apache.mxnet.Shape(JavaValues.converted("Shape", "dims", dims)(_.intValue)))

  /** A shape of these dimensions. */
  def this(dims: Array[Int]) = this(org.apache.mxnet.Shape.fromArray(dims))

  /** Dimension `dim`. */
  def apply(dim: Int): Int = shape(dim)

  /** Dimension `dim`. */
  def get(dim: Int): Int = shape(dim)

  /** The number of dimensions. */
  def size: Int = shape.size

  /** The number of dimensions. */
  def length: Int = shape.length

  /** The shape without its first `dim` dimensions. */
  def drop(dim: Int): Shape = shape.drop(dim)

  /** Dimensions `from` until `end`. */
  def slice(from: Int, end: Int): Shape = shape.slice(from, end)

  /** The number of elements of an array of this shape. */
  def product: Int = shape.product

  /** The first dimension. */
  def head: Int = shape.head

  /** The dimensions. */
  def toArray: Array[Int] = shape.toArray

  /** The dimensions. */
  def toVector: JList[Int] = shape.toVector.asJava

  override def toString: String = shape.toString

  override def equals(o: Any): Boolean = o match {
    case that: Shape => shape == that.shape
    case _           => false
  }

  override def hashCode(): Int = shape.hashCode
}

object Shape {
  implicit def fromShape(shape: org.apache.mxnet.Shape): Shape = new Shape(shape)

  implicit def toShape(jShape: Shape): org.apache.mxnet.Shape = jShape.shape
}
