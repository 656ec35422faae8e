package org.apache.mxnet
package internal.util

import org.slf4j.helpers.NOPLogger
import org.slf4j.spi.SLF4JServiceProvider
import org.slf4j.{Logger, LoggerFactory}

/** Logs to the SLF4J provider of the application; without a provider, logs nothing and avoids SLF4J's warning. */
private[mxnet] object Logging {
  private lazy val hasProvider: Boolean = {
    val services = s"META-INF/services/${classOf[SLF4JServiceProvider].getName}"
    System.getProperty("slf4j.provider") != null || classOf[Logger].getClassLoader.getResource(services) != null
  }

  /** The logger of a class. */
  def of(owner: Class[_]): Logger = of(owner.getName)

  /** The logger of a name. */
  def of(name: String): Logger = if (hasProvider) LoggerFactory.getLogger(name) else NOPLogger.NOP_LOGGER
}
