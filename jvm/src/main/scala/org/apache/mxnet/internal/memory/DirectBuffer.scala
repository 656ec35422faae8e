package org.apache.mxnet
package internal.memory

import java.lang.ref.Cleaner
import java.nio.{ByteBuffer, ByteOrder}

import org.apache.mxnet.Base._LIB
import org.apache.mxnet.NativeResource.keepAlive

/** Direct buffers of the memory of arrays. */
private[mxnet] object DirectBuffer {
  private val cleaner = Cleaner.create()

  /** The memory of a dense array, without a copy; read-only if the array is. The memory stays valid as long as the
    * buffer, or one derived from it, is reachable, even if the array is disposed.
    */
  def of(array: NDArray): ByteBuffer =
    if (array.size == 0) ByteBuffer.allocateDirect(0)
    else {
      val handle = _LIB.ndarrayShare(array.liveHandle)
      keepAlive(array)
      val memory =
        try _LIB.ndarrayBuffer(handle, array.writable)
        catch {
          case error: MXNetError =>
            _LIB.ndarrayFree(handle)
            throw error
        }
      cleaner.register(memory, () => _LIB.ndarrayFree(handle))
      (if (array.writable) memory else memory.asReadOnlyBuffer()).order(ByteOrder.nativeOrder())
    }
}
