package org.apache.mxnet;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Marks a class on the class path that is used in every import of a model, unless {@link ImportOptions} exclude it: an
 * {@link ImportHook} with a constructor without parameters, or a {@link UserDefinedCustomOp}, to which the operators
 * are mapped.
 */
@Documented
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.TYPE)
public @interface ImportHookRule {
  /** Operators, with their domain unless it is that of ONNX: {@code "Gelu"}, {@code "org.example.Swirl"}. */
  String[] opNames() default {};

  /** Names of nodes. */
  String[] nodeNames() default {};
}
