package org.apache.mxnet
package internal.userop

import java.lang.reflect.{Array => JavaArray, Field, ParameterizedType}
import java.util.Optional

import scala.collection.{immutable, mutable}
import scala.jdk.CollectionConverters._
import scala.util.Try

/** Converts saved properties and attributes to the types of fields. */
private[mxnet] object FieldValues {

  /** A saved property as a value of the field: of its enumeration, or of its class of collections.
    *
    * @param current the value that the constructor gave the field
    */
  def restored(field: Field, current: Any, value: Any): Option[Any] = {
    val cls = field.getType
    value match {
      case null                               => Option.when(!cls.isPrimitive)(null)
      case name: String if isEnumeration(cls) => constant(cls, current, name)
      case _ if cls.isPrimitive               => Option.when(boxed(cls).isInstance(value))(value)
      case _ if cls.isInstance(value)         => Some(value)
      case _                                  => collection(cls, current, value).filter(cls.isInstance)
    }
  }

  /** The value of a field from the text of an attribute as MXNet's other front ends write it.
    *
    * @param current the value that the constructor gave the field
    */
  def parsed(field: Field, current: Any, text: String): Option[Any] = {
    val cls = field.getType
    if (isEnumeration(cls)) constant(cls, current, text.trim)
    else if (cls.isArray && cls.getComponentType != classOf[Object]) array(cls.getComponentType, text)
    else if (classOf[Option[_]].isAssignableFrom(cls))
      if (text.trim == "None") Some(None) else element(field, current, Seq(text)).map(_(0)).map(Some(_))
    else if (cls == classOf[Optional[_]])
      if (text.trim == "None") Some(Optional.empty[Any]())
      else element(field, current, Seq(text)).map(items => Optional.of[Any](items(0)))
    else if (cls.getName.startsWith("scala.Tuple")) tuple(current, items(text)).filter(cls.isInstance)
    else if (isCollection(cls)) element(field, current, items(text)).flatMap(restoredElements(cls, current, _))
    else OpProperties.parse(cls, text)
  }

  /** `(1, 2)`, `[1, 2]` or `1` as texts. */
  private def items(text: String): Seq[String] = {
    val plain = text.trim
    val inner =
      if (plain.startsWith("(") && plain.endsWith(")") || plain.startsWith("[") && plain.endsWith("]"))
        plain.substring(1, plain.length - 1).trim
      else plain
    if (inner.isEmpty) Nil else inner.stripSuffix(",").split(",", -1).toSeq.map(_.trim)
  }

  private def array(component: Class[_], text: String): Option[Any] =
    all(items(text).map(OpProperties.parse(component, _))).map { values =>
      val array = JavaArray.newInstance(component, values.length)
      values.zipWithIndex.foreach { case (value, i) => JavaArray.set(array, i, value) }
      array
    }

  /** The elements of an option or a collection. Their class is that of the declaration in Java, or of a present element,
    * because Scala erases primitive types; otherwise integers, floating-point numbers of 32 bits, or texts.
    */
  private def element(field: Field, current: Any, texts: Seq[String]): Option[Seq[Any]] = {
    val declared = field.getGenericType match {
      case generic: ParameterizedType =>
        generic.getActualTypeArguments.headOption.collect { case cls: Class[_] if cls != classOf[Object] => cls }
      case _ => None
    }
    val present = Option(current).collect {
      case items: Iterable[_]             => items.headOption
      case option: Option[_]              => option
      case items: java.util.Collection[_] => items.asScala.headOption
    }.flatten
    firstParsed(declared.orElse(present.map(_.getClass)).fold[Seq[Class[_]]](guesses)(Seq(_)), texts)
  }

  /** A tuple, of the classes of the present elements. */
  private def tuple(current: Any, texts: Seq[String]): Option[Any] = {
    val present = current match {
      case tuple: Product => tuple.productIterator.map(element => Seq[Class[_]](element.getClass)).toSeq
      case _              => texts.map(_ => guesses)
    }
    if (present.length != texts.length) None
    else
      all(texts.zip(present).map { case (text, classes) => firstParsed(classes, Seq(text)).map(_.head) })
        .map(elements => OpProperties.tuple(elements.toVector))
  }

  private def firstParsed(classes: Seq[Class[_]], texts: Seq[String]): Option[Seq[Any]] =
    classes.iterator.map(cls => all(texts.map(OpProperties.parse(cls, _)))).collectFirst { case Some(values) => values }

  private val guesses: Seq[Class[_]] = Seq(classOf[Int], classOf[Float], classOf[String])

  private def all(values: Seq[Option[Any]]): Option[Seq[Any]] =
    Option.when(values.forall(_.isDefined))(values.flatten)

  private def isCollection(cls: Class[_]): Boolean =
    classOf[scala.collection.Iterable[_]].isAssignableFrom(cls) || classOf[java.util.Collection[_]]
      .isAssignableFrom(cls)

  private def restoredElements(cls: Class[_], current: Any, elements: Seq[Any]): Option[Any] = {
    val list: Any =
      if (classOf[java.util.Set[_]].isAssignableFrom(cls)) new java.util.LinkedHashSet[Any](elements.asJava)
      else if (classOf[java.util.Collection[_]].isAssignableFrom(cls)) new java.util.ArrayList[Any](elements.asJava)
      else if (classOf[scala.collection.Set[_]].isAssignableFrom(cls)) elements.toSet
      else if (cls.isAssignableFrom(classOf[List[_]])) elements.toList
      else elements.toVector
    if (cls.isInstance(list)) Some(list) else collection(cls, current, list).filter(cls.isInstance)
  }

  /** A collection of the class that the constructor chose, or that the field declares. */
  private def collection(cls: Class[_], current: Any, value: Any): Option[Any] = (value, current) match {
    case (map: immutable.Map[_, _], sorted: scala.collection.SortedMap[_, _]) =>
      implicit val ordering: Ordering[Any] = sorted.ordering.asInstanceOf[Ordering[Any]]
      Some(sorted.sortedMapFactory.from(map.asInstanceOf[Map[Any, Any]]))
    case (map: immutable.Map[_, _], present: scala.collection.Map[_, _])   => Some(present.mapFactory.from(map))
    case (map: immutable.Map[_, _], _) if cls.isAssignableFrom(mutableMap) => Some(mutable.LinkedHashMap.from(map))
    case (set: immutable.Set[_], sorted: scala.collection.SortedSet[_])    =>
      implicit val ordering: Ordering[Any] = sorted.ordering.asInstanceOf[Ordering[Any]]
      Some(sorted.sortedIterableFactory.from(set.asInstanceOf[Set[Any]]))
    case (items: Iterable[_], present: Iterable[_])                  => Some(present.iterableFactory.from(items))
    case (items: Iterable[_], _) if cls.isAssignableFrom(mutableSet) => Some(mutable.LinkedHashSet.from(items))
    case (items: Iterable[_], _) if cls.isAssignableFrom(classOf[mutable.ListBuffer[_]]) =>
      Some(mutable.ListBuffer.from(items))
    case (items: java.util.Collection[_], _) =>
      empty[java.util.Collection[Any]](cls, current).map { copy =>
        copy.addAll(items)
        copy
      }
    case (map: java.util.Map[_, _], _) =>
      empty[java.util.Map[Any, Any]](cls, current).map { copy =>
        copy.putAll(map)
        copy
      }
    case _ => None
  }

  private val mutableMap: Class[_] = classOf[mutable.LinkedHashMap[_, _]]
  private val mutableSet: Class[_] = classOf[mutable.LinkedHashSet[_]]

  /** An empty Java collection of the class of the present value, or of the declared class. */
  private def empty[T](cls: Class[_], current: Any): Option[T] =
    (Option(current).map(_.getClass).toSeq :+ cls).iterator
      .flatMap(candidate => Try(candidate.getConstructor().newInstance().asInstanceOf[T]).toOption)
      .nextOption()

  private def boxed(cls: Class[_]): Class[_] = java.lang.invoke.MethodType.methodType(cls).wrap().returnType()

  /** Whether a field holds values of an enumeration of the program. */
  private def isEnumeration(cls: Class[_]): Boolean =
    cls.isEnum || cls == classOf[Enumeration#Value] || isScala3Enum(cls)

  /** The name of a value of an enumeration: of Java, of Scala 3 without parameters, or of the class `Enumeration`. */
  def constantName(value: Any): Option[String] = value match {
    case constant: java.lang.Enum[_]                                                        => Some(constant.name)
    case constant: Enumeration#Value                                                        => Some(constant.toString)
    case constant: Product if constant.productArity == 0 && isScala3Enum(constant.getClass) =>
      Some(constant.productPrefix)
    case _ => None
  }

  private def isScala3Enum(cls: Class[_]): Boolean =
    Iterator
      .iterate[Class[_]](cls)(_.getSuperclass)
      .takeWhile(_ != null)
      .exists(_.getInterfaces.exists(_.getName == "scala.reflect.Enum"))

  private def constant(cls: Class[_], current: Any, name: String): Option[Any] =
    if (cls.isEnum) cls.getEnumConstants.find(constantName(_).contains(name))
    else if (isScala3Enum(cls)) Try[Any](cls.getMethod("valueOf", classOf[String]).invoke(null, name)).toOption
    else
      current match {
        case value: Enumeration#Value => enumerationOf(value).values.find(_.toString == name)
        case _                        => DType.values.find(_.toString == name)
      }

  private def enumerationOf(value: Enumeration#Value): Enumeration =
    outerEnumeration.get(value).asInstanceOf[Enumeration]

  /** The enumeration of a value, which Scala gives no other way to. */
  private lazy val outerEnumeration = classOf[Enumeration#Value].getField("$outer")
}
