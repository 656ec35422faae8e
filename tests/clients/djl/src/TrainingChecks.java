import ai.djl.Model;
import ai.djl.engine.Engine;
import ai.djl.ndarray.NDArray;
import ai.djl.ndarray.NDList;
import ai.djl.ndarray.NDManager;
import ai.djl.ndarray.types.DataType;
import ai.djl.ndarray.types.Shape;
import ai.djl.nn.Activation;
import ai.djl.nn.Block;
import ai.djl.nn.Blocks;
import ai.djl.nn.Parameter;
import ai.djl.nn.SequentialBlock;
import ai.djl.nn.convolutional.Conv2d;
import ai.djl.nn.core.Linear;
import ai.djl.nn.norm.BatchNorm;
import ai.djl.nn.norm.Dropout;
import ai.djl.nn.pooling.Pool;
import ai.djl.nn.recurrent.LSTM;
import ai.djl.training.DefaultTrainingConfig;
import ai.djl.training.EasyTrain;
import ai.djl.training.Trainer;
import ai.djl.training.dataset.ArrayDataset;
import ai.djl.training.dataset.Batch;
import ai.djl.training.evaluator.Accuracy;
import ai.djl.training.initializer.XavierInitializer;
import ai.djl.training.loss.Loss;
import ai.djl.training.optimizer.Optimizer;
import ai.djl.training.tracker.Tracker;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.stream.Stream;

/** Trains three networks on data/digits, and saves and loads them. */
final class TrainingChecks {
    private static final Path DIGITS = Path.of("data/digits");
    private static final int SIZE = 8;
    private final Checks checks;

    TrainingChecks(Checks checks) {
        this.checks = checks;
    }

    void run() {
        checks.check("a perceptron learns", () -> learns("mlp", perceptron(), new Shape(1, SIZE * SIZE), 12, 0.89));
        checks.check("a convolutional network learns", () -> learns("cnn", convolutions(), new Shape(1, 1, SIZE, SIZE), 6, 0.9));
        checks.check("a recurrent network learns", () -> learns("lstm", recurrent(), new Shape(1, SIZE, SIZE), 10, 0.85));
    }

    private static Block perceptron() {
        return new SequentialBlock()
                .add(Linear.builder().setUnits(64).build())
                .add(Activation::relu)
                .add(Dropout.builder().optRate(0.1f).build())
                .add(Linear.builder().setUnits(10).build());
    }

    private static Block convolutions() {
        return new SequentialBlock()
                .add(Conv2d.builder().setKernelShape(new Shape(3, 3)).optPadding(new Shape(1, 1)).setFilters(8).build())
                .add(BatchNorm.builder().build())
                .add(Activation::relu)
                .add(Pool.maxPool2dBlock(new Shape(2, 2), new Shape(2, 2)))
                .add(Conv2d.builder().setKernelShape(new Shape(3, 3)).setFilters(16).build())
                .add(Activation::tanh)
                .add(Blocks.batchFlattenBlock())
                .add(Linear.builder().setUnits(10).build());
    }

    private static Block recurrent() {
        return new SequentialBlock()
                .add(LSTM.builder().setStateSize(32).setNumLayers(1).optReturnState(false).build())
                .add(Blocks.batchFlattenBlock())
                .add(Linear.builder().setUnits(10).build());
    }

    private static byte[] content(String name, int header) throws IOException {
        byte[] all = Files.readAllBytes(DIGITS.resolve(name));
        return java.util.Arrays.copyOfRange(all, header, all.length);
    }

    private static ArrayDataset digits(NDManager manager, String prefix, Shape example) throws IOException {
        byte[] pixels = content(prefix + "-images-idx3-ubyte", 16);
        byte[] digits = content(prefix + "-labels-idx1-ubyte", 8);
        float[] images = new float[pixels.length];
        for (int i = 0; i < pixels.length; i++) {
            images[i] = (pixels[i] & 255) / 255f;
        }
        float[] labels = new float[digits.length];
        for (int i = 0; i < digits.length; i++) {
            labels[i] = digits[i];
        }
        Shape shape = new Shape(digits.length).addAll(example.slice(1));
        return new ArrayDataset.Builder()
                .setData(manager.create(images, shape))
                .optLabels(manager.create(labels))
                .setSampling(50, true)
                .build();
    }

    private static double accuracy(Trainer trainer, ArrayDataset test) throws Exception {
        long right = 0;
        long all = 0;
        for (Batch batch : trainer.iterateDataset(test)) {
            NDArray predicted = trainer.evaluate(batch.getData()).singletonOrThrow().argMax(1);
            NDArray label = batch.getLabels().singletonOrThrow().toType(DataType.INT64, false);
            right += predicted.eq(label).toType(DataType.INT64, false).sum().getLong();
            all += label.size();
            batch.close();
        }
        return (double) right / all;
    }

    private static void learns(String name, Block block, Shape input, int epochs, double enough) throws Exception {
        Engine.getEngine("MXNet").setRandomSeed(42);
        DefaultTrainingConfig config = new DefaultTrainingConfig(Loss.softmaxCrossEntropyLoss())
                .optInitializer(new XavierInitializer(), Parameter.Type.WEIGHT)
                .optOptimizer(Optimizer.adam().optLearningRateTracker(Tracker.fixed(0.005f)).build())
                .addEvaluator(new Accuracy());
        Path folder = Files.createTempDirectory("djl-client");
        try (Model model = Model.newInstance(name, "MXNet")) {
            model.setBlock(block);
            float[] before;
            try (Trainer trainer = model.newTrainer(config)) {
                trainer.initialize(input);
                NDManager manager = trainer.getManager();
                ArrayDataset test = digits(manager, "t10k", input);
                EasyTrain.fit(trainer, epochs, digits(manager, "train", input), null);
                double reached = accuracy(trainer, test);
                System.out.println(name + ": test accuracy " + reached);
                Checks.that(reached >= enough, "the accuracy is " + reached + ", expected " + enough);
                before = predict(trainer.getModel(), manager, input);
            }
            model.save(folder, name);
            try (Model loaded = Model.newInstance(name, "MXNet")) {
                loaded.setBlock(block.getClass() == SequentialBlock.class ? copy(name) : block);
                loaded.load(folder, name);
                try (NDManager manager = NDManager.newBaseManager("MXNet")) {
                    float[] after = predict(loaded, manager, input);
                    Checks.that(java.util.Arrays.equals(before, after), "the loaded network predicts something else");
                }
            }
        } finally {
            try (Stream<Path> files = Files.walk(folder)) {
                files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
            }
        }
    }

    private static Block copy(String name) {
        switch (name) {
            case "mlp":
                return perceptron();
            case "cnn":
                return convolutions();
            default:
                return recurrent();
        }
    }

    private static float[] predict(Model model, NDManager manager, Shape input) {
        NDArray x = manager.arange(input.size()).toType(DataType.FLOAT32, false).div(64).reshape(input);
        ai.djl.training.ParameterStore store = new ai.djl.training.ParameterStore(manager, false);
        return model.getBlock().forward(store, new NDList(x), false).singletonOrThrow().toFloatArray();
    }
}
