package org.apache.mxnet
package internal.userop

import java.lang.reflect.Constructor
import java.util.concurrent.ConcurrentHashMap

import org.apache.mxnet.Base._LIB
import org.apache.mxnet.internal.operators.NativeOp
import org.apache.mxnet.internal.util.{AnnotatedClasses, Logging}

/** What a name is registered for: creates the operators of the nodes with this name. */
private[mxnet] trait OperatorDefinition {

  /** The class that defines the operators, for messages. */
  def described: String

  /** True if another definition has the same code, so that it may replace this one. */
  def isSameAs(other: OperatorDefinition): Boolean

  /** The operator of a node with these attributes. */
  def operator(name: String, attributes: Map[String, String]): BridgedOperator
}

/** The registry of user-defined operators. */
private[mxnet] object UserOperators {
  private val log = Logging.of("org.apache.mxnet.UserOperators")
  private val definitions = new ConcurrentHashMap[String, OperatorDefinition]
  private lazy val builtIn: Set[String] = _LIB.listAllOpNames().toSet
  private val custom = "Custom"

  /** The annotated classes of the class path by the names of their operators; the class path is scanned once. */
  private lazy val annotated: Map[String, Seq[UdfClass]] =
    AnnotatedClasses.of(classOf[UserDefinedOp]).flatMap(cls => AnnotatedClasses.usable(cls)(named(cls))).groupBy(_.name)

  private def named(cls: Class[_]): UdfClass = {
    val found = UdfClass(cls)
    log.debug(s"operator ${found.name} is ${found.described}")
    found
  }

  /** The definition of a registered name. */
  def definition(name: String): OperatorDefinition = {
    val known = definitions.get(name)
    if (known == null) throw new MXNetError(s"operator '$name' is not registered")
    known
  }

  /** Whether a name is registered, after a search of the class path. */
  def find(name: String): Boolean = definitions.containsKey(name) || (annotated.getOrElse(name, Nil) match {
    case Seq()      => false
    case Seq(found) =>
      checkName(found.name, found.described)
      definitions.putIfAbsent(name, found)
      true
    case several =>
      throw new MXNetError(
        s"several operators on the class path have the name '$name': " +
          s"${several.map(_.described).sorted.mkString(", ")}. Give each its own opName, or remove one"
      )
  })

  private def checkName(name: String, whose: String): Unit = {
    if (name == null || !name.matches("[A-Za-z_][A-Za-z0-9_.]*"))
      throw new MXNetError(s"$whose: '$name' is not a valid operator name: use letters, digits, '_' and '.'")
    if (builtIn.contains(name))
      throw new MXNetError(s"$whose: '$name' is an operator of the engine: give the user-defined one another opName")
  }

  /** Registers a definition. A different one of the same name is an error that names both. */
  def register(name: String, definition: OperatorDefinition): Unit = {
    checkName(name, definition.described)
    definitions.merge(
      name,
      definition,
      (known, added) =>
        if (known.isSameAs(added)) added
        else
          throw new MXNetError(
            s"operator '$name' of ${added.described} is already defined by ${known.described}: give one of them another name"
          )
    )
    _LIB.userOpRegister(name)
  }

  /** Registers a definition, replacing any other of its name. */
  def replace(name: String, definition: OperatorDefinition): Unit = {
    definitions.put(name, definition)
    _LIB.userOpRegister(name)
  }

  /** Registers the class of an operator, so that its name can be resolved. */
  private def ensureRegistered(op: UserDefinedCustomOp): Unit = op match {
    case function: UserFunction =>
      if (definitions.get(op.opName) ne function.definition) register(op.opName, function.definition)
    case _ =>
      val name = op.opName
      val userClass = op.userObject.getClass
      val isKnown = definitions.get(name) match {
        case known: UdfClass => known.cls == userClass
        case _               => false
      }
      if (!isKnown) {
        if (userClass.isAnnotationPresent(classOf[UserDefinedOp])) find(name)
        register(name, UdfClass.of(op.userObject))
      }
  }

  /** Attributes to recreate the operator of a call. */
  private def attributes(op: UserDefinedCustomOp, inputs: Int): List[(String, String)] = {
    op.inputCount = inputs
    val properties = op.propertiesForFunction()
    val saved =
      if (properties != null && properties.isEmpty) Nil
      else List("properties" -> OpProperties.toJson(op.opName, properties))
    val counted =
      if (inputs == UdfOperator.defaultInputs(op)) saved else (UdfOperator.InputsKey -> inputs.toString) :: saved
    ("op_type" -> op.opName) :: counted
  }

  /** Attributes to recreate the operator of a node: those of a call, and the counts that are checked when it is loaded.
    */
  private def nodeAttributes(op: UserDefinedCustomOp, inputs: Int): Map[String, String] =
    attributes(op, inputs).toMap +
      (UdfOperator.InputsKey -> inputs.toString) +
      (UdfOperator.OutputsKey -> op.getNumOutputs.toString)

  /** The number of inputs among `count` arrays or symbols; the others are auxiliary states.
    *
    * @param variadicCount the number of inputs if the operator takes any number
    */
  private def inputCount(op: UserDefinedCustomOp, count: Int, variadicCount: Int): Int = {
    val (fixed, states) = (op.getNumInputs, op.stateNames.length)
    val more = if (states == 0) "" else s" and $states auxiliary states"
    if (fixed >= 0 && count > fixed + states)
      throw new MXNetError(s"operator ${op.opName} takes $fixed inputs$more, but $count were given")
    if (variadicCount < 0)
      throw new MXNetError(s"operator ${op.opName} takes inputs$more, but only $count arrays were given")
    if (fixed >= 0) fixed else variadicCount
  }

  /** Creates the symbol of an operator's outputs. */
  def compose(op: UserDefinedCustomOp, name: String, symbols: Array[Symbol]): Symbol = {
    ensureRegistered(op)
    // Missing inputs and states become variables.
    val inputs = inputCount(op, symbols.length, symbols.length)
    val names = SameDiff.of(op).fold(NameManager.current)(_.names)
    val node = names.get(Option(name).filter(_.nonEmpty), op.opName.toLowerCase(java.util.Locale.ROOT))
    val symbol = Symbol.createFromListedSymbols(custom, node)(symbols, nodeAttributes(op, inputs))
    op.argumentSymbols = symbols.take(inputs)
    val count = symbol.listOutputs().length
    op.outputSymbols = if (count == 1) Array(symbol) else Array.tabulate(count)(symbol.get)
    op.configureWithSymbol(symbol)
    SameDiff.of(op).foreach(op.configureWithSameDiff)
    symbol
  }

  /** Runs an operator on arrays. */
  def invoke(op: UserDefinedCustomOp, arrays: Array[NDArray]): NDArrayFuncReturn = {
    ensureRegistered(op)
    val inputs = inputCount(op, arrays.length, arrays.length - op.stateNames.length)
    NDArray.invoke(customOp, arrays, null, attributes(op, inputs))
  }

  private lazy val customOp = NativeOp(custom)
}

/** The operators that a class defines. */
private[mxnet] final class UdfClass private (val cls: Class[_], make: () => UserDefinedCustomOp)
    extends OperatorDefinition {

  /** The name of an instance's operator. */
  lazy val name: String = make().opName

  def described: String = cls.getName

  /** A new instance without properties. */
  def instance(): UserDefinedCustomOp = make()

  def isSameAs(other: OperatorDefinition): Boolean = other match {
    case that: UdfClass => that.cls == cls || UdfClass.isDefinedAgain(cls.getName, that.cls.getName)
    case _              => false
  }

  def operator(name: String, attributes: Map[String, String]): BridgedOperator = new UdfOperator(name, attributes, make)
}

private[mxnet] object UdfClass {

  /** Whether a class defines operators. */
  def isOperator(cls: Class[_]): Boolean =
    classOf[UserDefinedCustomOp].isAssignableFrom(cls) || classOf[javaapi.UserDefinedCustomOp].isAssignableFrom(cls)

  /** The operators of a top-level class. */
  def apply(cls: Class[_]): UdfClass = checked(cls, None)

  /** The operators of an instance's class. If it is an inner class, as in a REPL or a notebook, all instances have the
    * same enclosing object.
    */
  def of(instance: AnyRef): UdfClass = {
    val outer = instance.getClass.getDeclaredFields.find(f => f.getName == "$outer" || f.getName.startsWith("this$"))
    checked(
      instance.getClass,
      outer.map { field =>
        field.setAccessible(true)
        field.get(instance)
      }
    )
  }

  /** The prefix of the class names of a REPL or a notebook, with the number of the input that defines the class. */
  private lazy val replPrefix = "^(\\$line|rs\\$line\\$|ammonite\\.\\$sess\\.cmd)\\d+".r

  /** Whether two inputs of a REPL or a notebook defined classes of the same name. */
  def isDefinedAgain(name: String, other: String): Boolean =
    replPrefix.findPrefixOf(name).isDefined &&
      replPrefix.replaceFirstIn(name, "") == replPrefix.replaceFirstIn(other, "")

  /** A constructor and its arguments for a new instance. */
  private final class Maker(val constructor: Constructor[_], val arguments: () => Seq[AnyRef])

  /** A constructor in Scala whose parameters all have defaults, and these. They are methods of the companion object. */
  private def withDefaults(
      cls: Class[_],
      constructors: Seq[Constructor[_]],
      outer: Option[AnyRef]
  ): Option[Maker] = {
    val companion =
      try
        Some(outer match {
          case None => Class.forName(s"${cls.getName}$$", true, cls.getClassLoader).getField("MODULE$").get(null)
          case Some(instance) => instance.getClass.getMethod(cls.getSimpleName).invoke(instance)
        })
      catch { case _: ReflectiveOperationException => None }
    companion.flatMap { owner =>
      val first = outer.size
      val defaults =
        owner.getClass.getMethods.filter(_.getParameterCount == 0).map(method => method.getName -> method).toMap
      def ofParameters(constructor: Constructor[_]) =
        (1 to constructor.getParameterCount - first).map(i => defaults.get(s"$$lessinit$$greater$$default$$$i"))
      constructors.find(ofParameters(_).forall(_.isDefined)).map { found =>
        val methods = ofParameters(found).flatten
        new Maker(found, () => outer.toSeq ++ methods.map(_.invoke(owner)))
      }
    }
  }

  private def checked(cls: Class[_], outer: Option[AnyRef]): UdfClass = {
    def reject(why: String): Nothing = throw new MXNetError(s"${cls.getName} cannot be a user-defined operator: $why")
    if (!isOperator(cls)) reject("it does not extend UserDefinedCustomOp")
    if (java.lang.reflect.Modifier.isAbstract(cls.getModifiers)) reject("it is abstract")
    val constructors = cls.getDeclaredConstructors.toSeq
    def taking(types: Option[AnyRef]) = constructors.find(_.getParameterTypes.corresponds(types)(_.isInstance(_)))
    val maker = taking(outer)
      .map(new Maker(_, () => outer.toSeq))
      .orElse(taking(None).map(new Maker(_, () => Nil)))
      .orElse(withDefaults(cls, constructors, outer))
      .getOrElse(reject("it has no constructor without parameters, which is called when a graph is loaded"))
    maker.constructor.setAccessible(true)
    def newInstance(): UserDefinedCustomOp =
      try
        maker.constructor.newInstance(maker.arguments(): _*) match {
          case op: javaapi.UserDefinedCustomOp => op.asScala
          case op                              => op.asInstanceOf[UserDefinedCustomOp]
        }
      catch { case error: java.lang.reflect.InvocationTargetException => throw error.getCause }
    new UdfClass(cls, () => newInstance())
  }
}
