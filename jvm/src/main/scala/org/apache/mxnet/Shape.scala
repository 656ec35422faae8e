package org.apache.mxnet

import java.util.Arrays

import scala.collection.immutable.ArraySeq
import scala.language.implicitConversions

import org.apache.mxnet.internal.util.NullChecks.requireValue

// The first array of a program should load few of Scala's classes, which takes most of the time. The JVM loads the classes
// that a method converts between when it loads the class of the method, even if the method is never called. So whatever
// needs collections is in `Dimensions`, and the rest uses loops.

/** The dimensions of an array, outermost first.
  *
  * Where a shape is expected, tuples, sequences and arrays of `Int` convert to it without an import.
  *
  * A dimension of 0 is unknown (-1 under [[NumpyScope NumPy semantics]]). A shape never changes; shapes with the same
  * dimensions are equal.
  */
class Shape private (private val values: Array[Int], isOwned: Boolean) extends Serializable {

  /** A shape of the given dimensions. */
  def this(dims: Iterable[Int]) = this(Dimensions.of(dims), isOwned = true)

  /** A shape of the given dimensions. */
  def this(dims: Int*) = this(Dimensions.ofSeq(dims), isOwned = true)

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
  def drop(dim: Int): Shape = slice(dim, values.length)

  /** Dimensions `from` until `end`. */
  def slice(from: Int, end: Int): Shape = {
    val start = Math.max(from, 0)
    Shape.wrap(
      if (start >= values.length) new Array(0)
      else Arrays.copyOfRange(values, start, Math.max(start, Math.min(end, values.length)))
    )
  }

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
    if (elements > Int.MaxValue) Dimensions.tooMany(values)
    elements.toInt
  }

  /** Whether a dimension is negative. */
  private[mxnet] def isNegative: Boolean = {
    var i = 0
    while (i < values.length && values(i) >= 0) i += 1
    i < values.length
  }

  /** Whether there are dimensions, and all are known. */
  private[mxnet] def isKnown: Boolean = {
    var i = 0
    while (i < values.length && values(i) > 0) i += 1
    i == values.length && i > 0
  }

  /** The first dimension. */
  def head: Int = apply(0)

  /** The dimensions of this shape, followed by those of `other`. */
  def ++(other: Shape): Shape = {
    requireValue("Shape.++", "other", other)
    val joined = Arrays.copyOf(values, values.length + other.values.length)
    System.arraycopy(other.values, 0, joined, values.length, other.values.length)
    Shape.wrap(joined)
  }

  /** A copy of the dimensions. */
  def toArray: Array[Int] = Arrays.copyOf(values, values.length)

  /** The dimensions. */
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

object Shape {

  /** A shape of the given dimensions, as `Shape(2, 3)`. */
  def apply(dims: Int*): Shape = wrap(Dimensions.ofSeq(dims))

  /** A shape of the dimensions in a collection. */
  def apply(dims: Iterable[Int]): Shape = wrap(Dimensions.of(dims))

  // Without a sequence for the arguments, a program that creates an array starts 50 ms earlier.

  /** The shape of a vector. */
  def apply(dim: Int): Shape = wrap(Array(dim))

  /** The shape of a matrix. */
  def apply(rows: Int, columns: Int): Shape = wrap(Array(rows, columns))

  /** A shape of three dimensions, outermost first. */
  def apply(dim0: Int, dim1: Int, dim2: Int): Shape = wrap(Array(dim0, dim1, dim2))

  /** A shape of four dimensions, outermost first, such as (batch, channels, height, width). */
  def apply(dim0: Int, dim1: Int, dim2: Int, dim3: Int): Shape = wrap(Array(dim0, dim1, dim2, dim3))

  /** `kernel = (3, 3)` for `kernel = Shape(3, 3)`. */
  implicit def fromTuple2(dims: (Int, Int)): Shape = fromProduct(dims)

  implicit def fromTuple3(dims: (Int, Int, Int)): Shape = fromProduct(dims)

  implicit def fromTuple4(dims: (Int, Int, Int, Int)): Shape = fromProduct(dims)

  implicit def fromTuple5(dims: (Int, Int, Int, Int, Int)): Shape = fromProduct(dims)

  implicit def fromTuple6(dims: (Int, Int, Int, Int, Int, Int)): Shape = fromProduct(dims)

  implicit def fromTuple8(dims: (Int, Int, Int, Int, Int, Int, Int, Int)): Shape = fromProduct(dims)

  implicit def fromTuple10(dims: (Int, Int, Int, Int, Int, Int, Int, Int, Int, Int)): Shape = fromProduct(dims)

  private def fromProduct(dims: Product): Shape = wrap(Dimensions.ofProduct(dims))

  implicit def fromSeq(dims: Seq[Int]): Shape = wrap(Dimensions.ofSeq(dims))

  implicit def fromArray(dims: Array[Int]): Shape = {
    requireValue("Shape", "dims", dims)
    wrap(Arrays.copyOf(dims, dims.length))
  }

  /** As `apply`, for Java. */
  def create(dims: Int*): Shape = wrap(Dimensions.ofSeq(dims))

  /** A shape from the native interface; `null`, an unknown rank, becomes the empty shape. */
  private[mxnet] def fromLongs(dims: Array[Long]): Shape =
    if (dims == null) wrap(new Array[Int](0))
    else {
      val ints = new Array[Int](dims.length)
      var i = 0
      while (i < ints.length) {
        ints(i) = dims(i).toInt
        if (dims(i) > Int.MaxValue) Dimensions.tooLarge(dims, i)
        i += 1
      }
      wrap(ints)
    }

  /** The numbers of dimensions of shapes (-1 for null), and the dimensions of all of them one after the other, as the
    * native interface takes them.
    */
  private[mxnet] def packed(shapes: Iterable[Shape]): (Array[Int], Array[Long]) = Dimensions.packed(shapes)

  /** A shape that owns the array. */
  private def wrap(dims: Array[Int]): Shape = new Shape(dims, isOwned = true)
}

/** Conversions between dimensions and collections. */
private object Dimensions {
  def of(dims: Iterable[Int]): Array[Int] = {
    requireValue("Shape", "dims", dims)
    dims match {
      case items: ArraySeq.ofInt => items.unsafeArray.clone()
      case items                 => copyOf(items.iterator)
    }
  }

  /** The method `toArray` would load 40 more classes, among them those of all types of arrays. */
  private def copyOf(dims: Iterator[Int]): Array[Int] = {
    var values = new Array[Int](8)
    var count = 0
    while (dims.hasNext) {
      if (count == values.length) values = Arrays.copyOf(values, 2 * count)
      values(count) = dims.next()
      count += 1
    }
    Arrays.copyOf(values, count)
  }

  def ofSeq(dims: Seq[Int]): Array[Int] = of(dims)

  def ofProduct(dims: Product): Array[Int] = {
    requireValue("Shape", "dims", dims)
    dims.productIterator.map(_.asInstanceOf[Int]).toArray
  }

  def packed(shapes: Iterable[Shape]): (Array[Int], Array[Long]) = {
    val ndims = shapes.iterator.map(shape => if (shape == null) -1 else shape.length).toArray
    (ndims, shapes.iterator.filter(_ != null).flatMap(_.toLongs).toArray)
  }

  def tooMany(dims: Array[Int]): Nothing = throw new MXNetError(
    s"Shape: ${dims.mkString("(", ",", ")")} has ${dims.map(BigInt(_)).product} elements, a JVM array holds at most ${Int.MaxValue}"
  )

  def tooLarge(dims: Array[Long], index: Int): Nothing = throw new MXNetError(
    s"Shape: dimension ${dims(index)} of ${dims.mkString("(", ",", ")")} is larger than ${Int.MaxValue}"
  )
}
