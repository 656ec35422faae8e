import java.util.Arrays;

import org.apache.mxnet.javaapi.Context;
import org.apache.mxnet.javaapi.NDArray;
import org.apache.mxnet.javaapi.Shape;

/** A Maven user's program in Java. The argument is the module that the library must be in; without one, it must be on the class path. */
public class Main {
  public static void main(String[] arguments) {
    String module = String.valueOf(NDArray.class.getModule().getName());
    check("module", module, arguments.length == 0 ? "null" : arguments[0]);
    NDArray a = new NDArray(new float[] {1, 2, 3}, new Shape(new int[] {3}), Context.cpu());
    check("sum", Arrays.toString(a.add(a).toArray()), "[2.0, 4.0, 6.0]");
    check("operator", Arrays.toString(NDArray.square(a, null)[0].toArray()), "[1.0, 4.0, 9.0]");
    System.out.println("the library works in " + (arguments.length == 0 ? "the class path" : "module " + module));
  }

  private static void check(String name, String actual, String expected) {
    if (!actual.equals(expected)) throw new AssertionError(name + ": " + actual + " instead of " + expected);
  }
}
