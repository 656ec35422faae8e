package org.apache.mxnet

import java.io.{ByteArrayOutputStream, DataInput, DataInputStream, DataOutput, DataOutputStream, EOFException}
import java.nio.ByteBuffer
import java.nio.charset.{Charset, StandardCharsets}
import java.util.Base64

import scala.reflect.{classTag, ClassTag}

import org.apache.mxnet.module.internal.OptimizerContent

/** Serializes values. */
private[mxnet] trait Serializer {
  def serialize[T: ClassTag](t: T): ByteBuffer
  def deserialize[T: ClassTag](bytes: ByteBuffer): T
}

private[mxnet] object Serializer {
  val UTF8: Charset = StandardCharsets.UTF_8

  /** The default serializer. */
  def getSerializer: Serializer = new JavaSerializer

  def getSerializer(serializer: Serializer): Serializer = if (serializer == null) getSerializer else serializer

  def getSerializer(serializer: Option[Serializer]): Serializer = serializer.getOrElse(getSerializer)

  /** Encodes bytes as Base64. */
  def encodeBase64String(bytes: ByteBuffer): String =
    new String(Base64.getEncoder.encode(bytes.duplicate()).array(), StandardCharsets.ISO_8859_1)

  /** Decodes a string of [[encodeBase64String]]. */
  def decodeBase64String(str: String): ByteBuffer =
    try ByteBuffer.wrap(Base64.getDecoder.decode(str))
    catch {
      case e: IllegalArgumentException => throw new MXNetError(s"Serializer: the text is not Base64: ${e.getMessage}")
    }
}

/** Serializes values without Java's serialization, which can execute code from untrusted bytes. Supports null,
  * booleans, numbers, strings, arrays of numbers, NDArrays, shapes, optimizers of this library, and options, pairs,
  * sequences, sets and maps of these.
  */
private[mxnet] class JavaSerializer extends Serializer {
  import JavaSerializer._

  override def serialize[T: ClassTag](t: T): ByteBuffer = {
    val bytes = new ByteArrayOutputStream()
    val out = new DataOutputStream(bytes)
    out.writeInt(Magic)
    write(out, t)
    ByteBuffer.wrap(bytes.toByteArray)
  }

  override def deserialize[T: ClassTag](bytes: ByteBuffer): T = {
    val content = new Array[Byte](bytes.remaining)
    bytes.duplicate().get(content)
    val in = new DataInputStream(new java.io.ByteArrayInputStream(content))
    val value =
      try {
        if (in.readInt() != Magic) throw new MXNetError("JavaSerializer: the bytes were not written by this library")
        read(in, content.length)
      } catch {
        case _: EOFException => throw new MXNetError(s"JavaSerializer: the ${content.length} bytes end too early")
      }
    val expected = classTag[T]
    if (value == null) value.asInstanceOf[T]
    else
      expected
        .unapply(value)
        .getOrElse(
          throw new MXNetError(
            s"JavaSerializer: the bytes contain a ${value.getClass.getName}, not a ${expected.runtimeClass.getName}"
          )
        )
  }
}

private object JavaSerializer {

  /** First four bytes: "FMXV". */
  private val Magic = 0x464d5856

  /** Maximum depth of nested values; deeper ones are an error instead of a stack overflow. */
  private val MaxDepth = 200

  private def write(out: DataOutput, value: Any, depth: Int = 0): Unit = {
    if (depth > MaxDepth) throw new MXNetError(s"JavaSerializer: the value is nested more than $MaxDepth times")
    def tag(code: Int): Unit = out.writeByte(code)
    def all(code: Int, items: Iterable[Any]): Unit = {
      tag(code)
      out.writeInt(items.size)
      items.foreach(write(out, _, depth + 1))
    }
    def bytes(code: Int, content: Array[Byte]): Unit = {
      tag(code)
      out.writeInt(content.length)
      out.write(content)
    }
    value match {
      case null                    => tag(0)
      case v: Boolean              => tag(1); out.writeBoolean(v)
      case v: Int                  => tag(2); out.writeInt(v)
      case v: Long                 => tag(3); out.writeLong(v)
      case v: Float                => tag(4); out.writeFloat(v)
      case v: Double               => tag(5); out.writeDouble(v)
      case v: String               => bytes(6, v.getBytes(StandardCharsets.UTF_8))
      case v: Array[Byte]          => bytes(7, v)
      case v: Array[Int]           => tag(8); out.writeInt(v.length); v.foreach(out.writeInt)
      case v: Array[Float]         => tag(9); out.writeInt(v.length); v.foreach(out.writeFloat)
      case v: Array[Double]        => tag(10); out.writeInt(v.length); v.foreach(out.writeDouble)
      case v: NDArray              => bytes(11, v.serialize())
      case v: Shape                => all(12, v.toVector)
      case v: Optimizer            => all(18, OptimizerContent.of(v))
      case v: Option[_]            => all(13, v.toList)
      case (a, b)                  => all(14, Seq(a, b))
      case v: collection.Map[_, _] => all(15, v)
      case v: collection.Set[_]    => all(16, v)
      case v: collection.Seq[_]    => all(17, v)
      case other                   =>
        throw new MXNetError(
          s"JavaSerializer: a ${other.getClass.getName} cannot be serialized; give numbers, strings, arrays, or " +
            "options, pairs, sequences, sets and maps of them, or an optimizer of this library"
        )
    }
  }

  /** @param limit number of bytes; longer lengths are rejected */
  private def read(in: DataInput, limit: Int, depth: Int = 0): Any = {
    if (depth > MaxDepth) throw new MXNetError(s"JavaSerializer: the value is nested more than $MaxDepth times")
    def length(): Int = {
      val count = in.readInt()
      if (count < 0 || count > limit) throw new EOFException()
      count
    }
    def bytes(): Array[Byte] = {
      val content = new Array[Byte](length())
      in.readFully(content)
      content
    }
    def all(): Vector[Any] = Vector.fill(length())(read(in, limit, depth + 1))
    in.readByte().toInt match {
      case 0     => null
      case 1     => in.readBoolean()
      case 2     => in.readInt()
      case 3     => in.readLong()
      case 4     => in.readFloat()
      case 5     => in.readDouble()
      case 6     => new String(bytes(), StandardCharsets.UTF_8)
      case 7     => bytes()
      case 8     => Array.fill(length())(in.readInt())
      case 9     => Array.fill(length())(in.readFloat())
      case 10    => Array.fill(length())(in.readDouble())
      case 11    => NDArray.deserialize(bytes())
      case 12    => Shape(all().collect { case dimension: Int => dimension }: _*)
      case 13    => all().headOption
      case 14    => pair(all())
      case 15    => all().collect { case (key, value) => key -> value }.toMap
      case 16    => all().toSet
      case 17    => all()
      case 18    => OptimizerContent.restore(all().collect { case (name: String, value) => name -> value }.toMap)
      case other =>
        throw new MXNetError(s"JavaSerializer: unknown type code $other; the bytes are damaged or from a newer version")
    }
  }

  private def pair(items: Vector[Any]): (Any, Any) = items match {
    case Vector(a, b) => (a, b)
    case _            => throw new MXNetError(s"JavaSerializer: a pair has ${items.length} values")
  }
}
