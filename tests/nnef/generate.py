"""Computes the expected values of models of NNEF: `generate.py` writes `data/cases.jsonl`.

The package `nnef` checks the texts and writes the variables, the interpreter of `nnef-tools` computes the values with PyTorch. A case is a
line: name, text of the graph, files of the variables (hexadecimal), inputs, outputs. Needs the packages of `requirements.txt`.

The interpreter divides a softmax over several axes by the wrong sum, and takes neither `prelu` with a vector nor asymmetric upsampling.
"""

import io
import json
import pathlib
import tempfile

import nnef
import numpy as np
from nnef_tools.interpreter.pytorch import Interpreter

HERE = pathlib.Path(__file__).parent


def numbers(shape, seed=0):
    rng = np.random.default_rng(seed + 7 * len(shape) + sum(shape))
    return np.round(rng.normal(size=shape), 3).astype(np.float32)


def positive(shape, seed=0):
    return np.abs(numbers(shape, seed)) + np.float32(0.5)


def text(body, inputs, outputs, variables):
    lines = [f"{n} = external<scalar>(shape = {list(a.shape)});" for n, a in inputs.items()]
    lines += [f"{n} = variable<scalar>(shape = {list(a.shape)}, label = 'of/{n}');" for n, a in variables.items()]
    lines += [line.strip() for line in body.strip().splitlines()]
    body = "\n".join("    " + line for line in lines)
    return f"version 1.0;\ngraph case({', '.join(inputs)}) -> ({', '.join(outputs)})\n{{\n{body}\n}}\n"


def case(name, body, outputs=("y",), inputs=None, **variables):
    inputs = inputs or {"x": numbers((2, 3, 5, 4))}
    return name, text(body, inputs, outputs, variables), inputs, variables


def elementwise():
    x, z = numbers((2, 3, 4)), numbers((2, 3), 1)
    for op in ["add", "sub", "mul", "div", "min", "max"]:
        yield case(op, f"y = {op}(x, z);", inputs={"x": x, "z": z})
    yield case("pow", "y = pow(x, z);", inputs={"x": positive((2, 3, 4)), "z": z})
    yield case("numbers", "a = mul(x, 2.5);\nb = sub(1.0, a);\nc = div(b, 4.0);\ny = max(c, 0.1);", inputs={"x": x})
    for op in ["lt", "gt", "le", "ge", "eq", "ne"]:
        yield case(op, f"t = {op}(x, z);\ny = select(t, x, z);", inputs={"x": x, "z": z})
    yield case("logic", "a = lt(x, 0.0);\nb = gt(x, 1.0);\nc = or(a, b);\nd = not(c);\ne = and(d, a);\nf = or(e, b);\ny = select(f, 1.0, x);", inputs={"x": x})
    yield case("clamp", "y = clamp(x, -0.5, 0.5);", inputs={"x": x})
    yield case("clamp by tensors", "y = clamp(x, z, 0.7);", inputs={"x": x, "z": z})
    plain = ["neg", "abs", "sign", "sqr", "exp", "sin", "cos", "tan", "atan", "sinh", "cosh", "tanh", "asinh", "floor", "ceil", "round", "copy"]
    for op in plain + ["relu", "sigmoid", "softplus", "gelu", "silu", "elu", "selu"]:
        yield case(op, f"y = {op}(x);", inputs={"x": x})
    for op in ["rcp", "sqrt", "rsqr", "rsqrt", "log", "log2"]:
        yield case(op, f"y = {op}(x);", inputs={"x": positive((2, 3))})
    for op in ["asin", "acos", "atanh"]:
        yield case(op, f"y = {op}(x);", inputs={"x": np.tanh(x)})
    yield case("acosh", "y = acosh(x);", inputs={"x": positive((2, 3)) + 1})
    yield case("add_n", "y = add_n([x, z, x]);", inputs={"x": x, "z": numbers((2, 3, 4), 1)})
    yield case("elu, leaky_relu", "a = elu(x, alpha = 0.5);\ny = leaky_relu(a, alpha = 0.1);", inputs={"x": x})
    yield case("prelu", "y = prelu(x, 0.25);")
    yield case("softabs", "y = softabs(x, epsilon = 0.1);", inputs={"x": x})
    yield case("softmax", "y = softmax(x);", inputs={"x": x})


def layers():
    bias, filter = numbers((1, 6)), numbers((6, 3, 3, 3))
    yield case("conv of the same size", "y = conv(x, filter, bias);", bias=bias, filter=filter)
    yield case("conv", "y = conv(x, filter, bias, padding = [(1,0), (0,2)], stride = [2,1], dilation = [1,1]);", bias=bias, filter=filter)
    yield case("conv with gaps", "y = conv(x, filter, 0.5, padding = [(2,2), (2,2)], dilation = [2,2]);", filter=filter)
    yield case("conv with an edge", "y = conv(x, filter, border = 'replicate', stride = [2,2]);", filter=filter)
    yield case("conv of planes", "y = conv(x, filter, bias, groups = 0, padding = [(1,1), (1,1)]);", bias=numbers((1, 3)), filter=numbers((3, 1, 3, 3)))
    yield case("conv of a line", "y = conv(x, filter, stride = [2]);", inputs={"x": numbers((2, 3, 7))}, filter=numbers((4, 3, 3)))
    yield case("separable_conv", "y = separable_conv(x, plane, point, bias);", plane=numbers((3, 1, 3, 3)), point=numbers((4, 3, 1, 1)), bias=numbers((1, 4)))
    up = numbers((3, 4, 3, 3))
    yield case("deconv of the same size", "y = deconv(x, filter, bias, stride = [2,2]);", bias=numbers((1, 4)), filter=up)
    yield case("deconv", "y = deconv(x, filter, padding = [(1,0), (1,1)], stride = [2,1]);", filter=up)
    yield case("deconv of a shape", "y = deconv(x, filter, stride = [2,2], output_shape = [2,4,9,8]);", filter=up)
    yield case("linear", "y = linear(x, filter, bias);", inputs={"x": numbers((4, 3))}, filter=numbers((5, 3)), bias=numbers((1, 5)))
    yield case("matmul", "y = matmul(a, b, transposeB = true);", inputs={"a": numbers((2, 3, 4)), "b": numbers((2, 5, 4))})
    yield case("matmul of a transposed", "y = matmul(a, b, transposeA = true);", inputs={"a": numbers((4, 3)), "b": numbers((4, 5))})
    for op in ["max_pool", "avg_pool"]:
        for border in ["constant", "ignore"]:
            yield case(f"{op}, {border}", f"y = {op}(x, size = [1,1,2,3], border = '{border}', padding = [(0,0), (0,0), (1,1), (1,1)], stride = [1,1,2,1]);")
            yield case(f"{op}, {border}, same size", f"y = {op}(x, size = [1,1,2,3], border = '{border}', stride = [1,1,2,2]);")
    yield case("max_pool with gaps", "y = max_pool(x, size = [1,1,2,2], border = 'ignore', dilation = [1,1,2,1], padding = [(0,0), (0,0), (1,0), (0,1)]);")
    yield case("rms_pool", "y = rms_pool(x, size = [1,1,2,2], border = 'ignore');")
    yield case("box", "y = box(x, size = [1,1,3,3], border = 'constant');")
    yield case("box of an edge", "y = box(x, size = [1,1,3,3], border = 'replicate', normalize = true);")
    stats = {"mean": numbers((1, 3)), "variance": positive((1, 3)), "offset": numbers((1, 3), 2), "scale": numbers((1, 3), 3)}
    yield case("batch_normalization", "y = batch_normalization(x, mean, variance, offset, scale, epsilon = 0.001);", **stats)
    yield case("local_response_normalization", "y = local_response_normalization(x, size = [1,3,1,1], alpha = 0.5, beta = 0.75, bias = 2.0);")
    yield case("l1_normalization", "y = l1_normalization(x, axes = [1], epsilon = 0.01);")
    yield case("l2_normalization", "y = l2_normalization(x, axes = [1, 2], bias = 0.5);")
    yield case("nearest_downsample", "y = nearest_downsample(x, factor = [2, 2]);")
    yield case("area_downsample", "y = area_downsample(x, factor = [2, 2]);", inputs={"x": numbers((1, 2, 4, 6))})
    yield case("nearest_upsample", "y = nearest_upsample(x, factor = [2, 3]);")
    for method in ["symmetric", "aligned"]:
        yield case(f"multilinear_upsample, {method}", f"y = multilinear_upsample(x, factor = [2, 2], method = '{method}', border = 'replicate');")


def shapes():
    for op in ["sum_reduce", "mean_reduce", "max_reduce", "min_reduce"]:
        yield case(op, f"y = {op}(x, axes = [1, 3]);")
    yield case("sum_reduce, normalized", "y = sum_reduce(x, axes = [2], normalize = true);")
    yield case("argmax_reduce", "i = argmax_reduce(x, axes = [1]);\ny = cast<scalar>(i);")
    yield case("argmin_reduce", "i = argmin_reduce(x, axes = [3]);\ny = cast<scalar>(i);")
    yield case("moments", "a, b = moments(x, axes = [2, 3]);\ny = add(a, b);")
    yield case("any_reduce", "t = gt(x, 1.0);\nu = any_reduce(t, axes = [2]);\nv = all_reduce(t, axes = [1]);\ny = select(u, x, 0.0);\nz = select(v, x, 0.0);", outputs=("y", "z"))
    yield case("reshape", "y = reshape(x, shape = [0, -1]);")
    yield case("reshape of some axes", "y = reshape(x, shape = [5, 3], axis_start = 1, axis_count = 2);")
    yield case("transpose", "y = transpose(x, axes = [1, 0]);", inputs={"x": numbers((2, 3))})
    yield case("transpose of the first axes", "y = transpose(x, axes = [2, 0, 1]);")
    yield case("concat", "y = concat([x, z, x], axis = 1);", inputs={"x": numbers((2, 3)), "z": numbers((2, 4))})
    yield case("split", "[a, b] = split(x, axis = 2, ratios = [1, 4]);\ny = copy(b);\nz = copy(a);", outputs=("y", "z"))
    yield case("slice", "y = slice(x, axes = [1, 2], begin = [1, 1], end = [0, -1]);")
    yield case("slice in steps", "y = slice(x, axes = [2], begin = [0], end = [5], stride = [2]);")
    yield case("squeeze and unsqueeze", "a = unsqueeze(x, axes = [0, 3]);\nb = squeeze(a, axes = [0]);\ny = add(b, 1.0);", inputs={"x": numbers((2, 3))})
    yield case("stack", "y = stack([x, x], axis = 1);", inputs={"x": numbers((2, 3))})
    yield case("unstack", "[a, b, c] = unstack(x, axis = 1);\ny = sub(a, c);\nz = copy(b);", outputs=("y", "z"))
    yield case("tile", "y = tile(x, repeats = [1, 2, 1, 3]);")
    yield case("pad", "y = pad(x, padding = [(0,0), (0,0), (1,2), (0,1)], value = 0.5);")
    yield case("pad by an edge", "y = pad(x, padding = [(0,0), (0,0), (1,2), (0,1)], border = 'replicate');")
    yield case("constant", "k = constant<scalar>(shape = [1, 3], value = [1.0, 2.0, 3.0]);\nn = constant<scalar>(shape = [2, 3], value = [0.5]);\na = mul(x, k);\ny = add(a, n);")


def networks():
    image = {"x": numbers((1, 3, 16, 16))}
    weights = {
        "k1": numbers((8, 3, 3, 3)) * 0.3, "b1": numbers((1, 8)), "k2": numbers((8, 1, 3, 3)), "k3": numbers((12, 8, 1, 1)) * 0.3,
        "mean": numbers((1, 8)) * 0.1, "variance": positive((1, 8)), "offset": numbers((1, 8)), "scale": positive((1, 8), 1),
        "w": numbers((5, 12)), "b": numbers((1, 5)),
    }
    yield case(
        "a network of images",
        """c1 = conv(x, k1, b1, stride = [2,2]);
        r1 = relu(c1);
        c2 = conv(r1, k2, padding = [(1,1), (1,1)], groups = 0);
        n2 = batch_normalization(c2, mean, variance, offset, scale, epsilon = 0.00001);
        r2 = clamp(n2, 0.0, 6.0);
        s2 = add(r2, r1);
        p2 = max_pool(s2, size = [1,1,2,2], stride = [1,1,2,2], border = 'ignore', padding = [(0,0), (0,0), (0,0), (0,0)]);
        c3 = conv(p2, k3);
        r3 = silu(c3);
        g = mean_reduce(r3, axes = [2, 3]);
        f = reshape(g, shape = [0, -1]);
        l = linear(f, w, b);
        y = softmax(l, axes = [1]);""",
        inputs=image,
        **weights,
    )
    words = {"x": numbers((2, 4, 8))}
    heads = {n: numbers((8, 8), i) * 0.4 for i, n in enumerate(["q", "k", "v", "o"])}
    yield case(
        "attention",
        """m = mean_reduce(x, axes = [2]);
        d = sub(x, m);
        s = sqr(d);
        u = mean_reduce(s, axes = [2]);
        e = add(u, 0.00001);
        r = rsqrt(e);
        n = mul(d, r);
        a = matmul(n, q);
        b = matmul(n, k);
        c = matmul(n, v);
        t = matmul(a, b, transposeB = true);
        t1 = mul(t, 0.3535533905932738);
        p = softmax(t1, axes = [2]);
        h = matmul(p, c);
        z = matmul(h, o);
        w = add(x, z);
        y = gelu(w);""",
        inputs=words,
        **{n: a[None] for n, a in heads.items()},
    )


def plain(array):
    array = np.asarray(array)
    values = [float(f"{x:.9g}") for x in array.ravel()] if array.dtype.kind == "f" else array.ravel().tolist()
    return {"dtype": str(array.dtype), "shape": list(array.shape), "data": values}


def record(name, text, inputs, variables):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "graph.nnef").write_text(text)
        (folder / "of").mkdir()
        files = {}
        for key, array in variables.items():
            with open(folder / "of" / f"{key}.dat", "wb") as file:
                nnef.write_tensor(file, array)
            files[f"of/{key}"] = (folder / "of" / f"{key}.dat").read_bytes().hex()
        nnef.load_graph(str(folder), stdlib=None, lowered=[])
        results = Interpreter(str(folder))(list(inputs.values()))
    return {
        "name": name,
        "text": text,
        "files": files,
        "inputs": [plain(a) for a in inputs.values()],
        "outputs": [plain(r) for r in results.values()],
    }


def main():
    lines = []
    for make in [elementwise, layers, shapes, networks]:
        for one in make():
            try:
                lines.append(json.dumps(record(*one), separators=(",", ":")))
            except Exception as e:
                raise SystemExit(f"{one[0]}: {type(e).__name__}: {e}") from e
    (HERE / "data" / "cases.jsonl").write_text("\n".join(lines) + "\n")
    print(f"cases: {len(lines)}")


if __name__ == "__main__":
    main()
