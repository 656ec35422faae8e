package org.apache.mxnet

import java.io.{ByteArrayInputStream, DataInputStream, UTFDataFormatException}
import java.nio.charset.StandardCharsets.{ISO_8859_1, UTF_8}
import java.nio.charset.{CharacterCodingException, CodingErrorAction}
import java.nio.file.{Files, Paths}
import java.nio.{ByteBuffer, ByteOrder}

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.mxnet.Base._LIB
import org.apache.mxnet.internal.util.NullChecks.requireNonNull

/** Reads or writes a RecordIO file: a sequence of records of arbitrary bytes.
  *
  * Records are strings: UTF-8 if their bytes are valid UTF-8, else one character per byte, as [[MXRecordIO.pack]]
  * creates them. [[readBytes]] and [[writeBytes]] use the bytes unchanged.
  *
  * @param uri the file
  * @param flag `MXRecordIO.IORead` or `MXRecordIO.IOWrite`; writing truncates an existing file
  */
class MXRecordIO(uri: String, flag: MXRecordIO.IOFlag) extends AutoCloseable {
  private[mxnet] var handle: Long = 0L

  requireNonNull("MXRecordIO", "uri" -> uri, "flag" -> flag)
  open()

  private def open(): Unit =
    handle = if (isWriter) _LIB.recordWriterCreate(uri) else _LIB.recordReaderCreate(uri)

  private[mxnet] def isWriter: Boolean = flag == MXRecordIO.IOWrite

  private[mxnet] def requireFlag(wanted: MXRecordIO.IOFlag, method: String): Unit = {
    if (flag != wanted)
      throw new MXNetError(s"MXRecordIO.$method: '$uri' was opened with $flag; open it with $wanted")
    if (handle == 0L) throw new MXNetError(s"MXRecordIO.$method: '$uri' is closed; call reset() to open it again")
  }

  /** Flushes and closes the file. */
  override def close(): Unit = if (handle != 0L) {
    val open = handle
    handle = 0L
    if (isWriter) _LIB.recordWriterFree(open) else _LIB.recordReaderFree(open)
  }

  /** Resets a reader to the first record; truncates the file of a writer. */
  def reset(): Unit = {
    close()
    open()
  }

  /** Appends a record. */
  def write(buf: String): Unit = {
    requireNonNull("MXRecordIO.write", "buf" -> buf)
    writeBytes(MXRecordIO.bytesOf(buf))
  }

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

/** Modes of opening a file, and records of an instance with its label. */
object MXRecordIO {

  /** The mode of opening a file. */
  sealed trait IOFlag

  case object IOWrite extends IOFlag

  case object IORead extends IOFlag

  /** The header of an instance.
    *
    * @param flag number of labels that follow as an array; 0 if the only label is in the header
    * @param label the label or labels
    * @param id the id of the instance
    * @param id2 second id, usually 0
    */
  case class IRHeader(flag: Int, label: Array[Float], id: Int, id2: Int)

  private val headerBytes = 24

  /** Packs a header and an instance into a record. */
  def pack(header: IRHeader, s: String): String = {
    requireNonNull("MXRecordIO.pack", "header" -> header, "s" -> s)
    new String(packBytes(header, bytesOf(s)), ISO_8859_1)
  }

  /** Packs a header and an instance into a record. */
  def packBytes(header: IRHeader, content: Array[Byte]): Array[Byte] = {
    requireNonNull("MXRecordIO.packBytes", "header" -> header, "content" -> content)
    val labels = header.label
    requireNonNull("MXRecordIO.packBytes", "the label of the header" -> labels)
    val asArray = labels.length != 1 || header.flag > 0
    val size = headerBytes + (if (asArray) 4 * labels.length else 0) + content.length
    val buffer = ByteBuffer.allocate(size).order(ByteOrder.LITTLE_ENDIAN)
    buffer.putInt(if (asArray) labels.length else 0)
    buffer.putFloat(if (asArray) 0f else labels(0))
    buffer.putLong(header.id.toLong).putLong(header.id2.toLong)
    if (asArray) labels.foreach(label => buffer.putFloat(label))
    buffer.put(content).array()
  }

  /** Unpacks header and instance of a record. The format of MXNet's Scala package is supported as well. */
  def unpack(s: String): (IRHeader, String) = {
    requireNonNull("MXRecordIO.unpack", "s" -> s)
    val bytes = packedBytes(s)
    unpackLegacy(bytes).getOrElse {
      val (header, content) = unpackBytes(bytes)
      (header, textOf(content))
    }
  }

  /** The bytes of a packed string. MXNet's Scala package converted signed bytes to characters. */
  private def packedBytes(packed: String): Array[Byte] =
    if (packed.forall(c => c <= 0xff || c >= 0xff80)) packed.map(_.toByte).toArray else bytesOf(packed)

  /** The format of MXNet's Scala package: number of labels, labels, id, id2, and a string with its length, big-endian;
    * None if the lengths do not match.
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
      val in = new DataInputStream(new ByteArrayInputStream(record, textStart.toInt, record.length))
      // Bytes that are not the format's UTF-8 are a record of the other format, whose length matches by chance.
      try Some((header, in.readUTF()))
      catch { case _: UTFDataFormatException => None }
    }
  }

  /** Header and instance of a record. */
  def unpackBytes(record: Array[Byte]): (IRHeader, Array[Byte]) = {
    def tooShort(needed: Long) =
      new MXNetError(s"MXRecordIO.unpack: the record has ${record.length} bytes, its header needs $needed")
    requireNonNull("MXRecordIO.unpackBytes", "record" -> record)
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

  /** One byte per character if that is possible, else UTF-8. */
  private[mxnet] def bytesOf(text: String): Array[Byte] =
    text.getBytes(if (text.forall(_ <= 0xff)) ISO_8859_1 else UTF_8)

  private[mxnet] def textOf(bytes: Array[Byte]): String = {
    val strict = UTF_8.newDecoder().onMalformedInput(CodingErrorAction.REPORT)
    try strict.decode(ByteBuffer.wrap(bytes)).toString
    catch { case _: CharacterCodingException => new String(bytes, ISO_8859_1) }
  }
}

/** Reads or writes a RecordIO file by keys. An index file has one line per record: key and byte offset, separated by a
  * tab.
  *
  * @param idxPath the index file
  * @param uri the RecordIO file
  * @param keyType the type of the keys
  */
class MXIndexedRecordIO(
    idxPath: String,
    uri: String,
    flag: MXRecordIO.IOFlag,
    keyType: MXIndexedRecordIO.KeyType = MXIndexedRecordIO.TyepInt
) extends MXRecordIO(uri, flag) {
  private val positions = mutable.LinkedHashMap.empty[Any, Long]

  try {
    requireNonNull("MXIndexedRecordIO", "idxPath" -> idxPath, "keyType" -> keyType)
    readIndex()
  } catch {
    case NonFatal(error) =>
      super.close()
      throw error
  }

  private def readIndex(): Unit = if (!isWriter && Files.exists(Paths.get(idxPath))) {
    positions.clear()
    Files.readAllLines(Paths.get(idxPath)).asScala.filter(_.nonEmpty).foreach { line =>
      val entry = line.split('\t') match {
        case Array(key, position) => keyType.parse(key).zip(position.toLongOption.filter(_ >= 0))
        case _                    => None
      }
      positions += entry.getOrElse(
        throw new MXNetError(
          s"MXIndexedRecordIO: '$line' in $idxPath is not a key of type ${keyType.name} and a byte offset, separated by a tab"
        )
      )
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

  /** Seeks to the record of a key. */
  def seek(idx: Any): Unit = {
    requireNonNull("MXIndexedRecordIO.seek", "idx" -> idx)
    requireFlag(MXRecordIO.IORead, "seek")
    if (positions.isEmpty && !Files.exists(Paths.get(idxPath)))
      throw new MXNetError(s"MXIndexedRecordIO.seek: there is no index file $idxPath; write the records with writeIdx")
    val position = positions.getOrElse(
      idx,
      throw new MXNetError(s"MXIndexedRecordIO.seek: $idxPath has no key $idx of type ${idx.getClass.getSimpleName}")
    )
    _LIB.recordReaderSeek(handle, position)
  }

  /** Byte offset of the next record to write. */
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
    requireNonNull("MXIndexedRecordIO.writeIdx", "idx" -> idx, "buf" -> buf)
    requireFlag(MXRecordIO.IOWrite, "writeIdx")
    val key = keyType
      .parse(idx.toString)
      .getOrElse(
        throw new MXNetError(s"MXIndexedRecordIO.writeIdx: the key '$idx' is not of type ${keyType.name}")
      )
    positions(key) = _LIB.recordWriterTell(handle)
    write(buf)
  }

  /** The keys, in the order of their records. */
  def keys(): Iterable[Any] = positions.keys
}

/** Types of keys. */
object MXIndexedRecordIO {

  /** The type of the keys of a file. */
  sealed abstract class KeyType {
    private[mxnet] def name: String

    /** A key from its text; None if the text is not a key of this type. */
    private[mxnet] def parse(text: String): Option[Any]
  }

  /** Keys of type `Int`. */
  case object TyepInt extends KeyType {
    private[mxnet] override def name: String = "Int"
    private[mxnet] override def parse(text: String): Option[Any] = text.toIntOption
  }
}
