package org.apache.mxnet

import java.util.{Collections, IdentityHashMap}

import scala.jdk.CollectionConverters._

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
    val before = resource.scope
    if (before != null && (before ne this)) before.remove(resource)
    synchronized(resources.add(resource))
    resource.scope = this
  }

  /** Whether a resource is in this scope. */
  def contains(resource: NativeResource): Boolean = synchronized(resources.contains(resource))

  /** Takes a resource out: it will not be freed with this scope. */
  def remove(resource: NativeResource): Unit = {
    synchronized(resources.remove(resource))
    if (resource.scope eq this) resource.scope = null
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
  private val scopes: ThreadLocal[List[ResourceScope]] = ThreadLocal.withInitial(() => Nil)

  /** Runs `body` in a scope and closes the scope. Resources in the result (also those in collections, options, tuples
    * and case classes) move to the scope around it.
    *
    * @param scope the scope to use; null is a new one
    */
  def using[A](scope: ResourceScope = null)(body: => A): A = {
    val current = if (scope != null) scope else new ResourceScope
    if (!scopes.get().exists(_ eq current)) open(current)
    try {
      val result = body
      resourcesIn(result).foreach(current.moveToOuterScope)
      result
    } finally current.close()
  }

  /** Every native resource in a value, with those that live together with it. */
  private[mxnet] def resourcesIn(value: Any): Iterator[NativeResource] = value match {
    case resource: NativeResource    => Iterator.single(resource) ++ resource.companions.flatMap(resourcesIn)
    case returned: NDArrayFuncReturn => returned.arr.iterator
    case map: Map[_, _]              => map.iterator.flatMap(resourcesIn)
    case items: Iterable[_]          => items.iterator.flatMap(resourcesIn)
    case items: Array[AnyRef]        => items.iterator.flatMap(resourcesIn)
    case product: Product            => product.productIterator.flatMap(resourcesIn)
    case _                           => Iterator.empty
  }

  /** Puts a new resource into the innermost scope of this thread, if there is one. */
  private[mxnet] def adopt(resource: NativeResource): Unit = scopes.get() match {
    case innermost :: _ => innermost.add(resource)
    case Nil            =>
  }

  private def open(scope: ResourceScope): Unit = scopes.set(scope :: scopes.get())

  private def leave(scope: ResourceScope): Unit = scopes.set(scopes.get().filterNot(_ eq scope))

  private def outerOf(scope: ResourceScope): Option[ResourceScope] = {
    val stack = scopes.get()
    val outside = stack.dropWhile(_ ne scope).drop(1)
    if (stack.exists(_ eq scope)) outside.headOption else stack.headOption
  }
}
