package org.apache.mxnet.javaapi

import java.util.{Map => JMap}

import scala.jdk.CollectionConverters._
import scala.language.implicitConversions

/** A device, for programs in Java.
  *
  * @param context the context of the Scala API that this one stands for
  */
class Context private[mxnet] (val context: org.apache.mxnet.Context) {

  /** The device of a kind, such as `cpu`, and number. */
  def this(deviceTypeName: String, deviceId: Int = 0) = this(new org.apache.mxnet.Context(deviceTypeName, deviceId))

  /** The code of the kind of device: 1 cpu, 2 gpu, 3 cpu_pinned. */
  val deviceTypeid: Int = context.deviceTypeid

  /** Runs `body` with this device as the default one. */
  def withScope[T](body: => T): T = context.withScope(body)

  /** The kind of device, such as `cpu`. */
  def deviceType: String = context.deviceType

  override def toString: String = context.toString

  override def equals(other: Any): Boolean = other match {
    case that: Context => context == that.context
    case _             => false
  }

  override def hashCode(): Int = context.hashCode
}

object Context {
  implicit def fromContext(context: org.apache.mxnet.Context): Context = new Context(context)

  implicit def toContext(jContext: Context): org.apache.mxnet.Context = jContext.context

  /** The first processor. */
  val cpu: Context = org.apache.mxnet.Context.cpu()

  /** The first graphics device. */
  val gpu: Context = org.apache.mxnet.Context.gpu()

  /** As [[devstr2type]]: programs were compiled with a map of this type. */
  val devtype2str: JMap[String, Int] = org.apache.mxnet.Context.devstr2type.asJava

  /** The codes of the kinds of devices. */
  val devstr2type: JMap[String, Int] = org.apache.mxnet.Context.devstr2type.asJava

  /** The device of arrays for which none is given. */
  def defaultCtx: Context = org.apache.mxnet.Context.defaultCtx
}
