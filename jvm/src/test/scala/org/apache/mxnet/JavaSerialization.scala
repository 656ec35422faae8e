package org.apache.mxnet

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, ObjectInputStream, ObjectOutputStream}

object JavaSerialization {

  /** The value after Java's serialization, which Spark uses for the values of a closure. */
  def copyOf[T](value: T): T = {
    val bytes = new ByteArrayOutputStream()
    new ObjectOutputStream(bytes).writeObject(value)
    new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray)).readObject().asInstanceOf[T]
  }
}
