package org.apache.mxnet.javaapi;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.mxnet.MXNetError;
import org.apache.mxnet.SameDiff;
import org.apache.mxnet.Symbol;
import org.apache.mxnet.UserOperator;
import org.apache.mxnet.internal.userop.JavaOperator;
import scala.Enumeration;

/**
 * A user-defined operator in Java. {@code org.apache.mxnet.UserDefinedCustomOp} is the one for Scala, and documents
 * when each method is called.
 *
 * <pre>{@code
 * @UserDefinedOp
 * public class Square extends UserDefinedCustomOp {
 *   @Override public String opName() { return "square_udf"; }
 *
 *   @Override public void exec(OpContext context) { context.map(0, 0, x -> x * x); }
 *
 *   @Override public List<Symbol> doDiff(List<Symbol> gradients) {
 *     return List.of(node("elemwise_mul", node("elemwise_add", arg(), arg()), gradients.get(0)));
 *   }
 * }
 * }</pre>
 *
 * A class needs a constructor without parameters. Its fields are saved with a graph, except transient ones. An element type is a
 * value of {@code DType}, such as {@code DType.Float32()}.
 */
public abstract class UserDefinedCustomOp implements UserOperator {
  private final JavaOperator operator;

  /** The graph that the operator was created for, or null. */
  protected SameDiff sameDiff;

  /** The inputs of the current run, read-only. During shape inference they have a shape but no elements. */
  protected List<NDArray> inputArguments;

  /** The outputs of the current run, to be written, or replaced by {@code set}, {@code add} and {@code addAll}. */
  protected List<NDArray> outputArguments;

  /** The auxiliary states of the current run. */
  protected List<NDArray> stateArguments;

  /** Without inputs; used when a graph is loaded. */
  protected UserDefinedCustomOp() {
    this(new Symbol[0]);
  }

  /** With one input. */
  protected UserDefinedCustomOp(Symbol arg) {
    this(new Symbol[] {arg});
  }

  /** With several inputs. */
  protected UserDefinedCustomOp(Symbol[] args) {
    this(null, args);
  }

  /** With one input in a graph. */
  protected UserDefinedCustomOp(SameDiff sameDiff, Symbol arg) {
    this(sameDiff, new Symbol[] {arg});
  }

  /** With several inputs in a graph; see {@code SameDiff.doUdf}. */
  protected UserDefinedCustomOp(SameDiff sameDiff, Symbol[] args) {
    this.sameDiff = sameDiff;
    this.operator = new JavaOperator(this, this::setArrays, sameDiff, args);
  }

  /** Registers the operator of a class, so that graphs that name it load. Annotated classes need no registration. */
  public static void register(Class<? extends UserDefinedCustomOp> opClass) {
    JavaOperator.register(opClass);
  }

  /** The operator of the Scala API, for functions that need one. */
  public final org.apache.mxnet.UserDefinedCustomOp asScala() {
    return operator;
  }

  /** The operator's name in graphs. It must differ from those of built-in operators and other classes. */
  @Override
  public abstract String opName();

  /** The number of inputs; -1 for any number. */
  public int getNumInputs() {
    return -1;
  }

  /** The names of {@code count} inputs. Missing inputs become variables {@code node_name}. */
  public List<String> inputNames(int count) {
    return operator.defaultInputNames(count);
  }

  /** The number of outputs; by default the number of types that {@link #calculateOutputDataTypes} returns. */
  public int getNumOutputs() {
    return operator.defaultNumOutputs();
  }

  /** The names of the auxiliary states, arrays that the operator updates in each run. They follow the inputs. */
  public List<String> stateNames() {
    return Collections.emptyList();
  }

  /** Infers the types of the outputs from those of the inputs; by default one output of the first input's type. */
  public List<Enumeration.Value> calculateOutputDataTypes(List<Enumeration.Value> dataTypes) {
    return Collections.singletonList(dataTypes.isEmpty() ? DType.Float32() : dataTypes.get(0));
  }

  /** Infers the shapes of the outputs from {@link #inputArguments}; by default that of the first input. */
  public List<Shape> calculateOutputShape() {
    if (inputArguments.isEmpty())
      throw new MXNetError(opName() + " has no inputs: override calculateOutputShape");
    return Collections.singletonList(inputArguments.get(0).shape());
  }

  /** Infers the shapes of the outputs from the inputs in the context; by default by {@link #calculateOutputShape()}. */
  public List<Shape> calculateOutputShape(OpContext context) {
    return calculateOutputShape();
  }

  /**
   * Infers unknown shapes of inputs from those of other inputs and outputs; null is an unknown shape in arguments and
   * result.
   */
  public List<Shape> inferInputShapes(List<Shape> inputs, List<Shape> outputs) {
    return inputs;
  }

  /** Infers the shapes of the auxiliary states from {@link #inputArguments}; by default scalars. */
  public List<Shape> calculateStateShapes() {
    return Collections.nCopies(stateNames().size(), new Shape(new int[] {1}));
  }

  /**
   * The properties to save, by name: booleans, numbers, strings, shapes, element types, arrays, lists, sets and
   * optionals of these, and maps with strings as keys. By default the fields of the class that are neither static nor
   * transient.
   */
  public Map<String, Object> propertiesForFunction() {
    return operator.readFields();
  }

  /** Restores the properties of {@link #propertiesForFunction}; by default sets the fields of these names. */
  public void setPropertiesForFunction(Map<String, Object> properties) {
    operator.writeFields(properties);
  }

  /** Called for each new instance once its properties and number of inputs are set. */
  public void configureFromArguments() {}

  /** Called for an instance that was applied to symbols, with the outputs of the new node. */
  public void configureWithSymbol(Symbol graph) {}

  /** Called after {@link #configureWithSymbol} for an instance that was created for, or added to, a graph. */
  public void configureWithSameDiff(SameDiff sameDiff) {
    this.sameDiff = sameDiff;
  }

  /** Whether the operator works in place: the first outputs are initialized with the first inputs. */
  public boolean isInplaceCall() {
    return false;
  }

  /**
   * The gradients of the inputs, composed from those of the outputs: one per input, null for none. Needed only for
   * training.
   */
  public List<Symbol> doDiff(List<Symbol> gradients) {
    return operator.noGradient();
  }

  /** Computes {@link #outputArguments} from {@link #inputArguments}. */
  public void exec() {
    throw new MXNetError("operator " + opName() + " computes nothing: override exec() or exec(OpContext)");
  }

  /** Computes the outputs in the context from its inputs; by default by {@link #exec()}. */
  public void exec(OpContext context) {
    exec();
  }

  /** The inputs as symbols: those of the application, or in {@link #doDiff} those of the node. */
  public final List<Symbol> args() {
    return Arrays.asList(operator.args());
  }

  /** An input as a symbol. */
  public final Symbol arg(int index) {
    return operator.arg(index);
  }

  /** The first input as a symbol. */
  public final Symbol arg() {
    return operator.arg();
  }

  /** The first input as a symbol. */
  public final Symbol larg() {
    return operator.larg();
  }

  /** The second input as a symbol. */
  public final Symbol rarg() {
    return operator.rarg();
  }

  /** The outputs as symbols, after the application or in {@link #doDiff}. */
  public final List<Symbol> outputs() {
    return Arrays.asList(operator.outputs());
  }

  /** A new node of any operator, such as {@code node("sigmoid", x)}, to compose gradients. */
  public static Symbol node(String operator, Symbol... inputs) {
    return node(operator, Collections.emptyMap(), inputs);
  }

  /** A new node of any operator with parameters, such as {@code node("clip", Map.of("a_min", 0, "a_max", 1), x)}. */
  public static Symbol node(String operator, Map<String, ?> parameters, Symbol... inputs) {
    return JavaOperator.node(operator, parameters, inputs);
  }

  /** Applies the operator to symbols. Missing inputs become variables. */
  public final Symbol apply(Symbol... symbols) {
    return operator.apply(symbols);
  }

  /** As {@link #apply}, with a name for the node. */
  public final Symbol named(String name, Symbol... symbols) {
    return operator.named(name, symbols);
  }

  /** Runs the operator on arrays, auxiliary states last; returns the outputs. */
  public final List<NDArray> invoke(NDArray... arrays) {
    return operator.invokeOn(arrays);
  }

  /** Sets the fields to the arrays of a run or of shape inference, or clears them if {@code context} is null. */
  private void setArrays(OpContext context) {
    inputArguments = context == null ? null : context.getInputArrays();
    outputArguments = context == null || !context.isRunning() ? null : context.getOutputArrays();
    stateArguments = context == null || !context.isRunning() ? null : context.getStateArrays();
  }
}
