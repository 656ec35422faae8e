"""A network with an operator that Python defines."""

import mxnet as mx


@mx.operator.register("scaled_by_python")
class Scaled(mx.operator.CustomOpProp):
    """An operator with a parameter, a named output and an auxiliary state."""

    def __init__(self, factor):
        super().__init__(need_top_grad=True)
        self.factor = float(factor)

    def list_outputs(self):
        return ["y"]

    def list_auxiliary_states(self):
        return ["count"]

    def infer_shape(self, in_shape):
        return in_shape, [in_shape[0]], [[1]]


def write(folder):
    """Writes the network as MXNet saves it."""
    hidden = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc")
    scaled = mx.sym.Custom(hidden, op_type="scaled_by_python", factor=3, name="mine")
    (folder / "custom-operator.json").write_text(scaled.tojson() + "\n")
