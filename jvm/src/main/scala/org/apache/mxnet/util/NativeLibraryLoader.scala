package org.apache.mxnet.util

import org.apache.mxnet.{Base, MXNetError}

private[mxnet] class NativeLibraryLoader

/** Loads the native library, which every use of the library also does. */
private[mxnet] object NativeLibraryLoader {

  /** Loads the engine. Any other library is an error. */
  def loadLibrary(libname: String): Unit = {
    if (!libname.startsWith("mxnet"))
      throw new MXNetError(s"NativeLibraryLoader: the library '$libname' is not part of this jar; it has mxnet only")
    Base._LIB.version()
    ()
  }
}
