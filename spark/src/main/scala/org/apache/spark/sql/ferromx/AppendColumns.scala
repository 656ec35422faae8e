package org.apache.spark.sql.ferromx

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.{DataFrame, Dataset}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan, Project, UnaryNode}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic
import org.apache.spark.sql.execution.{ProjectExec, SparkPlan, SparkStrategy, UnaryExecNode}
import org.apache.spark.sql.types.StructType

/** Computes new columns for the rows of a partition. It is sent to executors. */
trait PartitionFunction extends Serializable {

  /** @param rows the rows of a partition, which may share one object
    * @param ordinals the ordinals of the input columns in these rows
    * @param passThrough copies the columns of a row that are passed through
    * @return for each row, the columns that are passed through, joined with the values of the new columns
    */
  def apply(
      rows: Iterator[InternalRow],
      ordinals: Array[Int],
      passThrough: InternalRow => InternalRow
  ): Iterator[InternalRow]
}

/** Adds columns by a function on Spark's internal rows. The public interface of a `Dataset` decodes every row into boxed
  * objects, and `queryExecution.toRdd` ends the lazy plan; a plan node does neither. This file is in Spark's package
  * because the constructor of a `Dataset` from a plan is private to it.
  */
object AppendColumns {

  /** @param dataset the rows
    * @param inputs the columns that the function reads; the others are passed through
    * @param columns the new columns
    */
  def apply(dataset: Dataset[_], inputs: Seq[String], columns: StructType, function: PartitionFunction): DataFrame = {
    val frame = dataset.toDF() match {
      case local: classic.Dataset[_] => local
      case other                     =>
        throw new UnsupportedOperationException(
          s"a Dataset of the class ${other.getClass.getName} has no plan in this process; transform it on the server"
        )
    }
    val session = frame.sparkSession
    // For a session that was created before this library was on the class path, where `SessionExtensions` has no effect.
    session.experimental.synchronized {
      if (!session.experimental.extraStrategies.contains(Strategy))
        session.experimental.extraStrategies = session.experimental.extraStrategies :+ Strategy
    }
    val child = frame.queryExecution.analyzed
    val resolver = session.sessionState.conf.resolver
    val attributes = inputs.map(name =>
      child.output
        .find(attribute => resolver(attribute.name, name))
        .getOrElse(throw new IllegalArgumentException(s"there is no column '$name'"))
    )
    val produced =
      columns.map(field => AttributeReference(field.name, field.dataType, field.nullable, field.metadata)())
    // Aliases get new ids where a plan is joined with itself; produced attributes do not.
    val aliases = produced.map(attribute => Alias(attribute, attribute.name)())
    classic.Dataset.ofRows(session, Project(child.output ++ aliases, Append(function, attributes, produced, child)))
  }

  private case class Append(
      function: PartitionFunction,
      inputs: Seq[Attribute],
      produced: Seq[Attribute],
      child: LogicalPlan
  ) extends UnaryNode {
    override def output: Seq[Attribute] = child.output ++ produced
    override def producedAttributes: AttributeSet = AttributeSet(produced)
    override protected def withNewChildInternal(newChild: LogicalPlan): Append = copy(child = newChild)
  }

  private case class AppendExec(
      function: PartitionFunction,
      inputs: Seq[Attribute],
      passedThrough: Seq[Attribute],
      produced: Seq[Attribute],
      child: SparkPlan
  ) extends UnaryExecNode {
    override def nodeName: String = "MXNetModel"
    override def output: Seq[Attribute] = passedThrough ++ produced
    override def producedAttributes: AttributeSet = AttributeSet(produced)
    override def outputPartitioning = child.outputPartitioning
    override def outputOrdering = child.outputOrdering
    override protected def withNewChildInternal(newChild: SparkPlan): AppendExec = copy(child = newChild)

    override protected def doExecute(): RDD[InternalRow] = {
      // Copies, so that the closure does not reference this node.
      val (run, read, kept, attributes) = (function, child.output, passedThrough, output)
      val ordinals = inputs.map(input => read.indexWhere(_.exprId == input.exprId)).toArray
      child.execute().mapPartitions { rows =>
        run(rows, ordinals, copier(kept, read)).map(UnsafeProjection.create(attributes, attributes))
      }
    }
  }

  /** A function that copies some columns of a row, because rows may share one object. */
  private def copier(columns: Seq[Attribute], row: Seq[Attribute]): InternalRow => InternalRow =
    if (columns.isEmpty) _ => InternalRow.empty
    else if (columns == row) _.copy()
    else {
      val projection = UnsafeProjection.create(columns, row)
      projection(_).copy()
    }

  /** Filters rows by their other columns before the new columns are computed. */
  private[ferromx] object PushFilter extends Rule[LogicalPlan] with PredicateHelper {
    override def apply(plan: LogicalPlan): LogicalPlan = plan.transform {
      case filter @ Filter(condition, append: Append) =>
        val (below, above) = splitConjunctivePredicates(condition).partition { predicate =>
          predicate.deterministic && predicate.references.subsetOf(append.child.outputSet)
        }
        if (below.isEmpty) filter
        else {
          val filtered = append.copy(child = Filter(below.reduce(And), append.child))
          above.reduceOption(And).fold[LogicalPlan](filtered)(Filter(_, filtered))
        }
    }
  }

  private[ferromx] object Strategy extends SparkStrategy {
    override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
      case append: Append                       => execute(append, append.child.output) :: Nil
      case Project(expressions, append: Append) =>
        val needed = AttributeSet(expressions.flatMap(_.references))
        ProjectExec(expressions, execute(append, append.child.output.filter(needed.contains))) :: Nil
      case _ => Nil
    }

    private def execute(append: Append, passedThrough: Seq[Attribute]) =
      AppendExec(append.function, append.inputs, passedThrough, append.produced, planLater(append.child))
  }
}
