package org.apache.mxnet.annotation

import scala.annotation.StaticAnnotation

/** Marks what may change or go in a later version without notice. */
class Experimental extends StaticAnnotation
