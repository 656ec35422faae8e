package org.apache.mxnet
package internal.jni

import java.io.{ByteArrayInputStream, File, InputStream}
import java.lang.ref.WeakReference
import java.net.URLClassLoader
import java.nio.file.attribute.PosixFilePermissions
import java.nio.file.{Files, Path}

import org.apache.mxnet.io.NDArrayIter
import org.apache.mxnet.module.Module
import org.apache.mxnet.udf.ElementwiseOp

import scala.jdk.CollectionConverters._

/** The lookup and extraction of the native library; this suite does not load it. */
class NativeLibrarySuite extends munit.FunSuite {
  private val content = "not really a library".getBytes("UTF-8")
  private val folder = FunFixture[Path](_ => Files.createTempDirectory("mxnet-loader"), TemporaryFiles.delete)

  private def properties(more: (String, String)*): String => Option[String] =
    (Map("os.name" -> "Linux", "os.arch" -> "amd64") ++ more).get

  private def resource(name: String): Option[InputStream] =
    if (name == "/native/linux-x86_64/libmxnet.so") Some(new ByteArrayInputStream(content)) else None

  private val nothing: String => Option[InputStream] = _ => None

  test("platforms and file names") {
    assertEquals(NativeLibrary.platform("Linux", "amd64"), "linux-x86_64")
    assertEquals(NativeLibrary.platform("Mac OS X", "aarch64"), "macos-aarch64")
    assertEquals(NativeLibrary.platform("Windows 11", "x86_64"), "windows-x86_64")
    val names = Seq("linux-x86_64", "macos-aarch64", "windows-x86_64").map(NativeLibrary.fileName)
    assertEquals(names, Seq("libmxnet.so", "libmxnet.dylib", "mxnet.dll"))
  }

  folder.test("the system property names a file, or the directory that holds it") { directory =>
    val file = Files.write(directory.resolve("libmxnet.so"), content)
    Seq(file, directory).foreach { path =>
      assertEquals(NativeLibrary.locate(properties(NativeLibrary.PathProperty -> path.toString), nothing), file)
    }
  }

  folder.test("a property that names nothing is an error, not a reason to look elsewhere") { directory =>
    val missing = directory.resolve("missing.so").toString
    val error = intercept[MXNetError] {
      NativeLibrary.locate(properties(NativeLibrary.PathProperty -> missing), resource)
    }
    assert(error.getMessage.contains(missing), error.getMessage)
  }

  test("an error lists every location that was tried") {
    val error = intercept[MXNetError](NativeLibrary.locate(properties("os.arch" -> "riscv64"), resource))
    Seq("-Dmxnet.library.path: not set", "/native/linux-riscv64/libmxnet.so", "set -Dmxnet.library.path").foreach {
      part =>
        assert(error.getMessage.contains(part), error.getMessage)
    }
  }

  folder.test("the resource is extracted once, to a private file named by its checksum") { directory =>
    val settings = properties(NativeLibrary.CacheProperty -> directory.resolve("cache").toString)
    val first = NativeLibrary.locate(settings, resource)
    assertEquals(Files.readAllBytes(first).toSeq, content.toSeq)
    assert(first.getFileName.toString.matches("libmxnet-[0-9a-f]{64}\\.so"), first.toString)
    assertEquals(PosixFilePermissions.toString(Files.getPosixFilePermissions(first)), "rwx------")
    assertEquals(PosixFilePermissions.toString(Files.getPosixFilePermissions(first.getParent)), "rwx------")
    val time = Files.getLastModifiedTime(first)
    assertEquals(NativeLibrary.locate(settings, resource), first)
    assertEquals(Files.getLastModifiedTime(first), time)
    assertEquals(Files.list(first.getParent).iterator.asScala.size, 1)
  }

  folder.test("a checksum beside the resource saves unpacking it again, and must be its own") { directory =>
    val settings = properties(NativeLibrary.CacheProperty -> directory.resolve("cache").toString)
    val file = NativeLibrary.locate(settings, resource)
    val digest = file.getFileName.toString.stripPrefix("libmxnet-").stripSuffix(".so")
    def withDigest(digest: String, library: => InputStream)(name: String): Option[InputStream] =
      if (name.endsWith(".sha256")) Some(text(s"$digest ${content.length}")) else Some(library)
    def text(text: String): InputStream = new ByteArrayInputStream(text.getBytes("UTF-8"))
    var isRead = false
    val watched = new ByteArrayInputStream(content) {
      override def read(bytes: Array[Byte], from: Int, length: Int): Int = {
        isRead = true
        super.read(bytes, from, length)
      }
    }
    assertEquals(NativeLibrary.locate(settings, withDigest(digest, watched)), file)
    assert(!isRead)
    val error = intercept[MXNetError] {
      NativeLibrary.locate(settings, withDigest(digest.reverse, new ByteArrayInputStream(content)))
    }
    assert(error.getMessage.contains(s"the copy of libmxnet.so does not have the checksum ${digest.reverse}"))
  }

  folder.test("an extracted file that was tampered with is replaced") { directory =>
    val settings = properties(NativeLibrary.CacheProperty -> directory.resolve("cache").toString)
    val file = NativeLibrary.locate(settings, resource)
    Files.write(file, "something else".getBytes("UTF-8"))
    assertEquals(Files.readAllBytes(NativeLibrary.locate(settings, resource)).toSeq, content.toSeq)
  }

  folder.test("a cache that others can write to is an error") { directory =>
    val open = Files.createDirectory(directory.resolve("open"))
    Files.setPosixFilePermissions(open, PosixFilePermissions.fromString("rwxrwxrwx"))
    val error = intercept[MXNetError] {
      NativeLibrary.locate(properties(NativeLibrary.CacheProperty -> open.toString), resource)
    }
    assert(error.getMessage.contains("can be written by other users"), error.getMessage)
  }

  folder.test("if the user's cache cannot be used, the temporary directory is") { directory =>
    val blocked = Files.write(directory.resolve("home"), content)
    val settings =
      properties("user.home" -> blocked.toString, "user.name" -> "some one", "java.io.tmpdir" -> directory.toString)
    val file = NativeLibrary.locate(settings, resource)
    assertEquals(file.getParent, directory.resolve("mxnet-some_one"))
  }

  folder.test("threads that extract at the same time get the whole file") { directory =>
    val settings = properties(NativeLibrary.CacheProperty -> directory.resolve("cache").toString)
    val found = new java.util.concurrent.ConcurrentLinkedQueue[Seq[Byte]]
    val threads = Seq.fill(8)(
      new Thread(() => found.add(Files.readAllBytes(NativeLibrary.locate(settings, resource)).toSeq))
    )
    threads.foreach(_.start())
    threads.foreach(_.join())
    assertEquals(found.asScala.toSeq, Seq.fill(8)(content.toSeq))
  }

  /** A class loader that shares no class of the library with others. */
  private def newLoader(): URLClassLoader = {
    val paths = System.getProperty("java.class.path").split(File.pathSeparator)
    new URLClassLoader(paths.map(new File(_).toURI.toURL), ClassLoader.getPlatformClassLoader)
  }

  private def programIn(loader: ClassLoader): Class[_] =
    loader.loadClass("org.apache.mxnet.internal.jni.ClassLoaderProgram")

  test("a second class loader gets an engine of its own") {
    val sums = Seq.fill(2) {
      val program = programIn(newLoader())
      program.getMethod("sum", classOf[Int]).invoke(null, Int.box(5))
    }
    assertEquals(sums, Seq.fill(2)(Float.box(5f)))
    assertEquals(ClassLoaderProgram.sum(3), 3f)
  }

  test("an application that is deployed again and again trains each time, and the one before may go") {
    val losses = Seq.fill(3) {
      val loader = newLoader()
      val found =
        programIn(loader).getMethod("train", classOf[Int]).invoke(null, Int.box(20)).asInstanceOf[Array[Float]]
      loader.close()
      System.gc()
      found.toSeq
    }
    assertEquals(losses.distinct.length, 1)
    assert(losses.head(1) < losses.head(0), losses.head.toString)
  }

  test("a class loader that is closed after training and a user-defined operator can be collected") {
    def deployed(): WeakReference[ClassLoader] = {
      val loader = newLoader()
      val program = programIn(loader)
      program.getMethod("train", classOf[Int]).invoke(null, Int.box(1))
      assertEquals(program.getMethod("square", classOf[Float]).invoke(null, Float.box(3f)), Float.box(9f))
      loader.close()
      new WeakReference[ClassLoader](loader)
    }
    for (loader <- Seq.fill(2)(deployed())) {
      // The library's threads end after some idle seconds.
      val end = System.nanoTime() + 60000000000L
      while (loader.get != null && System.nanoTime() < end) {
        System.gc()
        Thread.sleep(200)
      }
      assertEquals(loader.get, null)
    }
  }
}

/** Runs in another class loader. */
object ClassLoaderProgram {

  /** The loss before and after training, with a prediction by another thread in between. */
  def train(epochs: Int): Array[Float] = {
    Random.seed(1)
    val data = new NDArrayIter(
      IndexedSeq(NDArray.array(Array.tabulate(32)(i => (i % 7).toFloat), Shape(16, 2))),
      IndexedSeq(NDArray.array(Array.tabulate(16)(i => (i * 2 % 7 % 2).toFloat), Shape(16))),
      4,
      labelName = "softmax_label"
    )
    val fc = Symbol.api.FullyConnected(Symbol.Variable("data"), num_hidden = 2, name = "fc")
    val module = new Module(Symbol.api.SoftmaxOutput(fc, name = "softmax"))
    def loss(): Float = module.score(data, new CrossEntropy).get._2.head
    module.fit(data, None, 1)
    val first = loss()
    val other = new Thread(() => { module.predict(data): Unit })
    other.start()
    other.join()
    module.fit(data, None, epochs)
    Array(first, loss())
  }

  /** Computes with an operator in Scala. */
  def square(x: Float): Float = {
    Operator.register("class_loader_square", new SquareProp)
    val net = Symbol.Custom("square")()(Map("data" -> Symbol.Variable("data"), "op_type" -> "class_loader_square"))
    val executor = net.bind(Context.cpu(), Map("data" -> NDArray.array(Array(x), Shape(1))))
    executor.forward()
    executor.outputs(0).toScalar
  }

  private class SquareProp extends CustomOpProp {
    override def createOperator(ctx: String, inShapes: Array[Array[Int]], inDtypes: Array[Int]): CustomOp =
      new ElementwiseOp(x => x * x, (dy, x) => dy * x * 2)
  }

  def sum(count: Int): Float = NDArray.sum(NDArray.ones(count)).toScalar
}
