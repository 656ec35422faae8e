import ai.djl.engine.Engine;
import ai.djl.modality.cv.util.NDImageUtils;
import ai.djl.ndarray.NDArray;
import ai.djl.ndarray.NDList;
import ai.djl.ndarray.NDManager;
import ai.djl.ndarray.types.DataType;
import ai.djl.ndarray.types.Shape;
import ai.djl.nn.Activation;
import ai.djl.nn.Block;
import ai.djl.nn.Parameter;
import ai.djl.nn.convolutional.Conv1d;
import ai.djl.nn.convolutional.Conv2d;
import ai.djl.nn.convolutional.Conv3d;
import ai.djl.nn.core.Linear;
import ai.djl.nn.norm.BatchNorm;
import ai.djl.nn.norm.LayerNorm;
import ai.djl.nn.pooling.Pool;
import ai.djl.nn.recurrent.GRU;
import ai.djl.nn.recurrent.LSTM;
import ai.djl.nn.recurrent.RNN;
import ai.djl.nn.transformer.TransformerEncoderBlock;
import ai.djl.training.GradientCollector;
import ai.djl.training.ParameterStore;
import ai.djl.training.initializer.Initializer;
import ai.djl.training.optimizer.Optimizer;
import ai.djl.training.tracker.Tracker;
import ai.djl.util.Pair;

import java.util.Arrays;
import java.util.Locale;
import java.util.function.UnaryOperator;

/**
 * Layers with their gradients, optimizers and image functions on numbers that follow a formula. What is expected was computed by the
 * library of MXNet 1.9.1; with the argument "record" the client prints what it computes.
 */
final class LayerChecks {
    private final Checks checks;
    private final NDManager manager;
    private final boolean record;

    LayerChecks(Checks checks, NDManager manager, boolean record) {
        this.checks = checks;
        this.manager = manager;
        this.record = record;
    }

    /** The sines of 1, 1 + frequency, 1 + 2 frequency and so on. */
    private NDArray waves(Shape shape, double frequency) {
        float[] elements = new float[(int) shape.size()];
        for (int i = 0; i < elements.length; i++) {
            elements[i] = (float) Math.sin(1 + frequency * i);
        }
        return manager.create(elements, shape);
    }

    /** One number for an array, to which every element counts differently. */
    private NDArray mixed(NDArray array) {
        return array.mul(waves(array.getShape(), 0.7)).sum();
    }

    private void compare(String name, double[] expected, double[] actual) {
        if (record) {
            System.out.println("RECORD " + name + " " + Arrays.toString(Arrays.stream(actual)
                    .mapToObj(number -> String.format(Locale.ROOT, "%.6g", number)).toArray()));
            return;
        }
        Checks.equal(expected.length, actual.length);
        for (int i = 0; i < actual.length; i++) {
            double allowed = 1e-3 * Math.max(1, Math.abs(expected[i]));
            Checks.that(Math.abs(actual[i] - expected[i]) <= allowed, "number " + i + " of " + Arrays.toString(actual)
                    + " differs from " + Arrays.toString(expected));
        }
    }

    /** What a layer computes, and the gradients of the input and of the layer's parameters. */
    private void layer(String name, Block block, Shape input, double... expected) {
        checks.check(name, () -> {
            block.setInitializer(Initializer.ONES, parameter -> true);
            block.initialize(manager, DataType.FLOAT32, input);
            int seed = 1;
            for (Pair<String, Parameter> pair : block.getParameters()) {
                NDArray value = pair.getValue().getArray();
                boolean statistic = pair.getKey().toLowerCase(Locale.ROOT).contains("running");
                if (!statistic) {
                    waves(value.getShape(), 0.3 * ++seed).mul(0.5).copyTo(value);
                }
            }
            NDArray x = waves(input, 0.37);
            x.setRequiresGradient(true);
            double[] actual = new double[2 + block.getParameters().size()];
            try (GradientCollector collector = Engine.getEngine("MXNet").newGradientCollector()) {
                NDArray head = mixed(block.forward(new ParameterStore(manager, false), new NDList(x), true).get(0));
                actual[0] = head.getFloat();
                collector.backward(head);
            }
            actual[1] = mixed(x.getGradient()).getFloat();
            for (int i = 0; i < block.getParameters().size(); i++) {
                NDArray value = block.getParameters().valueAt(i).getArray();
                actual[2 + i] = value.hasGradient() ? mixed(value.getGradient()).getFloat() : mixed(value).getFloat();
            }
            compare(name, expected, actual);
        });
    }

    /** A weight after three steps. */
    private void optimizer(String name, Optimizer optimizer, double... expected) {
        checks.check(name, () -> {
            NDArray weight = waves(new Shape(4), 0.5);
            for (int step = 1; step <= 3; step++) {
                optimizer.update("weight", weight, waves(new Shape(4), 0.9 * step));
            }
            float[] elements = weight.toFloatArray();
            double[] actual = new double[elements.length];
            Arrays.setAll(actual, i -> elements[i]);
            compare(name, expected, actual);
        });
    }

    private void image(String name, UnaryOperator<NDArray> function, Shape shape, double... expected) {
        checks.check(name, () -> {
            NDArray pixels = waves(new Shape(6, 5, 3), 0.37).add(1).mul(127).toType(DataType.UINT8, false);
            NDArray result = function.apply(pixels).toType(DataType.FLOAT32, false);
            Checks.equal(shape, result.getShape());
            compare(name, expected, new double[] {mixed(result).getFloat()});
        });
    }

    void run() {
        layers();
        optimizers();
        images();
    }

    private void layers() {
        Shape sequence = new Shape(2, 4, 3);
        layer("Linear", Linear.builder().setUnits(4).build(), new Shape(2, 3), 0.245282, -0.146366, -0.0904732, 0.052922);
        layer("Linear without bias", Linear.builder().setUnits(4).optBias(false).build(), sequence,
                0.0587096, -0.446968, 0.0943692);
        layer("Conv1d", Conv1d.builder().setKernelShape(new Shape(3)).setFilters(2).build(), new Shape(2, 3, 6),
                8.67965, -0.161895, 1.06126, -0.745139);
        layer("Conv2d", Conv2d.builder().setKernelShape(new Shape(3, 2)).setFilters(4).optGroups(2)
                .optStride(new Shape(2, 1)).optPadding(new Shape(1, 0)).optDilation(new Shape(1, 2)).build(), new Shape(2, 4, 6, 5),
                17.692, -0.784353, -1.3459, 0.0812986);
        layer("Conv3d", Conv3d.builder().setKernelShape(new Shape(2, 2, 2)).setFilters(2).build(), new Shape(1, 2, 3, 4, 3),
                -3.50137, -0.449504, 16.1525, 0.526583);
        layer("BatchNorm", BatchNorm.builder().build(), new Shape(3, 2, 4),
                0.587343, 3.90396, 1.05205, -0.173604, 1.68253, 1.73192);
        layer("BatchNorm of the last axis", BatchNorm.builder().optAxis(2).optCenter(false).build(), sequence,
                1.49917, 7.78827, 1.91117, 0.936379, 2.30552, 2.37771);
        layer("LayerNorm", LayerNorm.builder().build(), sequence, 2.71817, 0.261016, 0.622121, 3.03707);
        layer("RNN", RNN.builder().setStateSize(3).setNumLayers(2).setActivation(RNN.Activation.TANH).build(), sequence,
                -0.0363087, 1.82308, -1.66737, 1.04656, 0.0518843, -0.250333, -0.732525, -0.319469, 0.696241, 0.696241);
        layer("GRU", GRU.builder().setStateSize(3).setNumLayers(1).optBidirectional(true).build(), sequence,
                -0.719084, 0.825547, -1.13003, -0.0913228, 0.952333, -0.0209928, 0.189468, 0.0963988, -0.671948, -0.391983);
        layer("LSTM", LSTM.builder().setStateSize(3).setNumLayers(2).optBatchFirst(true).build(), sequence,
                -0.177109, -0.0158465, 0.112331, 0.00361695, -0.0217017, -0.0573832, -0.0301119, 0.0663661, -0.370714,
                -0.370714);
        layer("TransformerEncoderBlock", new TransformerEncoderBlock(4, 2, 6, 0f, Activation::relu), new Shape(2, 3, 4),
                0.259132, -2.1305, -0.00468037, 0, 0.0113252, 0.000151539, -0.0352508, 0, -0.0153904, 0, -0.0434009,
                -0.00461675, 2.38546, 2.41877, -0.0244875, 0.00881088, -0.126284, 0, 1.15872, 1.28409, 2.54274, 2.6023);
        layer("maxPool2d", Pool.maxPool2dBlock(new Shape(2, 3), new Shape(1, 2), new Shape(1, 1)), new Shape(1, 2, 5, 6),
                0.613121, -0.273557);
        layer("avgPool2d", Pool.avgPool2dBlock(new Shape(3, 3), new Shape(2, 2), new Shape(1, 1), true, false), new Shape(1, 2, 5, 6),
                -1.04771, 2.62284);
        layer("avgPool1d", Pool.avgPool1dBlock(new Shape(2)), new Shape(1, 2, 6), 3.42825, -0.599211);
        layer("maxPool3d", Pool.maxPool3dBlock(new Shape(2, 2, 2)), new Shape(1, 2, 4, 4, 4), 3.91903, 5.3629);
        layer("lpPool2d", Pool.lpPool2dBlock(2, new Shape(2, 2)), new Shape(1, 2, 4, 4), 0.0719437, 7.39034);
        layer("globalAvgPool2d", Pool.globalAvgPool2dBlock(), new Shape(2, 3, 4, 4), -0.124786, 0.128082);
        layer("globalMaxPool1d", Pool.globalMaxPool1dBlock(), new Shape(2, 3, 4), -0.481257, -1.10378);
        layer("gelu", Activation.geluBlock(), sequence, 3.10895, 7.77229);
        layer("mish", Activation.mishBlock(), sequence, 2.9539, 9.46811);
        layer("softSign", Activation.softSignBlock(), sequence, 0.865278, 5.79044);
        layer("swish", Activation.swishBlock(1.5f), sequence, 2.95464, 7.66354);
    }

    private void optimizers() {
        Tracker rate = Tracker.fixed(0.1f);
        optimizer("Sgd", Optimizer.sgd().setLearningRateTracker(rate).optMomentum(0.9f).optWeightDecays(0.01f).build(),
                0.365093, 0.725185, 0.990593, 0.684459);
        optimizer("Sgd without momentum", Optimizer.sgd().setLearningRateTracker(rate).optClipGrad(0.5f).build(),
                0.691471, 0.963996, 0.914144, 0.604907);
        optimizer("Nag", Optimizer.nag().setLearningRateTracker(rate).setMomentum(0.9f).build(),
                0.164171, 0.681949, 1.04124, 0.688469);
        optimizer("Adam", Optimizer.adam().optLearningRateTracker(rate).build(), 0.541471, 0.779181, 0.889099, 0.748443);
        optimizer("AdamW", Optimizer.adamW().optLearningRateTracker(rate).optWeightDecays(0.1f).build(),
                0.519469, 0.752425, 0.863591, 0.728183);
        optimizer("RmsProp", Optimizer.rmsprop().optLearningRateTracker(rate).build(), 0.103733, 0.729955, 0.857286, 0.67058);
        optimizer("RmsProp that is centred", Optimizer.rmsprop().optLearningRateTracker(rate).optCentered(true).build(),
                -0.771168, 0.0272421, 0.553801, 1.18996);
        optimizer("Adagrad", Optimizer.adagrad().optLearningRateTracker(rate).build(), 0.613025, 0.910802, 0.893011, 0.626289);
    }

    private void images() {
        image("resize", pixels -> NDImageUtils.resize(pixels, 8, 4), new Shape(4, 8, 3), 163.982);
        image("crop", pixels -> NDImageUtils.crop(pixels, 1, 2, 3, 4), new Shape(4, 3, 3), -932.156);
        image("centerCrop", pixels -> NDImageUtils.centerCrop(pixels, 3, 3), new Shape(3, 3, 3), 183.312);
        image("toTensor", NDImageUtils::toTensor, new Shape(3, 6, 5), 0.27549);
        image("normalize", pixels -> NDImageUtils.normalize(NDImageUtils.toTensor(pixels),
                new float[] {0.1f, 0.2f, 0.3f}, new float[] {0.5f, 0.6f, 0.7f}), new Shape(3, 6, 5), 1.29653);
        image("rotate90", pixels -> NDImageUtils.rotate90(pixels, 1), new Shape(5, 6, 3), -48.3692);
    }
}
