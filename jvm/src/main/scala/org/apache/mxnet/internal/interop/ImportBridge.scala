package org.apache.mxnet
package internal.interop

import scala.collection.mutable

import org.apache.mxnet.internal.memory.Handles
import org.apache.mxnet.internal.userop.UdfClass
import org.apache.mxnet.internal.util.AnnotatedClasses

/** The hooks of an import. */
private[mxnet] final class ImportBridge(options: ImportOptions) extends HookBridge {
  private val visited = mutable.Set.empty[String]

  /** Hooks by the name of a node. */
  private val byNode: Map[String, Seq[ImportHook]] =
    grouped(options.nodeHooks ++ found.flatMap(rule => rule.nodes.map(_ -> rule.hook)))

  /** Hooks by qualified operator name, without ONNX's default domain `ai.onnx`. */
  private val byOperator: Map[String, Seq[ImportHook]] =
    grouped((options.operatorHooks ++ found.flatMap(rule => rule.operators.map(_ -> rule.hook))).map {
      case (operator, hook) => operator.stripPrefix("ai.onnx.") -> hook
    })

  private def found: Seq[ImportHooks.Rule] = if (options.annotatedHooks) ImportHooks.annotated else Nil

  private def grouped(hooks: Seq[(String, ImportHook)]): Map[String, Seq[ImportHook]] =
    hooks.groupBy(_._1).map { case (name, all) => name -> all.map(_._2) }

  /** Whether there are no hooks. */
  def isEmpty: Boolean = byNode.isEmpty && byOperator.isEmpty

  /** Checks that every node with a hook was imported. */
  def checkAllVisited(): Unit = options.nodeHooks.map(_._1).find(!visited.contains(_)).foreach { name =>
    throw new MXNetError(
      s"ImportOptions.onNode: the model has no node '$name': use the name of a node of the model, or remove the hook"
    )
  }

  def appliesTo(domain: String, operator: String, name: String): Boolean = {
    visited += name
    byNode.contains(name) || byOperator.contains(ModelNode.qualified(domain, operator))
  }

  /** The hooks of a node, those by its name first. */
  private def hooks(node: ModelNode): Seq[ImportHook] =
    byNode.getOrElse(node.name, Nil) ++ byOperator.getOrElse(ModelNode.qualified(node.domain, node.operator), Nil)

  def prepare(raw: RawNode): RawNode = ImportBridge.isolated {
    val node = ImportBridge.node(raw)
    val prepared = hooks(node).reverse.foldLeft(node) { (node, hook) =>
      val result = hook.prepare(node)
      if (result == null) node.fail(s"${hook.getClass.getName}.prepare returned null: return the node")
      result
    }
    if (prepared eq node) null else ImportBridge.rawNode(prepared, raw)
  }

  def before(raw: RawNode): RawOutputs = ImportBridge.isolated {
    val node = ImportBridge.node(raw)
    val composed = hooks(node).iterator.map(hook => hook -> hook.before(node)).find(_._2 != null)
    composed.map { case (hook, symbols) =>
      ImportBridge.rawOutputs(node, symbols, s"${hook.getClass.getName}.before")
    }.orNull
  }

  /** Hooks by operator run first, so that those by name take precedence. */
  override def after(raw: RawNode): RawOutputs = ImportBridge.isolated {
    val tensors = ImportBridge.tensors(raw)
    val node = ImportBridge.node(raw, tensors)
    val mapped = tensors.drop(raw.inputNames.length).flatten.map(_.symbol).toArray
    val outputs = hooks(node).reverse.foldLeft(mapped) { (symbols, hook) =>
      ImportBridge.checked(node, hook.after(node, symbols), s"${hook.getClass.getName}.after")
    }
    if (outputs eq mapped) null else ImportBridge.rawOutputs(node, outputs, "after")
  }
}

private[mxnet] object ImportBridge {

  /** Runs `body` outside of the program's name and attribute scopes. */
  def isolated[T](body: => T): T = new NameManager().withScope(AttrScope().withScope(body))

  /** The inputs and, after the mapping, the outputs of a node. They own its handles, so create them once per node. */
  def tensors(raw: RawNode): IndexedSeq[Option[ModelTensor]] = {
    val names = raw.inputNames ++ raw.outputNames
    raw.symbols.indices.map { i =>
      Option.when(raw.symbols(i) != 0) {
        new ModelTensor(
          names(i),
          new Symbol(raw.symbols(i)),
          Option(raw.shapes(i)).map(_.map(_.toInt).toIndexedSeq),
          DType.fromId(raw.dtypes(i)),
          Option.when(raw.arrays(i) != 0)(NDArray.fromHandle(raw.arrays(i)))
        )
      }
    }
  }

  /** The node that hooks get. */
  def node(raw: RawNode): ModelNode = node(raw, tensors(raw))

  private def node(raw: RawNode, tensors: IndexedSeq[Option[ModelTensor]]): ModelNode = {
    val (domain, operator, name) = (raw.texts(0), raw.texts(1), raw.texts(2))
    val attributes = raw.keys.indices
      .filter(raw.kinds.charAt(_) != 'g')
      .map(i => raw.keys(i) -> attribute(raw.values(i), raw.kinds.charAt(i)))
    new ModelNode(
      name,
      operator,
      domain,
      raw.version.toInt,
      tensors.take(raw.inputNames.length),
      raw.outputNames.toIndexedSeq,
      attributes.toMap,
      raw.inputNames.toIndexedSeq,
      Map.empty
    )
  }

  private def attribute(value: AnyRef, kind: Char): Any = value match {
    case items: Array[Long] if kind == 't'   => NDArray.fromHandle(items(0))
    case items: Array[Long] if kind == 'i'   => items(0)
    case items: Array[Double] if kind == 'f' => items(0)
    case items: Array[String] if kind == 's' => items(0)
    case items: Array[Long]                  => items.toIndexedSeq
    case items: Array[Double]                => items.toIndexedSeq
    case items: Array[String]                => items.toIndexedSeq
    case other                               => throw new MXNetError(s"unknown representation of an attribute: $other")
  }

  /** A rewritten node for the engine; its graph attributes are those of the original. */
  def rawNode(node: ModelNode, original: RawNode): RawNode = {
    val graphs =
      original.keys.indices.filter(original.kinds.charAt(_) == 'g').map(i => (original.keys(i), 'g', null: AnyRef))
    val attributes = node.attributes.toIndexedSeq.map { case (name, value) =>
      val (kind, array) = rawAttribute(value).getOrElse {
        node.fail(
          s"'$name' is a ${value.getClass.getSimpleName}, which ONNX attributes do not support: mark the field @transient, " +
            "or remove the attribute in an ExportHook"
        )
      }
      (name, kind, array)
    } ++ graphs
    val rewritten = new RawNode(
      Array(node.domain, node.operator, node.name),
      node.opset,
      node.inputNames.toArray,
      node.outputs.toArray,
      attributes.map(_._1).toArray,
      attributes.map(_._2).mkString,
      attributes.map(_._3).toArray,
      Array.empty,
      Array.empty,
      Array.empty,
      Array.empty
    )
    rewritten.constants = node.constants
    rewritten
  }

  /** The kind of an attribute, and an array of its elements. */
  private def rawAttribute(value: Any): Option[(Char, AnyRef)] = value match {
    case value: Long          => Some('i' -> Array(value))
    case value: Double        => Some('f' -> Array(value))
    case value: String        => Some('s' -> Array(value))
    case value: NDArray       => Some('t' -> Handles.ofArrays(Seq(value)))
    case items: IndexedSeq[_] =>
      val (longs, doubles) = (items.collect { case i: Long => i }, items.collect { case x: Double => x })
      if (longs.length == items.length) Some('I' -> longs.toArray)
      else if (doubles.length == items.length) Some('F' -> doubles.toArray)
      else Option.when(items.forall(_.isInstanceOf[String]))('S' -> items.map(_.toString).toArray)
    case _ => None
  }

  /** Checks that a hook's method returned symbols. */
  def checked(node: ModelNode, symbols: Array[Symbol], method: String): Array[Symbol] = {
    if (symbols == null || symbols.contains(null)) node.fail(s"$method returned null: return a symbol for each output")
    symbols
  }

  /** The result of a hook's method for the engine. */
  def rawOutputs(node: ModelNode, symbols: Array[Symbol], method: String): RawOutputs = {
    new RawOutputs(Handles.ofSymbols(checked(node, symbols, method)), node.addedConstants)
  }
}

/** Finds hooks on the class path. */
private[mxnet] object ImportHooks {

  /** A hook with the operators and nodes that it applies to. */
  final case class Rule(operators: Seq[String], nodes: Seq[String], hook: ImportHook)

  /** The hooks that [[ImportHookRule]] marks, sorted by class name. */
  lazy val annotated: Seq[Rule] = AnnotatedClasses.of(classOf[ImportHookRule]).flatMap { cls =>
    val rule = cls.getAnnotation(classOf[ImportHookRule])
    AnnotatedClasses.usable(cls)(hook(cls)).map(Rule(rule.opNames.toSeq, rule.nodeNames.toSeq, _))
  }

  private def hook(cls: Class[_]): ImportHook =
    if (UdfClass.isOperator(cls)) ImportHook.ofClass(cls)
    else if (classOf[ImportHook].isAssignableFrom(cls)) {
      val constructor = cls.asSubclass(classOf[ImportHook]).getDeclaredConstructor()
      constructor.setAccessible(true)
      constructor.newInstance()
    } else
      throw new MXNetError(
        s"${cls.getName} is marked @ImportHookRule, but is neither an ImportHook nor a UserDefinedCustomOp"
      )
}
