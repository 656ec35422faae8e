package org.apache.mxnet.annotation

import scala.annotation.StaticAnnotation

/** Marks an API that may change or be removed in a later version without notice. */
class Experimental extends StaticAnnotation
