package org.apache.mxnet.module
package internal

import org.apache.mxnet._
import org.apache.mxnet.internal.util.FieldState
import org.apache.mxnet.optimizer._

/** A serializable form of an optimizer of this library: its class, its numbers and its learning rate schedule. The
  * states of parameters belong to the updater and are not included.
  */
private[mxnet] object OptimizerContent {
  private val makers: Map[String, () => Optimizer] = Seq[() => Optimizer](
    () => new AdaDelta(),
    () => new AdaGrad(),
    () => new Adam(),
    () => new DCASGD(),
    () => new NAG(),
    () => new RMSProp(),
    () => new SGD(),
    () => new SGLD()
  ).map(make => make().getClass.getName -> make).toMap

  /** The values for [[restore]]. */
  def of(optimizer: Optimizer): Map[String, Any] = {
    maker(optimizer.getClass.getName)
    val scheduler = FieldState.referenced(optimizer, classOf[LRScheduler]).headOption
    Map(
      "class" -> optimizer.getClass.getName,
      "fields" -> FieldState.readAll(optimizer),
      "parameters" -> optimizer.parameterSettings,
      "scheduler" -> scheduler.map(schedulerFields)
    )
  }

  /** A new optimizer from the result of [[of]]. */
  def restore(content: Map[String, Any]): Optimizer = {
    val optimizer = maker(String.valueOf(content.getOrElse("class", "?")))()
    content.get("scheduler").foreach {
      case Some(fields) =>
        val scheduler = new FactorScheduler(1, 0.5f)
        FieldState.write(scheduler, named(fields))
        FieldState.setReferenced(optimizer, classOf[LRScheduler], scheduler)
      case _ =>
    }
    content.get("parameters").foreach(settings => optimizer.restoreParameterSettings(named(settings)))
    content.get("fields").foreach(fields => FieldState.write(optimizer, named(fields)))
    optimizer
  }

  private def schedulerFields(scheduler: LRScheduler): Map[String, Any] = {
    if (scheduler.getClass != classOf[FactorScheduler])
      throw new MXNetError(
        s"JavaSerializer: the schedule ${scheduler.getClass.getName} cannot be written: only a FactorScheduler can; " +
          "create the optimizer where it is used"
      )
    FieldState.readAll(scheduler)
  }

  private def maker(name: String): () => Optimizer = makers.getOrElse(
    name,
    throw new MXNetError(
      s"JavaSerializer: the optimizer $name is none of ${makers.keys.toSeq.sorted.mkString(", ")}, and no other can be " +
        "written or read; create it where it is used"
    )
  )

  private def named(values: Any): Map[String, Any] = values match {
    case map: collection.Map[_, _] => map.collect { case (name: String, value) => name -> value }.toMap
    case other                     =>
      throw new MXNetError(s"JavaSerializer: the optimizer has $other where a map is expected; the bytes are damaged")
  }
}
