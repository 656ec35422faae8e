import ai.djl.engine.Engine;
import ai.djl.ndarray.NDArray;
import ai.djl.ndarray.NDList;
import ai.djl.ndarray.NDManager;
import ai.djl.ndarray.types.Shape;
import ai.djl.training.GradientCollector;
import ai.djl.training.loss.Loss;

import java.util.function.UnaryOperator;

/** Gradients of recorded computations. */
final class GradientChecks {
    private final Checks checks;
    private final NDManager manager;

    GradientChecks(Checks checks, NDManager manager) {
        this.checks = checks;
        this.manager = manager;
    }

    private NDArray variable(float... elements) {
        NDArray x = manager.create(elements);
        x.setRequiresGradient(true);
        return x;
    }

    private void gradient(String name, UnaryOperator<NDArray> function, double... expected) {
        checks.check(name, () -> {
            NDArray x = variable(1, 2, -3);
            try (GradientCollector collector = Engine.getEngine("MXNet").newGradientCollector()) {
                collector.backward(function.apply(x));
            }
            Checks.array(x.getGradient(), new Shape(3), expected);
        });
    }

    void run() {
        gradient("gradient of a sum of squares", x -> x.square().sum(), 2, 4, -6);
        gradient("gradient of a polynomial", x -> x.pow(3).sub(x.mul(2)).sum(), 1, 10, 25);
        gradient("gradient of a head of three elements", x -> x.mul(x), 2, 4, -6);
        gradient("gradient of exp", x -> x.exp().sum(), Math.E, Math.exp(2), Math.exp(-3));
        gradient("gradient of an activation", x -> x.getNDArrayInternal().relu().sum(), 1, 1, 0);
        gradient("gradient of a largest element", x -> x.max(), 0, 1, 0);
        gradient("gradient through a product", x -> x.reshape(1, 3).dot(x.reshape(3, 1)).sum(), 2, 4, -6);
        gradient("gradient through slices", x -> x.get("0:2").sum().add(x.get(2).mul(5)), 1, 1, 5);
        gradient("gradient through concat", x -> x.concat(x.mul(2)).sum(), 3, 3, 3);
        gradient("gradient that is stopped", x -> x.stopGradient().mul(x).sum(), 1, 2, -3);
        gradient("gradient that is scaled", x -> x.scaleGradient(0.5).sum(), 0.5, 0.5, 0.5);
        checks.check("gradients of two variables", () -> {
            NDArray x = variable(1, 2);
            NDArray y = variable(3, 4);
            try (GradientCollector collector = Engine.getEngine("MXNet").newGradientCollector()) {
                collector.backward(x.mul(y).sum());
            }
            Checks.array(x.getGradient(), new Shape(2), 3, 4);
            Checks.array(y.getGradient(), new Shape(2), 1, 2);
        });
        checks.check("gradients of losses", () -> {
            NDArray prediction = manager.create(new float[] {1, 2, 3, 1, 1, 1}, new Shape(2, 3));
            prediction.setRequiresGradient(true);
            NDArray label = manager.create(new float[] {2, 0});
            double e = Math.exp(-2) + Math.exp(-1) + 1;
            try (GradientCollector collector = Engine.getEngine("MXNet").newGradientCollector()) {
                NDArray loss = Loss.softmaxCrossEntropyLoss().evaluate(new NDList(label), new NDList(prediction));
                Checks.near((Math.log(e) + Math.log(3)) / 2, loss.getFloat());
                collector.backward(loss);
            }
            Checks.array(prediction.getGradient(), new Shape(2, 3),
                    Math.exp(-2) / e / 2, Math.exp(-1) / e / 2, (1 / e - 1) / 2, -1.0 / 3, 1.0 / 6, 1.0 / 6);
        });
        checks.check("values of losses", () -> {
            NDList label = new NDList(manager.create(new float[] {1, 0, 1}));
            NDList prediction = new NDList(manager.create(new float[] {0.5f, 1, -1}));
            Checks.near((0.25 + 1 + 4) / 3, Loss.l2Loss("l2", 1).evaluate(label, prediction).getFloat());
            Checks.near((0.5 + 1 + 2) / 3, Loss.l1Loss().evaluate(label, prediction).getFloat());
            double sigmoid = (Math.log1p(Math.exp(-0.5)) + Math.log1p(Math.E) + Math.log1p(Math.E)) / 3;
            Checks.near(sigmoid, Loss.sigmoidBinaryCrossEntropyLoss().evaluate(label, prediction).getFloat());
            Checks.near((0.5 + 1 + 2) / 3, Loss.hingeLoss().evaluate(
                    new NDList(manager.create(new float[] {1, -1, 1})),
                    new NDList(manager.create(new float[] {0.5f, 0, -1}))).getFloat());
        });
        checks.check("no gradient without a request", () -> {
            NDArray x = manager.create(new float[] {1});
            Checks.that(!x.hasGradient(), "it has one");
            x.setRequiresGradient(true);
            Checks.that(x.hasGradient(), "it has none");
            Checks.array(x.getGradient(), new Shape(1), 0);
        });
    }
}
