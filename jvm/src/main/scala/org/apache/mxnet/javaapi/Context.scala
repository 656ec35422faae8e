package org.apache.mxnet.javaapi

import java.util.{Map => JMap}

import scala.jdk.CollectionConverters._
import scala.language.implicitConversions

/** A device, for Java.
  *
  * @param context the corresponding context of the Scala API
  */
class Context private[mxnet] (val context: org.apache.mxnet.Context) {

  /** The device of a type, such as `cpu`, and index. */
  def this(deviceTypeName: String, deviceId: Int = 0) = this(new org.apache.mxnet.Context(deviceTypeName, deviceId))

  /** The code of the device type: 1 cpu, 2 gpu, 3 cpu_pinned. */
  val deviceTypeid: Int = context.deviceTypeid

  /** Runs `body` with this device as the default one. */
  def withScope[T](body: => T): T = context.withScope(body)

  /** The device type, such as `cpu`. */
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

  /** The CPU. */
  val cpu: Context = org.apache.mxnet.Context.cpu()

  /** The first GPU. */
  val gpu: Context = org.apache.mxnet.Context.gpu()

  /** The same map as [[devstr2type]]: MXNet's Scala package declares it with this type. */
  val devtype2str: JMap[String, Int] = org.apache.mxnet.Context.devstr2type.asJava

  /** The codes of the device types. */
  val devstr2type: JMap[String, Int] = org.apache.mxnet.Context.devstr2type.asJava

  /** The default device of arrays. */
  def defaultCtx: Context = org.apache.mxnet.Context.defaultCtx
}
