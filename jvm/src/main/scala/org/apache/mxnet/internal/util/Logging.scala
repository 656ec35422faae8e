package org.apache.mxnet
package internal.util

import org.slf4j.helpers.NOPLogger
import org.slf4j.spi.SLF4JServiceProvider
import org.slf4j.{Logger, LoggerFactory}

/** Where the library logs: to the slf4j provider of the application, and nowhere, without slf4j's complaint, if there
  * is none.
  */
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
