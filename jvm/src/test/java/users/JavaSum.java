package users;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.mxnet.SameDiff;
import org.apache.mxnet.Symbol;
import org.apache.mxnet.UserDefinedOp;
import org.apache.mxnet.javaapi.NDArray;
import org.apache.mxnet.javaapi.OpContext;
import org.apache.mxnet.javaapi.Shape;
import org.apache.mxnet.javaapi.UserDefinedCustomOp;
import scala.Enumeration;

/** A sum, with every method of the example in the design document. */
@UserDefinedOp
public class JavaSum extends UserDefinedCustomOp {
  public JavaSum() {
    super();
  }

  public JavaSum(SameDiff sameDiff, Symbol arg) {
    super(sameDiff, arg);
  }

  public JavaSum(SameDiff sameDiff, Symbol[] args) {
    super(sameDiff, args);
  }

  @Override
  public List<Enumeration.Value> calculateOutputDataTypes(List<Enumeration.Value> dataTypes) {
    return Arrays.asList(dataTypes.get(0));
  }

  @Override
  public void setPropertiesForFunction(Map<String, Object> properties) {}

  @Override
  public Map<String, Object> propertiesForFunction() {
    return Collections.emptyMap();
  }

  @Override
  public int getNumOutputs() {
    return 1;
  }

  @Override
  public String opName() {
    return "java_sum";
  }

  @Override
  public void configureFromArguments() {}

  @Override
  public void configureWithSameDiff(SameDiff sameDiff) {
    this.sameDiff = sameDiff;
  }

  @Override
  public boolean isInplaceCall() {
    return false;
  }

  @Override
  public List<Shape> calculateOutputShape() {
    return Arrays.asList(inputArguments.get(0).shape());
  }

  @Override
  public List<Shape> calculateOutputShape(OpContext context) {
    return Arrays.asList(context.getInputArrays().get(0).shape());
  }

  @Override
  public List<Symbol> doDiff(List<Symbol> gradients) {
    return Arrays.asList(gradients.get(0), gradients.get(0));
  }

  @Override
  public void exec() {
    NDArray[] sum = NDArray.elemwise_add(inputArguments.get(0), inputArguments.get(1), null);
    outputArguments.addAll(Arrays.asList(sum));
  }

  @Override
  public void exec(OpContext context) {
    exec();
  }

  /** The graph that the operator was created for. */
  public SameDiff graph() {
    return sameDiff;
  }
}
