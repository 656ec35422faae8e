"""Inference without data: from arguments to outputs and back, with parts unknown, of shapes and of types."""

from cases import InferCase


def shapes(op, attrs=None, np_shape=False, why="", **known):
    return InferCase(op, attrs or {}, shapes=known, np_shape=np_shape, why=why)


def types(op, attrs=None, why="", **known):
    return InferCase(op, attrs or {}, types=known, why=why)


def cases():
    yield from layers()
    yield from elementwise()
    yield from movement()
    yield from losses()
    yield from unknown_rank()
    yield from all_types()
    yield from numpy_semantics()


def layers():
    dense = {"num_hidden": 4}
    for known in ({"data": (2, 3)}, {"data": (2, 3, 5)}, {"data": (0, 3)}, {"data": (2, 0)}, {"weight": (4, 3)}, {},
                  {"data": (2, 3), "weight": (4, 3)}, {"data": (2, 3), "weight": (4, 5)}, {"bias": (4,)},
                  {"data": (2, 3), "weight": (0, 0)}, {"data": (2, 3), "bias": (5,)}):
        yield shapes("FullyConnected", dense, **known)
    yield shapes("FullyConnected", dict(dense, flatten=False), data=(2, 3, 5))
    yield shapes("FullyConnected", dict(dense, flatten=False), data=(0, 3, 5))
    yield shapes("FullyConnected", dict(dense, no_bias=True), data=(2, 3))
    conv = {"kernel": (3, 3), "num_filter": 8}
    for known in ({"data": (2, 4, 9, 7)}, {"data": (0, 4, 9, 7)}, {"data": (2, 4, 0, 0)}, {}, {"weight": (8, 4, 3, 3)},
                  {"data": (2, 0, 9, 9)}, {"data": (2, 4, 9, 7), "weight": (8, 4, 3, 3)}):
        yield shapes("Convolution", conv, **known)
    for more in ({"stride": (2, 2)}, {"pad": (1, 2)}, {"dilate": (2, 2)}, {"num_group": 4}, {"no_bias": True},
                 {"layout": "NHWC"}):
        yield shapes("Convolution", dict(conv, **more), data=(2, 4, 9, 12))
    for convention in ("valid", "full"):
        for stride in (1, 2, 3):
            yield shapes("Pooling", {"kernel": (3, 2), "stride": (stride, stride), "pooling_convention": convention},
                         data=(2, 3, 10, 7))
    yield shapes("Pooling", {"global_pool": True}, data=(2, 3, 10, 7))
    yield shapes("Pooling", {"kernel": (2, 2)}, data=(0, 3, 4, 4))
    for attrs, known in (({}, {"data": (2, 3, 4)}), ({"axis": -1}, {"data": (2, 3, 4)}), ({}, {"gamma": (3,)}),
                         ({"output_mean_var": True}, {"data": (2, 3, 4)}), ({}, {}), ({}, {"data": (0, 3)}),
                         ({"axis": 0}, {"data": (2, 3, 4)})):
        yield shapes("BatchNorm", attrs, **known)
    yield shapes("LeakyReLU", {"act_type": "prelu"}, data=(2, 3, 4))
    yield shapes("LeakyReLU", {"act_type": "leaky"}, data=(2, 3, 4))
    yield shapes("Dropout", {}, data=(2, 3))
    yield shapes("Embedding", {"input_dim": 7, "output_dim": 5}, data=(2, 3))
    yield shapes("Embedding", {"input_dim": 7, "output_dim": 5})
    yield shapes("Embedding", {"input_dim": 7, "output_dim": 5}, data=(0, 3))


def elementwise():
    for op in ("elemwise_add", "elemwise_mul", "_maximum", "_equal"):
        for known in ({"lhs": (2, 3)}, {"rhs": (2, 3)}, {"lhs": (2, 0), "rhs": (0, 3)}, {"lhs": (2, 3), "rhs": (3, 2)},
                      {"lhs": (2, 3), "rhs": (2, 3, 1)}, {"lhs": (0, 3), "rhs": (2, 0)}):
            yield shapes(op, **known)
    for op in ("broadcast_add", "broadcast_equal"):
        for known in ({"lhs": (2, 1), "rhs": (1, 3)}, {"lhs": (2, 3)}, {"lhs": (2, 3), "rhs": (3,)},
                      {"lhs": (0, 3), "rhs": (1, 3)}, {"lhs": (2, 3), "rhs": (2, 4)}):
            yield shapes(op, **known)
    yield shapes("add_n", {"num_args": 3}, arg1=(2, 3))
    yield shapes("relu", data=(0, 3))
    yield shapes("Activation", {"act_type": "relu"}, data=(2, 3))
    yield shapes("_plus_scalar", {"scalar": 1}, data=(2, 3))
    yield shapes("where", condition=(2, 3), x=(2, 3))
    yield shapes("where", condition=(2,), x=(2, 3), y=(2, 3))


def movement():
    for target in ((0, -1), (-1,), (4, 0, -1), (-2,), (-3, 0), (0, -4, -1, 2, 0)):
        yield shapes("Reshape", {"shape": target}, data=(4, 6, 2))
        yield shapes("Reshape", {"shape": target}, data=(0, 6, 2))
        yield shapes("Reshape", {"shape": target})
    yield shapes("Flatten", data=(2, 3, 4))
    yield shapes("Flatten", data=(0, 3, 4))
    yield shapes("transpose", {"axes": (2, 0, 1)}, data=(2, 3, 4))
    yield shapes("transpose", data=(0, 3, 4))
    yield shapes("expand_dims", {"axis": 1}, data=(2, 3))
    yield shapes("squeeze", {}, data=(2, 1, 3, 1))
    yield shapes("Concat", {"num_args": 2, "dim": 1}, arg0=(2, 3), arg1=(2, 4))
    yield shapes("Concat", {"num_args": 2, "dim": 1}, arg0=(2, 3), arg1=(0, 4))
    yield shapes("Concat", {"num_args": 3, "dim": 1}, arg0=(2, 3))
    yield shapes("stack", {"num_args": 2, "axis": 1}, arg0=(2, 3))
    yield shapes("SliceChannel", {"num_outputs": 3}, data=(2, 6, 4))
    yield shapes("SliceChannel", {"num_outputs": 3, "squeeze_axis": True}, data=(2, 3, 4))
    yield shapes("slice", {"begin": (0, 1), "end": (1, 3)}, data=(2, 4, 5))
    yield shapes("slice_axis", {"axis": 1, "begin": 1, "end": 3}, data=(2, 4, 5))
    yield shapes("tile", {"reps": (2, 3)}, data=(2, 4))
    yield shapes("repeat", {"repeats": 3}, data=(2, 4))
    yield shapes("broadcast_to", {"shape": (2, 3)}, data=(1, 3))
    yield shapes("dot", {}, lhs=(2, 3), rhs=(3, 4))
    yield shapes("batch_dot", {"transpose_b": True}, lhs=(2, 3, 4), rhs=(2, 5, 4))
    yield shapes("sum", {"axis": (0, 2)}, data=(2, 3, 4))
    yield shapes("sum", {"axis": 1, "keepdims": True}, data=(2, 3, 4))
    yield shapes("argmax", {"axis": 1}, data=(2, 3, 4))
    yield shapes("topk", {"k": 2, "ret_typ": "both"}, data=(2, 3))
    yield shapes("take", {"axis": 1}, a=(2, 3, 4), indices=(5, 6))
    yield shapes("pick", {"axis": 1}, data=(2, 3, 4), index=(2, 4))
    yield shapes("pick", {"axis": 1}, data=(2, 3, 4))
    yield shapes("one_hot", {"depth": 5}, indices=(2, 3))


def losses():
    for attrs, known in (({}, {"data": (4, 10)}), ({"multi_output": True}, {"data": (4, 10, 3)}), ({}, {"label": (4,)}),
                         ({"preserve_shape": True}, {"data": (4, 10, 3)}), ({}, {"data": (0, 10)})):
        yield shapes("SoftmaxOutput", attrs, **known)
    for op in ("LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput"):
        yield shapes(op, data=(4, 1))
        yield shapes(op, data=(4, 3))
    yield shapes("sgd_mom_update", {"lr": 1}, weight=(2, 3))
    yield shapes("adam_update", {"lr": 1}, weight=(2, 3))


def unknown_rank():
    for op, attrs in (("Flatten", {}), ("softmax", {}), ("Dropout", {}), ("SoftmaxOutput", {}), ("sum", {"axis": 0}),
                      ("dot", {}), ("Concat", {"num_args": 2}), ("broadcast_add", {}), ("Pooling", {"kernel": (2, 2)})):
        yield shapes(op, attrs, why="nothing known")


def all_types():
    for op, attrs, argument in (("FullyConnected", {"num_hidden": 4}, "data"), ("elemwise_add", {}, "rhs"),
                                ("Convolution", {"kernel": (3, 3), "num_filter": 2}, "weight"),
                                ("BatchNorm", {}, "data"), ("BatchNorm", {}, "gamma"), ("BatchNorm", {}, "moving_mean"),
                                ("SoftmaxOutput", {}, "data"), ("softmax", {}, "data"), ("sum", {}, "data"),
                                ("broadcast_equal", {}, "lhs"), ("where", {}, "condition"), ("where", {}, "y"),
                                ("take", {}, "a"), ("take", {}, "indices"), ("pick", {}, "data"), ("dot", {}, "lhs"),
                                ("Concat", {"num_args": 2}, "arg1"), ("Dropout", {}, "data"), ("argmax", {}, "data"),
                                ("topk", {"ret_typ": "both", "dtype": "int32"}, "data"), ("argsort", {}, "data"),
                                ("one_hot", {"depth": 3}, "indices"), ("Cast", {"dtype": "float16"}, "data"),
                                ("Embedding", {"input_dim": 3, "output_dim": 2}, "data"), ("mean", {}, "data"),
                                ("LeakyReLU", {"act_type": "prelu"}, "data"), ("sgd_mom_update", {"lr": 1}, "weight"),
                                ("LinearRegressionOutput", {}, "data"), ("Pooling", {"kernel": (2, 2)}, "data"),
                                ("_plus_scalar", {"scalar": "1.5"}, "data"), ("sqrt", {}, "data"),
                                ("_div_scalar", {"scalar": 2}, "data"), ("shape_array", {}, "data"),
                                ("softmax", {"dtype": "float64"}, "data"), ("batch_dot", {}, "rhs")):
        for dtype in ("float32", "float16", "float64", "int32"):
            yield types(op, attrs, **{argument: dtype})
    yield types("elemwise_add", lhs="float32", rhs="float64", why="types differ")
    yield types("FullyConnected", {"num_hidden": 4}, data="float32", weight="float64", why="types differ")
    yield types("_zeros", {"shape": (2,)})
    yield types("_arange", {"start": 0, "stop": 3, "dtype": "int64"})
    yield types("relu")


def numpy_semantics():
    for op, attrs, known in (("elemwise_add", {}, {"lhs": (2, 0)}), ("elemwise_add", {}, {"lhs": (2, -1), "rhs": (-1, 3)}),
                             ("FullyConnected", {"num_hidden": 4}, {"data": (0, 3)}),
                             ("FullyConnected", {"num_hidden": 4}, {"data": (-1, 3)}),
                             ("sum", {}, {"data": (2, 3)}), ("broadcast_add", {}, {"lhs": (2, 1), "rhs": (2, 0)}),
                             ("Concat", {"num_args": 2, "dim": 0}, {"arg0": (0, 3), "arg1": (2, 3)}),
                             ("expand_dims", {"axis": 0}, {"data": ()}), ("transpose", {}, {"data": (-1, 3)}),
                             ("slice", {"begin": (1,), "end": (1,)}, {"data": (2, 3)})):
        yield shapes(op, attrs, np_shape=True, **known)
