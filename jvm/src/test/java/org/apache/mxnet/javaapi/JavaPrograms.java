package org.apache.mxnet.javaapi;

import java.util.Arrays;
import java.util.List;
import org.apache.mxnet.infer.javaapi.ObjectDetector;
import org.apache.mxnet.infer.javaapi.Predictor;

/** Java programs, whose results JavaApiSuite checks. */
public final class JavaPrograms {
  private JavaPrograms() {}

  private static NDArray vector(float... values) {
    return new NDArray(values, new Shape(new int[] {values.length}), Context.cpu());
  }

  /** Arithmetic of arrays with arrays and numbers. */
  public static float[] arithmetic() {
    NDArray x = vector(1f, 2f, 3f);
    NDArray sum = x.add(vector(10f, 20f, 30f)).multiply(2f).subtract(1.0);
    sum.divInplace(vector(1f, 1f, 2f));
    return sum.toArray();
  }

  /** Comparisons by methods of arrays, and by a static function. */
  public static float[] comparisons() {
    NDArray x = vector(1f, 2f, 3f);
    NDArray both = x.greater(1f).add(x.lesserEqual(vector(1f, 1f, 3f)));
    return both.add(NDArray.equal(x, 3f)).toArray();
  }

  /** A function with all arguments, where null means absent. */
  public static float[] activation() {
    NDArray x = vector(-1f, 2f);
    NDArray out = NDArray.zeros(Context.cpu(), new int[] {2});
    NDArray[] same = NDArray.Activation(x, "relu", out);
    NDArray sigmoid = NDArray.Activation(vector(0f), "sigmoid", null)[0];
    return new float[] {out.toArray()[1], sigmoid.toScalar(), same[0] == out ? 1f : 0f};
  }

  /** A function that takes its arguments as an object. */
  public static float[] parameters() {
    NDArray a = new NDArray(Arrays.asList(1f, 2f, 3f, 4f), new Shape(new int[] {2, 2}), Context.cpu());
    NDArray result = NDArray.dot(new dotParam(a, a).setTranspose_b(true))[0];
    NDArray norm = NDArray.norm(new normParam(a).setAxis(new Shape(new int[] {1})).setOrd(1))[0];
    NDArray out = NDArray.zeros(Context.cpu(), new int[] {2, 2});
    NDArray.dot(new dotParam(a, a).setOut(out));
    return new float[] {result.toArray()[3], norm.toArray()[1], out.toArray()[0]};
  }

  /** Functions without the inputs that their settings make unnecessary. */
  public static float[] withoutConditionalInputs() {
    NDArray x = new NDArray(new float[] {1f, 1f}, new Shape(new int[] {1, 2}), Context.cpu());
    NDArray softmax = NDArray.softmax(new softmaxParam(x))[0];
    NDArray dense = NDArray.FullyConnected(new FullyConnectedParam(x, x, 1).setNo_bias(true))[0];
    NDArray leaky = NDArray.LeakyReLU(new LeakyReLUParam(vector(-1f)).setAct_type("leaky").setSlope(0.5f))[0];
    return new float[] {softmax.toArray()[0], dense.toArray()[0], leaky.toArray()[0]};
  }

  /** A function of any number of arrays, and one with several outputs. */
  public static float[] several() {
    NDArray sum = NDArray.add_n(new NDArray[] {vector(1f, 2f), vector(3f, 4f), vector(5f, 6f)}, null)[0];
    NDArray[] halves = NDArray.split(new splitParam(sum, 2).setAxis(0));
    return new float[] {halves.length, halves[0].toArray()[0], halves[1].toArray()[0]};
  }

  /** Shapes, views and conversions. */
  public static List<Object> shapes() {
    NDArray x = NDArray.arange(0f, 6f, 1f, 1, Context.cpu(), DType.Float64());
    NDArray matrix = x.reshape(new int[] {2, 3});
    return Arrays.asList(
        matrix.shape().toString(),
        matrix.at(1).toFloat64Array()[0],
        matrix.T().shape().get(0),
        matrix.slice(0, 1).size(),
        matrix.asType(DType.Int32()).dtype().toString(),
        matrix.context().deviceType(),
        new Shape(Arrays.asList(2, 3)).equals(matrix.shape()),
        DataDesc.getBatchAxis("TN"));
  }

  /** The error message for null instead of an array. */
  public static String missing() {
    return error(() -> NDArray.dot(new dotParam(null, vector(1f))));
  }

  /** The error messages for a null array, shape, list, or element of a list. */
  public static List<String> nulls() {
    NDArray x = vector(1f);
    DataDesc[] described = {null};
    List<Context> cpu = Arrays.asList(Context.cpu());
    return Arrays.asList(
        error(() -> x.add((NDArray) null)),
        error(() -> NDArray.power(x, (NDArray) null)),
        error(() -> x.set((NDArray) null)),
        error(() -> NDArray.dot((dotParam) null)),
        error(() -> new DataDesc(null, new Shape(new int[] {1}), DType.Float32(), "N")),
        error(() -> new NDArray(new float[] {1f}, null, Context.cpu())),
        error(() -> new Shape((List<Integer>) null)),
        error(() -> new Shape(Arrays.asList(1, null))),
        error(() -> new Predictor("unused", null, cpu, 0)),
        error(() -> new Predictor("unused", Arrays.asList(described), cpu, 0)),
        error(() -> new ObjectDetector("unused", Arrays.asList(described), cpu, 0)));
  }

  private static String error(Runnable call) {
    try {
      call.run();
      return "no error";
    } catch (org.apache.mxnet.MXNetError e) {
      return e.getMessage();
    }
  }
}
