package users;

import java.nio.FloatBuffer;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.apache.mxnet.Symbol;
import org.apache.mxnet.UserDefinedOp;
import org.apache.mxnet.javaapi.OpContext;
import org.apache.mxnet.javaapi.Shape;
import org.apache.mxnet.javaapi.UserDefinedCustomOp;

/** A PReLU with one slope, whose shape the operator infers, and a state that counts its runs. */
@UserDefinedOp
public class JavaPRelu extends UserDefinedCustomOp {
  @Override
  public String opName() {
    return "java_prelu";
  }

  @Override
  public int getNumInputs() {
    return 2;
  }

  @Override
  public List<String> inputNames(int count) {
    return Arrays.asList("data", "slope");
  }

  @Override
  public List<String> stateNames() {
    return Collections.singletonList("runs");
  }

  @Override
  public List<Shape> inferInputShapes(List<Shape> inputs, List<Shape> outputs) {
    Shape data = inputs.get(0) != null ? inputs.get(0) : outputs.get(0);
    return Arrays.asList(data, new Shape(new int[] {1}));
  }

  @Override
  public void exec(OpContext context) {
    FloatBuffer x = context.floatInput(0);
    FloatBuffer y = context.floatOutput(0);
    float slope = context.input(1).toArray()[0];
    for (int i = 0; i < y.capacity(); i++) {
      y.put(i, x.get(i) > 0 ? x.get(i) : slope * x.get(i));
    }
    if (context.isTrain()) {
      stateArguments.get(0).addInplace(1f);
    }
  }

  @Override
  public List<Symbol> doDiff(List<Symbol> gradients) {
    Symbol flow = gradients.get(0);
    Symbol positive = node("_greater_scalar", Collections.singletonMap("scalar", 0), larg());
    Symbol negative = node("_rminus_scalar", Collections.singletonMap("scalar", 1), positive);
    Symbol data = node("elemwise_mul", flow, node("broadcast_add", positive, node("broadcast_mul", negative, rarg())));
    Symbol slope = node("sum", node("elemwise_mul", flow, node("elemwise_mul", negative, larg())));
    return Arrays.asList(data, slope);
  }
}
