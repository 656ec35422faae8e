package org.apache.mxnet
package internal.jni

import java.lang.invoke.MethodType
import java.lang.reflect.Modifier
import java.nio.charset.StandardCharsets.ISO_8859_1
import java.nio.file.Files

import org.apache.mxnet.internal.operators.NativeOp

/** The native interface and the library agree. */
class LibInfoSuite extends munit.FunSuite {

  test("the library exports the declared methods, and no others") {
    val declared = classOf[LibInfo].getDeclaredMethods.filter(m => Modifier.isNative(m.getModifiers)).map(_.getName)
    val file = NativeLibrary.locate(
      name => Option(System.getProperty(name)),
      resource => Option(getClass.getResourceAsStream(resource))
    )
    val symbols = new String(Files.readAllBytes(file), ISO_8859_1)
    val exported =
      "Java_org_apache_mxnet_internal_jni_LibInfo_([A-Za-z]+)\u0000".r.findAllMatchIn(symbols).map(_.group(1)).toSet
    assertEquals(exported, declared.toSet)
  }

  test("every method that the library calls exists with its descriptor") {
    val called = Base._LIB.upcalls().grouped(3).toSeq
    assert(called.map(_.toSeq).contains(Seq("org/apache/mxnet/MXMonitorCallback", "invoke", "(Ljava/lang/String;J)V")))
    called.foreach { entry =>
      val (className, name, descriptor) = (entry(0), entry(1), entry(2))
      val owner = Class.forName(className.replace('/', '.'))
      val types =
        if (name == "<init>") owner.getConstructors.map(c => MethodType.methodType(classOf[Unit], c.getParameterTypes))
        else
          owner.getMethods
            .filter(_.getName == name)
            .map(m => MethodType.methodType(m.getReturnType, m.getParameterTypes))
      val descriptors = types.map(_.toMethodDescriptorString)
      assert(
        descriptors.contains(descriptor),
        s"$className.$name has the descriptors ${descriptors.mkString(" ")}; the library calls $descriptor"
      )
    }
  }

  /** The values of an enumeration in the metadata of an operator: `{'a', 'b'},optional,default='a'`. */
  private def enumeration(operator: String, argument: String): Set[String] = {
    val text = NativeOp(operator).arguments.collectFirst { case (`argument`, kind) => kind }.get
    "'([a-z0-9_]+)'".r.findAllMatchIn(text.takeWhile(_ != '}')).map(_.group(1)).toSet
  }

  test("element types have the engine's names and codes") {
    val known = DType.values - DType.Unknown
    assertEquals(known.map(_.toString), enumeration("Cast", "dtype"))
    ResourceScope.using() {
      known.foreach { dtype =>
        val array = NDArray.api.Cast(NDArray.ones(2), dtype.toString).head
        assertEquals(Base._LIB.ndarrayDType(array.handle), dtype.id, dtype.toString)
      }
    }
  }

  test("storage types have the engine's names and codes") {
    assertEquals(SparseFormat.values.map(_.toString), enumeration("cast_storage", "stype"))
    ResourceScope.using() {
      SparseFormat.values.foreach { format =>
        val array = NDArray.api.cast_storage(NDArray.ones(2, 2), format.toString).head
        assertEquals(Base._LIB.ndarrayStorageType(array.handle), format.id, format.toString)
      }
    }
  }

  test("gradient requests and devices have the engine's codes") {
    val expected = Map("null" -> 5f, "write" -> 2f, "inplace" -> 2f, "add" -> 7f)
    assertEquals(SymbolBind.gradReqCodes.keySet, expected.keySet)
    ResourceScope.using() {
      val x = Symbol.Variable("x")
      expected.foreach { case (request, value) =>
        val gradient = NDArray.full(Shape(1), 5f)
        val executor = (x * 2).bind(Context.cpu(), Seq(NDArray.ones(1)), Seq(gradient), Seq(request), Nil, null, null)
        executor.forward(isTrain = true)
        executor.backward(NDArray.ones(1))
        assertEquals(gradient.toScalar, value, request)
      }
      Seq("cpu", "cpu_pinned").foreach(device =>
        assertEquals(NDArray.ones(new Context(device, 0), 1).context, new Context(device, 0))
      )
    }
    assert(intercept[MXNetError](NDArray.ones(Context.gpu(), 1)).getMessage.contains("gpu(0)"))
  }

  test("version and contract") {
    assertEquals(Base._LIB.version(), 10901)
    assertEquals(Base._LIB.abiVersion(), NativeInterface.Version)
  }

  test("features have a name and a state each") {
    assertEquals(Base._LIB.featureNames().length, Base._LIB.featureEnabled().length)
    assert(Base._LIB.featureNames().forall(_.nonEmpty))
  }

  test("metadata of an operator: arguments in order, their types, the count of variadic inputs") {
    val activation = NativeOp("Activation")
    assertEquals(activation.arguments.map(_._1), IndexedSeq("data", "act_type"))
    assertEquals((activation.inputNames, activation.paramNames), (IndexedSeq("data"), IndexedSeq("act_type")))
    assertEquals((activation.keyVarNumArgs, NativeOp("Concat").keyVarNumArgs), (None, Some("num_args")))
    assert(Base._LIB.listAllOpNames().contains("Activation"))
  }

  test("memory in use grows with an array and shrinks when it goes") {
    val before = Base._LIB.memoryInUse()
    val array = NDArray.zeros(1 << 20)
    assert(Base._LIB.memoryInUse() >= before + (4 << 20))
    array.dispose()
    assert(Base._LIB.memoryInUse() < before + (4 << 20))
  }

  test("NumPy semantics belong to a scope and a thread") {
    assert(!NumpyScope.isNumpyShape)
    NumpyScope.enableNumpyShape.withScope {
      assert(NumpyScope.isNumpyShape)
      @volatile var elsewhere = true
      val thread = new Thread(() => elsewhere = NumpyScope.isNumpyShape)
      thread.start()
      thread.join()
      assert(!elsewhere)
      assertEquals(NDArray.zeros(Shape()).shape, Shape())
      NumpyScope.disableNumpyShape.withScope(assert(!NumpyScope.isNumpyShape))
    }
    assert(!NumpyScope.isNumpyShape)
  }
}
