package org.apache.mxnet

import scala.annotation.{compileTimeOnly, StaticAnnotation}
import scala.language.experimental.macros

import org.apache.mxnet.codegen.ApiMacros

/** Adds the untyped operators over symbols: `X(name, attr)(args*)(kwargs)`. */
@compileTimeOnly("needs -Ymacro-annotations")
class AddSymbolFunctions(isContrib: Boolean) extends StaticAnnotation {
  def macroTransform(annottees: Any*): Any = macro ApiMacros.symbolFunctions
}

/** Adds the untyped operators over arrays: `X(kwargs)(args*)` and `X(args*)`. */
@compileTimeOnly("needs -Ymacro-annotations")
class AddNDArrayFunctions(isContrib: Boolean) extends StaticAnnotation {
  def macroTransform(annottees: Any*): Any = macro ApiMacros.ndarrayFunctions
}

/** Adds the typesafe operators over symbols. */
@compileTimeOnly("needs -Ymacro-annotations")
class AddSymbolAPIs(isContrib: Boolean) extends StaticAnnotation {
  def macroTransform(annottees: Any*): Any = macro ApiMacros.symbolAPIs
}

/** Adds the typesafe operators over arrays. */
@compileTimeOnly("needs -Ymacro-annotations")
class AddNDArrayAPIs(isContrib: Boolean) extends StaticAnnotation {
  def macroTransform(annottees: Any*): Any = macro ApiMacros.ndarrayAPIs
}

/** Adds the random functions over symbols. */
@compileTimeOnly("needs -Ymacro-annotations")
class AddSymbolRandomAPIs(isContrib: Boolean) extends StaticAnnotation {
  def macroTransform(annottees: Any*): Any = macro ApiMacros.symbolRandomAPIs
}

/** Adds the random functions over arrays. */
@compileTimeOnly("needs -Ymacro-annotations")
class AddNDArrayRandomAPIs(isContrib: Boolean) extends StaticAnnotation {
  def macroTransform(annottees: Any*): Any = macro ApiMacros.ndarrayRandomAPIs
}

package javaapi {

  /** Adds the operators over arrays for Java. */
  @compileTimeOnly("needs -Ymacro-annotations")
  class AddJNDArrayAPIs(isContrib: Boolean) extends StaticAnnotation {
    def macroTransform(annottees: Any*): Any = macro ApiMacros.javaNDArrayAPIs
  }
}
