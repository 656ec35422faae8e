import ai.djl.engine.Engine;
import ai.djl.ndarray.NDManager;

/** A typical program of DJL's MXNet engine: arrays, gradients, training, and a network from MXNet's files. */
public final class Client {
    private Client() {}

    public static void main(String[] arguments) throws Exception {
        System.out.println(Engine.getEngine("MXNet"));
        Checks checks = new Checks();
        try (NDManager manager = Engine.getEngine("MXNet").newBaseManager()) {
            new ArrayChecks(checks, manager).run();
            new IndexChecks(checks, manager).run();
            new GradientChecks(checks, manager).run();
            Recorded recorded = new Recorded(checks, manager, arguments.length > 0 && arguments[0].equals("record"));
            new LayerChecks(recorded).run();
            new FunctionChecks(recorded).run();
            recorded.write();
        }
        new TrainingChecks(checks).run();
        new SymbolChecks(checks).run();
        if (!checks.report()) {
            System.exit(1);
        }
    }
}
