package org.apache.mxnet
package internal.userop

import java.lang.reflect.{Array => JavaArray}
import java.util.Optional

import scala.collection.immutable.ArraySeq
import scala.collection.mutable
import scala.collection.mutable.ArrayBuffer
import scala.jdk.CollectionConverters._
import scala.jdk.OptionConverters._

import org.apache.mxnet.internal.util.Json

/** Converts properties of operators to JSON and back. Types and values are preserved exactly.
  *
  * A value is an object with one field, named by its type: `{"float": "0.25"}`. Numbers are strings, so that they are
  * not rounded. Arrays of primitives are one string with commas; other arrays, sequences and options are lists of such
  * objects; maps are objects.
  */
private[mxnet] object OpProperties {

  /** Parses a value of a type from the text of an MXNet parameter. */
  def parse(cls: Class[_], text: String): Option[Any] = {
    val plain = text.trim
    scalars.find(scalar => scalar.boxed == cls || scalar.component == cls).map(_.tag).flatMap {
      case "boolean" if plain == "1" || plain == "0" => Some(plain == "1")
      case "boolean"                                 => plain.toLowerCase(java.util.Locale.ROOT).toBooleanOption
      case "shape"                                   =>
        scalar("shape", plain.stripPrefix("(").stripSuffix(")").replace(" ", "").stripSuffix(","))
      case "char" if text.length == 1 => Some(text.head)
      case "string"                   => Some(text)
      case tag                        => scalar(tag, plain)
    }
  }

  private val allowed =
    "booleans, numbers, characters, strings, shapes, dtypes; arrays, sequences, sets, options, tuples and maps of these; " +
      "and values of enumerations"

  /** Formats properties, sorted by name. */
  def toJson(op: String, properties: Map[String, Any]): String = {
    if (properties == null)
      throw new MXNetError(s"operator $op: propertiesForFunction returned null: return an empty map")
    fieldsToJson(properties.map { case (name, value) => name -> property(op, name, value) })
  }

  /** Parses properties. */
  def fromJson(op: String, text: String): Map[String, Any] = Json.parse(text) match {
    case fields: Map[_, _] => fields.map { case (name, value) => name.toString -> untagged(op, name.toString, value) }
    case _                 => throw new MXNetError(s"operator $op: its properties are not a JSON object: $text")
  }

  /** Whether the type of a value is supported. */
  def canSave(value: Any): Boolean =
    try {
      property("", "", value)
      true
    } catch { case _: MXNetError => false }

  /** Whether a value is immutable, so that several operators may share it. */
  def isImmutable(value: Any): Boolean = value match {
    case _: Array[_] | _: Map[_, _] | _: java.util.Map[_, _] | _: java.util.Collection[_] | _: mutable.Seq[_] => false
    case items: Seq[_]                    => items.forall(isImmutable)
    case items: Set[_]                    => items.forall(isImmutable)
    case option: Option[_]                => option.forall(isImmutable)
    case option: Optional[_]              => option.toScala.forall(isImmutable)
    case tuple: Product if isTuple(tuple) => tuple.productIterator.forall(isImmutable)
    case _                                => true
  }

  private def fieldsToJson(fields: Map[String, String]): String =
    fields.toSeq.sorted.map { case (name, json) => s"${quote(name)}: $json" }.mkString("{", ", ", "}")

  /** A property. [[FieldValues]] restores enumeration values, and collections of other classes, from the field that has
    * them.
    */
  private def property(op: String, name: String, value: Any): String = value match {
    case dtype: DType.Value if isDType(dtype)                     => tagged(op, name, dtype)
    case constant if FieldValues.constantName(constant).isDefined =>
      s"""{"enum": ${quote(FieldValues.constantName(constant).get)}}"""
    case map: mutable.Map[_, _] => tagged(op, name, map.toMap)
    case set: mutable.Set[_]    => tagged(op, name, set.toSet)
    case sequence: collection.Seq[_] if sequenceTag(sequence).isEmpty && !sequence.isInstanceOf[Range] =>
      tagged(op, name, sequence.toList)
    case other => tagged(op, name, other)
  }

  /** A value as a JSON object with one field, named by its type. */
  private def tagged(op: String, name: String, value: Any): String = {
    val (tag, payload) = value match {
      case null                             => ("null", "null")
      case map: Map[_, _]                   => mapping(op, name, "map", map)
      case map: java.util.Map[_, _]         => mapping(op, name, "java-map", map.asScala)
      case option: Option[_]                => ("option", items(op, name, option.toSeq))
      case option: Optional[_]              => ("java-optional", items(op, name, option.toScala.toSeq))
      case tuple: Product if isTuple(tuple) => ("tuple", items(op, name, tuple.productIterator.toVector))
      case set: Set[_]                      => ("set", items(op, name, set.toSeq))
      case range: Range => ("range", quote(s"${range.start},${range.end},${range.step},${range.isInclusive}"))
      case sequence: collection.Seq[_] if sequenceTag(sequence).isDefined =>
        (sequenceTag(sequence).get, items(op, name, sequence))
      case list: java.util.List[_] => ("java-list", items(op, name, list.asScala))
      case set: java.util.Set[_]   => ("java-set", items(op, name, set.asScala.toSeq))
      case array: Array[_]         =>
        val tag = tagOf(array.getClass).getOrElse(unsupported(op, name, value))
        (tag, arrayPayload(array))
      case constant: Enumeration#Value if !isDType(constant) => unsupported(op, name, constant)
      case scalar                                            =>
        val tag = tagOf(scalar.getClass).getOrElse(unsupported(op, name, value))
        (tag, quote(scalarText(scalar)))
    }
    s"{${quote(tag)}: $payload}"
  }

  private def items(op: String, name: String, values: collection.Seq[_]): String =
    values.zipWithIndex.map { case (value, i) => tagged(op, s"$name($i)", value) }.mkString("[", ", ", "]")

  /** The tag of a sequence, if its class can be restored. */
  private def sequenceTag(sequence: collection.Seq[_]): Option[String] = sequence match {
    case _: List[_]        => Some("list")
    case _: Vector[_]      => Some("vector")
    case _: ArraySeq[_]    => Some("array-seq")
    case _: ArrayBuffer[_] => Some("buffer")
    case _                 => None
  }

  def isTuple(value: Product): Boolean = value.getClass.getName.startsWith("scala.Tuple")

  /** A tuple; null for a number of elements that none has. */
  def tuple(elements: Vector[Any]): Any = elements match {
    case Vector(a)                                     => Tuple1(a)
    case Vector(a, b)                                  => (a, b)
    case Vector(a, b, c)                               => (a, b, c)
    case Vector(a, b, c, d)                            => (a, b, c, d)
    case more if more.length >= 5 && more.length <= 22 =>
      val constructor = Class.forName(s"scala.Tuple${more.length}").getConstructors.head
      constructor.newInstance(more.map(_.asInstanceOf[AnyRef]): _*)
    case _ => null
  }

  /** A map, as an object if its keys are strings, otherwise as a list of pairs. */
  private def mapping(op: String, name: String, tag: String, map: collection.Map[_, _]): (String, String) =
    if (map.keysIterator.forall(_.isInstanceOf[String]))
      (tag, fieldsToJson(map.iterator.map { case (key, value) => s"$key" -> tagged(op, s"$name.$key", value) }.toMap))
    else (s"$tag-pairs", items(op, name, map.toSeq))

  private def unsupported(op: String, name: String, value: Any): Nothing = throw new MXNetError(
    s"operator $op: property '$name' is a ${value.getClass.getName}, which cannot be saved: properties are $allowed. " +
      "Mark the field @transient if it need not be saved"
  )

  private def quote(text: String): String = text.iterator
    .map {
      case '"'                     => "\\\""
      case '\\'                    => "\\\\"
      case c if c < ' ' || c > '~' => f"\\u${c.toInt}%04x"
      case c                       => c.toString
    }
    .mkString("\"", "", "\"")

  /** A type of scalars.
    *
    * @param tag its name in JSON
    * @param boxed the class of a value
    * @param component the class of an array's component
    */
  private final case class ScalarType(tag: String, boxed: Class[_], component: Class[_])

  private val scalars: Seq[ScalarType] = Seq(
    ScalarType("boolean", classOf[java.lang.Boolean], java.lang.Boolean.TYPE),
    ScalarType("byte", classOf[java.lang.Byte], java.lang.Byte.TYPE),
    ScalarType("short", classOf[java.lang.Short], java.lang.Short.TYPE),
    ScalarType("char", classOf[java.lang.Character], java.lang.Character.TYPE),
    ScalarType("int", classOf[java.lang.Integer], java.lang.Integer.TYPE),
    ScalarType("long", classOf[java.lang.Long], java.lang.Long.TYPE),
    ScalarType("float", classOf[java.lang.Float], java.lang.Float.TYPE),
    ScalarType("double", classOf[java.lang.Double], java.lang.Double.TYPE),
    ScalarType("bigint", classOf[BigInt], classOf[BigInt]),
    ScalarType("bigdecimal", classOf[BigDecimal], classOf[BigDecimal]),
    ScalarType("java-bigint", classOf[java.math.BigInteger], classOf[java.math.BigInteger]),
    ScalarType("java-bigdecimal", classOf[java.math.BigDecimal], classOf[java.math.BigDecimal]),
    ScalarType("string", classOf[String], classOf[String]),
    ScalarType("shape", classOf[Shape], classOf[Shape]),
    ScalarType("dtype", classOf[DType.Value], classOf[DType.Value])
  )

  private def tagOf(cls: Class[_]): Option[String] =
    if (cls.isArray) componentTag(cls.getComponentType).map(_ + "[]")
    else scalars.find(_.boxed.isAssignableFrom(cls)).map(_.tag)

  private def componentTag(cls: Class[_]): Option[String] =
    if (cls.isArray) componentTag(cls.getComponentType).map(_ + "[]")
    else scalars.find(_.component == cls).map(_.tag)

  private def componentClass(tag: String): Option[Class[_]] =
    if (tag.endsWith("[]")) componentClass(tag.dropRight(2)).map(JavaArray.newInstance(_, 0).getClass)
    else scalars.find(_.tag == tag).map(_.component)

  private def scalarText(value: Any): String = value match {
    case char: Char   => char.toInt.toString
    case shape: Shape => shape.toVector.mkString(",")
    case other        => other.toString
  }

  private def arrayPayload(array: Array[_]): String =
    if (array.getClass.getComponentType.isPrimitive) quote(array.iterator.map(scalarText).mkString(","))
    else
      array.iterator
        .map {
          case null            => "null"
          case inner: Array[_] => arrayPayload(inner)
          case scalar          => quote(scalarText(scalar))
        }
        .mkString("[", ", ", "]")

  /** The reverse of [[tagged]]. */
  private def untagged(op: String, name: String, value: Any): Any = {
    def damaged: Nothing = throw new MXNetError(s"operator $op: property '$name' of the graph cannot be read: $value")
    value match {
      case fields: Map[_, _] if fields.size == 1 =>
        val (tag, payload) = (fields.head._1.toString, fields.head._2)
        (tag, payload) match {
          case ("null", _)                          => null
          case ("option", Vector())                 => None
          case ("option", Vector(item))             => Some(untagged(op, s"$name(0)", item))
          case ("java-optional", Vector())          => Optional.empty[Any]()
          case ("java-optional", Vector(item))      => Optional.ofNullable(untagged(op, s"$name(0)", item))
          case ("tuple", items: Vector[_])          => Option(tuple(elements(op, name, items))).getOrElse(damaged)
          case ("range", text: String)              => range(text).getOrElse(damaged)
          case ("enum", text: String)               => text
          case ("map-pairs", items: Vector[_])      => pairs(elements(op, name, items)).getOrElse(damaged).toMap
          case ("java-map-pairs", items: Vector[_]) =>
            val entries = pairs(elements(op, name, items)).getOrElse(damaged)
            new java.util.LinkedHashMap[Any, Any](collection.immutable.ListMap.from(entries).asJava)
          case ("map", entries: Map[_, _])      => restored(op, name, entries)
          case ("java-map", entries: Map[_, _]) =>
            new java.util.TreeMap[String, Any](restored(op, name, entries).asJava)
          case (kind, items: Vector[_]) if sequences.contains(kind) =>
            sequences(kind)(elements(op, name, items))
          case _ =>
            try decode(tag, payload).getOrElse(damaged)
            catch { case _: IllegalArgumentException => damaged }
        }
      case _ => damaged
    }
  }

  private def elements(op: String, name: String, items: Vector[_]): Vector[Any] =
    items.zipWithIndex.map { case (item, i) => untagged(op, s"$name($i)", item) }

  private def pairs(elements: Vector[Any]): Option[Vector[(Any, Any)]] = {
    val found = elements.collect { case (key, value) => (key, value) }
    Option.when(found.length == elements.length)(found)
  }

  /** Enumerations of the program have values of the same class. */
  private def isDType(value: Enumeration#Value): Boolean = DType.values.exists(_ eq value)

  private def range(text: String): Option[Range] = text.split(",", -1) match {
    case Array(start, end, step, inclusive) =>
      for {
        first <- start.toIntOption
        last <- end.toIntOption
        by <- step.toIntOption.filter(_ != 0)
        closed <- inclusive.toBooleanOption
      } yield if (closed) Range.inclusive(first, last, by) else Range(first, last, by)
    case _ => None
  }

  private val sequences: Map[String, Vector[Any] => Any] = Map(
    "list" -> (_.toList),
    "set" -> (_.toSet),
    "vector" -> identity,
    "array-seq" -> (items => ArraySeq(items: _*)),
    "buffer" -> (items => ArrayBuffer(items: _*)),
    "java-list" -> (items => new java.util.ArrayList[Any](items.asJava)),
    "java-set" -> (items => new java.util.LinkedHashSet[Any](items.asJava))
  )

  private def restored(op: String, name: String, entries: Map[_, _]): Map[String, Any] =
    entries.map { case (key, value) => key.toString -> untagged(op, s"$name.$key", value) }

  private def decode(tag: String, payload: Any): Option[Any] = payload match {
    case null                               => Some(null)
    case text: String if tag.endsWith("[]") =>
      val component = tag.dropRight(2)
      if (!componentClass(component).exists(_.isPrimitive)) None
      else decodeArray(component, if (text.isEmpty) Nil else text.split(",", -1).toSeq)
    case items: Vector[_] if tag.endsWith("[]") => decodeArray(tag.dropRight(2), items)
    case text: String                           => scalar(tag, text)
    case _                                      => None
  }

  private def decodeArray(component: String, items: Seq[Any]): Option[Any] = componentClass(component).flatMap { cls =>
    val array = JavaArray.newInstance(cls, items.length)
    val complete = items.zipWithIndex.forall { case (item, i) =>
      decode(component, item).exists { value =>
        JavaArray.set(array, i, value)
        true
      }
    }
    if (complete) Some(array) else None
  }

  private def scalar(tag: String, text: String): Option[Any] = tag match {
    case "boolean"         => text.toBooleanOption
    case "byte"            => text.toByteOption
    case "short"           => text.toShortOption
    case "char"            => text.toIntOption.filter(code => code >= 0 && code <= Char.MaxValue).map(_.toChar)
    case "int"             => text.toIntOption
    case "long"            => text.toLongOption
    case "float"           => text.toFloatOption
    case "double"          => text.toDoubleOption
    case "bigint"          => attempt(BigInt(text))
    case "bigdecimal"      => attempt(BigDecimal(text))
    case "java-bigint"     => attempt(new java.math.BigInteger(text))
    case "java-bigdecimal" => attempt(new java.math.BigDecimal(text))
    case "string"          => Some(text)
    case "shape"           =>
      val dims = if (text.isEmpty) Nil else text.split(",", -1).toSeq.map(_.toIntOption)
      if (dims.forall(_.isDefined)) Some(Shape(dims.flatten)) else None
    case "dtype" => DType.values.find(_.toString == text)
    case _       => None
  }

  private def attempt[T](number: => T): Option[T] =
    try Some(number)
    catch { case _: NumberFormatException => None }
}
