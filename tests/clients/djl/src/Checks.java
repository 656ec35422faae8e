import ai.djl.ndarray.NDArray;
import ai.djl.ndarray.types.DataType;
import ai.djl.ndarray.types.Shape;

/** Runs named checks, prints those that fail, and counts. */
final class Checks {
    private int passed;
    private int failed;

    /** A check, which throws if it fails. */
    interface Body {
        void run() throws Exception;
    }

    void check(String name, Body body) {
        try {
            body.run();
            passed++;
        } catch (Exception | AssertionError e) {
            failed++;
            System.out.println("FAIL " + name + ": " + e);
        }
    }

    /** Prints the counts and returns whether all checks passed. */
    boolean report() {
        System.out.println(passed + " passed, " + failed + " failed");
        return failed == 0;
    }

    static void that(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static void equal(Object expected, Object actual) {
        that(expected.equals(actual), "expected " + expected + ", but it is " + actual);
    }

    static void near(double expected, double actual) {
        that(Math.abs(expected - actual) <= 1e-5 * Math.max(1, Math.abs(expected)), "expected " + expected + ", but it is " + actual);
    }

    /** The shape and all elements of an array, of whatever type. */
    static void array(NDArray actual, Shape shape, double... expected) {
        equal(shape, actual.getShape());
        NDArray asDouble = actual.toType(DataType.FLOAT64, true);
        double[] elements = asDouble.toDoubleArray();
        equal(expected.length, elements.length);
        for (int i = 0; i < elements.length; i++) {
            boolean same = Double.isNaN(expected[i]) && Double.isNaN(elements[i]) || expected[i] == elements[i];
            double allowed = 2e-5 * Math.max(1, Math.abs(expected[i]));
            that(same || Math.abs(expected[i] - elements[i]) <= allowed,
                    "element " + i + " is " + elements[i] + ", expected " + expected[i]);
        }
    }
}
