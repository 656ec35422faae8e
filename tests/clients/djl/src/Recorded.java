import ai.djl.ndarray.NDArray;
import ai.djl.ndarray.NDManager;
import ai.djl.ndarray.types.Shape;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;

/** Compares results with those of MXNet 1.9.1, which the client records if it runs with the argument "record". */
final class Recorded {
    private static final Path FILE = Path.of("tests/clients/djl/recorded.tsv");
    private final Checks checks;
    private final NDManager manager;
    private final Map<String, double[]> expected = new LinkedHashMap<>();
    private final Map<String, double[]> recorded;

    /** A computation with arrays of its own manager. */
    interface Computation {
        double[] run(NDManager manager) throws Exception;
    }

    Recorded(Checks checks, NDManager manager, boolean record) throws IOException {
        this.checks = checks;
        this.manager = manager;
        this.recorded = record ? new LinkedHashMap<>() : null;
        for (String line : record ? java.util.List.<String>of() : Files.readAllLines(FILE)) {
            String[] fields = line.split("\t");
            expected.put(fields[0], Arrays.stream(fields[1].split(" ")).mapToDouble(Double::parseDouble).toArray());
        }
    }

    void check(String name, Computation computation) {
        checks.check(name, () -> {
            try (NDManager own = manager.newSubManager()) {
                double[] actual = computation.run(own);
                if (recorded != null) {
                    recorded.put(name, actual);
                } else {
                    compare(expected.get(name), actual);
                }
            }
        });
    }

    private static void compare(double[] expected, double[] actual) {
        Checks.that(expected != null, "nothing is recorded: run the client with the argument record and MXNet's library");
        Checks.equal(expected.length, actual.length);
        for (int i = 0; i < actual.length; i++) {
            double allowed = 1e-3 * Math.max(1, Math.abs(expected[i]));
            boolean same = Double.compare(actual[i], expected[i]) == 0 || Math.abs(actual[i] - expected[i]) <= allowed;
            Checks.that(same, "number " + i + " of " + Arrays.toString(actual) + " differs from " + Arrays.toString(expected));
        }
    }

    /** Writes the results if the client is recording. */
    void write() throws IOException {
        if (recorded == null) {
            return;
        }
        Files.write(FILE, recorded.entrySet().stream()
                .map(entry -> entry.getKey() + "\t" + Arrays.stream(entry.getValue())
                        .mapToObj(number -> String.format(Locale.ROOT, "%.6g", number)).collect(Collectors.joining(" ")))
                .collect(Collectors.toList()));
    }

    /** The sines of 1, 1 + frequency, 1 + 2 frequency, ... */
    static NDArray waves(NDManager manager, Shape shape, double frequency) {
        float[] elements = new float[(int) shape.size()];
        for (int i = 0; i < elements.length; i++) {
            elements[i] = (float) Math.sin(1 + frequency * i);
        }
        return manager.create(elements, shape);
    }

    /** A weighted sum of an array, with a different weight for each element. */
    static NDArray mixed(NDArray array) {
        return array.mul(waves(array.getManager(), array.getShape(), 0.7)).sum();
    }

    /** The elements of an array of 32-bit numbers. */
    static double[] elements(NDArray array) {
        float[] elements = array.toFloatArray();
        double[] numbers = new double[elements.length];
        Arrays.setAll(numbers, i -> elements[i]);
        return numbers;
    }
}
