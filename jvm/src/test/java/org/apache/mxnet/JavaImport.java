package org.apache.mxnet;

import java.util.List;
import java.util.Map;
import org.apache.mxnet.javaapi.Context;
import org.apache.mxnet.javaapi.NDArray;
import org.apache.mxnet.javaapi.Shape;
import users.JavaPolynomial;

/** Imports models with hooks, from Java. */
public final class JavaImport {
  private JavaImport() {}

  /** Doubles its input. */
  private static final class Twice extends ImportHook {
    @Override
    public Symbol[] before(ModelNode node) {
      return new Symbol[] {node.input(0).$times((float) node.number("power"))};
    }
  }

  /** Treats a Clip whose limits are attributes as one of version 6. */
  private static final class OldClip extends ImportHook {
    @Override
    public ModelNode prepare(ModelNode node) {
      return node.withOpset(6);
    }
  }

  /** Exports and imports a network of a JavaPolynomial, and evaluates it at 0, 1 and 2. */
  public static float[] exportedAndRun(Symbol symbol, String file) {
    ExportOptions options =
        new ExportOptions()
            .withInput("x", new Shape(new int[] {3}).shape())
            .onOperator("java_polynomial", new WithoutMap());
    Onnx.exportModel(symbol, scala.collection.immutable.Map$.MODULE$.empty(), file, options);
    ImportedModel model =
        Onnx.importModel(
            file, new ImportOptions().userOperator("org.example.Polynomial", JavaPolynomial.class));
    Executor executor = model.bind(Context.cpu(), Map.of("x", new Shape(new int[] {3})));
    executor.argDict().apply("x").set(new float[] {0, 1, 2});
    executor.forward();
    GradCheck.apply(new JavaPolynomial(2.0, 1f, 3f), List.of(NDArray.ones(Context.cpu(), new int[] {2})))
        .orThrow();
    return executor.outputs()[0].toArray();
  }

  /** Writes the operator without its map, which cannot be an attribute. */
  private static final class WithoutMap extends ExportHook {
    @Override
    public ModelNode write(ModelNode node) {
      return node.withOperator("org.example", "Polynomial").withoutAttribute("limits").withInputs("x");
    }
  }

  /** Imports hooks.onnx. */
  public static ImportedModel of(String path) {
    ImportOptions options =
        new ImportOptions()
            .userOperator("org.example.TestScale", org.apache.mxnet.udf.Scale.class)
            .onOperator("org.example.Squash", new Twice())
            .onNode("clip", new OldClip())
            .skip("Relu");
    return Onnx.importModel(path, options);
  }
}
