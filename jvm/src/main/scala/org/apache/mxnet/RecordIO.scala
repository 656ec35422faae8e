package org.apache.mxnet

import java.io.{ByteArrayInputStream, DataInputStream}
import java.nio.charset.StandardCharsets.{ISO_8859_1, UTF_8}
import java.nio.charset.{CharacterCodingException, CodingErrorAction}
import java.nio.file.{Files, Paths}
import java.nio.{ByteBuffer, ByteOrder}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.mxnet.Base._LIB
import org.apache.mxnet.internal.util.Given

/** Reads or writes a RecordIO file: records of any bytes, one after the other.
  *
  * A record is a text here: UTF-8 where its bytes are that, else one character for each byte, as [[MXRecordIO.pack]]
  * makes them. [[readBytes]] and [[writeBytes]] take the bytes as they are.
  *
  * @param uri the file
  * @param flag `MXRecordIO.IORead` or `MXRecordIO.IOWrite`; writing makes an existing file empty
  */
class MXRecordIO(uri: String, flag: MXRecordIO.IOFlag) extends AutoCloseable {
  private[mxnet] var handle: Long = 0L

  open()

  private def open(): Unit =
    handle = if (isWriter) _LIB.recordWriterCreate(uri) else _LIB.recordReaderCreate(uri)

  private[mxnet] def isWriter: Boolean = flag == MXRecordIO.IOWrite

  private[mxnet] def requireFlag(wanted: MXRecordIO.IOFlag, method: String): Unit = {
    if (flag != wanted)
      throw new MXNetError(s"MXRecordIO.$method: '$uri' was opened with $flag; open it with $wanted")
    if (handle == 0L) throw new MXNetError(s"MXRecordIO.$method: '$uri' is closed; call reset() to open it again")
  }

  /** Closes the file; what was written is in it then. */
  override def close(): Unit = if (handle != 0L) {
    val open = handle
    handle = 0L
    if (isWriter) _LIB.recordWriterFree(open) else _LIB.recordReaderFree(open)
  }

  /** Starts again: a reader at the first record, a writer with an empty file. */
  def reset(): Unit = {
    close()
    open()
  }

  /** Appends a record. */
  def write(buf: String): Unit = writeBytes(MXRecordIO.bytesOf(buf))

  /** Appends a record. */
  def writeBytes(record: Array[Byte]): Unit = {
    requireFlag(MXRecordIO.IOWrite, "write")
    _LIB.recordWriterWrite(handle, record)
  }

  /** The next record; null at the end of the file. */
  def read(): String = {
    val record = readBytes()
    if (record == null) null else MXRecordIO.textOf(record)
  }

  /** The next record; null at the end of the file. */
  def readBytes(): Array[Byte] = {
    requireFlag(MXRecordIO.IORead, "read")
    _LIB.recordReaderRead(handle)
  }
}

/** What a file is opened for, and the header of records that hold an instance with its label. */
object MXRecordIO {

  /** What a file is opened for. */
  sealed trait IOFlag

  case object IOWrite extends IOFlag

  case object IORead extends IOFlag

  /** What stands before an instance.
    *
    * @param flag how many labels are written as an array; 0 if the only one is in the header itself
    * @param label the label or labels
    * @param id the number of the instance
    * @param id2 upper part of a longer number, usually 0
    */
  case class IRHeader(flag: Int, label: Array[Float], id: Int, id2: Int)

  private val headerBytes = 24

  /** A record of a header and an instance. */
  def pack(header: IRHeader, s: String): String = new String(packBytes(header, bytesOf(s)), ISO_8859_1)

  /** A record of a header and an instance. */
  def packBytes(header: IRHeader, content: Array[Byte]): Array[Byte] = {
    val labels = header.label
    val asArray = labels.length != 1 || header.flag > 0
    val size = headerBytes + (if (asArray) 4 * labels.length else 0) + content.length
    val buffer = ByteBuffer.allocate(size).order(ByteOrder.LITTLE_ENDIAN)
    buffer.putInt(if (asArray) labels.length else 0)
    buffer.putFloat(if (asArray) 0f else labels(0))
    buffer.putLong(header.id.toLong).putLong(header.id2.toLong)
    if (asArray) labels.foreach(label => buffer.putFloat(label))
    buffer.put(content).array()
  }

  /** Header and instance of a record. Records that MXNet's Scala package packed, in a format of its own, are read too. */
  def unpack(s: String): (IRHeader, String) = {
    val bytes = packedBytes(s)
    unpackLegacy(bytes).getOrElse {
      val (header, content) = unpackBytes(bytes)
      (header, textOf(content))
    }
  }

  /** The bytes of a packed text. MXNet's Scala package made characters from signed bytes. */
  private def packedBytes(packed: String): Array[Byte] =
    if (packed.forall(c => c <= 0xff || c >= 0xff80)) packed.map(_.toByte).toArray else bytesOf(packed)

  /** What MXNet's Scala package packed: number of labels, labels, id, id2, and a text with its length, big-endian; None
    * if the lengths do not match.
    */
  private def unpackLegacy(record: Array[Byte]): Option[(IRHeader, String)] = {
    val buffer = ByteBuffer.wrap(record)
    val count = if (record.length >= 14) buffer.getInt() else -1
    val textStart = 12L + 4L * count
    val isLegacy = count >= 0 && textStart + 2 <= record.length && {
      val textLength = buffer.getShort(textStart.toInt) & 0xffff
      textStart + 2 + textLength == record.length
    }
    if (!isLegacy) None
    else {
      val labels = Array.fill(count)(buffer.getFloat())
      val header = IRHeader(count, labels, buffer.getInt(), buffer.getInt())
      val text = new DataInputStream(new ByteArrayInputStream(record, textStart.toInt, record.length)).readUTF()
      Some((header, text))
    }
  }

  /** Header and instance of a record. */
  def unpackBytes(record: Array[Byte]): (IRHeader, Array[Byte]) = {
    def tooShort(needed: Long) =
      new MXNetError(s"MXRecordIO.unpack: the record has ${record.length} bytes, its header needs $needed")
    if (record.length < headerBytes) throw tooShort(headerBytes.toLong)
    val buffer = ByteBuffer.wrap(record).order(ByteOrder.LITTLE_ENDIAN)
    val (flag, label) = (buffer.getInt(), buffer.getFloat())
    val (id, id2) = (buffer.getLong().toInt, buffer.getLong().toInt)
    val needed = headerBytes + 4L * (flag & 0xffffffffL)
    if (needed > record.length) throw tooShort(needed)
    val labels = if (flag == 0) Array(label) else Array.fill(flag)(buffer.getFloat())
    val content = new Array[Byte](buffer.remaining)
    buffer.get(content)
    (IRHeader(flag, labels, id, id2), content)
  }

  /** One byte for each character, unless one needs more: then UTF-8. */
  private[mxnet] def bytesOf(text: String): Array[Byte] =
    text.getBytes(if (text.forall(_ <= 0xff)) ISO_8859_1 else UTF_8)

  private[mxnet] def textOf(bytes: Array[Byte]): String = {
    val strict = UTF_8.newDecoder().onMalformedInput(CodingErrorAction.REPORT)
    try strict.decode(ByteBuffer.wrap(bytes)).toString
    catch { case _: CharacterCodingException => new String(bytes, ISO_8859_1) }
  }
}

/** Reads or writes a RecordIO file by keys. The keys and the positions of their records are in a second file, a line
  * with both, separated by a tabulator, for each record.
  *
  * @param idxPath the file of keys
  * @param uri the file of records
  * @param keyType the type of the keys
  */
class MXIndexedRecordIO(
    idxPath: String,
    uri: String,
    flag: MXRecordIO.IOFlag,
    keyType: MXIndexedRecordIO.KeyType = MXIndexedRecordIO.TyepInt
) extends MXRecordIO(uri, flag) {
  private val positions = mutable.LinkedHashMap.empty[Any, Long]

  Given("MXIndexedRecordIO", "idxPath" -> idxPath)
  readIndex()

  private def readIndex(): Unit = if (!isWriter && Files.exists(Paths.get(idxPath))) {
    positions.clear()
    Files.readAllLines(Paths.get(idxPath)).asScala.filter(_.nonEmpty).foreach { line =>
      line.split('\t') match {
        case Array(key, position) if position.forall(_.isDigit) => positions(keyType.parse(key)) = position.toLong
        case _                                                  =>
          throw new MXNetError(s"MXIndexedRecordIO: '$line' in $idxPath is not a key, a tabulator and a position")
      }
    }
  }

  private def writeIndex(): Unit = {
    val lines = positions.iterator.map { case (key, position) => s"$key\t$position" }.toSeq
    Files.write(Paths.get(idxPath), lines.asJava)
    ()
  }

  /** Closes both files. */
  override def close(): Unit = if (handle != 0L) {
    super.close()
    if (isWriter) writeIndex()
  }

  override def reset(): Unit = {
    super.reset()
    if (isWriter) positions.clear() else readIndex()
  }

  /** Goes to the record of a key. */
  def seek(idx: Any): Unit = {
    requireFlag(MXRecordIO.IORead, "seek")
    val position = positions.getOrElse(
      idx,
      throw new MXNetError(s"MXIndexedRecordIO.seek: $idxPath has no key $idx of type ${idx.getClass.getSimpleName}")
    )
    _LIB.recordReaderSeek(handle, position)
  }

  /** Position of the next record to write, in bytes from the start of the file. */
  def tell(): Int = {
    requireFlag(MXRecordIO.IOWrite, "tell")
    Math.toIntExact(_LIB.recordWriterTell(handle))
  }

  /** The record of a key. */
  def readIdx(idx: Any): String = {
    seek(idx)
    read()
  }

  /** Appends a record under a key. */
  def writeIdx(idx: Any, buf: String): Unit = {
    requireFlag(MXRecordIO.IOWrite, "writeIdx")
    positions(keyType.parse(idx.toString)) = _LIB.recordWriterTell(handle)
    write(buf)
  }

  /** The keys, in the order of their records. */
  def keys(): Iterable[Any] = positions.keys
}

/** Types of keys. */
object MXIndexedRecordIO {

  /** The type of the keys of a file. */
  sealed abstract class KeyType(private[mxnet] val parse: String => Any)

  /** Keys of type `Int`. */
  case object TyepInt extends KeyType(_.toInt)
}
