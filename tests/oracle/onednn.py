"""Networks that MXNet's oneDNN backend rewrote, in single precision and with 8-bit integers, and their results in MXNet."""

import logging

import numpy as np

import mxnet as mx
from mxnet.contrib.quantization import quantize_model_mkldnn

SHAPE = (2, 3, 8, 8)


def network():
    """Every subgraph that the backend fuses: with batch normalization, activations before and after an addition, functions of
    fully connected layers, and results that stay numbers."""
    data = mx.sym.Variable("data")
    first = mx.sym.Convolution(data, kernel=(3, 3), num_filter=4, name="c1")
    first = mx.sym.BatchNorm(first, fix_gamma=False, name="b1")
    first = mx.sym.Activation(first, act_type="relu", name="a1")
    second = mx.sym.Convolution(first, kernel=(3, 3), pad=(1, 1), num_filter=4, name="c2")
    total = mx.sym.Activation(first + second, act_type="relu", name="a2")
    pooled = mx.sym.Pooling(total, kernel=(2, 2), stride=(2, 2), pool_type="max", name="p")
    third = mx.sym.Convolution(pooled, kernel=(1, 1), num_filter=6, no_bias=True, name="c3")
    hidden = mx.sym.FullyConnected(third, num_hidden=8, name="f1")
    hidden = mx.sym.Activation(hidden, act_type="relu", name="a3")
    return mx.sym.FullyConnected(hidden, num_hidden=5, name="f2")


def parameters(symbol, random):
    shapes, _, aux_shapes = symbol.infer_shape(data=SHAPE)
    args = {n: mx.nd.array(random.randn(*s) * 0.3) for n, s in zip(symbol.list_arguments(), shapes) if n != "data"}
    aux = {n: mx.nd.array(random.rand(*s) + 0.5) for n, s in zip(symbol.list_auxiliary_states(), aux_shapes)}
    return args, aux


def outputs(symbol, args, aux, data):
    executor = symbol.bind(mx.cpu(), dict(args, data=mx.nd.array(data)), aux_states=aux, grad_req="null")
    return [o.asnumpy() for o in executor.forward(is_train=False)]


def write(folder, store):
    random = np.random.RandomState(7)
    symbol = network()
    args, aux = parameters(symbol, random)
    data = random.rand(*SHAPE).astype(np.float32)
    examples = random.rand(32, *SHAPE[1:]).astype(np.float32)

    def quantized(calibration, granularity):
        return quantize_model_mkldnn(
            sym=symbol, arg_params=args, aux_params=aux, calib_mode=calibration, quantized_dtype="auto", quantize_mode="smart",
            calib_data=mx.io.NDArrayIter(examples, batch_size=2), num_calib_examples=32, quantize_granularity=granularity,
            logger=logging.getLogger("quiet"),
        )

    rewritten = symbol.get_backend_symbol("MKLDNN")
    numbers = outputs(symbol, args, aux, data)
    for name, (net, net_args, net_aux), rtol in [
        ("onednn", (rewritten, args, aux), 1e-5),
        ("onednn-int8", quantized("naive", "tensor-wise"), 0.05),
        ("onednn-int8-uncalibrated", quantized("none", "tensor-wise"), 0.05),
        ("onednn-int8-channels", quantized("naive", "channel-wise"), 0.05),
    ]:
        net.save(str(folder / (name + "-symbol.json")))
        saved = {"arg:" + k: v for k, v in net_args.items()}
        saved.update({"aux:" + k: v for k, v in net_aux.items()})
        mx.nd.save(str(folder / (name + "-0000.params")), saved)
        results = outputs(net, net_args, net_aux, data)
        store.line("prediction", name, {
            "data": store.array(data, "data"),
            "outputs": [store.array(r) for r in results],
            # A fraction of the largest value, because 8-bit integers are rounded.
            "atol": rtol * float(max(abs(n).max() for n in numbers)),
        })
