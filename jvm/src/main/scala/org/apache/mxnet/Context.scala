package org.apache.mxnet

import scala.language.implicitConversions

import org.apache.mxnet.internal.util.PerThread

/** A device that holds arrays and runs operators.
  *
  * `cpu(0)` and `cpu(1)` are distinct devices of one machine; data between them is copied.
  *
  * @param deviceTypeName one of `cpu`, `gpu`, `cpu_pinned`
  * @param deviceId index of the device among those of its type, from 0
  */
class Context(deviceTypeName: String, val deviceId: Int = 0) extends Serializable {

  /** The device type's code in the C API. */
  val deviceTypeid: Int = deviceTypeName match {
    case "cpu"        => 1
    case "gpu"        => 2
    case "cpu_pinned" => 3
    case other        => throw new MXNetError(s"Context: '$other' is not a device type; known: cpu, cpu_pinned, gpu")
  }
  if (deviceId < 0) throw new MXNetError(s"Context: the device id is $deviceId, it must be 0 or more")

  def this(context: Context) = this(context.deviceType, context.deviceId)

  /** Runs `body` with this context as [[Context.defaultCtx]] of the calling thread. */
  def withScope[T](body: => T): T = {
    val outer = Context.current.get()
    Context.current.set(this)
    try body
    finally Context.current.set(outer)
  }

  /** The name of the device type. */
  def deviceType: String = deviceTypeName

  /** The form that operators take, such as `cpu(0)`. */
  override def toString(): String = deviceType.concat("(").concat(Integer.toString(deviceId)).concat(")")

  override def equals(other: Any): Boolean = other match {
    case that: Context => deviceTypeid == that.deviceTypeid && deviceId == that.deviceId
    case _             => false
  }

  override def hashCode(): Int = 31 * deviceTypeid + deviceId
}

object Context {

  /** Names of the device types by their codes. */
  lazy val devtype2str: Map[Int, String] = Map(1 -> "cpu", 2 -> "gpu", 3 -> "cpu_pinned")

  /** Codes of the device types by their names. */
  lazy val devstr2type: Map[String, Int] = devtype2str.map(_.swap)

  private val hostCpu = new Context("cpu", 0)

  private val current = new PerThread[Context](hostCpu)

  /** The default context: that of the innermost `withScope`, else `cpu(0)`. */
  def defaultCtx: Context = current.get()

  /** A CPU. */
  def cpu(deviceId: Int = 0): Context = if (deviceId == 0) hostCpu else new Context("cpu", deviceId)

  /** A GPU. Using one that is not available is an error; nothing falls back to the CPU silently. */
  def gpu(deviceId: Int = 0): Context = new Context("gpu", deviceId)

  /** Converts a single context to an array of contexts. */
  implicit def ctx2Array(ctx: Context): Array[Context] = Array(ctx)

  /** A context from the codes of the native interface: the type in the upper 32 bits, the id in the lower. */
  private[mxnet] def fromCodes(codes: Long): Context = {
    val typeId = (codes >>> 32).toInt
    val id = codes.toInt
    if (typeId == 1) cpu(id) else new Context(devtype2str(typeId), id)
  }
}
