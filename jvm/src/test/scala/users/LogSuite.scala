package users

import org.apache.mxnet._
import org.slf4j.event.Level
import org.slf4j.helpers.{BasicMarkerFactory, LegacyAbstractLogger, MessageFormatter, NOPMDCAdapter}
import org.slf4j.spi.{MDCAdapter, SLF4JServiceProvider}
import org.slf4j.{ILoggerFactory, IMarkerFactory, Marker}

/** What programs log that use an SLF4J provider: the lines of MXNet's Scala package, which scripts read. */
class LogSuite extends munit.FunSuite {
  private lazy val lines: Seq[String] = {
    val options = Seq(JavaProcess.Library, s"-Dslf4j.provider=${classOf[PrintingProvider].getName}")
    JavaProcess.run(options, "users.LoggingProgram").linesIterator.toSeq
  }

  private def logged(owner: Class[_]): Seq[String] =
    lines.collect { case line if line.startsWith(s"${owner.getName}: ") => line.stripPrefix(s"${owner.getName}: ") }

  test("Monitor logs a number for a statistic of one element, else all elements") {
    val expected = Seq("Batch: 1 product_output [2.0,6.0]", "Batch: 1 x [1.0,2.0]", "Batch: 1 y [2.0,3.0]") ++
      Seq("Batch: 2 product_output 4.0", "Batch: 2 x 1.5", "Batch: 2 y 2.5")
    assertEquals(logged(classOf[Monitor]), expected)
  }

  test("Speedometer logs speed and metric") {
    val found = logged(classOf[Callback.Speedometer])
    assertEquals(found.length, 1, lines.toString)
    val pattern = "Epoch\\[3\\] Batch \\[4\\]\tSpeed: [0-9]+\\.[0-9]{2} samples/sec\tTrain-accuracy=0\\.500000"
    assert(found.head.matches(pattern), found.head)
  }
}

/** Prints what is logged, after the name of its logger. */
class PrintingProvider extends SLF4JServiceProvider {
  override def getLoggerFactory: ILoggerFactory = new PrintingLogger(_)
  override def getMarkerFactory: IMarkerFactory = new BasicMarkerFactory
  override def getMDCAdapter: MDCAdapter = new NOPMDCAdapter
  override def getRequestedApiVersion: String = "2.0.99"
  override def initialize(): Unit = ()
}

class PrintingLogger(loggerName: String) extends LegacyAbstractLogger {
  name = loggerName
  override def isTraceEnabled: Boolean = false
  override def isDebugEnabled: Boolean = false
  override def isInfoEnabled: Boolean = true
  override def isWarnEnabled: Boolean = true
  override def isErrorEnabled: Boolean = true
  override protected def getFullyQualifiedCallerName: String = null
  override protected def handleNormalizedLoggingCall(
      level: Level,
      marker: Marker,
      message: String,
      arguments: Array[AnyRef],
      error: Throwable
  ): Unit = System.out.println(s"$name: ${MessageFormatter.basicArrayFormat(message, arguments)}")
}

object LoggingProgram {
  def main(arguments: Array[String]): Unit = {
    val product = Symbol.api.elemwise_mul(Symbol.Variable("x"), Symbol.Variable("y"), name = "product")
    val arrays = Map("x" -> NDArray.array(Array(1f, 2f), Shape(2)), "y" -> NDArray.array(Array(2f, 3f), Shape(2)))
    val executor = product.bind(Context.cpu(), arrays)
    var isMean = false
    val monitor = new Monitor(1, array => if (isMean) NDArray.mean(array) else NDArray.abs(array))
    monitor.install(executor)
    for (_ <- 1 to 2) {
      monitor.tic()
      executor.forward()
      monitor.tocPrint()
      isMean = true
    }
    val metric = new Accuracy
    metric.update(
      IndexedSeq(NDArray.array(Array(0f, 1f), Shape(2))),
      IndexedSeq(NDArray.array(Array(1f, 0f, 1f, 0f), Shape(2, 2)))
    )
    val speedometer = new Callback.Speedometer(batchSize = 10, frequent = 2)
    speedometer.invoke(3, 3, metric)
    speedometer.invoke(3, 4, metric)
  }
}
