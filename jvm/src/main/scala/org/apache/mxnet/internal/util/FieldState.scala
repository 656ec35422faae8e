package org.apache.mxnet
package internal.util

import java.lang.reflect.{Field, InaccessibleObjectException, Modifier}

import org.apache.mxnet.MXNetError

/** The mutable fields of primitive types of an object. Checkpoints save the state of optimizers and learning rate
  * schedules by it, without code in these classes.
  */
private[mxnet] object FieldState {

  /** The values by the names of class and field. */
  def read(owner: AnyRef): Map[String, Any] =
    fields(owner).map(field => nameOf(field) -> field.get(owner)).toMap

  /** Like [[read]], with the immutable fields too, such as constructor parameters. */
  def readAll(owner: AnyRef): Map[String, Any] =
    primitives(owner).map(field => nameOf(field) -> field.get(owner)).toMap

  /** Restores the result of [[read]] or [[readAll]]; a field that does not exist is an error. */
  def write(owner: AnyRef, values: Map[String, Any]): Unit = {
    val byName = primitives(owner).map(field => nameOf(field) -> field).toMap
    values.foreach { case (name, value) =>
      val field = byName.get(name).filter(_.getType == primitiveOf(value)).getOrElse {
        throw new MXNetError(
          s"the saved state has a value ($value) for the field $name, which ${owner.getClass.getName} does not have: it " +
            "was written with another version of the class"
        )
      }
      field.set(owner, value)
    }
  }

  /** The values of the fields of a reference type that are not null. */
  def referenced[T](owner: AnyRef, kind: Class[T]): Seq[T] =
    declared(owner).filter(field => kind.isAssignableFrom(field.getType)).flatMap { field =>
      Option(accessible(field).get(owner)).map(kind.cast)
    }

  /** Sets the fields of a reference type. */
  def setReferenced[T <: AnyRef](owner: AnyRef, kind: Class[T], value: T): Unit =
    declared(owner).filter(field => kind.isAssignableFrom(field.getType)).foreach(accessible(_).set(owner, value))

  private def nameOf(field: Field): String = s"${field.getDeclaringClass.getName}.${field.getName}"

  private def fields(owner: AnyRef): Seq[Field] =
    primitives(owner).filterNot(field => Modifier.isFinal(field.getModifiers))

  /** `bitmap$` fields record which lazy values are initialized. */
  private def primitives(owner: AnyRef): Seq[Field] =
    declared(owner).filter(field => field.getType.isPrimitive && !field.getName.contains("bitmap$")).map(accessible)

  private def declared(owner: AnyRef): Seq[Field] =
    Iterator
      .iterate[Class[_]](owner.getClass)(_.getSuperclass)
      .takeWhile(_ != null)
      .flatMap(_.getDeclaredFields)
      .filterNot(field => Modifier.isStatic(field.getModifiers))
      .toSeq

  private def primitiveOf(value: Any): Class[_] = value match {
    case _: Boolean => classOf[Boolean]
    case _: Byte    => classOf[Byte]
    case _: Char    => classOf[Char]
    case _: Short   => classOf[Short]
    case _: Int     => classOf[Int]
    case _: Long    => classOf[Long]
    case _: Float   => classOf[Float]
    case _: Double  => classOf[Double]
    case other      => throw new MXNetError(s"a field of a primitive type cannot be $other")
  }

  private def accessible(field: Field): Field =
    accessible(field, "so that training with this class can be saved")

  /** The field, made accessible by reflection.
    *
    * @param advice ends the message "open it to io.github.ferromx.mxnet" if the module of the class does not allow it
    */
  private[internal] def accessible(field: Field, advice: String): Field =
    try {
      field.setAccessible(true)
      field
    } catch {
      case _: InaccessibleObjectException =>
        throw new MXNetError(
          s"the fields of ${field.getDeclaringClass.getName} cannot be read, because its module does not open the package: " +
            s"open it to io.github.ferromx.mxnet, $advice"
        )
    }
}
