package org.apache.mxnet;

/** The graph of an operator; a Java class, so that Java code can set the field. */
abstract class SameDiffMember {

  /** The graph that the operator was created for, or null. */
  protected SameDiff sameDiff;
}
