import ai.djl.Model;
import ai.djl.inference.Predictor;
import ai.djl.mxnet.engine.MxSymbolBlock;
import ai.djl.ndarray.NDArray;
import ai.djl.ndarray.NDList;
import ai.djl.ndarray.NDManager;
import ai.djl.ndarray.types.DataType;
import ai.djl.ndarray.types.Shape;
import ai.djl.translate.NoopTranslator;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;

/** The network of tests/oracle/fixtures/lenet-*, which MXNet trained and saved, and whose outputs it wrote down. */
final class SymbolChecks {
    private static final Path FIXTURES = Path.of("tests/oracle/fixtures");
    private static final int EXAMPLES = 297;
    private final Checks checks;

    SymbolChecks(Checks checks) {
        this.checks = checks;
    }

    void run() {
        checks.check("a network in MXNet's files predicts what MXNet predicts", SymbolChecks::predicts);
        checks.check("a network in MXNet's files is described", SymbolChecks::described);
    }

    private static Model lenet() throws Exception {
        Model model = Model.newInstance("lenet", "MXNet");
        model.load(FIXTURES, "lenet", Map.of("epoch", "30"));
        return model;
    }

    private static void predicts() throws Exception {
        byte[] expected = Files.readAllBytes(FIXTURES.resolve("expected.bin"));
        float[] pixels = new float[EXAMPLES * 64];
        for (int i = 0; i < pixels.length; i++) {
            pixels[i] = (expected[i] & 255) / 255f;
        }
        float[] probabilities = new float[EXAMPLES * 10];
        ByteBuffer.wrap(expected).order(ByteOrder.LITTLE_ENDIAN).position(20196).slice().order(ByteOrder.LITTLE_ENDIAN)
                .asFloatBuffer().get(probabilities);
        try (Model model = lenet();
                NDManager manager = NDManager.newBaseManager("MXNet");
                Predictor<NDList, NDList> predictor = model.newPredictor(new NoopTranslator())) {
            NDArray data = manager.create(pixels, new Shape(EXAMPLES, 1, 8, 8));
            data.setName("data");
            float[] actual = predictor.predict(new NDList(data)).singletonOrThrow().toFloatArray();
            Checks.equal(probabilities.length, actual.length);
            for (int i = 0; i < actual.length; i++) {
                Checks.that(Math.abs(actual[i] - probabilities[i]) < 1e-4,
                        "probability " + i + " is " + actual[i] + ", MXNet's is " + probabilities[i]);
            }
        }
    }

    private static void described() throws Exception {
        try (Model model = lenet()) {
            List<String> parameters = model.getBlock().getParameters().keys();
            Checks.that(parameters.stream().anyMatch(name -> name.contains("weight")), parameters.toString());
            Checks.equal(DataType.FLOAT32, model.getDataType());
            try (NDManager manager = NDManager.newBaseManager("MXNet");
                    Predictor<NDList, NDList> predictor = model.newPredictor(new NoopTranslator())) {
                predictor.predict(new NDList(manager.zeros(new Shape(5, 1, 8, 8))));
            }
            Checks.equal(new Shape(5, 10), ((MxSymbolBlock) model.getBlock()).describeOutput().valueAt(0));
        }
    }
}
