package org.apache.mxnet

import java.util.concurrent.TimeUnit

/** The first array of a program loads few of Scala's classes, since loading classes takes most of the start-up time. */
class StartSuite extends munit.FunSuite with TemporaryFiles {
  override val munitTimeout = scala.concurrent.duration.Duration(5, TimeUnit.MINUTES)

  /** The names of the classes that a JVM loads to run a program, which creates an array and reads it. */
  private def loaded(program: String, options: String*): Set[String] = {
    val output = JavaProcess.run("-Xlog:class+load" +: options, s"org.apache.mxnet.$program")
    assert(output.linesIterator.contains("elements: 4"), output)
    output.linesIterator.filter(_.contains(" source: ")).map(_.split(" source: ").head.split(' ').last).toSet
  }

  private def assertLean(classes: Set[String]): Unit = {
    assert(classes("org.apache.mxnet.NDArray"), "the log has another format")
    val heavy = Set(
      "scala.Predef$",
      "scala.package$",
      "scala.Enumeration",
      "scala.collection.immutable.Map",
      "scala.collection.immutable.ArraySeq",
      "scala.runtime.ScalaRunTime$",
      "scala.collection.ArrayOps$",
      "scala.Tuple2$mcDD$sp",
      "scala.util.Using$Releasable",
      "java.nio.file.AtomicMoveNotSupportedException",
      "java.util.regex.Pattern"
    )
    assertEquals(classes.intersect(heavy), Set.empty[String])
    assertEquals(classes.filter(_.matches("org\\.apache\\.mxnet\\..*\\$\\$Lambda.*")), Set.empty[String])
  }

  test("with a library that a property names") {
    assertLean(loaded("FirstArrayProgram", JavaProcess.Library))
  }

  test("with the library of the jar, once it is extracted") {
    val cache = s"-Dmxnet.library.cache=${temporaryFolder("start")}"
    loaded("FirstArrayProgram", cache)
    assertLean(loaded("FirstArrayProgram", cache))
  }

  test("a sequence of dimensions needs no class tags") {
    val classes = loaded("SequenceProgram", JavaProcess.Library)
    assert(classes("scala.collection.immutable.List"), "the log has another format")
    assertEquals(classes.filter(_.startsWith("scala.reflect.Manifest")), Set.empty[String])
  }
}

/** Avoids Scala's own `println`. */
object FirstArrayProgram {
  def main(arguments: Array[String]): Unit = {
    val zeros = NDArray.zeros(Shape(2, 1, 1, 1))
    val copied = NDArray.array(zeros.toArray, Shape(2))
    val count = NDArray.ones(2, 2).toArray.length + zeros.size + copied.shape.length - 3
    System.out.println("elements: ".concat(Integer.toString(count)))
  }
}

object SequenceProgram {
  def main(arguments: Array[String]): Unit =
    System.out.println("elements: ".concat(Integer.toString(NDArray.ones(Shape(List(2, 2))).toArray.length)))
}
