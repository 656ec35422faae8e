import ai.djl.engine.Engine;
import ai.djl.ndarray.NDArray;
import ai.djl.ndarray.NDArrays;
import ai.djl.ndarray.NDList;
import ai.djl.ndarray.index.NDIndex;
import ai.djl.ndarray.types.DataType;
import ai.djl.ndarray.types.Shape;
import ai.djl.training.GradientCollector;
import ai.djl.training.loss.Loss;

import java.util.function.UnaryOperator;

/** Functions of a matrix with their gradients, losses, and reading and writing by indices. */
final class FunctionChecks {
    private final Recorded recorded;

    FunctionChecks(Recorded recorded) {
        this.recorded = recorded;
    }

    void run() {
        reductions();
        movements();
        elementwise();
        losses();
        indices();
    }

    /** The result of a function and its gradient, with a different head gradient for each element. */
    private void gradient(String name, UnaryOperator<NDArray> function) {
        recorded.check("gradient of " + name, manager -> {
            NDArray x = Recorded.waves(manager, new Shape(2, 3), 0.8);
            x.setRequiresGradient(true);
            try (GradientCollector collector = Engine.getEngine("MXNet").newGradientCollector()) {
                NDArray head = Recorded.mixed(function.apply(x));
                collector.backward(head);
                NDArray gradient = x.getGradient();
                return Recorded.elements(head.reshape(1).concat(gradient.flatten()));
            }
        });
    }

    private void reductions() {
        gradient("max", NDArray::max);
        gradient("max of an axis", x -> x.max(new int[] {0}));
        gradient("min of an axis", x -> x.min(new int[] {1}));
        gradient("prod", NDArray::prod);
        gradient("mean of an axis", x -> x.mean(new int[] {1}));
        gradient("norm", NDArray::norm);
        gradient("norm of an axis", x -> x.norm(new int[] {1}));
        gradient("softmax", x -> x.softmax(1).mul(x));
        gradient("logSoftmax", x -> x.logSoftmax(0).mul(x));
        gradient("cumSum", x -> x.cumSum(1).mul(x));
        gradient("sort", x -> x.sort(1).mul(x));
        gradient("trace", x -> x.get(":,:2").trace());
        gradient("variance", x -> x.sub(x.mean()).square().mean());
    }

    private void movements() {
        gradient("flip", x -> x.flip(0).mul(x));
        gradient("transpose", x -> x.transpose().matMul(x));
        gradient("a row", x -> x.get("1,:"));
        gradient("columns", x -> x.get(":,1:").square());
        gradient("an element", x -> x.get("0,1"));
        gradient("booleanMask", x -> x.booleanMask(x.gt(0)).square());
        gradient("where", x -> NDArrays.where(x.gt(0), x.square(), x.mul(3)));
        gradient("concat", x -> x.concat(x.mul(2), 1).square());
        gradient("stack", x -> x.stack(x.square()));
        gradient("split", x -> x.split(3, 1).get(1).square());
        gradient("tile", x -> x.tile(2).square());
        gradient("repeat", x -> x.repeat(1, 2).square());
        gradient("reshape", x -> x.reshape(3, 2).square());
        gradient("expandDims and squeeze", x -> x.expandDims(1).squeeze(1).square());
        gradient("broadcast", x -> x.broadcast(4, 2, 3).square());
        gradient("take", x -> x.take(x.getManager().create(new int[] {1, 4, 1})).square());
        gradient("gatherNd", x -> x.gatherNd(x.getManager().create(new int[] {0, 1, 1, 0}, new Shape(2, 2))).square());
        gradient("oneHot", x -> x.argMax(1).oneHot(3).mul(x));
        gradient("sequenceMask", x -> x.sequenceMask(x.getManager().create(new float[] {1, 2})));
        gradient("batchDot", x -> x.expandDims(0).batchDot(x.expandDims(0).swapAxes(1, 2)));
    }

    private void elementwise() {
        gradient("clip", x -> x.clip(-0.5, 0.5));
        gradient("abs", NDArray::abs);
        gradient("pow", x -> x.abs().pow(2.5));
        gradient("pow of a number", x -> NDArrays.pow(2, x));
        gradient("mod", x -> x.mod(0.3));
        gradient("maximum", x -> x.maximum(0.1));
        gradient("minimum", x -> x.minimum(x.mul(2)));
        gradient("atan2", x -> x.atan2(x.add(3)));
        gradient("erf", NDArray::erf);
        gradient("erfinv", x -> x.mul(0.5).erfinv());
        gradient("gammaln", x -> x.abs().add(1).gammaln());
        gradient("cbrt", NDArray::cbrt);
        gradient("tan", NDArray::tan);
        gradient("asinh", NDArray::asinh);
        gradient("acosh", x -> x.abs().add(1.5).acosh());
        gradient("atanh", x -> x.mul(0.5).atanh());
        gradient("log2", x -> x.abs().add(1).log2());
        gradient("differences and quotients", x -> NDArrays.sub(1, x).div(NDArrays.add(x.abs(), x.square())));
        gradient("stopGradient", x -> x.stopGradient().mul(x));
        gradient("float64", x -> x.toType(DataType.FLOAT64, false).square().toType(DataType.FLOAT32, false));
        gradient("float16", x -> x.toType(DataType.FLOAT16, false).square().toType(DataType.FLOAT32, false));
    }

    private void loss(String name, Loss loss, boolean isSparse) {
        recorded.check(name, manager -> {
            NDArray prediction = Recorded.waves(manager, new Shape(2, 3), 0.4);
            NDArray dense = Recorded.waves(manager, new Shape(2, 3), 1.1).gt(0).toType(DataType.FLOAT32, false);
            NDArray label = isSparse ? manager.create(new float[] {2, 0}) : dense;
            prediction.setRequiresGradient(true);
            try (GradientCollector collector = Engine.getEngine("MXNet").newGradientCollector()) {
                NDArray value = loss.evaluate(new NDList(label), new NDList(prediction));
                collector.backward(value);
                return Recorded.elements(value.reshape(1).concat(prediction.getGradient().flatten()));
            }
        });
    }

    private void losses() {
        loss("l1Loss", Loss.l1Loss(), false);
        loss("l2Loss", Loss.l2Loss(), false);
        loss("quantileL1Loss", Loss.quantileL1Loss(0.3f), false);
        loss("sigmoidBinaryCrossEntropyLoss", Loss.sigmoidBinaryCrossEntropyLoss(), false);
        loss("sigmoidBinaryCrossEntropyLoss of probabilities", Loss.sigmoidBinaryCrossEntropyLoss("loss", 2, true), false);
        loss("hingeLoss", Loss.hingeLoss("hinge", 2, 0.5f), false);
        for (boolean isLogit : new boolean[] {true, false}) {
            loss("softmaxCrossEntropyLoss logit " + isLogit, Loss.softmaxCrossEntropyLoss("loss", 1.5f, -1, true, isLogit), true);
            loss("softmaxCrossEntropyLoss dense logit " + isLogit, Loss.softmaxCrossEntropyLoss("loss", 1, -1, false, isLogit), false);
        }
    }

    private void indices() {
        String[] indices = {"0", "-1", "0:2", "::2", ":,1", ":,-1,:", "...,1", "1,...", "0,:,1:3", ":,::2,::2", "-2:,:,0", "0,1,2",
            "...,:2,0", ":,0:1"};
        for (String index : indices) {
            recorded.check("index " + index, manager -> {
                NDArray x = Recorded.waves(manager, new Shape(2, 3, 4), 0.37);
                double read = Recorded.mixed(x.get(index)).getFloat();
                x.set(new NDIndex(index), part -> part.mul(-2));
                return new double[] {read, Recorded.mixed(x).getFloat()};
            });
        }
        for (String index : new String[] {"1:0:-1", ":,2:0:-1"}) {
            recorded.check("index " + index, manager ->
                    new double[] {Recorded.mixed(Recorded.waves(manager, new Shape(2, 3, 4), 0.37).get(index)).getFloat()});
        }
    }
}
