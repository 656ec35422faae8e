package org.apache.mxnet;

/**
 * A user-defined operator of either language: {@link UserDefinedCustomOp} in Scala, {@code javaapi.UserDefinedCustomOp} in
 * Java. Programs extend one of these classes.
 */
public interface UserOperator {
  /** The operator's name in graphs. */
  String opName();
}
