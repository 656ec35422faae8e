package org.apache.mxnet

import org.apache.mxnet.internal.jni.{LibInfo, NativeLibrary}

/** Names that the whole library uses: handle types, the default element type, and the loaded native library. */
private[mxnet] object Base {

  /** The handle of a native object, checked by generation; 0 for none. */
  type CPtrAddress = Long

  type NDArrayHandle = CPtrAddress
  type SymbolHandle = CPtrAddress
  type ExecutorHandle = CPtrAddress
  type FunctionHandle = CPtrAddress
  type DataIterHandle = CPtrAddress
  type DataIterCreator = CPtrAddress
  type KVStoreHandle = CPtrAddress
  type RecordIOHandle = CPtrAddress
  type RtcHandle = CPtrAddress

  type MXUint = Int

  /** The type of a generated parameter that the engine takes as a 32-bit float. */
  type MXFloat = Float

  /** The default element type of arrays. */
  lazy val MX_REAL_TYPE: DType.DType = DType.Float32

  /** The types of numbers that operators take as scalars. */
  lazy val MX_PRIMITIVES: Specializable.Group[(Double.type, Float.type)] = new Specializable.Group((Double, Float))

  /** A number that a function returns through its argument. */
  class RefInt(val value: Int = 0)

  /** A number that a function returns through its argument. */
  class RefLong(val value: Long = 0L)

  /** A number that a function returns through its argument. */
  class RefFloat(val value: Float = 0f)

  /** A string that a function returns through its argument. */
  class RefString(val value: String = null)

  type MXUintRef = RefInt
  type MXFloatRef = RefFloat
  type NDArrayHandleRef = RefLong
  type FunctionHandleRef = RefLong
  type DataIterHandleRef = RefLong
  type DataIterCreatorRef = RefLong
  type KVStoreHandleRef = RefLong
  type ExecutorHandleRef = RefLong
  type SymbolHandleRef = RefLong
  type RecordIOHandleRef = RefLong
  type RtcHandleRef = RefLong

  /** Throws unless `ret` is 0. The functions of [[LibInfo]] throw themselves. */
  def checkCall(ret: Int): Unit = if (ret != 0) throw new MXNetError(s"a native function returned $ret instead of 0")

  /** Names, types and descriptions of arguments as a section of a docstring. */
  def ctypes2docstring(argNames: Seq[String], argTypes: Seq[String], argDescs: Seq[String]): String = {
    val arguments = argNames.lazyZip(argTypes).lazyZip(argDescs).map { (name, kind, description) =>
      s"$name : $kind" + (if (description.isEmpty) "" else s"\n    $description")
    }
    s"Parameters\n----------\n${arguments.mkString("\n")}\n"
  }

  /** The native library, loaded and checked at first use. */
  lazy val _LIB: LibInfo = NativeLibrary.load()
}
