package org.apache.mxnet

import org.apache.mxnet.internal.util.PerThread

/** Attributes for every symbol that is created within a scope, such as `ctx_group`.
  *
  * @param attr the attributes; null for none
  */
private[mxnet] class AttrScope(attr: Map[String, String] = null) {
  private val attributes: Map[String, String] = Option(attr).getOrElse(Map.empty)

  /** The attributes of this scope and those given by the user, which take precedence. */
  def get(userDefinedAttr: Option[Map[String, String]]): Map[String, String] =
    userDefinedAttr.filter(_ != null).fold(attributes)(attributes ++ _)

  /** Runs `body` in this scope, which inherits from the scopes around it. */
  def withScope[T](body: => T): T = {
    val outer = AttrScope.scoped.get()
    AttrScope.scoped.set(new AttrScope(outer.attributes ++ attributes))
    try body
    finally AttrScope.scoped.set(outer)
  }
}

private[mxnet] object AttrScope {
  private val scoped = new PerThread[AttrScope](new AttrScope)

  /** The innermost scope of this thread. */
  def current: AttrScope = scoped.get()

  def apply(attr: Map[String, String] = null): AttrScope = new AttrScope(attr)
}
