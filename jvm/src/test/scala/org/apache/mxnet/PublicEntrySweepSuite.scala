package org.apache.mxnet

import java.io.{OutputStream, PrintStream}
import java.lang.reflect.{
  GenericArrayType,
  InvocationTargetException,
  Method,
  Modifier,
  ParameterizedType,
  Type => JavaType,
  WildcardType
}

import org.apache.mxnet.io._
import org.apache.mxnet.module._
import org.apache.mxnet.optimizer._

import scala.collection.immutable.ListMap
import scala.concurrent.duration.{Duration, MINUTES}
import scala.reflect.runtime.{universe => u}

/** Calls every public method and constructor with null, empty, negative, huge and NaN arguments, and on disposed
  * objects. Each returns or throws an exception that names the mistake: never a `NullPointerException` or similar, never
  * a crash.
  */
class PublicEntrySweepSuite extends munit.FunSuite with TemporaryFiles {
  override val munitTimeout: Duration = Duration(10, MINUTES)

  private val mirror = u.runtimeMirror(getClass.getClassLoader)
  private val folder = temporaryFolder("sweep").toString

  private def network: Symbol = Symbol.api.SoftmaxOutput(
    Symbol.api.FullyConnected(Symbol.Variable("data"), num_hidden = 2, name = "fc"),
    name = "softmax"
  )

  private def data: NDArrayIter =
    new NDArrayIter(IndexedSeq(NDArray.ones(4, 3)), IndexedSeq(NDArray.zeros(4)), 2, labelName = "softmax_label")

  private def bound: Module = {
    val module = new Module(network)
    val iter = data
    module.bind(iter.provideDataDesc, Some(iter.provideLabelDesc))
    module.initParams()
    module.initOptimizer()
    module
  }

  private def sparse: SparseNDArray = NDArray.ones(2, 3).toSparse(Some(SparseFormat.CSR))

  /** The object to call: its name, and a function that creates it for each call. */
  private val targets: Seq[(String, () => AnyRef)] = Seq(
    "NDArray" -> (() => NDArray),
    "Symbol" -> (() => Symbol),
    "Random" -> (() => Random),
    "IO" -> (() => IO),
    "KVStore" -> (() => KVStore),
    "Model" -> (() => Model),
    "FeedForward" -> (() => FeedForward),
    "Module" -> (() => Module),
    "Optimizer" -> (() => Optimizer),
    "Shape" -> (() => Shape),
    "Context" -> (() => Context),
    "DataDesc" -> (() => DataDesc),
    "AttrScope" -> (() => AttrScope),
    "NameManager" -> (() => NameManager),
    "SparseNDArray" -> (() => SparseNDArray),
    "Visualization" -> (() => Visualization),
    "Image" -> (() => Image),
    "Autograd" -> (() => Autograd),
    "GradCheck" -> (() => GradCheck),
    "MetricHistory" -> (() => MetricHistory),
    "LearningCurve" -> (() => LearningCurve),
    "MXRecordIO" -> (() => MXRecordIO),
    "Operator" -> (() => Operator),
    "Profiler" -> (() => Profiler),
    "an NDArray" -> (() => NDArray.ones(2, 3)),
    "a SparseNDArray" -> (() => sparse),
    "a Symbol" -> (() => network),
    "a Shape" -> (() => Shape(2, 3)),
    "an Executor" -> (() => network.simpleBind(Context.cpu(), "write", Map("data" -> Shape(2, 3)))),
    "a KVStore" -> (() => KVStore.create()),
    "a Monitor" -> (() => new Monitor(1)),
    "a Module" -> (() => bound),
    "a FitParams" -> (() => new FitParams),
    "an NDArrayIter" -> (() => data),
    "a SequentialModule" -> (() => new SequentialModule),
    "a CustomMetric" -> (() => new CustomMetric((_, _) => 0f, "custom")),
    "a FeedForward.Builder" -> (() => FeedForward.newBuilder(network)),
    "a ResizeIter" -> (() => new ResizeIter(data, 3)),
    "a DataBatch.Builder" -> (() => new DataBatch.Builder),
    "an NDArrayIter.Builder" -> (() => new NDArrayIter.Builder),
    "an Accuracy" -> (() => new Accuracy),
    "a TopKAccuracy" -> (() => new TopKAccuracy(2)),
    "an F1" -> (() => new F1),
    "a Perplexity" -> (() => new Perplexity()),
    "an MSE" -> (() => new MSE),
    "a CompositeEvalMetric" -> (() => new CompositeEvalMetric),
    "a Xavier" -> (() => new Xavier()),
    "an SGD" -> (() => new SGD(momentum = 0.5f)),
    "an Adam" -> (() => new Adam()),
    "a FactorScheduler" -> (() => new FactorScheduler(2, 0.5f)),
    "a ResourceScope" -> (() => { val scope = new ResourceScope; ResourceScope.removeFromThreadLocal(scope); scope })
  )

  private val constructed: Seq[Class[_]] = Seq(
    classOf[NDArrayIter],
    classOf[ResizeIter],
    classOf[PrefetchingIter],
    classOf[Module],
    classOf[BucketingModule],
    classOf[FeedForward],
    classOf[DataBatch],
    classOf[DataDesc],
    classOf[Monitor],
    classOf[Mixed],
    classOf[Xavier],
    classOf[Uniform],
    classOf[FactorScheduler],
    classOf[SGD],
    classOf[Adam],
    classOf[NAG],
    classOf[DCASGD],
    classOf[RMSProp],
    classOf[AdaGrad],
    classOf[AdaDelta],
    classOf[SGLD],
    classOf[Normal],
    classOf[TopKAccuracy],
    classOf[Perplexity],
    classOf[CustomMetric],
    classOf[EarlyStopping],
    classOf[BestCheckpoints],
    classOf[MetricHistory],
    classOf[LearningCurve],
    classOf[ProgressBar],
    classOf[Callback.Speedometer],
    classOf[Callback.Progress],
    classOf[MXRecordIO],
    classOf[MXIndexedRecordIO]
  )

  /** Excluded methods: those of Java, those that wait, and those that end the process. */
  private val excluded = Set("wait", "notify", "notifyAll", "equals", "hashCode", "getClass", "finalize", "clone") ++
    Set("waitall", "prefetchFunc", "main", "cleanup") ++
    // Generated for pattern matching, traits and default arguments; no program calls them.
    Set("productElement", "productElementName", "canEqual", "unapply", "andThen", "compose", "tupled", "curried")

  /** Exceptions that name the mistake. */
  private def isExplained(error: Throwable): Boolean = error match {
    case _: MXNetError | _: IllegalArgumentException | _: IllegalStateException | _: java.io.IOException |
        _: NoSuchElementException | _: UnsupportedOperationException =>
      error.getMessage != null && error.getMessage.length > 12
    case _ => false
  }

  /** Values of a parameter's type: a valid one, then invalid ones. */
  private def values(tpe: Type): Seq[Any] = tpe match {
    case Type.Plain(t) if t == classOf[Int]     => Seq(1, -1, Int.MinValue, 0)
    case Type.Plain(t) if t == classOf[Long]    => Seq(1L, -1L, Long.MinValue, 0L)
    case Type.Plain(t) if t == classOf[Float]   => Seq(1f, Float.NaN, -1f, Float.PositiveInfinity)
    case Type.Plain(t) if t == classOf[Double]  => Seq(1.0, Double.NaN, -1.0)
    case Type.Plain(t) if t == classOf[Boolean] => Seq(true, false)
    // A by-name parameter cannot be null; numbers in collections are objects to Java.
    case Type.Of(t, _) if t == classOf[Function0[_]]                                  => Seq(() => NDArray.ones(1))
    case Type.Of(t, Type.Plain(o)) if t == classOf[Option[_]] && o == classOf[Object] => Seq(None, null)
    case Type.Array(Type.Of(_, _))                                                    => Seq(null)
    case t                                                                            => valid(t) +: null +: invalid(t)
  }

  private def valid(tpe: Type): Any = tpe match {
    case Type.Of(t, item) if t == classOf[Option[_]]                => Option(valid(item))
    case Type.Of(t, item) if t.isAssignableFrom(classOf[Vector[_]]) => Option(valid(item)).toVector
    case Type.Of(t, item) if t == classOf[List[_]]                  => List(valid(item))
    case Type.Of(t, item) if t == classOf[Set[_]]                   => Set(valid(item))
    case Type.Of(t, item) if t == classOf[Map[_, _]]                => Map("data" -> valid(item))
    case Type.Of(t, item) if t == classOf[ListMap[_, _]]            => ListMap("data" -> valid(item))
    case Type.Plain(t)                                              => instance(t)
    case _                                                          => null
  }

  private def instance(tpe: Class[_]): Any = tpe match {
    case t if t == classOf[String]            => s"$folder/file"
    case t if t == classOf[NDArray]           => NDArray.ones(2, 3)
    case t if t == classOf[SparseNDArray]     => sparse
    case t if t == classOf[Symbol]            => Symbol.Variable("data")
    case t if t == classOf[Executor]          => network.simpleBind(Context.cpu(), "write", Map("data" -> Shape(2, 3)))
    case t if t == classOf[Shape]             => Shape(2, 3)
    case t if t == classOf[DataDesc]          => DataDesc("data", Shape(2, 3))
    case t if t == classOf[Context]           => Context.cpu()
    case t if t == classOf[KVStore]           => KVStore.create()
    case t if t == classOf[EvalMetric]        => new Accuracy
    case t if t == classOf[Optimizer]         => new SGD
    case t if t == classOf[LRScheduler]       => new FactorScheduler(2, 0.5f)
    case t if t == classOf[Initializer]       => new Uniform
    case t if t == classOf[DataIter]          => data
    case t if t == classOf[DataBatch]         => data.next()
    case t if t == classOf[FitParams]         => new FitParams
    case t if t == classOf[BaseModule]        => bound
    case t if t == classOf[Module]            => bound
    case t if t == classOf[Monitor]           => new Monitor(1)
    case t if t == classOf[ResourceScope]     => null
    case t if t == classOf[NativeResource]    => NDArray.ones(2)
    case t if t == classOf[DType.DType]       => DType.Float32
    case t if t == classOf[Array[NDArray]]    => Array(NDArray.ones(2, 3))
    case t if t == classOf[Array[Symbol]]     => Array(Symbol.Variable("data"))
    case t if t == classOf[Array[Context]]    => Array(Context.cpu())
    case t if t == classOf[Array[String]]     => Array("data")
    case t if t == classOf[Array[Float]]      => Array.fill(6)(1f)
    case t if t == classOf[Array[Double]]     => Array.fill(6)(1.0)
    case t if t == classOf[Array[Int]]        => Array(2, 3)
    case t if t == classOf[Array[Long]]       => Array(2L, 3L)
    case t if t == classOf[Array[Byte]]       => NDArray.ones(2).serialize()
    case t if t == classOf[Array[Shape]]      => Array(Shape(2, 3))
    case t if t == classOf[MXRecordIO.IOFlag] => MXRecordIO.IORead
    case t if t == classOf[MXIndexedRecordIO.KeyType] => MXIndexedRecordIO.TyepInt
    case t if t == classOf[PrintStream]               => new PrintStream(OutputStream.nullOutputStream())
    case _                                            => null
  }

  private def invalid(tpe: Type): Seq[Any] = tpe match {
    case Type.Of(t, _) if t == classOf[Option[_]]                => Seq(Some(null))
    case Type.Of(t, _) if t.isAssignableFrom(classOf[Vector[_]]) => Seq(Vector.empty, Vector(null))
    case Type.Of(t, _) if t == classOf[Map[_, _]]                => Seq(Map("data" -> null), Map("" -> null))
    case Type.Plain(t)                                           => invalidInstances(t)
    case _                                                       => Nil
  }

  private def invalidInstances(tpe: Class[_]): Seq[Any] = tpe match {
    case t if t == classOf[String]         => Seq(s"$folder/none/such", "\u0000")
    case t if t == classOf[NDArray]        => Seq(disposed(NDArray.ones(2)), NDArray.ones(7), NDArray.empty(0))
    case t if t == classOf[Symbol]         => Seq(disposed(network))
    case t if t == classOf[Executor]       => Seq(disposed(instance(tpe).asInstanceOf[Executor]))
    case t if t == classOf[KVStore]        => Seq(disposed(KVStore.create()))
    case t if t == classOf[Shape]          => Seq(Shape(), Shape(-1), Shape(0), Shape(Int.MaxValue, Int.MaxValue))
    case t if t == classOf[Array[NDArray]] => Seq(Array.empty[NDArray], Array[NDArray](null))
    case t if t == classOf[Array[Symbol]]  => Seq(Array.empty[Symbol], Array[Symbol](null))
    case t if t == classOf[Array[Context]] => Seq(Array.empty[Context], Array[Context](null))
    case t if t == classOf[Array[String]]  => Seq(Array.empty[String], Array[String](null))
    case t if t == classOf[Array[Float]]   => Seq(Array.empty[Float], Array(Float.NaN))
    case t if t == classOf[Array[Double]]  => Seq(Array.empty[Double])
    case t if t == classOf[Array[Int]]     => Seq(Array.empty[Int], Array(-1))
    case t if t == classOf[Array[Byte]]    => Seq(Array.empty[Byte], Array[Byte](1, 2, 3))
    case t if t == classOf[Object]         => Seq("a string", Double.NaN)
    case _                                 => Nil
  }

  private def disposed[T <: NativeResource](resource: T): T = {
    resource.dispose()
    resource
  }

  /** Classes whose methods take what only the library creates, such as a [[Training]], or a function of a certain type. */
  private val unused: Set[Class[_]] =
    Set(classOf[BucketingModule], classOf[MetricHistory], classOf[LearningCurve], classOf[ProgressBar])

  /** Calls each method with valid values. An object that accepted an invalid value must explain it when it is used. */
  private def use(instance: AnyRef): Unit =
    if (!unused.contains(instance.getClass)) methodsOf(instance).sortBy(_.toString).foreach { method =>
      val arguments = method.getGenericParameterTypes.map(t => values(Type.of(t)).head.asInstanceOf[AnyRef])
      try method.invoke(instance, arguments: _*)
      catch { case error: InvocationTargetException if isExplained(error.getCause) => () }
    }

  /** Calls with each invalid value of each parameter, and valid values of the others. */
  private def sweep(name: String, parameters: Array[JavaType])(call: Array[AnyRef] => Any): Seq[String] = {
    val types = parameters.map(Type.of)
    types.indices.flatMap { index =>
      val invalidCount = values(types(index)).length - 1
      (1 to invalidCount).flatMap { k =>
        val arguments = types.zipWithIndex.map { case (tpe, i) =>
          val all = values(tpe)
          (if (i == index) all(k) else all.head).asInstanceOf[AnyRef]
        }
        val shown = if (arguments(index) == null) "null" else s"value $k"
        val shape = parameters.map(_.getTypeName.replaceAll("[a-z]+\\.", "")).mkString(", ")
        val title = s"$name($shape) with $shown for argument $index"
        try {
          ResourceScope.using()(call(arguments): Unit)
          None
        } catch {
          case error: InvocationTargetException if isExplained(error.getCause) => None
          case error: InvocationTargetException                                =>
            val where = error.getCause.getStackTrace.find(_.getClassName.startsWith("org.apache.mxnet")).mkString
            Some(s"$title: ${error.getCause} $where")
          case error: Throwable => Some(s"$title: $error")
        }
      }
    }
  }

  private def publicNames(instance: AnyRef): Set[String] = {
    val tpe = mirror.classSymbol(instance.getClass).toType
    tpe.members
      .filter(m => m.isMethod && m.isPublic && !m.isConstructor && m.owner.fullName.startsWith("org.apache.mxnet"))
      .map(_.name.encodedName.toString)
      .toSet
  }

  private def methodsOf(instance: AnyRef): Seq[Method] = {
    val public = publicNames(instance)
    instance.getClass.getMethods.toSeq.filter { method =>
      public.contains(method.getName) && !excluded.contains(method.getName) && !method.getName.contains("$default$") &&
      !method.isBridge && !method.isSynthetic && !Modifier.isStatic(method.getModifiers) &&
      method.getDeclaringClass.getName.startsWith("org.apache.mxnet") && method.getParameterCount > 0
    }
  }

  targets.foreach { case (name, make) =>
    test(s"methods of $name") {
      val failures = methodsOf(make()).sortBy(_.toString).flatMap { method =>
        sweep(s"$name.${method.getName}", method.getGenericParameterTypes)(arguments =>
          method.invoke(make(), arguments: _*)
        )
      }
      assert(failures.isEmpty, s"${failures.length}:\n" + failures.mkString("\n"))
    }
  }

  test("constructors") {
    val failures = constructed.flatMap { cls =>
      cls.getConstructors.toSeq.flatMap { constructor =>
        sweep(s"new ${cls.getSimpleName}", constructor.getGenericParameterTypes)(arguments =>
          use(constructor.newInstance(arguments: _*).asInstanceOf[AnyRef])
        )
      }
    }
    assert(failures.isEmpty, s"${failures.length}:\n" + failures.mkString("\n"))
  }

  test("methods of disposed objects") {
    val resources = Seq[() => NativeResource](
      () => NDArray.ones(2, 3),
      () => sparse,
      () => network,
      () => network.simpleBind(Context.cpu(), "write", Map("data" -> Shape(2, 3))),
      () => KVStore.create()
    )
    val failures = resources.flatMap { make =>
      val name = s"disposed ${make().getClass.getSimpleName}"
      make().getClass.getMethods.toSeq
        .filter(m => publicNames(make()).contains(m.getName) && !excluded.contains(m.getName) && !m.isBridge)
        .filter(m => m.getDeclaringClass.getName.startsWith("org.apache.mxnet") && !Modifier.isStatic(m.getModifiers))
        .flatMap { method =>
          val arguments = method.getGenericParameterTypes.map(t => values(Type.of(t)).head.asInstanceOf[AnyRef])
          try {
            method.invoke(disposed(make()), arguments: _*)
            None
          } catch {
            case error: InvocationTargetException if isExplained(error.getCause) => None
            case error: InvocationTargetException => Some(s"$name.${method.getName}: ${error.getCause}")
          }
        }
    }
    assert(failures.isEmpty, s"${failures.length}:\n" + failures.mkString("\n"))
  }
}

/** A parameter's type: a class, or a collection (an option, a map with string keys) of some type. */
private sealed trait Type

private object Type {
  final case class Plain(cls: Class[_]) extends Type
  final case class Of(cls: Class[_], item: Type) extends Type
  final case class Array(item: Type) extends Type

  def of(tpe: JavaType): Type = tpe match {
    case cls: Class[_]                    => Plain(cls)
    case parameterized: ParameterizedType =>
      Of(parameterized.getRawType.asInstanceOf[Class[_]], of(parameterized.getActualTypeArguments.last))
    case array: GenericArrayType => Array(of(array.getGenericComponentType))
    case wildcard: WildcardType  => of(wildcard.getUpperBounds.head)
    case _                       => Plain(classOf[Object])
  }
}
