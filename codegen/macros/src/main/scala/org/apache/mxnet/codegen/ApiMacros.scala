package org.apache.mxnet.codegen

import java.nio.file.Paths

import scala.reflect.macros.whitebox

/** Adds generated functions to the annotated object. The operators come from the metadata file that the compiler option
  * `-Xmacro-settings:ops=FILE` names.
  */
final class ApiMacros(val c: whitebox.Context) {
  import c.universe._

  def symbolFunctions(annottees: Tree*): Tree =
    extend(annottees)(Api.functions(_, isContrib).map { case (name, operator) => symbolFunction(name, operator) })

  def ndarrayFunctions(annottees: Tree*): Tree =
    extend(annottees)(Api.functions(_, isContrib).flatMap { case (name, operator) => ndarrayFunction(name, operator) })

  def symbolAPIs(annottees: Tree*): Tree = extend(annottees)(Api.symbols(_, isContrib).map(symbolApi))

  def ndarrayAPIs(annottees: Tree*): Tree = extend(annottees)(Api.ndarrays(_, isContrib).map(ndarrayApi))

  def symbolRandomAPIs(annottees: Tree*): Tree = extend(annottees)(RandomSignature.symbols(_).map(symbolRandom))

  def ndarrayRandomAPIs(annottees: Tree*): Tree = extend(annottees)(RandomSignature.ndarrays(_).map(ndarrayRandom))

  def javaNDArrayAPIs(annottees: Tree*): Tree = extend(annottees)(Api.javas(_).map(javaFunction))

  // Functions for Java.

  private def javaFunction(signature: JavaSignature): Tree = {
    val call = TermName(c.freshName("call"))
    def argument(name: String): Tree =
      if (signature.hasParamObject) q"po.${TermName(s"get${name.capitalize}")}()" else Ident(TermName(name))
    val required =
      if (signature.hasParamObject) Seq(q"$call.requireParameters(po, ${signature.name + "Param"})") else Nil
    val filled = signature.parameters.map { parameter =>
      if (parameter.role == Role.Input) q"$call.input(${argument(parameter.name)})"
      else q"$call.setting(${parameter.argument}, ${argument(parameter.name)})"
    }
    val parameters = signature.declared.map { case (name, scala) =>
      ValDef(Modifiers(Flag.PARAM), TermName(name), tree(scala), EmptyTree)
    }.toList
    q"""
      override def ${TermName(signature.name)}(..$parameters): ${tree(JavaSignature.result)} = {
        val $call = new $mxnet.javaapi.internal.JavaCall(${signature.operator.name})
        ..$required
        ..$filled
        $call.invoke(${argument("out")})
      }
    """
  }

  // Untyped functions.

  private def symbolFunction(name: String, operator: Operator): Tree = q"""
    override def ${TermName(name)}(name: $Text, attr: ${tree(ScalaType.Attributes)})(args: $symbolType*)(
        kwargs: $Map[$Text, $Any]): $symbolType =
      $symbol.createSymbolGeneral(${operator.name}, name, attr, args, kwargs)
  """

  private def ndarrayFunction(name: String, operator: Operator): Seq[Tree] = Seq(
    q"""
    override def ${TermName(name)}(kwargs: $Map[$Text, $Any])(args: $Any*): ${tree(ScalaType.NDArrayFuncReturn)} =
      $ndarray.genericNDArrayFunctionInvoke(${operator.name}, args, kwargs)
    """,
    q"""
    override def ${TermName(name)}(args: $Any*): ${tree(ScalaType.NDArrayFuncReturn)} =
      $ndarray.genericNDArrayFunctionInvoke(${operator.name}, args, null)
    """
  )

  // Typesafe functions: they collect their arguments in a call and run it.

  private def symbolApi(signature: Signature): Tree = {
    val call = TermName(c.freshName("call"))
    val filled = operatorParameters(signature).map { parameter =>
      val value = Ident(TermName(parameter.name))
      parameter.role match {
        case Role.Input if signature.variadic => q"$call.input($value)"
        case _                                => fill(call, parameter)
      }
    }
    define(signature)(q"""
      val $call = new $internal.OperatorCall(${signature.operator.name})
      ..$filled
      ${createSymbol(call)}
    """)
  }

  private def ndarrayApi(signature: Signature): Tree = {
    val call = TermName(c.freshName("call"))
    val filled = operatorParameters(signature).map { parameter =>
      if (parameter.role == Role.Input) q"$call.input(${Ident(TermName(parameter.name))})" else fill(call, parameter)
    }
    define(signature)(q"""
      val $call = new $internal.OperatorCall(${signature.operator.name})
      ..$filled
      ${invoke(call)}
    """)
  }

  private def symbolRandom(signature: Signature): Tree = {
    val call = TermName(c.freshName("call"))
    define(signature)(q"""
      val $call = ${randomCall(signature)}
      ..${operatorParameters(signature).map(fillRandom(call, _))}
      ${createSymbol(call)}
    """)
  }

  private def ndarrayRandom(signature: Signature): Tree = {
    val call = TermName(c.freshName("call"))
    val filled = operatorParameters(signature).map { parameter =>
      parameter.role match {
        case Role.Distribution =>
          q"$call.distribution(${parameter.argument}, ${Ident(TermName(parameter.name))})"
        case _ => fill(call, parameter)
      }
    }
    define(signature)(q"""
      val $call = ${randomCall(signature)}
      ..$filled
      ${invoke(call)}
    """)
  }

  private def fillRandom(call: TermName, parameter: Parameter): Tree = parameter.role match {
    case Role.Distribution =>
      val value = Ident(TermName(parameter.name))
      q"$call.named(${parameter.argument}, ${parameter.name}, $value)"
    case _ => fill(call, parameter)
  }

  /** A call of the operator for numbers or of the one for inputs, depending on `T`. */
  private def randomCall(signature: Signature): Tree = {
    val sampler =
      signature.sampler.getOrElse(c.abort(c.enclosingPosition, s"${signature.name} is not a random function"))
    val isScalar =
      q"_root_.scala.Predef.implicitly[${AppliedTypeTree(tree(sampler.evidence), List(Ident(TypeName("T"))))}].isScalar"
    def name(operator: Option[Operator]) = operator.fold(q"null": Tree)(some => q"${some.name}")
    q"new $internal.RandomCall(${name(sampler.scalar)}, ${name(sampler.array)}, $isScalar)"
  }

  private def fill(call: TermName, parameter: Parameter): Tree = {
    val value = Ident(TermName(parameter.name))
    parameter.role match {
      case Role.InputCount         => q"$call.inputCount(${parameter.argument}, $value)"
      case _ if parameter.optional => q"$call.optional(${parameter.argument}, $value)"
      case _                       => q"$call.required(${parameter.argument}, $value)"
    }
  }

  private def createSymbol(call: TermName): Tree = q"""
    $symbol.createSymbolGeneral(
      $call.operator, $internal.OperatorCall.name(name), $internal.OperatorCall.attributes(attr), $call.symbols, $call.toMap)
  """

  private def invoke(call: TermName): Tree = q"""
    $call.optional("out", out)
    $ndarray.genericNDArrayFunctionInvoke($call.operator, $call.inputs, $call.toMap)
  """

  private def operatorParameters(signature: Signature): Seq[Parameter] =
    signature.parameters.filter(_.role != Role.Call)

  private def define(signature: Signature)(body: Tree): Tree = {
    val name = TermName(signature.name)
    val parameters = signature.parameters.map { parameter =>
      ValDef(Modifiers(Flag.PARAM), TermName(parameter.name), tree(parameter.scala), EmptyTree)
    }.toList
    val result = tree(signature.result)
    signature.sampler match {
      case None          => q"override def $name(..$parameters): $result = $body"
      case Some(sampler) =>
        val evidence = tree(sampler.evidence)
        q"override def $name[T: $evidence: _root_.scala.reflect.ClassTag](..$parameters): $result = $body"
    }
  }

  // Trees.

  private def mxnet: Tree = q"_root_.org.apache.mxnet"
  private def internal: Tree = q"_root_.org.apache.mxnet.internal.operators"
  private def symbol: Tree = q"_root_.org.apache.mxnet.Symbol"
  private def ndarray: Tree = q"_root_.org.apache.mxnet.NDArray"
  private def symbolType: Tree = tree(ScalaType.Symbol)
  private def Text: Tree = tree(ScalaType.Text)
  private def Map: Tree = tree(ClassType("scala.collection.immutable.Map"))
  private def Any: Tree = tree(ClassType("scala.Any"))

  private def tree(scala: ScalaType): Tree = scala match {
    case LiteralType(value)              => SingletonTypeTree(Literal(Constant(value)))
    case ClassType("T")                  => Ident(TypeName("T"))
    case ClassType(path, arguments @ _*) =>
      val parts = path.split('.')
      val owner = parts.init.foldLeft[Tree](q"_root_")((tree, part) => Select(tree, TermName(part)))
      val constructor = Select(owner, TypeName(parts.last))
      if (arguments.isEmpty) constructor else AppliedTypeTree(constructor, arguments.map(tree).toList)
  }

  // The annotated object and the compiler's settings.

  private def extend(annottees: Seq[Tree])(functions: Seq[Operator] => Seq[Tree]): Tree = annottees match {
    case Seq(q"$mods object $name extends { ..$early } with ..$parents { $self => ..$body }") =>
      val added = functions(operators).toList
      q"$mods object $name extends { ..$early } with ..$parents { $self => ..$body; ..$added }"
    case _ => c.abort(c.enclosingPosition, "This annotation applies to objects only")
  }

  private def isContrib: Boolean = c.prefix.tree match {
    case q"new $_(${Literal(Constant(contrib: Boolean))})"             => contrib
    case q"new $_(isContrib = ${Literal(Constant(contrib: Boolean))})" => contrib
    case _ => c.abort(c.enclosingPosition, "The annotation's argument isContrib must be true or false itself")
  }

  private def operators: Seq[Operator] = {
    val file = c.settings.collectFirst { case setting if setting.startsWith("ops=") => setting.stripPrefix("ops=") }
    try
      Metadata.read(Paths.get(file.getOrElse {
        c.abort(c.enclosingPosition, "Name the operator metadata with -Xmacro-settings:ops=FILE")
      }))
    catch { case e: IllegalArgumentException => c.abort(c.enclosingPosition, e.getMessage) }
  }
}
