package users;

import java.util.List;
import org.apache.mxnet.Symbol;
import org.apache.mxnet.UserDefinedOp;
import org.apache.mxnet.javaapi.OpContext;
import org.apache.mxnet.javaapi.UserDefinedCustomOp;

/** The operator of docs/user-defined-operators.md. */
@UserDefinedOp
public class JavaSwish extends UserDefinedCustomOp {
  private double beta = 1;

  public JavaSwish() {}

  public JavaSwish(double beta) {
    this.beta = beta;
  }

  @Override
  public String opName() {
    return "java_swish";
  }

  @Override
  public void exec(OpContext context) {
    context.map(0, 0, x -> x / (1 + Math.exp(-beta * x)));
  }

  @Override
  public List<Symbol> doDiff(List<Symbol> gradients) {
    Symbol scaled = arg().$times(beta);
    Symbol s = node("sigmoid", scaled);
    Symbol slope =
        node("elemwise_add", s, node("elemwise_mul", scaled, node("elemwise_mul", s, node("sigmoid", scaled.$times(-1f)))));
    return List.of(node("elemwise_mul", gradients.get(0), slope));
  }
}
