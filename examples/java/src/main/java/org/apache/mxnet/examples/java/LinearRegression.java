package org.apache.mxnet.examples.java;

import org.apache.mxnet.javaapi.Context;
import org.apache.mxnet.javaapi.NDArray;
import org.apache.mxnet.javaapi.Shape;
import org.apache.mxnet.javaapi.dotParam;

/** Fits a line to points by gradient descent, with arrays and generated operators: `sbt "runMain ...LinearRegression"`. */
public final class LinearRegression {
  private LinearRegression() {}

  /**
   * Slope and intercept that fit points best.
   *
   * @param steps number of steps of gradient descent
   * @param learningRate length of a step
   */
  public static float[] fit(float[] x, float[] y, int steps, float learningRate) {
    Context cpu = Context.cpu();
    float[] rows = new float[2 * x.length];
    for (int i = 0; i < x.length; i++) {
      rows[2 * i] = x[i];
      rows[2 * i + 1] = 1f;
    }
    try (NDArray points = new NDArray(rows, new Shape(new int[] {x.length, 2}), cpu);
        NDArray targets = new NDArray(y, new Shape(new int[] {x.length, 1}), cpu);
        NDArray weights = NDArray.zeros(cpu, new int[] {2, 1})) {
      for (int step = 0; step < steps; step++) {
        try (NDArray predicted = NDArray.dot(new dotParam(points, weights))[0];
            NDArray errors = predicted.subtract(targets);
            NDArray gradient = NDArray.dot(new dotParam(points, errors).setTranspose_a(true))[0];
            NDArray change = gradient.multiply(learningRate / x.length)) {
          weights.subtractInplace(change);
        }
      }
      return weights.toArray();
    }
  }

  public static void main(String[] args) {
    float[] line = fit(new float[] {0f, 1f, 2f, 3f}, new float[] {1f, 3f, 5f, 7f}, 500, 0.3f);
    System.out.printf("y = %.3f x + %.3f%n", line[0], line[1]);
  }
}
