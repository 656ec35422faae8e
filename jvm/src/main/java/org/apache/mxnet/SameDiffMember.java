package org.apache.mxnet;

/** What an operator knows of the graph that it was made for; a Java class, so that Java code can set the field. */
abstract class SameDiffMember {

  /** The graph that the operator was made for, or null. */
  protected SameDiff sameDiff;
}
