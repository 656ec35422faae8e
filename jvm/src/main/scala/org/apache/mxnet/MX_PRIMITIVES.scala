package org.apache.mxnet

import scala.language.implicitConversions

/** The scalars that array operators take: 32-bit and 64-bit floating point. A `Float`, `Int` or `Double` converts
  * implicitly.
  */
object MX_PRIMITIVES {

  /** A scalar operand. */
  trait MX_PRIMITIVE_TYPE extends Ordered[MX_PRIMITIVE_TYPE] {

    /** The text that operators parse. */
    def toString(): String

    /** The negative of this number. */
    def unary_- : MX_PRIMITIVE_TYPE

    /** The value in 64 bits, which is exact for both types. */
    private[mxnet] def toDouble: Double

    override def compare(that: MX_PRIMITIVE_TYPE): Int = java.lang.Double.compare(toDouble, that.toDouble)
  }

  trait MXPrimitiveOrdering extends Ordering[MX_PRIMITIVE_TYPE] {
    override def compare(x: MX_PRIMITIVE_TYPE, y: MX_PRIMITIVE_TYPE): Int = x.compare(y)
  }

  implicit object MX_PRIMITIVE_TYPE extends MXPrimitiveOrdering

  /** A 32-bit floating-point scalar. */
  class MX_FLOAT(val data: Float) extends MX_PRIMITIVE_TYPE {
    override def toString(): String = data.toString
    override def unary_- : MX_PRIMITIVE_TYPE = new MX_FLOAT(-data)
    private[mxnet] override def toDouble: Double = data.toDouble
  }

  /** A 64-bit floating-point scalar. */
  class MX_Double(val data: Double) extends MX_PRIMITIVE_TYPE {
    override def toString(): String = data.toString
    override def unary_- : MX_PRIMITIVE_TYPE = new MX_Double(-data)
    private[mxnet] override def toDouble: Double = data
  }

  implicit def FloatToMX_Float(d: Float): MX_FLOAT = new MX_FLOAT(d)

  implicit def MX_FloatToFloat(d: MX_FLOAT): Float = d.data

  implicit def IntToMX_Float(d: Int): MX_FLOAT = new MX_FLOAT(d.toFloat)

  implicit def DoubleToMX_Double(d: Double): MX_Double = new MX_Double(d)

  implicit def MX_DoubleToDouble(d: MX_Double): Double = d.data

  /** Whether a value is a scalar operand. */
  def isValidMxPrimitiveType(num: Any): Boolean = num match {
    case _: MX_PRIMITIVE_TYPE | _: Float | _: Double => true
    case _                                           => false
  }
}
