package org.apache.mxnet

import java.nio.file.Paths

/** Programs in a JVM of their own, with the class path of the tests. */
object JavaProcess {

  /** The option with the native library of the tests. */
  val Library: String = s"-Dmxnet.library.path=${System.getProperty("mxnet.library.path")}"

  /** Starts the main method of a class. Its standard error goes to its standard output. */
  def start(options: Seq[String], program: String, arguments: String*): Process = {
    val java = Paths.get(System.getProperty("java.home"), "bin", "java").toString
    val command = (java +: options) ++ Seq("-cp", System.getProperty("java.class.path"), program) ++ arguments
    new ProcessBuilder(command: _*).redirectErrorStream(true).start()
  }

  /** Runs the main method of a class, which must not fail; returns its output. */
  def run(options: Seq[String], program: String, arguments: String*): String =
    outputOf(start(options, program, arguments: _*))

  /** The output of a process, which must not fail. */
  def outputOf(process: Process): String = {
    val output = new String(process.getInputStream.readAllBytes())
    munit.Assertions.assertEquals(process.waitFor(), 0, output)
    output
  }
}
