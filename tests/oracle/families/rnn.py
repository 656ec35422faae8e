"""Recurrent networks: the operator RNN in all its modes, in double precision: without oneDNN, MXNet mistakes its inputs in single."""

from cases import InferCase, OpCase, data

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def network(mode, layers=1, directions=1, size=(3, 2, 4), hidden=3, dtype="float64", **more):
    """A case with weights of moderate size; `more` are fields of the case and attributes."""
    steps, batch, width = size
    count = 0
    for layer in range(layers):
        below = width if layer == 0 else hidden * directions
        count += directions * (GATES[mode] * hidden * (below + hidden + 2))
    inputs = [data(size, dtype), data((count,), dtype, seed=1, lo=-1, hi=1)]
    inputs.append(data((layers * directions, batch, hidden), dtype, seed=2, lo=-1, hi=1))
    if mode == "lstm":
        inputs.append(data((layers * directions, batch, hidden), dtype, seed=3, lo=-1, hi=1))
    attrs = {"mode": mode, "state_size": hidden, "num_layers": layers}
    if directions == 2:
        attrs["bidirectional"] = True
    fields = {k: more.pop(k) for k in ("train", "grad", "req", "why", "rtol", "atol") if k in more}
    attrs.update(more)
    fields.setdefault("train", True)
    fields.setdefault("grad", "all")
    return OpCase("RNN", inputs, attrs, **fields)


def cases():
    for mode in GATES:
        for layers in (1, 2, 3):
            for directions in (1, 2):
                # MXNet's gradients of three layers are wrong except for an LSTM: compare them with finite
                # differences.
                more = {} if mode == "lstm" or layers < 3 else {"grad": None}
                # Some of MXNet's rectifiers round to single precision.
                more.update({"rtol": 1e-6} if mode == "rnn_relu" else {})
                for state_outputs in (True, False):
                    yield network(mode, layers, directions, state_outputs=state_outputs, **more)
        yield network(mode, 1, 1, size=(1, 1, 1), hidden=1, state_outputs=True)
        yield network(mode, 2, 1, size=(7, 3, 5), hidden=17, state_outputs=True, rtol=1e-5, atol=1e-4, why="beyond a vector's width")
        yield network(mode, 1, 2, req="add", state_outputs=True)
        yield network(mode, 2, 2, train=False, grad=None, state_outputs=True, rtol=1e-6)
        yield network(mode, 2, 1, train=False, grad=None, p=0.5, state_outputs=True, rtol=1e-6, why="dropout is for training")
    yield network("lstm", size=(3, 2, 4), state_outputs="maybe", why="no boolean")
    yield network("gru", p=1.5, why="no probability")
    good = network("gru")
    yield OpCase("RNN", good.inputs[:2] + [data((1, 2, 4), "float64")], good.attrs, why="state of another size")
    yield OpCase("RNN", [data((3, 2), "float64")] + good.inputs[1:], good.attrs, why="data of two dimensions")
    yield OpCase("RNN", [good.inputs[0], data((5,), "float64")] + good.inputs[2:], good.attrs, why="too few parameters")
    yield OpCase("RNN", good.inputs, dict(good.attrs, mode="elman"), why="no such mode")
    yield from inference()


def inference():
    for mode in GATES:
        attrs = {"mode": mode, "state_size": 5, "num_layers": 2, "state_outputs": True, "bidirectional": True}
        yield InferCase("RNN", attrs, shapes={"data": (7, 3, 4)})
        yield InferCase("RNN", attrs, shapes={"data": (7, 3, 4), "state": (0, 0, 5)})
        yield InferCase("RNN", attrs, shapes={"data": (7, 3, 4), "state": (4, 2, 5)}, why="another batch")
        yield InferCase("RNN", attrs, types={"data": "float64"})
    attrs = {"mode": "lstm", "state_size": 5, "num_layers": 2, "projection_size": 3}
    yield InferCase("RNN", attrs, shapes={"data": (7, 3, 4)})
    yield InferCase("RNN", {**attrs, "use_sequence_length": True}, shapes={"data": (7, 3, 4)})
