import ai.djl.engine.EngineException;
import ai.djl.ndarray.NDArray;
import ai.djl.ndarray.NDArrays;
import ai.djl.ndarray.NDList;
import ai.djl.ndarray.NDManager;
import ai.djl.ndarray.types.DataType;
import ai.djl.ndarray.types.Shape;
import ai.djl.ndarray.types.SparseFormat;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.function.UnaryOperator;

/** Creation, arithmetic, reductions, changes of shape, types, sparse arrays, files. */
final class ArrayChecks {
    private final Checks checks;
    private final NDManager manager;

    ArrayChecks(Checks checks, NDManager manager) {
        this.checks = checks;
        this.manager = manager;
    }

    void run() {
        creation();
        randomNumbers();
        arithmetic();
        functions();
        comparisons();
        reductions();
        shapes();
        products();
        sorting();
        types();
        sparse();
        files();
        errors();
    }

    private NDArray vector(double... elements) {
        float[] floats = new float[elements.length];
        for (int i = 0; i < floats.length; i++) {
            floats[i] = (float) elements[i];
        }
        return manager.create(floats);
    }

    private NDArray matrix(int rows, int columns) {
        return manager.arange(rows * columns).toType(DataType.FLOAT32, false).reshape(rows, columns);
    }

    private void creation() {
        checks.check("zeros", () -> Checks.array(manager.zeros(new Shape(2, 2)), new Shape(2, 2), 0, 0, 0, 0));
        checks.check("ones", () -> Checks.array(manager.ones(new Shape(3), DataType.INT32), new Shape(3), 1, 1, 1));
        checks.check("full", () -> Checks.array(manager.full(new Shape(2), 2.5f), new Shape(2), 2.5, 2.5));
        checks.check("scalar", () -> {
            Checks.array(manager.create(3f), new Shape(), 3);
            Checks.array(manager.create(7), new Shape(), 7);
            Checks.equal(true, manager.create(true).getBoolean());
        });
        checks.check("from arrays", () -> {
            Checks.array(manager.create(new float[] {1, 2, 3, 4}, new Shape(2, 2)), new Shape(2, 2), 1, 2, 3, 4);
            Checks.array(manager.create(new int[][] {{1, 2, 3}, {4, 5, 6}}), new Shape(2, 3), 1, 2, 3, 4, 5, 6);
            Checks.array(manager.create(new long[] {1L << 40}), new Shape(1), 1L << 40);
            Checks.array(manager.create(new byte[] {-1, 5}), new Shape(2), -1, 5);
            Checks.array(manager.create(new boolean[] {true, false}), new Shape(2), 1, 0);
        });
        checks.check("arange", () -> {
            Checks.array(manager.arange(4), new Shape(4), 0, 1, 2, 3);
            Checks.array(manager.arange(1f, 2f, 0.25f), new Shape(4), 1, 1.25, 1.5, 1.75);
            Checks.array(manager.arange(5, 0, -2), new Shape(3), 5, 3, 1);
        });
        checks.check("linspace", () -> {
            Checks.array(manager.linspace(0, 1, 5), new Shape(5), 0, 0.25, 0.5, 0.75, 1);
            Checks.array(manager.linspace(0f, 1f, 4, false), new Shape(4), 0, 0.25, 0.5, 0.75);
        });
        checks.check("eye", () -> {
            Checks.array(manager.eye(2), new Shape(2, 2), 1, 0, 0, 1);
            Checks.array(manager.eye(2, 3, 1, DataType.FLOAT32), new Shape(2, 3), 0, 1, 0, 0, 0, 1);
        });
        checks.check("empty arrays", () -> {
            Checks.array(manager.create(new Shape(0)), new Shape(0));
            Checks.array(manager.zeros(new Shape(2, 0, 3)), new Shape(2, 0, 3));
            Checks.array(manager.zeros(new Shape(2, 0)).sum(new int[] {1}), new Shape(2), 0, 0);
        });
        checks.check("like", () -> {
            NDArray x = matrix(2, 2);
            Checks.array(x.zerosLike(), new Shape(2, 2), 0, 0, 0, 0);
            Checks.array(x.onesLike(), new Shape(2, 2), 1, 1, 1, 1);
            Checks.array(x.duplicate(), new Shape(2, 2), 0, 1, 2, 3);
        });
        checks.check("text of an array", () -> {
            String text = matrix(2, 2).toDebugString(10, 10, 10, 10, true);
            Checks.that(text.contains("(2, 2) cpu() float32"), text);
        });
    }

    private void randomNumbers() {
        checks.check("uniform numbers", () -> {
            NDArray x = manager.randomUniform(2, 4, new Shape(2000));
            Checks.that(x.min().getFloat() >= 2 && x.max().getFloat() < 4, "range");
            Checks.that(Math.abs(x.mean().getFloat() - 3) < 0.1, "mean");
        });
        checks.check("normal numbers", () -> {
            NDArray x = manager.randomNormal(1, 2, new Shape(4000), DataType.FLOAT32);
            Checks.that(Math.abs(x.mean().getFloat() - 1) < 0.2, "mean " + x.mean().getFloat());
            Checks.that(Math.abs(x.sub(1).square().mean().getFloat() - 4) < 0.5, "variance");
        });
        checks.check("truncated normal numbers", () -> {
            NDArray x = manager.truncatedNormal(0, 1, new Shape(500), DataType.FLOAT32);
            Checks.that(x.abs().max().getFloat() <= 2, "beyond two standard deviations");
        });
        checks.check("random integers", () -> {
            NDArray x = manager.randomInteger(3, 6, new Shape(500), DataType.INT32);
            Checks.equal(3, x.min().getInt());
            Checks.equal(5, x.max().getInt());
        });
        checks.check("random permutation", () -> {
            NDArray x = manager.randomPermutation(10);
            Checks.array(x.sort(), new Shape(10), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9);
        });
        checks.check("multinomial numbers", () -> {
            NDArray x = manager.randomMultinomial(20, vector(0.25, 0.75));
            Checks.equal(20L, x.toType(DataType.INT64, false).sum().getLong());
        });
        checks.check("a seed repeats", () -> {
            manager.getEngine().setRandomSeed(7);
            float[] first = manager.randomUniform(0, 1, new Shape(4)).toFloatArray();
            manager.getEngine().setRandomSeed(7);
            Checks.that(java.util.Arrays.equals(first, manager.randomUniform(0, 1, new Shape(4)).toFloatArray()), "other numbers");
        });
        checks.check("samples of distributions", () -> {
            Checks.equal(new Shape(2, 3), manager.sampleNormal(vector(0, 1), vector(1, 1), new Shape(3)).getShape());
            Checks.equal(new Shape(2), manager.samplePoisson(vector(1, 4)).getShape());
            Checks.equal(new Shape(2), manager.sampleGamma(vector(1, 4), vector(1, 1)).getShape());
        });
    }

    private void arithmetic() {
        Shape shape = new Shape(2, 2);
        NDArray x = matrix(2, 2).add(1);
        NDArray y = manager.create(new float[] {2, 2, 4, 4}, shape);
        checks.check("operators of two arrays", () -> {
            Checks.array(x.add(y), shape, 3, 4, 7, 8);
            Checks.array(x.sub(y), shape, -1, 0, -1, 0);
            Checks.array(x.mul(y), shape, 2, 4, 12, 16);
            Checks.array(x.div(y), shape, 0.5, 1, 0.75, 1);
            Checks.array(x.mod(y), shape, 1, 0, 3, 0);
            Checks.array(x.pow(y), shape, 1, 4, 81, 256);
            Checks.array(x.maximum(y), shape, 2, 2, 4, 4);
            Checks.array(x.minimum(y), shape, 1, 2, 3, 4);
            Checks.array(x.atan2(y), shape, Math.atan2(1, 2), Math.atan2(2, 2), Math.atan2(3, 4), Math.atan2(4, 4));
        });
        checks.check("operators with a number", () -> {
            Checks.array(x.add(2), shape, 3, 4, 5, 6);
            Checks.array(x.sub(2), shape, -1, 0, 1, 2);
            Checks.array(x.mul(2.5), shape, 2.5, 5, 7.5, 10);
            Checks.array(x.div(2), shape, 0.5, 1, 1.5, 2);
            Checks.array(x.mod(2), shape, 1, 0, 1, 0);
            Checks.array(x.pow(2), shape, 1, 4, 9, 16);
            Checks.array(x.maximum(2.5), shape, 2.5, 2.5, 3, 4);
            Checks.array(x.minimum(2.5), shape, 1, 2, 2.5, 2.5);
            Checks.array(NDArrays.sub(10, x), shape, 9, 8, 7, 6);
            Checks.array(NDArrays.div(12, x), shape, 12, 6, 4, 3);
            Checks.array(NDArrays.mod(5, x), shape, 0, 1, 2, 1);
            Checks.array(NDArrays.pow(2, x), shape, 2, 4, 8, 16);
        });
        checks.check("operators in place", () -> {
            NDArray z = x.duplicate();
            Checks.that(z.addi(y) == z, "another array");
            Checks.array(z, shape, 3, 4, 7, 8);
            z.subi(1).muli(2).divi(4).powi(2);
            Checks.array(z, shape, 1, 2.25, 9, 12.25);
            z.modi(2).negi();
            Checks.array(z, shape, -1, -0.25, -1, -0.25);
            NDArrays.subi(1, z);
            Checks.array(z, shape, 2, 1.25, 2, 1.25);
        });
        checks.check("broadcasting", () -> {
            Checks.array(x.add(vector(10, 20)), shape, 11, 22, 13, 24);
            Checks.array(vector(1, 2).reshape(2, 1).mul(vector(3, 4)), shape, 3, 4, 6, 8);
            Checks.array(vector(1, 2).broadcast(new Shape(2, 2)), shape, 1, 2, 1, 2);
            Checks.array(manager.create(5f).add(x), shape, 6, 7, 8, 9);
        });
        checks.check("sums of many arrays", () -> {
            Checks.array(NDArrays.add(x, x, y), shape, 4, 6, 10, 12);
            Checks.array(NDArrays.mul(x, y, y), shape, 4, 8, 48, 64);
        });
        checks.check("integer arithmetic", () -> {
            NDArray a = manager.create(new int[] {7, -7, 9});
            NDArray b = manager.create(new int[] {2, 2, 4});
            Checks.array(a.add(b), new Shape(3), 9, -5, 13);
            Checks.array(a.mul(b), new Shape(3), 14, -14, 36);
            Checks.equal(DataType.INT32, a.add(b).getDataType());
            Checks.equal(DataType.INT32, a.add(1).getDataType());
            Checks.array(a.div(b), new Shape(3), 3.5, -3.5, 2.25);
        });
    }

    private void unary(String name, UnaryOperator<NDArray> function, java.util.function.DoubleUnaryOperator expected, double... at) {
        checks.check(name, () -> {
            double[] values = java.util.Arrays.stream(at).map(v -> expected.applyAsDouble((float) v)).toArray();
            Checks.array(function.apply(vector(at)), new Shape(at.length), values);
        });
    }

    private void functions() {
        unary("neg", NDArray::neg, v -> -v, -1, 0.5);
        unary("abs", NDArray::abs, Math::abs, -1, 0.5);
        unary("square", NDArray::square, v -> v * v, -1, 0.5);
        unary("sqrt", NDArray::sqrt, Math::sqrt, 0, 2, 9);
        unary("cbrt", NDArray::cbrt, Math::cbrt, -8, 2);
        unary("floor", NDArray::floor, Math::floor, -1.5, 1.5);
        unary("ceil", NDArray::ceil, Math::ceil, -1.5, 1.5);
        unary("round", NDArray::round, v -> v < 0 ? -Math.floor(-v + 0.5) : Math.floor(v + 0.5), -1.7, 1.2, 2.6);
        unary("trunc", NDArray::trunc, v -> v < 0 ? Math.ceil(v) : Math.floor(v), -1.5, 1.5);
        unary("sign", NDArray::sign, Math::signum, -3, 0, 2);
        unary("exp", NDArray::exp, Math::exp, -1, 0, 2);
        unary("log", NDArray::log, Math::log, 0.5, 1, 10);
        unary("log10", NDArray::log10, Math::log10, 0.5, 1, 100);
        unary("log2", NDArray::log2, v -> Math.log(v) / Math.log(2), 0.5, 1, 8);
        unary("sin", NDArray::sin, Math::sin, -1, 2);
        unary("cos", NDArray::cos, Math::cos, -1, 2);
        unary("tan", NDArray::tan, Math::tan, -1, 1.2);
        unary("asin", NDArray::asin, Math::asin, -0.5, 1);
        unary("acos", NDArray::acos, Math::acos, -0.5, 1);
        unary("atan", NDArray::atan, Math::atan, -5, 0.1);
        unary("sinh", NDArray::sinh, Math::sinh, -1, 2);
        unary("cosh", NDArray::cosh, Math::cosh, -1, 2);
        unary("tanh", NDArray::tanh, Math::tanh, -1, 2);
        unary("asinh", NDArray::asinh, v -> Math.log(v + Math.sqrt(v * v + 1)), 0.5, 2);
        unary("acosh", NDArray::acosh, v -> Math.log(v + Math.sqrt(v * v - 1)), 1, 2);
        unary("atanh", NDArray::atanh, v -> 0.5 * Math.log((1 + v) / (1 - v)), -0.5, 0.25);
        unary("toDegrees", NDArray::toDegrees, Math::toDegrees, 1, -2);
        unary("toRadians", NDArray::toRadians, Math::toRadians, 90, -180);
        unary("clip", x -> x.clip(-1, 1), v -> Math.max(-1, Math.min(1, v)), -3, 0.5, 3);
        unary("erf", NDArray::erf, v -> v == 0 ? 0 : 0.8427008, 0, 1);
        unary("relu", x -> x.getNDArrayInternal().relu(), v -> Math.max(0, v), -3, 3);
        unary("sigmoid", x -> x.getNDArrayInternal().sigmoid(), v -> 1 / (1 + Math.exp(-v)), -3, 0, 3);
        unary("softPlus", x -> x.getNDArrayInternal().softPlus(), v -> Math.log1p(Math.exp(v)), -3, 0, 3);
        unary("leakyRelu", x -> x.getNDArrayInternal().leakyRelu(0.1f), v -> v < 0 ? v * 0.1f : v, -3, 3);
        unary("elu", x -> x.getNDArrayInternal().elu(0.5f), v -> v < 0 ? 0.5 * Math.expm1(v) : v, -3, 3);
        unary("swish", x -> x.getNDArrayInternal().swish(1f), v -> v / (1 + Math.exp(-v)), -3, 3);
        checks.check("isNaN", () -> Checks.array(vector(1, Double.NaN, Double.POSITIVE_INFINITY).isNaN(), new Shape(3), 0, 1, 0));
    }

    private void comparisons() {
        NDArray x = vector(1, 2, 3);
        NDArray y = vector(3, 2, 1);
        Shape shape = new Shape(3);
        checks.check("comparisons", () -> {
            Checks.equal(DataType.BOOLEAN, x.eq(y).getDataType());
            Checks.array(x.eq(y), shape, 0, 1, 0);
            Checks.array(x.neq(y), shape, 1, 0, 1);
            Checks.array(x.gt(y), shape, 0, 0, 1);
            Checks.array(x.gte(y), shape, 0, 1, 1);
            Checks.array(x.lt(y), shape, 1, 0, 0);
            Checks.array(x.lte(y), shape, 1, 1, 0);
            Checks.array(x.eq(2), shape, 0, 1, 0);
            Checks.array(x.neq(2), shape, 1, 0, 1);
            Checks.array(x.gt(2), shape, 0, 0, 1);
            Checks.array(x.gte(2), shape, 0, 1, 1);
            Checks.array(x.lt(2), shape, 1, 0, 0);
            Checks.array(x.lte(2), shape, 1, 1, 0);
        });
        checks.check("equality", () -> {
            Checks.that(x.contentEquals(vector(1, 2, 3)), "equal");
            Checks.that(!x.contentEquals(y), "not equal");
            Checks.that(manager.ones(shape).contentEquals(1), "ones");
            Checks.that(x.allClose(x.add(1e-7)), "close");
        });
        checks.check("logic", () -> {
            NDArray a = manager.create(new boolean[] {true, true, false});
            NDArray b = manager.create(new boolean[] {true, false, false});
            Checks.array(a.logicalAnd(b), shape, 1, 0, 0);
            Checks.array(a.logicalOr(b), shape, 1, 1, 0);
            Checks.array(a.logicalXor(b), shape, 0, 1, 0);
            Checks.array(a.logicalNot(), shape, 0, 0, 1);
            Checks.equal(true, a.any().getBoolean());
            Checks.equal(false, a.all().getBoolean());
            Checks.array(a.countNonzero(), new Shape(), 2);
        });
        checks.check("where", () -> Checks.array(NDArrays.where(x.gt(1), x, y), shape, 3, 2, 3));
    }

    private void reductions() {
        NDArray x = matrix(2, 3);
        checks.check("reductions of all", () -> {
            Checks.array(x.sum(), new Shape(), 15);
            Checks.array(x.mean(), new Shape(), 2.5);
            Checks.array(x.max(), new Shape(), 5);
            Checks.array(x.min(), new Shape(), 0);
            Checks.array(x.add(1).prod(), new Shape(), 720);
        });
        checks.check("reductions of axes", () -> {
            Checks.array(x.sum(new int[] {0}), new Shape(3), 3, 5, 7);
            Checks.array(x.sum(new int[] {1}, true), new Shape(2, 1), 3, 12);
            Checks.array(x.mean(new int[] {-1}), new Shape(2), 1, 4);
            Checks.array(x.max(new int[] {0, 1}), new Shape(), 5);
            Checks.array(x.min(new int[] {0}), new Shape(3), 0, 1, 2);
            Checks.array(x.prod(new int[] {1}), new Shape(2), 0, 60);
        });
        checks.check("index of the largest", () -> {
            Checks.array(x.argMax(), new Shape(), 5);
            Checks.array(x.argMax(1), new Shape(2), 2, 2);
            Checks.array(x.argMin(0), new Shape(3), 0, 0, 0);
            Checks.equal(DataType.INT64, x.argMax(1).getDataType());
        });
        checks.check("sums along an axis", () -> {
            Checks.array(x.cumSum(1), new Shape(2, 3), 0, 1, 3, 3, 7, 12);
            Checks.array(x.cumSum(), new Shape(6), 0, 1, 3, 6, 10, 15);
        });
        checks.check("norm", () -> {
            Checks.array(vector(3, 4).norm(), new Shape(), 5);
            Checks.array(x.norm(new int[] {1}), new Shape(2), Math.sqrt(5), Math.sqrt(50));
        });
        checks.check("trace", () -> Checks.array(matrix(3, 3).trace(), new Shape(), 12));
        checks.check("softmax", () -> {
            double[] e = {Math.exp(-2), Math.exp(-1), 1};
            double sum = e[0] + e[1] + e[2];
            Checks.array(vector(0, 1, 2).softmax(0), new Shape(3), e[0] / sum, e[1] / sum, e[2] / sum);
            Checks.array(vector(0, 1, 2).logSoftmax(-1), new Shape(3), -2 - Math.log(sum), -1 - Math.log(sum), -Math.log(sum));
        });
    }

    private void shapes() {
        NDArray x = matrix(2, 3);
        checks.check("reshape", () -> {
            Checks.array(x.reshape(3, -1), new Shape(3, 2), 0, 1, 2, 3, 4, 5);
            Checks.equal(new Shape(6), x.flatten().getShape());
            Checks.equal(new Shape(1, 2, 3), x.expandDims(0).getShape());
            Checks.equal(new Shape(2, 3), x.expandDims(1).squeeze(1).getShape());
            Checks.equal(new Shape(), manager.ones(new Shape(1, 1)).squeeze().getShape());
        });
        checks.check("transpose", () -> {
            Checks.array(x.transpose(), new Shape(3, 2), 0, 3, 1, 4, 2, 5);
            Checks.array(x.transpose(1, 0), new Shape(3, 2), 0, 3, 1, 4, 2, 5);
            Checks.array(x.swapAxes(0, 1), new Shape(3, 2), 0, 3, 1, 4, 2, 5);
            Checks.array(x.flip(1), new Shape(2, 3), 2, 1, 0, 5, 4, 3);
            Checks.array(x.rotate90(1, new int[] {0, 1}), new Shape(3, 2), 2, 5, 1, 4, 0, 3);
        });
        checks.check("join", () -> {
            Checks.array(x.concat(x), new Shape(4, 3), 0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5);
            Checks.array(x.concat(x, 1), new Shape(2, 6), 0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5);
            Checks.array(vector(1, 2).stack(vector(3, 4), 1), new Shape(2, 2), 1, 3, 2, 4);
            Checks.equal(new Shape(3, 2, 3), NDArrays.stack(new NDList(x, x, x)).getShape());
        });
        checks.check("split", () -> {
            NDList parts = x.split(3, 1);
            Checks.equal(3, parts.size());
            Checks.array(parts.get(2), new Shape(2, 1), 2, 5);
            NDList uneven = vector(0, 1, 2, 3, 4).split(new long[] {1, 3});
            Checks.array(uneven.get(1), new Shape(2), 1, 2);
            Checks.array(uneven.get(2), new Shape(2), 3, 4);
        });
        checks.check("repeat and tile", () -> {
            Checks.array(vector(1, 2).repeat(2), new Shape(4), 1, 1, 2, 2);
            Checks.array(vector(1, 2).repeat(0, 3), new Shape(6), 1, 1, 1, 2, 2, 2);
            Checks.array(vector(1, 2).tile(2), new Shape(4), 1, 2, 1, 2);
            Checks.array(x.tile(new long[] {1, 2}), new Shape(2, 6), 0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5);
        });
    }

    private void products() {
        NDArray x = matrix(2, 3);
        checks.check("dot", () -> {
            Checks.array(x.dot(x.transpose()), new Shape(2, 2), 5, 14, 14, 50);
            Checks.array(vector(1, 2, 3).dot(vector(4, 5, 6)), new Shape(), 32);
            Checks.array(x.dot(vector(1, 1, 1)), new Shape(2), 3, 12);
        });
        checks.check("matMul", () -> {
            Checks.array(x.matMul(x.transpose()), new Shape(2, 2), 5, 14, 14, 50);
            NDArray batch = manager.ones(new Shape(2, 2, 3)).matMul(manager.ones(new Shape(2, 3, 1)));
            Checks.array(batch, new Shape(2, 2, 1), 3, 3, 3, 3);
        });
        checks.check("batchDot", () -> {
            NDArray a = manager.arange(8).toType(DataType.FLOAT32, false).reshape(2, 2, 2);
            Checks.array(a.batchDot(a), new Shape(2, 2, 2), 2, 3, 6, 11, 46, 55, 66, 79);
        });
    }

    private void sorting() {
        NDArray x = vector(3, 1, 2);
        checks.check("sort", () -> {
            Checks.array(x.sort(), new Shape(3), 1, 2, 3);
            Checks.array(x.argSort(), new Shape(3), 1, 2, 0);
            Checks.array(x.argSort(0, false), new Shape(3), 0, 2, 1);
        });
        checks.check("nonzero", () -> Checks.array(vector(0, 5, 0, 7).nonzero(), new Shape(2, 1), 1, 3));
        checks.check("oneHot", () -> {
            Checks.array(manager.create(new int[] {1, 0}).oneHot(3), new Shape(2, 3), 0, 1, 0, 1, 0, 0);
            Checks.array(vector(1).oneHot(2, 5f, -1f, DataType.FLOAT32), new Shape(1, 2), -1, 5);
        });
        checks.check("sequenceMask", () -> {
            NDArray masked = matrix(2, 3).add(1).sequenceMask(vector(1, 2), -1);
            Checks.array(masked, new Shape(2, 3), 1, -1, -1, 4, 5, -1);
        });
    }

    private void types() {
        checks.check("types", () -> {
            NDArray x = vector(1.7, -2.2, 3);
            for (DataType type : new DataType[] {DataType.FLOAT64, DataType.FLOAT16, DataType.INT32, DataType.INT64, DataType.INT8}) {
                Checks.equal(type, x.toType(type, true).getDataType());
            }
            Checks.array(x.toType(DataType.INT32, true), new Shape(3), 1, -2, 3);
            Checks.array(vector(0, 2).toType(DataType.BOOLEAN, true), new Shape(2), 0, 1);
            Checks.array(vector(250, 3).toType(DataType.UINT8, true), new Shape(2), 250, 3);
        });
        checks.check("float16", () -> {
            NDArray half = vector(1, 2, 3).toType(DataType.FLOAT16, true);
            Checks.array(half.mul(half), new Shape(3), 1, 4, 9);
            Checks.array(half.sum(), new Shape(), 6);
        });
        checks.check("devices", () -> {
            NDArray x = vector(1, 2);
            Checks.equal(ai.djl.Device.cpu(), x.getDevice());
            Checks.array(x.toDevice(ai.djl.Device.cpu(), true), new Shape(2), 1, 2);
            Checks.equal(0, manager.getEngine().getGpuCount());
        });
        checks.check("set", () -> {
            NDArray x = manager.zeros(new Shape(2, 2));
            x.set(new float[] {1, 2, 3, 4});
            Checks.array(x, new Shape(2, 2), 1, 2, 3, 4);
            NDArray y = manager.zeros(new Shape(2, 2));
            x.copyTo(y);
            Checks.array(y, new Shape(2, 2), 1, 2, 3, 4);
        });
    }

    private void sparse() {
        checks.check("csr", () -> {
            java.nio.FloatBuffer data = java.nio.FloatBuffer.wrap(new float[] {7, 8, 9});
            NDArray x = manager.createCSR(data, new long[] {0, 2, 2, 3}, new long[] {0, 2, 1}, new Shape(3, 4));
            Checks.equal(SparseFormat.CSR, x.getSparseFormat());
            Checks.array(x.toDense(), new Shape(3, 4), 7, 0, 8, 0, 0, 0, 0, 0, 0, 9, 0, 0);
        });
        checks.check("row_sparse", () -> {
            java.nio.FloatBuffer data = java.nio.FloatBuffer.wrap(new float[] {1, 2, 3, 4});
            NDArray x = manager.createRowSparse(data, new Shape(2, 2), new long[] {0, 2}, new Shape(3, 2));
            Checks.equal(SparseFormat.ROW_SPARSE, x.getSparseFormat());
            Checks.array(x.toDense(), new Shape(3, 2), 1, 2, 0, 0, 3, 4);
        });
        checks.check("toSparse", () -> {
            NDArray x = manager.create(new float[] {0, 1, 0, 0}, new Shape(2, 2));
            Checks.equal(SparseFormat.CSR, x.toSparse(SparseFormat.CSR).getSparseFormat());
            Checks.array(x.toSparse(SparseFormat.CSR).toDense(), new Shape(2, 2), 0, 1, 0, 0);
        });
    }

    private void files() {
        checks.check("encode and decode", () -> {
            NDArray x = matrix(2, 3);
            x.setName("x");
            NDList list = NDList.decode(manager, new NDList(x, manager.create(new long[] {5})).encode());
            Checks.array(list.get(0), new Shape(2, 3), 0, 1, 2, 3, 4, 5);
            Checks.equal("x", list.get(0).getName());
            Checks.equal(DataType.INT64, list.get(1).getDataType());
            Checks.array(NDArray.decode(manager, x.encode()), new Shape(2, 3), 0, 1, 2, 3, 4, 5);
        });
        checks.check("arrays in NumPy's format", () -> {
            NDList list = NDList.decode(manager, new NDList(vector(1, 2), matrix(2, 2)).encode(NDList.Encoding.NPZ));
            Checks.array(list.get(1), new Shape(2, 2), 0, 1, 2, 3);
        });
        checks.check("arrays in MXNet's format", () -> {
            Path file = Path.of("tests/oracle/fixtures/version-2.params");
            NDList list = manager.load(file);
            Checks.equal(4, list.get(0).getShape().size() > 0 ? (int) list.get(0).getShape().size() : 0);
            Checks.equal("arg:square", list.get(0).getName());
            Checks.that(Files.size(file) > 0, "the file is empty");
        });
    }

    private void errors() {
        checks.check("errors are exceptions with MXNet's text", () -> {
            try {
                matrix(2, 3).add(matrix(4, 5)).toFloatArray();
                throw new AssertionError("no exception");
            } catch (EngineException e) {
                Checks.that(e.getMessage().contains("MXNet engine call failed"), e.getMessage());
            }
        });
        checks.check("an array that was closed", () -> {
            NDArray x = vector(1, 2);
            x.close();
            try {
                x.toFloatArray();
                throw new AssertionError("no exception");
            } catch (IllegalStateException e) {
                Checks.that(e.getMessage().contains("released"), e.getMessage());
            }
        });
    }
}
