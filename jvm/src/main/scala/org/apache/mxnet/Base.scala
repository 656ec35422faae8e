package org.apache.mxnet

/** Names that the whole library shares: handle types, the default element type, and the loaded native library. */
private[mxnet] object Base {

  /** The address of a native object as the library hands it out: a generation-checked handle, 0 for none. */
  type CPtrAddress = Long

  type NDArrayHandle = CPtrAddress
  type SymbolHandle = CPtrAddress
  type ExecutorHandle = CPtrAddress
  type FunctionHandle = CPtrAddress
  type DataIterHandle = CPtrAddress

  type MXUint = Int

  /** The type of a generated parameter that the engine takes as a 32-bit float. */
  type MXFloat = Float

  /** The element type of arrays for which none is given. */
  val MX_REAL_TYPE: DType.DType = DType.Float32

  /** The native library, loaded and checked at first use. */
  lazy val _LIB: LibInfo = NativeLibrary.load()
}
