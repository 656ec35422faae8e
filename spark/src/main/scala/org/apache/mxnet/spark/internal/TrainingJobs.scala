package org.apache.mxnet.spark.internal

import java.util.UUID
import java.util.concurrent.atomic.AtomicReference

import scala.util.control.NonFatal

import org.apache.mxnet.MXNetError
import org.apache.mxnet.spark.TrainingProgress
import org.apache.spark.sql.ferromx.DriverMessages
import org.apache.spark.{SparkContext, SparkException}
import org.slf4j.Logger

/** The jobs of a training on the driver: what their tasks report, and how they end.
  *
  * @param uid the estimator, for messages
  */
private[mxnet] final class TrainingJobs(context: SparkContext, uid: String, log: Logger) {

  /** The name of the endpoint for messages of tasks, and the tag of the jobs. */
  val messages: String = s"ferromx-${UUID.randomUUID()}"

  private val failure = new AtomicReference[TrainingFailure]

  /** Runs jobs. An error that repeating a task cannot avoid ends them at once. */
  def run[A](jobs: => A): A = {
    context.addJobTag(messages)
    try DriverMessages.during(context, messages)(handle)(jobs)
    catch {
      case NonFatal(_) if failure.get != null => throw failure.get.error(uid)
    } finally context.removeJobTag(messages)
  }

  private def handle(message: Any): Unit = message match {
    case progress: TrainingProgress =>
      log.info(s"$uid: ${progress.line}")
      DriverMessages.post(context, progress)
    case text: String              => log.info(s"$uid: $text")
    case reported: TrainingFailure =>
      // Other tasks may fail for the same reason, or because this one does.
      if (failure.compareAndSet(null, reported)) context.cancelJobsWithTag(messages, reported.text)
    case other => log.warn(s"$uid: a worker sent an unexpected message: $other")
  }
}

/** An error of a task that would occur in every attempt, for example because of a row or a setting.
  *
  * @param stack the stack of the task
  */
private[mxnet] final case class TrainingFailure(text: String, stack: Array[StackTraceElement]) {
  def error(uid: String): SparkException = {
    val cause = new IllegalArgumentException(text)
    cause.setStackTrace(stack)
    new SparkException(s"$uid: $text", cause)
  }
}

private[mxnet] object TrainingFailure {

  /** Runs a part of a task and tells the driver of an error that would occur in every attempt. Other errors, such as those of
    * the connections between workers, are left to Spark, which repeats the stage.
    *
    * @param messages the driver's endpoint
    */
  def reported[A](messages: String)(body: => A): A =
    try body
    catch {
      case error: RuntimeException if isFinal(error) =>
        DriverMessages.send(messages, TrainingFailure(textOf(error), error.getStackTrace))
        throw error
    }

  private def isFinal(error: RuntimeException): Boolean = error match {
    // Mostly of the store, about other workers.
    case _: MXNetError                                                                                    => false
    case _: IllegalArgumentException | _: UnsupportedOperationException | _: ArithmeticException          => true
    case _: ClassCastException | _: IndexOutOfBoundsException | _: NoSuchElementException | _: MatchError => true
    case _                                                                                                => false
  }

  private def textOf(error: RuntimeException): String = error match {
    case argument: IllegalArgumentException if argument.getMessage != null => argument.getMessage
    case other                                                             => other.toString
  }
}
