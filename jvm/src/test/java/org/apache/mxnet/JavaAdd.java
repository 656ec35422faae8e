package org.apache.mxnet;

import java.util.Collections;

/** Addition, with every method of the design document's example. */
@UserDefinedOp
public class JavaAdd extends UserDefinedCustomOp {
  public JavaAdd() {
    super();
  }

  public JavaAdd(Symbol arg) {
    super(arg);
  }

  public JavaAdd(Symbol[] args) {
    super(args);
  }

  public JavaAdd(SameDiff sameDiff, Symbol arg) {
    super(sameDiff, arg);
  }

  public JavaAdd(SameDiff sameDiff, Symbol[] args) {
    super(sameDiff, args);
  }

  @Override
  public scala.Enumeration.Value[] calculateOutputDataTypes(scala.Enumeration.Value[] dataTypes) {
    return new scala.Enumeration.Value[] {dataTypes[0]};
  }

  @Override
  public void setPropertiesForFunction(scala.collection.immutable.Map<String, Object> properties) {}

  @Override
  public scala.collection.immutable.Map<String, Object> propertiesForFunction() {
    return scala.collection.immutable.Map$.MODULE$.empty();
  }

  @Override
  public int getNumOutputs() {
    return 1;
  }

  @Override
  public String opName() {
    return "java_add";
  }

  @Override
  public void configureFromArguments() {}

  @Override
  public void configureWithSymbol(Symbol graph) {}

  @Override
  public void configureWithSameDiff(SameDiff sameDiff) {
    this.sameDiff = sameDiff;
  }

  @Override
  public boolean isInplaceCall() {
    return false;
  }

  @Override
  public Shape[] calculateOutputShape() {
    return new Shape[] {inputArguments().get(0).shape()};
  }

  @Override
  public Shape[] calculateOutputShape(OpContext oc) {
    return new Shape[] {oc.getInputArrays().get(0).shape()};
  }

  @Override
  public Symbol[] doDiff(Symbol[] f1) {
    return new Symbol[] {f1[0], f1[0]};
  }

  @Override
  public void exec() {
    outputArguments().addAll(Collections.singletonList(inputArguments().get(0).$plus(inputArguments().get(1))));
  }

  @Override
  public void exec(OpContext opContext) {
    exec();
  }
}
