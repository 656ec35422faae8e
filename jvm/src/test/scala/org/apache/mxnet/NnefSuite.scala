package org.apache.mxnet

import java.nio.ByteBuffer
import java.nio.ByteOrder.LITTLE_ENDIAN
import java.nio.file.{Files, Path}

class NnefSuite extends munit.FunSuite with TemporaryFiles {

  /** A model of two variables in a new folder. */
  private def model(activation: String): Path = {
    val folder = temporaryFolder("nnef")
    val text =
      s"""version 1.0;
         |graph net(x) -> (y)
         |{
         |    x = external<scalar>(shape = [0, 2]);
         |    w = variable<scalar>(shape = [3, 2], label = 'w');
         |    b = variable<scalar>(shape = [1, 3], label = 'b');
         |    h = linear(x, w, b);
         |    y = $activation(h);
         |}
         |""".stripMargin
    Files.write(folder.resolve("graph.nnef"), text.getBytes("UTF-8"))
    tensor(folder.resolve("w.dat"), Seq(3, 2), Seq(1f, 2f, -3f, 4f, 0.5f, -1f))
    tensor(folder.resolve("b.dat"), Seq(1, 3), Seq(0f, 1f, -10f))
    folder
  }

  /** A tensor in the format of the NNEF specification: a header of 128 bytes, then the elements. */
  private def tensor(file: Path, dims: Seq[Int], values: Seq[Float]): Unit = {
    val bytes = ByteBuffer.allocate(128 + 4 * values.length).order(LITTLE_ENDIAN)
    bytes.put(0x4e.toByte).put(0xef.toByte).put(1.toByte).put(0.toByte).putInt(4 * values.length).putInt(dims.length)
    dims.foreach(bytes.putInt)
    bytes.putInt(44, 32)
    bytes.position(128)
    values.foreach(bytes.putFloat)
    Files.write(file, bytes.array)
  }

  test("a model of NNEF is imported, runs, and is written as one of ONNX") {
    val folder = model("relu")
    assertEquals(Nnef.check(folder.toString), IndexedSeq.empty[ModelProblem])
    val imported = Nnef.importModel(folder.toString)
    assertEquals(imported.inputs, IndexedSeq(ModelInput("x", "float32", Some(IndexedSeq("?", "2")))))
    // The bias is a vector here.
    assertEquals(imported.argParams.values.map(_.shape).toSet, Set(Shape(3, 2), Shape(3)))
    def outputs(model: ImportedModel): Seq[Float] = {
      val executor = model.simpleBind(Context.cpu(), Map("x" -> Shape(2, 2)))
      executor.argDict("x").set(Array(1f, 2f, -1f, 0.5f))
      executor.forward(isTrain = false)
      executor.outputs(0).toArray.toSeq
    }
    // relu(x w + b)
    assertEquals(outputs(imported), Seq(5f, 6f, 0f, 0f, 6f, 0f))
    val file = temporaryFile("nnef", ".onnx").toString
    Onnx.exportModel(imported.symbol, imported.argParams, file, inputs = Map("x" -> Shape(2, 2)))
    assertEquals(outputs(Onnx.importModel(file)), outputs(imported))
  }

  test("operators without a process are listed, and a hook can map them") {
    val folder = model("swirl").toString
    val problems = Nnef.check(folder)
    assertEquals(problems.length, 1)
    assert(problems.head.location.contains("swirl"), problems.head.toString)
    val error = intercept[MXNetError](Nnef.importModel(folder))
    assert(error.getMessage.contains("swirl"), error.getMessage)
    val options = ImportOptions().onOperator("swirl", ImportHook.replace(node => Symbol.api.negative(node.input(0))))
    assertEquals(Nnef.check(folder, options), IndexedSeq.empty[ModelProblem])
    intercept[MXNetError](Nnef.importModel(folder + "-missing"))
  }
}
