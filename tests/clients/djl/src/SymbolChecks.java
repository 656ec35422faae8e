import ai.djl.Model;
import ai.djl.inference.Predictor;
import ai.djl.mxnet.engine.MxSymbolBlock;
import ai.djl.mxnet.engine.Symbol;
import ai.djl.ndarray.NDArray;
import ai.djl.ndarray.NDList;
import ai.djl.ndarray.NDManager;
import ai.djl.ndarray.types.DataType;
import ai.djl.ndarray.types.Shape;
import ai.djl.translate.NoopTranslator;
import ai.djl.translate.TranslateException;
import ai.djl.util.PairList;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** The network of tests/oracle/fixtures/lenet-*, which MXNet trained and saved with its outputs. */
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
        checks.check("shapes of a network are inferred", SymbolChecks::infersShapes);
        checks.check("the last layers of a network are removed", SymbolChecks::removesLayers);
        checks.check("batches of every size predict the same", SymbolChecks::predictsBatches);
        checks.check("threads predict the same", SymbolChecks::predictsInThreads);
        checks.check("names of a network", SymbolChecks::names);
        checks.check("a wrong shape is an error that names the node", SymbolChecks::refusesShapes);
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

    private static MxSymbolBlock block(Model model) {
        return (MxSymbolBlock) model.getBlock();
    }

    private static void infersShapes() throws Exception {
        try (Model model = lenet()) {
            PairList<String, Shape> input = new PairList<>();
            input.add("data", new Shape(2, 1, 8, 8));
            Map<String, Shape> shapes = block(model).getSymbol().inferShape(input);
            Checks.equal(new Shape(20, 1, 3, 3), shapes.get("conv1_weight"));
            Checks.equal(new Shape(50), shapes.get("conv2_bias"));
            Checks.equal(new Shape(128, 200), shapes.get("fc1_weight"));
            Checks.equal(new Shape(2, 10), shapes.get("softmax_output"));
        }
    }

    private static void names() throws Exception {
        try (Model model = lenet()) {
            Symbol network = block(model).getSymbol();
            Checks.equal(List.of("softmax_output"), List.of(network.getOutputNames()));
            Checks.equal("data", network.getArgNames()[0]);
            Checks.equal(0, network.getAuxNames().length);
            Checks.that(block(model).getLayerNames().contains("relu3_output"), block(model).getLayerNames().toString());
            Checks.equal(List.of("conv1_output"), List.of(network.get("conv1_output").getOutputNames()));
            Checks.that(network.toJsonString().contains("SoftmaxOutput"), network.toJsonString());
        }
    }

    private static float[] predict(Model model, NDManager manager, int first, int count) throws Exception {
        float[] pixels = new float[count * 64];
        for (int i = 0; i < pixels.length; i++) {
            pixels[i] = (first * 64 + i) % 17 / 17f;
        }
        try (Predictor<NDList, NDList> predictor = model.newPredictor(new NoopTranslator())) {
            NDList input = new NDList(manager.create(pixels, new Shape(count, 1, 8, 8)));
            return predictor.predict(input).singletonOrThrow().toFloatArray();
        }
    }

    private static void removesLayers() throws Exception {
        try (Model model = lenet(); NDManager manager = NDManager.newBaseManager("MXNet")) {
            block(model).removeLastBlock();
            block(model).removeLastBlock();
            Checks.equal(3 * 128, predict(model, manager, 0, 3).length);
        }
    }

    private static void predictsBatches() throws Exception {
        try (Model model = lenet(); NDManager manager = NDManager.newBaseManager("MXNet")) {
            float[] together = predict(model, manager, 0, 7);
            for (int i : new int[] {3, 0, 6}) {
                float[] alone = predict(model, manager, i, 1);
                for (int k = 0; k < 10; k++) {
                    Checks.near(together[i * 10 + k], alone[k]);
                }
            }
        }
    }

    private static void predictsInThreads() throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(4);
        try (Model model = lenet(); NDManager manager = NDManager.newBaseManager("MXNet")) {
            List<Future<float[]>> results = new ArrayList<>();
            for (int i = 0; i < 40; i++) {
                int first = i % 4;
                results.add(threads.submit(() -> {
                    try (NDManager own = NDManager.newBaseManager("MXNet")) {
                        return predict(model, own, first, 2);
                    }
                }));
            }
            for (int i = 0; i < results.size(); i++) {
                Checks.that(Arrays.equals(predict(model, manager, i % 4, 2), results.get(i).get()), "call " + i);
            }
        } finally {
            threads.shutdown();
        }
    }

    private static void refusesShapes() throws Exception {
        try (Model model = lenet();
                NDManager manager = NDManager.newBaseManager("MXNet");
                Predictor<NDList, NDList> predictor = model.newPredictor(new NoopTranslator())) {
            predictor.predict(new NDList(manager.zeros(new Shape(2, 3, 8, 8))));
            throw new AssertionError("no exception");
        } catch (TranslateException e) {
            Checks.that(e.getMessage().contains("conv1"), e.getMessage());
        }
    }
}
