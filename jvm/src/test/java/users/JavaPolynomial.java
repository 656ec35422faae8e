package users;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.mxnet.Symbol;
import org.apache.mxnet.UserDefinedOp;
import org.apache.mxnet.javaapi.OpContext;
import org.apache.mxnet.javaapi.UserDefinedCustomOp;

/** A polynomial, with fields of Java's types for its coefficients and options. */
@UserDefinedOp
public class JavaPolynomial extends UserDefinedCustomOp {
  private List<Float> coefficients = new ArrayList<>();
  private Optional<Double> scale = Optional.empty();
  private Map<String, Integer> limits = new HashMap<>();
  private Set<String> tags = new LinkedHashSet<>();
  private transient double cached;

  public JavaPolynomial() {}

  public JavaPolynomial(Double scale, Float... coefficients) {
    this.coefficients = Arrays.asList(coefficients);
    this.scale = Optional.ofNullable(scale);
    limits.put("degree", coefficients.length - 1);
    tags.add("exact");
  }

  @Override
  public String opName() {
    return "java_polynomial";
  }

  @Override
  public int getNumInputs() {
    return 1;
  }

  @Override
  public void configureFromArguments() {
    cached = scale.orElse(1.0);
  }

  /** The restored fields as text. */
  public static String described(Map<String, Object> properties) {
    return "" + properties.get("coefficients") + properties.get("scale") + properties.get("limits") + properties.get("tags");
  }

  private double value(List<Float> of, double x) {
    double sum = 0;
    for (int i = of.size() - 1; i >= 0; i--) {
      sum = sum * x + of.get(i);
    }
    return cached * sum;
  }

  @Override
  public void exec(OpContext context) {
    context.map(0, 0, x -> value(coefficients, x));
  }

  @Override
  public List<Symbol> doDiff(List<Symbol> gradients) {
    Float[] derivative = new Float[Math.max(1, coefficients.size() - 1)];
    derivative[0] = 0f;
    for (int i = 1; i < coefficients.size(); i++) {
      derivative[i - 1] = i * coefficients.get(i);
    }
    Symbol slope = new JavaPolynomial(scale.orElse(null), derivative).apply(arg());
    return Collections.singletonList(node("elemwise_mul", slope, gradients.get(0)));
  }
}
