package org.apache.mxnet

import java.util.{Collections, IdentityHashMap}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.mxnet.internal.util.{Given, Logging}
import org.slf4j.Logger
import org.apache.mxnet.internal.util.PerThread

/** Frees, when it is closed, the native resources that its thread created in the meantime.
  *
  * {{{
  * val mean = ResourceScope.using() { (a + b) / 2 } // the sum is freed, the quotient is not
  * }}}
  */
class ResourceScope extends AutoCloseable {
  private val resources = Collections.newSetFromMap(new IdentityHashMap[NativeResource, java.lang.Boolean])

  ResourceScope.open(this)

  /** Frees what is in this scope and leaves it. */
  override def close(): Unit = {
    ResourceScope.leave(this)
    val remaining = synchronized {
      val all = resources.asScala.toArray
      resources.clear()
      all
    }
    remaining.foreach(_.dispose(removeFromScope = false))
  }

  /** Puts a resource into this scope, out of the one it was in. */
  def add(resource: NativeResource): Unit = {
    Given("ResourceScope.add", "resource" -> resource)
    resource.scope.filter(_ ne this).foreach(_.remove(resource))
    synchronized(resources.add(resource))
    resource.scope = Some(this)
  }

  /** Whether a resource is in this scope. */
  def contains(resource: NativeResource): Boolean = synchronized(resources.contains(resource))

  /** Takes a resource out: it will not be freed with this scope. */
  def remove(resource: NativeResource): Unit = {
    Given("ResourceScope.remove", "resource" -> resource)
    synchronized(resources.remove(resource))
    if (resource.scope.exists(_ eq this)) resource.scope = None
  }

  /** Hands a resource of this scope on to the scope around it, or to nobody if there is none. */
  def moveToOuterScope(resource: NativeResource): Unit = if (contains(resource)) {
    ResourceScope.outerOf(this) match {
      case Some(outer) => outer.add(resource)
      case None        => remove(resource)
    }
  }
}

object ResourceScope {
  // Lazy: to look for a logging library takes as long as to load the engine.
  private[mxnet] lazy val logger: Logger = Logging.of(classOf[ResourceScope])

  private val scopes = new PerThread[List[ResourceScope]](() => Nil)

  /** Runs `body` in a scope. Resources in the result (also those in collections, options, tuples and case classes) move
    * to the scope around it.
    *
    * @param scope the scope to use, which stays open: whoever made it closes it; null is a new one, which is closed
    */
  def using[A](scope: ResourceScope = null)(body: => A): A = {
    val current = if (scope != null) scope else new ResourceScope
    if (scope != null) open(scope)
    try {
      val result = body
      resourcesIn(result).foreach(current.moveToOuterScope)
      result
    } finally if (scope != null) leaveInnermost(scope) else current.close()
  }

  /** As [[using]] if there is a scope; without one just runs `body`. */
  private[mxnet] def usingIfScopeExists[A](scope: Option[ResourceScope])(body: => A): A = scope match {
    case Some(existing) => using(existing)(body)
    case None           => body
  }

  /** Runs `body` outside of every scope: what it creates lives until it is disposed or collected. */
  private[mxnet] def outside[A](body: => A): A = {
    val around = scopes.get()
    scopes.set(Nil)
    try body
    finally scopes.set(around)
  }

  /** The innermost scope of this thread. */
  private[mxnet] def getCurrentScope(): Option[ResourceScope] = scopes.get().headOption

  /** Makes a scope the innermost one of this thread. */
  private[mxnet] def addToThreadLocal(scope: ResourceScope): Unit = open(scope)

  /** Takes a scope out of this thread's, without closing it. */
  private[mxnet] def removeFromThreadLocal(scope: ResourceScope): Unit = leaveInnermost(scope)

  /** Every native resource in a value, with those that live together with it. Each is visited once, so that a value may
    * hold itself.
    */
  private[mxnet] def resourcesIn(value: Any): Iterator[NativeResource] = {
    val seen = Collections.newSetFromMap(new IdentityHashMap[AnyRef, java.lang.Boolean])
    val found = mutable.ArrayBuffer.empty[NativeResource]
    val waiting = mutable.Stack.empty[Iterator[Any]]
    waiting.push(Iterator.single(value))
    while (waiting.nonEmpty) {
      val items = waiting.top
      if (!items.hasNext) waiting.pop()
      else
        items.next() match {
          case item: AnyRef if mayHoldResources(item) && seen.add(item) =>
            item match {
              case resource: NativeResource => found += resource
              case _                        =>
            }
            waiting.push(contents(item))
          case _ =>
        }
    }
    found.iterator
  }

  private def mayHoldResources(item: AnyRef): Boolean = item match {
    case _: NativeResource | _: NDArrayFuncReturn | _: Iterable[_] | _: Array[AnyRef] | _: Product => true
    case _                                                                                         => false
  }

  private def contents(item: AnyRef): Iterator[Any] = item match {
    case resource: NativeResource    => resource.companions
    case returned: NDArrayFuncReturn => returned.arr.iterator
    case items: Iterable[_]          => counted(items)
    case items: Array[AnyRef]        => items.iterator
    case product: Product            => product.productIterator
    case _                           => Iterator.empty
  }

  /** A lazy collection with more elements is taken for an infinite one. */
  private val maxLazyItems = 1000000

  private val strict = classOf[collection.StrictOptimizedIterableOps[Any, Iterable, Any]]

  /** The elements of a collection, which may be infinite. */
  private def counted(items: Iterable[Any]): Iterator[Any] =
    if (strict.isInstance(items)) items.iterator
    else
      items.iterator.zipWithIndex.map { case (item, index) =>
        if (index >= maxLazyItems)
          throw new MXNetError(
            s"ResourceScope.using: the result has a lazy collection of more than $maxLazyItems elements; return a finite one"
          )
        item
      }

  /** Puts a new resource into the innermost scope of this thread, if there is one. */
  private[mxnet] def adopt(resource: NativeResource): Unit = scopes.get() match {
    case innermost :: _ => innermost.add(resource)
    case Nil            =>
  }

  private def open(scope: ResourceScope): Unit = scopes.set(scope :: scopes.get())

  private def leave(scope: ResourceScope): Unit = scopes.set(scopes.get().filterNot(_ eq scope))

  /** A thread may be in one scope several times; this leaves it once. */
  private def leaveInnermost(scope: ResourceScope): Unit = {
    val (inner, rest) = scopes.get().span(_ ne scope)
    scopes.set(inner ++ rest.drop(1))
  }

  private def outerOf(scope: ResourceScope): Option[ResourceScope] = {
    val stack = scopes.get()
    val outside = stack.dropWhile(_ ne scope).drop(1)
    if (stack.exists(_ eq scope)) outside.headOption else stack.headOption
  }
}
