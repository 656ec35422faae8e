package org.apache.mxnet

class AnnotationSuite extends munit.FunSuite {
  test("SymbolAPI extends the documented base class, and so do the other annotated objects") {
    assert(classOf[SymbolAPIBase].isInstance(SymbolAPI))
    assert(classOf[NDArrayAPIBase].isInstance(NDArrayAPI))
    assert(classOf[SymbolRandomAPIBase].isInstance(SymbolRandomAPI))
    assert(classOf[NDArrayRandomAPIBase].isInstance(NDArrayRandomAPI))
    assert(classOf[SymbolBase].isInstance(Symbol))
    assert(classOf[contrib.SymbolAPIBase].isInstance(contrib.Symbol.api))
  }

  test("every documented function is abstract, and the annotated object implements it") {
    import java.lang.reflect.Modifier.isAbstract
    for ((api, base) <- Seq[(AnyRef, Class[_])](SymbolAPI -> classOf[SymbolAPIBase], NDArray -> classOf[NDArrayBase])) {
      val documented = base.getDeclaredMethods.filterNot(_.getName.contains("$default$"))
      assert(documented.length >= 268, s"only ${documented.length} functions in $base")
      documented.foreach { method =>
        assert(isAbstract(method.getModifiers), s"$method is not abstract")
        val implemented = api.getClass.getMethod(method.getName, method.getParameterTypes.toSeq: _*)
        assert(!isAbstract(implemented.getModifiers), s"$implemented is abstract")
      }
    }
  }

  test("the annotations go on objects, with a literal argument") {
    val error = compileErrors("@AddSymbolAPIs(false) class NotAnObject")
    assert(error.contains("This annotation applies to objects only"), error)
    val argument = compileErrors("""@AddSymbolAPIs("x".isEmpty) object Computed extends SymbolAPIBase""")
    assert(argument.contains("isContrib must be true or false itself"), argument)
  }
}
