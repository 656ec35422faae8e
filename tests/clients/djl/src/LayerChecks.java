import ai.djl.engine.Engine;
import ai.djl.modality.cv.util.NDImageUtils;
import ai.djl.ndarray.NDArray;
import ai.djl.ndarray.NDList;
import ai.djl.ndarray.types.DataType;
import ai.djl.ndarray.types.Shape;
import ai.djl.nn.Activation;
import ai.djl.nn.Block;
import ai.djl.nn.ParallelBlock;
import ai.djl.nn.Parameter;
import ai.djl.nn.SequentialBlock;
import ai.djl.nn.convolutional.Conv1d;
import ai.djl.nn.convolutional.Conv1dTranspose;
import ai.djl.nn.convolutional.Conv2d;
import ai.djl.nn.convolutional.Conv2dTranspose;
import ai.djl.nn.convolutional.Conv3d;
import ai.djl.nn.core.Linear;
import ai.djl.nn.core.Multiplication;
import ai.djl.nn.core.SparseMax;
import ai.djl.nn.norm.BatchNorm;
import ai.djl.nn.norm.LayerNorm;
import ai.djl.nn.pooling.Pool;
import ai.djl.nn.recurrent.GRU;
import ai.djl.nn.recurrent.LSTM;
import ai.djl.nn.recurrent.RNN;
import ai.djl.nn.transformer.ScaledDotProductAttentionBlock;
import ai.djl.nn.transformer.TransformerEncoderBlock;
import ai.djl.training.GradientCollector;
import ai.djl.training.ParameterStore;
import ai.djl.training.initializer.Initializer;
import ai.djl.training.optimizer.Optimizer;
import ai.djl.training.tracker.Tracker;
import ai.djl.util.Pair;

import java.util.Locale;
import java.util.function.UnaryOperator;

/** Layers with their gradients, optimizers and image functions, on generated numbers. */
final class LayerChecks {
    private final Recorded recorded;

    LayerChecks(Recorded recorded) {
        this.recorded = recorded;
    }

    /** The output of a layer, and the gradients of its input and parameters. */
    private void layer(String name, Block block, Shape input) {
        recorded.check(name, manager -> {
            block.setInitializer(Initializer.ONES, parameter -> true);
            block.initialize(manager, DataType.FLOAT32, input);
            int seed = 1;
            for (Pair<String, Parameter> pair : block.getParameters()) {
                NDArray value = pair.getValue().getArray();
                boolean statistic = pair.getKey().toLowerCase(Locale.ROOT).contains("running");
                if (!statistic) {
                    Recorded.waves(manager, value.getShape(), 0.3 * ++seed).mul(0.5).copyTo(value);
                }
            }
            NDArray x = Recorded.waves(manager, input, 0.37);
            x.setRequiresGradient(true);
            double[] numbers = new double[3 + block.getParameters().size()];
            ParameterStore store = new ParameterStore(manager, false);
            try (GradientCollector collector = Engine.getEngine("MXNet").newGradientCollector()) {
                NDArray head = Recorded.mixed(block.forward(store, new NDList(x), true).get(0));
                numbers[0] = head.getFloat();
                collector.backward(head);
            }
            numbers[1] = Recorded.mixed(x.getGradient()).getFloat();
            numbers[2] = Recorded.mixed(block.forward(store, new NDList(x), false).get(0)).getFloat();
            for (int i = 0; i < block.getParameters().size(); i++) {
                NDArray value = block.getParameters().valueAt(i).getArray();
                numbers[3 + i] = Recorded.mixed(value.hasGradient() ? value.getGradient() : value).getFloat();
            }
            return numbers;
        });
    }

    /** A weight after three steps. */
    private void optimizer(String name, Optimizer optimizer) {
        recorded.check(name, manager -> {
            NDArray weight = Recorded.waves(manager, new Shape(4), 0.5);
            for (int step = 1; step <= 3; step++) {
                optimizer.update("weight", weight, Recorded.waves(manager, new Shape(4), 0.9 * step));
            }
            return Recorded.elements(weight);
        });
    }

    private void image(String name, UnaryOperator<NDArray> function, Shape shape) {
        recorded.check(name, manager -> {
            NDArray pixels = Recorded.waves(manager, new Shape(6, 5, 3), 0.37).add(1).mul(127).toType(DataType.UINT8, false);
            NDArray result = function.apply(pixels).toType(DataType.FLOAT32, false);
            Checks.equal(shape, result.getShape());
            return new double[] {Recorded.mixed(result).getFloat()};
        });
    }

    void run() {
        layers();
        convolutions();
        pooling();
        normalization();
        recurrent();
        activations();
        optimizers();
        images();
    }

    private void layers() {
        Shape sequence = new Shape(2, 4, 3);
        layer("Linear", Linear.builder().setUnits(4).build(), new Shape(2, 3));
        layer("Linear without bias", Linear.builder().setUnits(4).optBias(false).build(), sequence);
        layer("Conv1d", Conv1d.builder().setKernelShape(new Shape(3)).setFilters(2).build(), new Shape(2, 3, 6));
        layer("Conv2d", Conv2d.builder().setKernelShape(new Shape(3, 2)).setFilters(4).optGroups(2)
                .optStride(new Shape(2, 1)).optPadding(new Shape(1, 0)).optDilation(new Shape(1, 2)).build(), new Shape(2, 4, 6, 5));
        layer("Conv3d", Conv3d.builder().setKernelShape(new Shape(2, 2, 2)).setFilters(2).build(), new Shape(1, 2, 3, 4, 3));
        layer("BatchNorm", BatchNorm.builder().build(), new Shape(3, 2, 4));
        layer("BatchNorm of the last axis", BatchNorm.builder().optAxis(2).optCenter(false).build(), sequence);
        layer("LayerNorm", LayerNorm.builder().build(), sequence);
        layer("RNN", RNN.builder().setStateSize(3).setNumLayers(2).setActivation(RNN.Activation.TANH).build(), sequence);
        layer("GRU", GRU.builder().setStateSize(3).setNumLayers(1).optBidirectional(true).build(), sequence);
        layer("LSTM", LSTM.builder().setStateSize(3).setNumLayers(2).optBatchFirst(true).build(), sequence);
        layer("TransformerEncoderBlock", new TransformerEncoderBlock(4, 2, 6, 0f, Activation::relu), new Shape(2, 3, 4));
        layer("maxPool2d", Pool.maxPool2dBlock(new Shape(2, 3), new Shape(1, 2), new Shape(1, 1)), new Shape(1, 2, 5, 6));
        layer("avgPool2d", Pool.avgPool2dBlock(new Shape(3, 3), new Shape(2, 2), new Shape(1, 1), true, false), new Shape(1, 2, 5, 6));
        layer("avgPool1d", Pool.avgPool1dBlock(new Shape(2)), new Shape(1, 2, 6));
        layer("maxPool3d", Pool.maxPool3dBlock(new Shape(2, 2, 2)), new Shape(1, 2, 4, 4, 4));
        layer("lpPool2d", Pool.lpPool2dBlock(2, new Shape(2, 2)), new Shape(1, 2, 4, 4));
        layer("globalAvgPool2d", Pool.globalAvgPool2dBlock(), new Shape(2, 3, 4, 4));
        layer("globalMaxPool1d", Pool.globalMaxPool1dBlock(), new Shape(2, 3, 4));
        layer("gelu", Activation.geluBlock(), sequence);
        layer("mish", Activation.mishBlock(), sequence);
        layer("softSign", Activation.softSignBlock(), sequence);
        layer("swish", Activation.swishBlock(1.5f), sequence);
    }

    private void convolutions() {
        for (int groups = 1; groups <= 2; groups++) {
            for (int stride = 1; stride <= 2; stride++) {
                for (int padding = 0; padding <= 1; padding++) {
                    String options = " groups " + groups + " stride " + stride + " padding " + padding;
                    Shape square = new Shape(padding, padding);
                    layer("Conv1d" + options, Conv1d.builder().setKernelShape(new Shape(3)).setFilters(4).optGroups(groups)
                            .optStride(new Shape(stride)).optPadding(new Shape(padding)).optDilation(new Shape(2)).build(),
                            new Shape(2, 4, 9));
                    layer("Conv2d" + options, Conv2d.builder().setKernelShape(new Shape(3, 2)).setFilters(4).optGroups(groups)
                            .optStride(new Shape(stride, 1)).optPadding(square).build(), new Shape(2, 4, 7, 6));
                    layer("Conv3d" + options, Conv3d.builder().setKernelShape(new Shape(2, 2, 2)).setFilters(2).optGroups(groups)
                            .optStride(new Shape(stride, stride, 1)).optPadding(new Shape(padding, padding, padding)).build(),
                            new Shape(1, 2, 5, 5, 4));
                    layer("Conv1dTranspose" + options, Conv1dTranspose.builder().setKernelShape(new Shape(3)).setFilters(4)
                            .optGroups(groups).optStride(new Shape(stride)).optPadding(new Shape(padding)).build(), new Shape(2, 4, 5));
                    layer("Conv2dTranspose" + options, Conv2dTranspose.builder().setKernelShape(new Shape(3, 2)).setFilters(4)
                            .optGroups(groups).optStride(new Shape(stride, stride)).optPadding(square)
                            .optOutPadding(new Shape(stride - 1, 0)).build(), new Shape(2, 4, 4, 5));
                }
            }
        }
    }

    private void pooling() {
        for (int stride = 1; stride <= 2; stride++) {
            for (int padding = 0; padding <= 1; padding++) {
                String options = " stride " + stride + " padding " + padding;
                Shape steps = new Shape(stride, 2);
                Shape around = new Shape(padding, padding);
                Shape window = new Shape(3, 2);
                Shape image = new Shape(2, 2, 8, 7);
                layer("maxPool2d" + options, Pool.maxPool2dBlock(window, steps, around, false), image);
                layer("lpPool2d" + options, Pool.lpPool2dBlock(1, window, steps, around, true), image);
                layer("avgPool2d with the padding" + options, Pool.avgPool2dBlock(window, steps, around, false, true), image);
                layer("avgPool2d" + options, Pool.avgPool2dBlock(window, steps, around, false, false), image);
                layer("avgPool3d" + options, Pool.avgPool3dBlock(new Shape(2, 2, 3), new Shape(stride, 1, 2),
                        new Shape(padding, 0, 1), false, false), new Shape(1, 2, 5, 4, 6));
                layer("maxPool1d" + options, Pool.maxPool1dBlock(new Shape(3), new Shape(stride), new Shape(padding), true),
                        new Shape(2, 2, 8));
            }
        }
        layer("globalMaxPool3d", Pool.globalMaxPool3dBlock(), new Shape(2, 3, 2, 2, 2));
        layer("globalAvgPool1d", Pool.globalAvgPool1dBlock(), new Shape(2, 3, 5));
        layer("globalLpPool2d", Pool.globalLpPool2dBlock(1), new Shape(2, 3, 5, 4));
    }

    private void normalization() {
        for (int axis = 1; axis <= 2; axis++) {
            for (boolean center : new boolean[] {true, false}) {
                for (boolean scale : new boolean[] {true, false}) {
                    layer("BatchNorm axis " + axis + " center " + center + " scale " + scale, BatchNorm.builder().optAxis(axis)
                            .optCenter(center).optScale(scale).optEpsilon(1e-3f).optMomentum(0.8f).build(), new Shape(3, 4, 5));
                }
            }
        }
        layer("LayerNorm of two axes", LayerNorm.builder().axis(1, 2).build(), new Shape(2, 3, 4));
    }

    private void recurrent() {
        Shape sequence = new Shape(2, 4, 3);
        for (int layers = 1; layers <= 2; layers++) {
            for (boolean both : new boolean[] {true, false}) {
                for (boolean batchFirst : new boolean[] {true, false}) {
                    String options = " layers " + layers + " bidirectional " + both + " batch first " + batchFirst;
                    for (RNN.Activation activation : RNN.Activation.values()) {
                        layer("RNN " + activation + options, RNN.builder().setActivation(activation).setStateSize(3).setNumLayers(layers)
                                .optBidirectional(both).optBatchFirst(batchFirst).build(), sequence);
                    }
                    layer("GRU" + options, GRU.builder().setStateSize(3).setNumLayers(layers).optBidirectional(both)
                            .optBatchFirst(batchFirst).build(), sequence);
                    layer("LSTM" + options, LSTM.builder().setStateSize(3).setNumLayers(layers).optBidirectional(both)
                            .optBatchFirst(batchFirst).build(), sequence);
                }
            }
        }
    }

    private void activations() {
        Shape sequence = new Shape(2, 4, 3);
        layer("relu", Activation.reluBlock(), sequence);
        layer("relu6", Activation.relu6Block(), sequence);
        layer("sigmoid", Activation.sigmoidBlock(), sequence);
        layer("tanh", Activation.tanhBlock(), sequence);
        layer("softPlus", Activation.softPlusBlock(), sequence);
        layer("leakyRelu", Activation.leakyReluBlock(0.2f), sequence);
        layer("elu", Activation.eluBlock(0.7f), sequence);
        layer("selu", Activation.seluBlock(), sequence);
        layer("prelu", Activation.preluBlock(), sequence);
        layer("SparseMax", new SparseMax(), new Shape(2, 5));
        layer("Multiplication", Multiplication.builder().setUnits(3).build(), new Shape(2, 4));
        layer("ScaledDotProductAttentionBlock", ScaledDotProductAttentionBlock.builder().setEmbeddingSize(4).setHeadCount(2)
                .optAttentionProbsDropoutProb(0f).build(), new Shape(2, 3, 4));
        layer("ParallelBlock", new ParallelBlock(lists -> new NDList(lists.get(0).get(0).concat(lists.get(1).get(0), 1)))
                .add(Linear.builder().setUnits(2).build())
                .add(new SequentialBlock().add(Linear.builder().setUnits(3).build()).add(Activation::tanh)), new Shape(2, 4));
    }

    private void optimizers() {
        Tracker rate = Tracker.fixed(0.1f);
        for (float scale : new float[] {1, 0.5f}) {
            for (float clip : new float[] {-1, 0.3f}) {
                String options = " scale " + scale + " clip " + clip;
                optimizer("Sgd" + options, Optimizer.sgd().setLearningRateTracker(rate).optWeightDecays(0.05f).optClipGrad(clip)
                        .setRescaleGrad(scale).build());
                optimizer("Adam" + options, Optimizer.adam().optLearningRateTracker(rate).optBeta1(0.8f).optBeta2(0.95f)
                        .optWeightDecays(0.05f).optClipGrad(clip).setRescaleGrad(scale).build());
                optimizer("RmsProp" + options, Optimizer.rmsprop().optLearningRateTracker(rate).optRho(0.8f).optWeightDecays(0.05f)
                        .optClipGrad(clip).setRescaleGrad(scale).build());
                optimizer("Nag" + options, Optimizer.nag().setLearningRateTracker(rate).setMomentum(0.8f).optClipGrad(clip)
                        .setRescaleGrad(scale).build());
                optimizer("Adagrad" + options, Optimizer.adagrad().optLearningRateTracker(rate).optEpsilon(1e-6f).optClipGrad(clip)
                        .setRescaleGrad(scale).build());
            }
        }
        optimizer("Sgd", Optimizer.sgd().setLearningRateTracker(rate).optMomentum(0.9f).optWeightDecays(0.01f).build());
        optimizer("Sgd without momentum", Optimizer.sgd().setLearningRateTracker(rate).optClipGrad(0.5f).build());
        optimizer("Nag", Optimizer.nag().setLearningRateTracker(rate).setMomentum(0.9f).build());
        optimizer("Adam", Optimizer.adam().optLearningRateTracker(rate).build());
        optimizer("AdamW", Optimizer.adamW().optLearningRateTracker(rate).optWeightDecays(0.1f).build());
        optimizer("RmsProp", Optimizer.rmsprop().optLearningRateTracker(rate).build());
        optimizer("RmsProp centered", Optimizer.rmsprop().optLearningRateTracker(rate).optCentered(true).build());
        optimizer("Adagrad", Optimizer.adagrad().optLearningRateTracker(rate).build());
    }

    private void images() {
        image("resize", pixels -> NDImageUtils.resize(pixels, 8, 4), new Shape(4, 8, 3));
        image("crop", pixels -> NDImageUtils.crop(pixels, 1, 2, 3, 4), new Shape(4, 3, 3));
        image("centerCrop", pixels -> NDImageUtils.centerCrop(pixels, 3, 3), new Shape(3, 3, 3));
        image("toTensor", NDImageUtils::toTensor, new Shape(3, 6, 5));
        image("normalize", pixels -> NDImageUtils.normalize(NDImageUtils.toTensor(pixels),
                new float[] {0.1f, 0.2f, 0.3f}, new float[] {0.5f, 0.6f, 0.7f}), new Shape(3, 6, 5));
        image("rotate90", pixels -> NDImageUtils.rotate90(pixels, 1), new Shape(5, 6, 3));
    }
}
