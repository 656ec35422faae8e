package org.apache.mxnet

import java.util.{ArrayList, Collection => JCollection, Collections, IdentityHashMap, Map => JMap, Optional}

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.mxnet.internal.memory.ResourceHolder
import org.apache.mxnet.internal.util.NullChecks.requireNonNull
import org.apache.mxnet.internal.util.{Logging, PerThread}
import org.slf4j.Logger

/** A scope of a thread. Closing it frees the native resources that the thread created in it.
  *
  * {{{
  * val mean = ResourceScope.using() { (a + b) / 2 } // the sum is freed, the quotient is not
  * }}}
  *
  * Resources in the result live on, in the enclosing scope: see [[ResourceScope.using]] for the results in which they are
  * found. Using a resource after its scope has ended is an [[MXNetError]].
  */
class ResourceScope extends AutoCloseable {

  /** The head of a list of entries, newest first. */
  private var newest: ResourceScope.Entry = _
  private val asOption = Some(this)
  @volatile private var isClosed = false

  /** The class of the result of [[ResourceScope.using]], if resources in it are not found. */
  @volatile private var opaqueResult: Class[_] = _

  ResourceScope.open(this)

  /** Disposes the resources of this scope, the oldest first, and leaves it. If some cannot be disposed, the others still
    * are, and the first error is thrown.
    */
  override def close(): Unit = {
    isClosed = true
    ResourceScope.leave(this)
    val remaining = synchronized {
      val all = resources
      while (newest != null) unlink(newest)
      all
    }
    var failure: Throwable = null
    var i = remaining.size - 1
    while (i >= 0) {
      try remaining.get(i).dispose(removeFromScope = false)
      catch {
        case NonFatal(error) => if (failure == null) failure = error else failure.addSuppressed(error)
      }
      i -= 1
    }
    if (failure != null) throw failure
  }

  private[mxnet] def hasEnded: Boolean = isClosed

  /** How this scope freed its resources, and what to change. */
  private[mxnet] def describeEnd: String = {
    val result = opaqueResult
    val end = "the ResourceScope in which it was created had ended and freed it; "
    if (result == null)
      end + "return it from the scope, move it to the outer scope, or copy it into an array from outside"
    else
      end + s"the scope returned a ${result.getName}, in which arrays are not found: return the arrays themselves, or a " +
        "collection, tuple or case class of them, or create them outside of the scope"
  }

  /** The resources, newest first. */
  private def resources: ArrayList[NativeResource] = {
    val all = new ArrayList[NativeResource]
    var entry = newest
    while (entry != null) {
      all.add(entry.resource)
      entry = entry.older
    }
    all
  }

  private def link(resource: NativeResource): Unit = {
    val entry = new ResourceScope.Entry(resource, this)
    entry.older = newest
    if (newest != null) newest.newer = entry
    newest = entry
    resource.scopeEntry = entry
  }

  private def unlink(entry: ResourceScope.Entry): Unit = {
    if (entry.newer != null) entry.newer.older = entry.older else newest = entry.older
    if (entry.older != null) entry.older.newer = entry.newer
    entry.newer = null
    entry.older = null
    entry.isLinked = false
  }

  /** The entry of a resource in this scope; null if it has none. */
  private def entryOf(resource: NativeResource): ResourceScope.Entry = {
    val latest = resource.scopeEntry
    if (latest != null && (latest.scope eq this)) { if (latest.isLinked) latest else null }
    else null
  }

  /** Moves a resource from its scope to this one. */
  def add(resource: NativeResource): Unit = {
    if (resource == null) requireNonNull("ResourceScope.add", "resource" -> resource)
    val around = resource.scope
    if (around.nonEmpty && (around.get ne this)) around.get.remove(resource)
    adopt(resource)
  }

  /** Adds a resource that is in no other scope. */
  private def adopt(resource: NativeResource): Unit = {
    synchronized(if (entryOf(resource) == null) link(resource))
    resource.scope = asOption
  }

  /** Whether a resource is in this scope. */
  def contains(resource: NativeResource): Boolean =
    resource != null && synchronized(entryOf(resource) != null)

  /** Removes a resource, so that this scope does not free it. */
  def remove(resource: NativeResource): Unit = {
    if (resource == null) requireNonNull("ResourceScope.remove", "resource" -> resource)
    synchronized {
      val entry = entryOf(resource)
      if (entry != null) unlink(entry)
    }
    val around = resource.scope
    if (around.nonEmpty && (around.get eq this)) resource.scope = None
  }

  /** Moves a resource of this scope to the enclosing scope; without one, no scope frees it. */
  def moveToOuterScope(resource: NativeResource): Unit = if (contains(resource)) {
    ResourceScope.outerOf(this) match {
      case Some(outer) => outer.add(resource)
      case None        => remove(resource)
    }
  }
}

object ResourceScope {

  /** A resource in a scope, whose lock guards all fields. */
  private[mxnet] final class Entry(val resource: NativeResource, val scope: ResourceScope) {
    var newer: Entry = _
    var older: Entry = _
    var isLinked: Boolean = true
  }

  // Lazy, because finding a logging library takes as long as loading the engine.
  private[mxnet] lazy val logger: Logger = Logging.of(classOf[ResourceScope])

  /** The scopes of each thread, innermost first; null stands for none until a program opens one, since `Nil` loads two dozen
    * classes.
    */
  private val scopes = new PerThread[List[ResourceScope]](null)

  private def opened: List[ResourceScope] = {
    val stack = scopes.get()
    if (stack == null) Nil else stack
  }

  /** Runs `body` in a scope, which frees the resources that `body` creates.
    *
    * Resources in the result move to the enclosing scope, also within collections, options, tuples, case classes, modules,
    * batches and data iterators. They are not found in functions and in objects of other classes, such as
    * `() => array.toArray`: return the arrays beside the function, or create them outside of the scope. Otherwise they are
    * freed, and using one is an [[MXNetError]] that names the class of the result.
    *
    * @param scope an existing scope, which the caller closes; null for a new one, which is closed at the end
    */
  def using[A](scope: ResourceScope = null)(body: => A): A = {
    val current = if (scope != null) scope else new ResourceScope
    if (scope != null) open(scope)
    try {
      val result = body
      resourcesIn(result).foreach(current.moveToOuterScope)
      current.opaqueResult = opaqueClass(result)
      result
    } finally if (scope != null) leaveInnermost(scope) else current.close()
  }

  /** As [[using]] if this thread is in a scope; otherwise only runs `body`. */
  private[mxnet] def usingIfScopeExists[A](scope: Option[ResourceScope])(body: => A): A = scope match {
    case Some(existing) => using(existing)(body)
    case None           => body
  }

  /** Runs `body` outside of all scopes and collectors: its resources live until they are disposed or collected. */
  private[mxnet] def outside[A](body: => A): A = ownedIn(None)(body)

  /** Runs `body`, which creates resources of an object that outlives the scopes and collectors of the call.
    *
    * @param scope the scope of that object, which frees them; if it is closed or `None`, they live until they are disposed
    *   or collected
    */
  private[mxnet] def ownedIn[A](scope: Option[ResourceScope])(body: => A): A = NDArrayCollector.outside {
    val around = opened
    scopes.set(scope.filterNot(_.isClosed).toList)
    try body
    finally scopes.set(around)
  }

  /** The innermost scope of this thread. */
  private[mxnet] def getCurrentScope(): Option[ResourceScope] = opened.headOption

  /** Enters a scope on this thread. */
  private[mxnet] def addToThreadLocal(scope: ResourceScope): Unit = open(scope)

  /** Leaves a scope on this thread without closing it. */
  private[mxnet] def removeFromThreadLocal(scope: ResourceScope): Unit = leaveInnermost(scope)

  /** All native resources in a value, with those that move together with them. Visits each object once, because values
    * may be cyclic.
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

  /** The class of a result in which resources are not found although it may refer to some; null for other results. */
  private def opaqueClass(result: Any): Class[_] = result match {
    case null | () | _: java.lang.Number | _: String | _: java.lang.Boolean | _: java.lang.Character => null
    case item: AnyRef if mayHoldResources(item) || item.getClass.isArray                             => null
    case item: AnyRef                                                                                => item.getClass
    case _                                                                                           => null
  }

  private def mayHoldResources(item: AnyRef): Boolean = item match {
    case _: NativeResource | _: ResourceHolder | _: NDArrayFuncReturn                       => true
    case _: Iterable[_] | _: Array[AnyRef] | _: Product | _: JCollection[_] | _: JMap[_, _] => true
    case _: Optional[_]                                                                     => true
    case _                                                                                  => false
  }

  private def contents(item: AnyRef): Iterator[Any] = item match {
    case resource: NativeResource    => resource.companions
    case holder: ResourceHolder      => holder.heldResources
    case returned: NDArrayFuncReturn => returned.arr.iterator
    case items: Iterable[_]          => elementsOf(items)
    case items: Array[AnyRef]        => items.iterator
    case items: JCollection[_]       => items.iterator.asScala
    case items: JMap[_, _]           => items.keySet.iterator.asScala ++ items.values.iterator.asScala
    case product: Product            => product.productIterator
    case option: Optional[_]         => option.stream().iterator.asScala
    case _                           => Iterator.empty
  }

  /** A lazy collection with more elements is assumed to be infinite. */
  private val maxLazyItems = 100000

  private val strict = classOf[collection.StrictOptimizedIterableOps[Any, Iterable, Any]]

  /** The elements of a collection; an infinite one is an error. */
  private def elementsOf(items: Iterable[Any]): Iterator[Any] =
    if (strict.isInstance(items)) items.iterator
    else
      items.iterator.zipWithIndex.map { case (item, index) =>
        if (index >= maxLazyItems)
          throw new MXNetError(
            s"ResourceScope.using: the result has a lazy collection of more than $maxLazyItems elements; return a finite one"
          )
        item
      }

  /** Adds a new resource to the innermost scope of this thread, if there is one. */
  private[mxnet] def adopt(resource: NativeResource): Unit = {
    val stack = scopes.get()
    if (stack != null && stack.nonEmpty) stack.head.adopt(resource)
  }

  private def open(scope: ResourceScope): Unit = {
    scope.isClosed = false
    scopes.set(scope :: opened)
  }

  private def leave(scope: ResourceScope): Unit = scopes.set(opened.filterNot(_ eq scope))

  /** Leaves a scope once; a thread may have entered it several times. */
  private def leaveInnermost(scope: ResourceScope): Unit = {
    val (inner, rest) = opened.span(_ ne scope)
    scopes.set(inner ++ rest.drop(1))
  }

  /** The scope around this one, which the thread may have entered several times in a row. */
  private def outerOf(scope: ResourceScope): Option[ResourceScope] = {
    val stack = opened
    val outside = stack.dropWhile(_ ne scope).dropWhile(_ eq scope)
    if (stack.exists(_ eq scope)) outside.headOption else stack.headOption
  }
}
