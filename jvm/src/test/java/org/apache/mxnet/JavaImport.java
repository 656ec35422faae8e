package org.apache.mxnet;

/** An import with hooks, as Java does it. */
public final class JavaImport {
  private JavaImport() {}

  /** Doubles what comes in. */
  private static final class Twice extends ImportHook {
    @Override
    public Symbol[] before(ModelNode node) {
      return new Symbol[] {node.input(0).$times((float) node.number("power"))};
    }
  }

  /** The limits of an old Clip as attributes are what version 6 has. */
  private static final class OldClip extends ImportHook {
    @Override
    public ModelNode prepare(ModelNode node) {
      return node.withOpset(6);
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
