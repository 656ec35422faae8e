import ai.djl.ndarray.NDArray;
import ai.djl.ndarray.NDManager;
import ai.djl.ndarray.index.NDIndex;
import ai.djl.ndarray.types.DataType;
import ai.djl.ndarray.types.Shape;

/** Reading and writing by index. */
final class IndexChecks {
    private final Checks checks;
    private final NDManager manager;

    IndexChecks(Checks checks, NDManager manager) {
        this.checks = checks;
        this.manager = manager;
    }

    private NDArray cube() {
        return manager.arange(24).toType(DataType.FLOAT32, false).reshape(2, 3, 4);
    }

    void run() {
        checks.check("numbers and ranges", () -> {
            NDArray x = cube();
            Checks.array(x.get(1, 2), new Shape(4), 20, 21, 22, 23);
            Checks.near(17, x.getFloat(1, 1, 1));
            Checks.array(x.get("0,1"), new Shape(4), 4, 5, 6, 7);
            Checks.array(x.get("0,-1"), new Shape(4), 8, 9, 10, 11);
            Checks.array(x.get("1, :, 0"), new Shape(3), 12, 16, 20);
            Checks.array(x.get("0, 1:, 1:3"), new Shape(2, 2), 5, 6, 9, 10);
            Checks.array(x.get("0, ::2, ::3"), new Shape(2, 2), 0, 3, 8, 11);
            Checks.array(x.get("..., 3"), new Shape(2, 3), 3, 7, 11, 15, 19, 23);
            Checks.array(x.get("0, 0, -2:"), new Shape(2), 2, 3);
            Checks.array(x.get(new NDIndex().addIndices(0).addSliceDim(0, 2).addIndices(1)), new Shape(2), 1, 5);
        });
        checks.check("boolean masks", () -> {
            NDArray x = manager.create(new float[] {1, -2, 3, -4});
            Checks.array(x.get(x.gt(0)), new Shape(2), 1, 3);
            Checks.array(x.booleanMask(x.lt(0)), new Shape(2), -2, -4);
            x.set(x.lt(0), 0f);
            Checks.array(x, new Shape(4), 1, 0, 3, 0);
        });
        checks.check("lists of indices", () -> {
            NDArray x = cube().get("0");
            NDArray rows = manager.create(new long[] {2, 0});
            Checks.array(x.get(new NDIndex("{}", rows)), new Shape(2, 4), 8, 9, 10, 11, 0, 1, 2, 3);
            Checks.array(x.take(manager.create(new long[] {5, 1})), new Shape(2), 5, 1);
        });
        checks.check("gatherNd", () -> {
            NDArray x = manager.create(new float[] {1, 2, 3, 4}, new Shape(2, 2));
            NDArray positions = manager.create(new long[] {0, 1, 1, 0}, new Shape(2, 2));
            Checks.array(x.gatherNd(positions), new Shape(2), 2, 3);
        });
        checks.check("pick", () -> {
            NDArray x = manager.create(new float[] {1, 2, 3, 4}, new Shape(2, 2));
            Checks.array(x.get(new NDIndex().addAllDim().addPickDim(manager.create(new float[] {1, 0}))), new Shape(2, 1), 2, 3);
        });
        checks.check("set a number", () -> {
            NDArray x = manager.zeros(new Shape(2, 3));
            x.set(new NDIndex("0"), 5);
            x.set(new NDIndex(":, 2"), 7);
            x.set(new NDIndex("1, 0:2"), -1);
            Checks.array(x, new Shape(2, 3), 5, 5, 7, -1, -1, 7);
            x.setScalar(new NDIndex("1, 1"), 9);
            Checks.near(9, x.getFloat(1, 1));
        });
        checks.check("set an array", () -> {
            NDArray x = manager.zeros(new Shape(2, 3));
            x.set(new NDIndex("1"), manager.create(new float[] {1, 2, 3}));
            x.set(new NDIndex(":, 0:1"), manager.create(new float[] {8, 9}, new Shape(2, 1)));
            Checks.array(x, new Shape(2, 3), 8, 0, 0, 9, 2, 3);
        });
        checks.check("set by a function", () -> {
            NDArray x = cube().get("0");
            x.set(new NDIndex("1:"), y -> y.mul(10));
            Checks.array(x, new Shape(3, 4), 0, 1, 2, 3, 40, 50, 60, 70, 80, 90, 100, 110);
        });
    }
}
