package org.apache.mxnet;

import java.nio.FloatBuffer;

/** An operator in Java: x^3 times a factor. */
@UserDefinedOp
public class JavaCube extends UserDefinedCustomOp {
  private float factor;

  public JavaCube() {
    this(1f);
  }

  public JavaCube(float factor) {
    this.factor = factor;
  }

  /** Applies the operator from Java. */
  public static Symbol of(Symbol x) {
    return new JavaCube(2f).apply(x);
  }

  /** Runs the operator on an array. */
  public static NDArray of(NDArray x) {
    return new JavaCube(1f).invoke(x).head();
  }

  @Override
  public String opName() {
    return "java_cube";
  }

  @Override
  public void exec(OpContext context) {
    FloatBuffer x = context.floatInput(0);
    FloatBuffer y = context.floatOutput(0);
    for (int i = 0; i < x.capacity(); i++) {
      y.put(i, factor * x.get(i) * x.get(i) * x.get(i));
    }
  }

  @Override
  public Symbol[] doDiff(Symbol[] gradients) {
    Symbol square = arg().$times(arg());
    return new Symbol[] {square.$times(gradients[0]).$times(3f * factor)};
  }
}
