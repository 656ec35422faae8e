package org.apache.mxnet

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._
import scala.util.{Try, Using}

class RecordIOSuite extends munit.FunSuite with TemporaryFiles {
  private val folder = FunFixture[Path](_ => temporaryFolder("records"), _ => ())

  private val texts = Seq("record 0", "", "Grüße", "\u4e2d\u6587", "end")

  folder.test("strings are read as they were written, and again after reset") { directory =>
    val file = directory.resolve("data.rec").toString
    val writer = new MXRecordIO(file, MXRecordIO.IOWrite)
    texts.foreach(writer.write)
    writer.close()
    writer.close()
    val reader = new MXRecordIO(file, MXRecordIO.IORead)
    def all = Iterator.continually(reader.read()).takeWhile(_ != null).toSeq
    assertEquals(all, texts)
    reader.reset()
    assertEquals(all, texts)
    assert(intercept[MXNetError](reader.write("x")).getMessage.contains("open it with IOWrite"))
    reader.close()
    assert(intercept[MXNetError](reader.read()).getMessage.contains("is closed"))
  }

  folder.test("headers and arbitrary bytes are read back") { directory =>
    val file = directory.resolve("data.rec").toString
    val content = (0 to 255).map(_.toByte).toArray
    val writer = new MXRecordIO(file, MXRecordIO.IOWrite)
    writer.writeBytes(MXRecordIO.packBytes(MXRecordIO.IRHeader(0, Array(2.5f), 7, 1), content))
    writer.write(MXRecordIO.pack(MXRecordIO.IRHeader(0, Array(1f, -200f, 3f), 8, 0), "text"))
    writer.close()
    val reader = new MXRecordIO(file, MXRecordIO.IORead)
    val (header, bytes) = MXRecordIO.unpackBytes(reader.readBytes())
    assertEquals((header.label.toSeq, header.id, header.id2, bytes.toSeq), (Seq(2.5f), 7, 1, content.toSeq))
    val (many, text) = MXRecordIO.unpack(reader.read())
    assertEquals((many.flag, many.label.toSeq, many.id, text), (3, Seq(1f, -200f, 3f), 8, "text"))
    reader.close()
    assert(intercept[MXNetError](MXRecordIO.unpack("short")).getMessage.contains("5 bytes"))
  }

  test("records that MXNet's Scala package packed are unpacked") {
    val bytes = new java.io.ByteArrayOutputStream
    val out = new java.io.DataOutputStream(bytes)
    out.writeInt(2)
    out.writeFloat(-1f)
    out.writeFloat(4f)
    out.writeInt(5)
    out.writeInt(6)
    out.writeUTF("image")
    val packed = bytes.toByteArray.map(_.toChar).mkString
    val (header, text) = MXRecordIO.unpack(packed)
    assertEquals((header.label.toSeq, header.id, header.id2, text), (Seq(-1f, 4f), 5, 6, "image"))
  }

  folder.test("records are found by their keys") { directory =>
    val (index, file) = (directory.resolve("data.idx").toString, directory.resolve("data.rec").toString)
    val writer = new MXIndexedRecordIO(index, file, MXRecordIO.IOWrite)
    texts.indices.foreach(i => writer.writeIdx(10 + i, texts(i)))
    assert(writer.tell() > 0)
    writer.close()
    val reader = new MXIndexedRecordIO(index, file, MXRecordIO.IORead)
    assertEquals(reader.keys().toSeq, texts.indices.map(10 + _): Seq[Any])
    Seq(3, 0, 4, 1).foreach(i => assertEquals(reader.readIdx(10 + i), texts(i)))
    assert(intercept[MXNetError](reader.seek(99)).getMessage.contains("no key 99"))
    assert(intercept[MXNetError](reader.readIdx(null)).getMessage.contains("idx is null"))
    reader.close()
    val withoutIndex = new MXIndexedRecordIO(index + "x", file, MXRecordIO.IORead)
    assert(intercept[MXNetError](withoutIndex.readIdx(10)).getMessage.contains(s"no index file ${index}x"))
    withoutIndex.close()
  }

  folder.test("an index with bad lines and a key of another type are errors, and the file is closed") { directory =>
    val (index, file) = (directory.resolve("data.idx"), directory.resolve("data.rec"))
    val writer = new MXIndexedRecordIO(index.toString, file.toString, MXRecordIO.IOWrite)
    val key = intercept[MXNetError](writer.writeIdx("ten", "text")).getMessage
    assert(key.contains("the key 'ten' is not of type Int"), key)
    writer.close()
    Seq("ten\t0", "10\t", "10\t-1", "10\t99999999999999999999", "10").foreach { line =>
      Files.writeString(index, line)
      val error = intercept[MXNetError](new MXIndexedRecordIO(index.toString, file.toString, MXRecordIO.IORead))
      assert(
        error.getMessage.contains(s"'$line' in $index is not a key of type Int and a byte offset"),
        error.getMessage
      )
    }
    intercept[MXNetError](new MXIndexedRecordIO(null, file.toString, MXRecordIO.IORead))
    assertEquals(openFiles.count(_ == file.toRealPath()), 0)
  }

  /** The files that this process has open; none where the system does not list them. */
  private def openFiles: Seq[Path] = {
    val descriptors = Path.of("/proc/self/fd")
    if (!Files.isDirectory(descriptors)) Nil
    else
      Using.resource(Files.list(descriptors))(_.iterator.asScala.toList).flatMap { descriptor =>
        Try(Files.readSymbolicLink(descriptor)).toOption
      }
  }

  test("a record whose length matches the format of MXNet's Scala package by chance is unpacked") {
    // The upper half of a negative id reads as the length 0xffff, and the rest of the record has it.
    val content = "x" * (0xffff + 14 - 24)
    val packed = MXRecordIO.pack(MXRecordIO.IRHeader(0, Array(1f), -1, -1), content)
    val (header, text) = MXRecordIO.unpack(packed)
    assertEquals((header.label.toSeq, header.id, header.id2, text == content), (Seq(1f), -1, -1, true))
  }
}
