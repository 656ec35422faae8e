package org.apache.mxnet

import java.util.Arrays

import scala.collection.immutable.ArraySeq
import scala.language.implicitConversions

import org.apache.mxnet.internal.util.NullChecks.requireNonNull

/** The dimensions of an array, outermost first.
  *
  * Where a shape is expected, tuples, sequences and arrays of `Int` convert to it without an import.
  *
  * A dimension of 0 is unknown (-1 under [[NumpyScope numpy semantics]]).
  *
  * @param dims the dimensions
  */
class Shape(dims: Iterable[Int]) {
  private val values: Array[Int] = Shape.copied(dims)

  def this(dims: Int*) = this(dims: Iterable[Int])

  /** The dimension at an index, from 0.
    *
    * @throws MXNetError if there is no such dimension
    */
  def apply(dim: Int): Int = {
    if (dim < 0 || dim >= values.length)
      throw new MXNetError(s"Shape: $this has ${values.length} dimensions, there is no dimension $dim")
    values(dim)
  }

  /** As [[apply]]. */
  def get(dim: Int): Int = apply(dim)

  /** The number of dimensions. */
  def size: Int = values.length

  /** The number of dimensions. */
  def length: Int = values.length

  /** The shape without its first `dim` dimensions. */
  def drop(dim: Int): Shape = Shape.wrap(values.drop(dim))

  /** Dimensions `from` until `end`. */
  def slice(from: Int, end: Int): Shape = Shape.wrap(values.slice(from, end))

  /** The number of elements of an array of this shape; 1 for a shape without dimensions.
    *
    * @throws MXNetError if there are more than `Int.MaxValue`
    */
  def product: Int = {
    var elements = 1.0
    var i = 0
    while (i < values.length) {
      elements *= values(i)
      i += 1
    }
    if (elements > Int.MaxValue) {
      val exact = values.map(BigInt(_)).product
      throw new MXNetError(s"Shape: $this has $exact elements, a JVM array holds at most ${Int.MaxValue}")
    }
    elements.toInt
  }

  /** Whether a dimension is negative. */
  private[mxnet] def isNegative: Boolean = {
    // A loop, because the first array of a program should not load the collections that `exists` needs.
    var i = 0
    while (i < values.length && values(i) >= 0) i += 1
    i < values.length
  }

  /** The first dimension. */
  def head: Int = apply(0)

  /** The dimensions of this shape, followed by those of `other`. */
  def ++(other: Shape): Shape = {
    requireNonNull("Shape.++", "other" -> other)
    Shape.wrap(values ++ other.values)
  }

  def toArray: Array[Int] = values.clone()

  def toVector: Vector[Int] = values.toVector

  /** The text that operators parse, such as `(2,3)`. */
  override def toString(): String = {
    val text = new java.lang.StringBuilder("(")
    var i = 0
    while (i < values.length) {
      if (i > 0) text.append(',')
      text.append(values(i))
      i += 1
    }
    text.append(')').toString
  }

  override def equals(o: Any): Boolean = o match {
    case that: Shape => Arrays.equals(values, that.values)
    case _           => false
  }

  override def hashCode(): Int = Arrays.hashCode(values)

  /** The dimensions for the native interface. */
  private[mxnet] def toLongs: Array[Long] = {
    val longs = new Array[Long](values.length)
    var i = 0
    while (i < longs.length) {
      longs(i) = values(i)
      i += 1
    }
    longs
  }
}

// Loops instead of collections load fewer classes of Scala's library, which shortens the start of every program.
object Shape {
  def apply(dims: Int*): Shape = new Shape(dims: Iterable[Int])

  def apply(dims: Iterable[Int]): Shape = new Shape(dims)

  /** `kernel = (3, 3)` for `kernel = Shape(3, 3)`. */
  implicit def fromTuple2(dims: (Int, Int)): Shape = fromProduct(dims)

  implicit def fromTuple3(dims: (Int, Int, Int)): Shape = fromProduct(dims)

  implicit def fromTuple4(dims: (Int, Int, Int, Int)): Shape = fromProduct(dims)

  implicit def fromTuple5(dims: (Int, Int, Int, Int, Int)): Shape = fromProduct(dims)

  implicit def fromTuple6(dims: (Int, Int, Int, Int, Int, Int)): Shape = fromProduct(dims)

  implicit def fromTuple8(dims: (Int, Int, Int, Int, Int, Int, Int, Int)): Shape = fromProduct(dims)

  implicit def fromTuple10(dims: (Int, Int, Int, Int, Int, Int, Int, Int, Int, Int)): Shape = fromProduct(dims)

  private def fromProduct(dims: Product): Shape = {
    if (dims == null) requireNonNull("Shape", "dims" -> dims)
    new Shape(dims.productIterator.map(_.asInstanceOf[Int]).toIndexedSeq: Iterable[Int])
  }

  implicit def fromSeq(dims: Seq[Int]): Shape = new Shape(dims: Iterable[Int])

  implicit def fromArray(dims: Array[Int]): Shape = {
    if (dims == null) requireNonNull("Shape", "dims" -> dims)
    new Shape(dims.toIndexedSeq: Iterable[Int])
  }

  /** As `apply`, for Java. */
  def create(dims: Int*): Shape = new Shape(dims: Iterable[Int])

  /** A shape from the native interface; `null`, an unknown rank, becomes the empty shape. */
  private[mxnet] def fromLongs(dims: Array[Long]): Shape =
    if (dims == null) wrap(new Array[Int](0))
    else {
      val ints = new Array[Int](dims.length)
      var i = 0
      while (i < ints.length) {
        ints(i) = dims(i).toInt
        if (dims(i) > Int.MaxValue)
          throw new MXNetError(
            s"Shape: dimension ${dims(i)} of ${dims.mkString("(", ",", ")")} is larger than ${Int.MaxValue}"
          )
        i += 1
      }
      wrap(ints)
    }

  /** The numbers of dimensions of shapes (-1 for null), and the dimensions of all of them one after the other, as the
    * native interface takes them.
    */
  private[mxnet] def packed(shapes: Iterable[Shape]): (Array[Int], Array[Long]) = {
    val ndims = shapes.iterator.map(shape => if (shape == null) -1 else shape.length).toArray
    (ndims, shapes.iterator.filter(_ != null).flatMap(_.toLongs).toArray)
  }

  private def wrap(dims: Array[Int]): Shape = new Shape(new ArraySeq.ofInt(dims))

  private def copied(dims: Iterable[Int]): Array[Int] = {
    if (dims == null) requireNonNull("Shape", "dims" -> dims)
    dims match {
      case items: ArraySeq.ofInt => items.unsafeArray.clone()
      case items                 => items.toArray
    }
  }
}
