package org.apache.mxnet
package internal.userop

import java.lang.reflect.{Field, Modifier}

import org.apache.mxnet.internal.util.FieldState

/** The fields of a user-defined operator as its properties: those of its class and its superclasses below
  * `UserDefinedCustomOp`, except static and transient ones.
  */
private[mxnet] object OpFields {

  /** The values of the fields by name. Immutable fields of unsupported types are omitted if the constructor of new
    * instances creates equal values.
    */
  def read(op: UserDefinedCustomOp): Map[String, Any] = {
    lazy val other = UdfClass.of(op.userObject).instance().userObject
    fields(op.userObject.getClass).flatMap { field =>
      val value = field.get(op.userObject)
      val isOmitted =
        Modifier.isFinal(field.getModifiers) && !OpProperties.canSave(value) && isAlike(value, field.get(other))
      if (isOmitted) None else Some(field.getName -> value)
    }.toMap
  }

  /** Whether two values are equal, or of a class whose objects are equal only to themselves. */
  private def isAlike(value: Any, other: Any): Boolean = (value, other) match {
    case _ if value == other                   => true
    case (null, _) | (_, null)                 => false
    case _ if value.getClass != other.getClass => false
    case (items: Seq[_], others: Seq[_])       => items.corresponds(others)(isAlike)
    case (product: Product, others: Product)   =>
      product.productIterator.corresponds(others.productIterator)(isAlike)
    case _ => value.getClass.getMethod("equals", classOf[Object]).getDeclaringClass == classOf[Object]
  }

  /** The names of the fields. */
  def names(op: UserDefinedCustomOp): Seq[String] = fields(op.userObject.getClass).map(_.getName).sorted

  /** Sets the fields of these names. */
  def write(op: UserDefinedCustomOp, properties: Map[String, Any]): Unit = {
    val cls = op.userObject.getClass
    val byName = fields(cls).map(field => field.getName -> field).toMap
    properties.foreach { case (name, value) =>
      val field = byName.getOrElse(
        name,
        throw new MXNetError(
          s"operator ${op.opName} has no property '$name'; the fields of ${cls.getName} are " +
            s"${byName.keys.toSeq.sorted.mkString(", ")}: the graph was saved with another version of the class"
        )
      )
      val fitting = FieldValues.restored(field, field.get(op.userObject), value).getOrElse {
        val kind = if (value == null) "null" else value.getClass.getSimpleName
        throw new MXNetError(
          s"operator ${op.opName}: property '$name' is a $kind, but the field of ${cls.getName} is a " +
            s"${field.getType.getSimpleName}, which cannot be $value: the graph was saved with another version of the class"
        )
      }
      field.set(op.userObject, fitting)
    }
  }

  /** The values of fields from attributes as MXNet's other front ends write them: `3`, `0.5`, `True`, `(2, 2)`. */
  def parse(op: UserDefinedCustomOp, attributes: Map[String, String]): Map[String, Any] =
    fields(op.userObject.getClass).flatMap { field =>
      attributes.get(field.getName).map { text =>
        val name = field.getName
        def reject: Nothing = throw new MXNetError(
          s"operator ${op.opName}: the attribute $name is '$text', but the field of ${field.getDeclaringClass.getName} is a " +
            field.getType.getSimpleName
        )
        name -> FieldValues.parsed(field, field.get(op.userObject), text).getOrElse(reject)
      }
    }.toMap

  private val baseClasses: Seq[Class[_]] = Seq(classOf[UserDefinedCustomOp], classOf[javaapi.UserDefinedCustomOp])

  private val known = new ClassValue[Seq[Field]] {
    override def computeValue(cls: Class[_]): Seq[Field] = {
      val classes =
        Iterator.iterate[Class[_]](cls)(_.getSuperclass).takeWhile(c => c != null && !baseClasses.contains(c))
      classes.toSeq.reverse.flatMap(_.getDeclaredFields).filter(isProperty).map(accessible)
    }
  }

  private def fields(cls: Class[_]): Seq[Field] = known.get(cls)

  private def isProperty(field: Field): Boolean = {
    val modifiers = field.getModifiers
    !Modifier.isStatic(modifiers) && !Modifier.isTransient(modifiers) && !field.isSynthetic && !field.getName.contains(
      "$"
    )
  }

  private def accessible(field: Field): Field =
    FieldState.accessible(field, "or override propertiesForFunction and setPropertiesForFunction")
}
