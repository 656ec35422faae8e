"""The calls of torch_calls.py, as expressions in both front ends. `a` to `d` are arrays of the given shapes, `i` is an array of
indices."""

from typing import NamedTuple


class Call(NamedTuple):
    """A call, with the shapes of its arrays."""

    name: str
    shapes: list
    mxnet: str
    torch: str
    gradient: bool = True
    # The shape of the indices, and their upper bound.
    indices: tuple = ()
    below: int = 0


SQUARE = (1000, 1000)
IMAGES = (32, 64, 28, 28)

CALLS = []
for name, mxnet, torch in [
    ("exp", "nd.exp(a)", "torch.exp(a)"),
    ("log", "nd.log(a)", "torch.log(a)"),
    ("log1p", "nd.log1p(a)", "torch.log1p(a)"),
    ("tanh", "nd.tanh(a)", "torch.tanh(a)"),
    ("sigmoid", "nd.sigmoid(a)", "torch.sigmoid(a)"),
    ("relu", "nd.relu(a)", "torch.relu(a)"),
    ("erf", "nd.erf(a)", "torch.erf(a)"),
    ("gelu", "nd.LeakyReLU(a, act_type='gelu')", "F.gelu(a)"),
    ("softrelu", "nd.Activation(a, act_type='softrelu')", "F.softplus(a)"),
    ("silu", "a * nd.sigmoid(a)", "F.silu(a)"),
    ("leaky relu", "nd.LeakyReLU(a, slope=0.1)", "F.leaky_relu(a, 0.1)"),
    ("hard sigmoid", "nd.hard_sigmoid(a)", "F.hardsigmoid(a)"),
    ("sin", "nd.sin(a)", "torch.sin(a)"),
    ("sqrt", "nd.sqrt(a)", "torch.sqrt(a)"),
    ("rsqrt", "nd.rsqrt(a)", "torch.rsqrt(a)"),
    ("abs", "nd.abs(a)", "torch.abs(a)"),
    ("square", "nd.square(a)", "torch.square(a)"),
    ("clip", "nd.clip(a, 0.2, 0.8)", "torch.clip(a, 0.2, 0.8)"),
    ("power 2.5", "a ** 2.5", "a ** 2.5"),
    ("softmax", "nd.softmax(a)", "torch.softmax(a, -1)"),
    ("softmax axis 0", "nd.softmax(a, axis=0)", "torch.softmax(a, 0)"),
    ("log softmax", "nd.log_softmax(a)", "torch.log_softmax(a, -1)"),
    ("sum", "nd.sum(a)", "a.sum()"),
    ("sum axis 0", "nd.sum(a, axis=0)", "a.sum(0)"),
    ("sum axis 1", "nd.sum(a, axis=1)", "a.sum(1)"),
    ("mean axis 1", "nd.mean(a, axis=1)", "a.mean(1)"),
    ("max axis 0", "nd.max(a, axis=0)", "a.amax(0)"),
    ("max axis 1", "nd.max(a, axis=1)", "a.amax(1)"),
    ("norm", "nd.norm(a)", "torch.linalg.vector_norm(a)"),
    ("cumsum", "np.cumsum(a, axis=1)", "a.cumsum(1)"),
    ("transpose", "nd.transpose(a)", "a.t().contiguous()"),
    ("slice", "nd.slice_axis(a, axis=1, begin=100, end=900)", "a[:, 100:900].contiguous()"),
    ("flip", "nd.flip(a, axis=1)", "a.flip(1)"),
    ("repeat", "nd.repeat(a, repeats=2, axis=1)", "a.repeat_interleave(2, 1)"),
    ("tile", "nd.tile(a, reps=(2, 2))", "a.tile(2, 2)"),
    ("L2 normalization", "nd.L2Normalization(a)", "F.normalize(a, dim=1)"),
    ("dropout", "nd.Dropout(a, p=0.5, mode='always')", "F.dropout(a, 0.5, True)"),
]:
    CALLS.append(Call(name, [SQUARE], mxnet, torch))
CALLS += [
    Call("add", [SQUARE, SQUARE], "a + b", "a + b"),
    Call("multiply", [SQUARE, SQUARE], "a * b", "a * b"),
    Call("maximum", [SQUARE, SQUARE], "nd.maximum(a, b)", "torch.maximum(a, b)"),
    Call("power", [SQUARE, SQUARE], "nd.power(a, b)", "torch.pow(a, b)"),
    Call("greater", [SQUARE, SQUARE], "a > b", "a > b", gradient=False),
    Call("multiply by a row", [SQUARE, (1, 1000)], "nd.broadcast_mul(a, b)", "a * b"),
    Call("multiply by a column", [SQUARE, (1000, 1)], "nd.broadcast_mul(a, b)", "a * b"),
    Call("add a bias per channel", [IMAGES, (1, 64, 1, 1)], "nd.broadcast_add(a, b)", "a + b"),
    Call("outer difference", [(1000, 1), (1, 1000)], "nd.broadcast_sub(a, b)", "a - b"),
    Call("where", [SQUARE] * 3, "nd.where(c > 0.5, a, b)", "torch.where(c > 0.5, a, b)", gradient=False),
    Call("to float16", [SQUARE], "a.astype('float16')", "a.half()", gradient=False),
    Call("argmax axis 1", [SQUARE], "nd.argmax(a, axis=1)", "a.argmax(1)", gradient=False),
    Call("sum of planes", [IMAGES], "nd.sum(a, axis=(2, 3))", "a.sum((2, 3))"),
    Call("sum of channels", [IMAGES], "nd.sum(a, axis=(0, 2, 3))", "a.sum((0, 2, 3))"),
    Call("sort", [(300, 1000)], "nd.sort(a)", "a.sort()[0]", gradient=False),
    Call("topk", [(128, 10000)], "nd.topk(a, k=10, ret_typ='value')", "torch.topk(a, 10)[0]", gradient=False),
    Call("softmax of short rows", [(20000, 10)], "nd.softmax(a)", "torch.softmax(a, -1)"),
    Call("softmax of attention", [(8, 12, 128, 128)], "nd.softmax(a)", "torch.softmax(a, -1)"),
    Call("NCHW to NHWC", [IMAGES], "nd.transpose(a, axes=(0, 2, 3, 1))", "a.permute(0, 2, 3, 1).contiguous()"),
    Call("split heads", [(8, 128, 12, 64)], "nd.transpose(a, axes=(0, 2, 1, 3))", "a.permute(0, 2, 1, 3).contiguous()"),
    Call("concat axis 1", [(1000, 500)] * 2, "nd.concat(a, b, dim=1)", "torch.cat((a, b), 1)"),
    Call("stack", [(500, 1000)] * 2, "nd.stack(a, b, axis=2)", "torch.stack((a, b), 2)"),
    Call("pad", [IMAGES], "nd.pad(a, mode='constant', pad_width=(0, 0, 0, 0, 1, 1, 1, 1))", "F.pad(a, (1, 1, 1, 1))"),
    Call("pad by reflection", [IMAGES], "nd.pad(a, mode='reflect', pad_width=(0, 0, 0, 0, 1, 1, 1, 1))", "F.pad(a, (1, 1, 1, 1), 'reflect')"),
    Call("take", [(10000, 128)], "nd.take(a, i)", "a[i]", indices=(8192,), below=10000),
    Call("embedding", [(10000, 128)], "nd.Embedding(i, a, input_dim=10000, output_dim=128)", "F.embedding(i, a)", indices=(64, 128), below=10000),
    Call("pick", [(8192, 1000)], "nd.pick(a, i)", "a.gather(1, i[:, None])", indices=(8192,), below=1000),
    Call("one hot", [], "nd.one_hot(i, 1000)", "F.one_hot(i, 1000).float()", False, (2048,), 1000),
    Call("cross entropy", [(2048, 1000)], "-nd.pick(nd.log_softmax(a), i)", "F.cross_entropy(a, i, reduction='none')", True, (2048,), 1000),
    Call("SoftmaxOutput", [(2048, 1000)], "nd.SoftmaxOutput(a, i)", "F.cross_entropy(a, i, reduction='none')", True, (2048,), 1000),
    Call("boolean mask", [(10000, 128)], "nd.contrib.boolean_mask(a, i)", "a[i.bool()]", False, (10000,), 2),
    Call("nonzero", [SQUARE], "np.nonzero(a > 0.5)", "torch.nonzero(a > 0.5)", gradient=False),
    Call("histogram", [SQUARE], "nd.histogram(a, bins=50, range=(0, 1))", "torch.histc(a, 50, 0, 1)", gradient=False),
    Call("upsampling", [(8, 32, 32, 32)], "nd.UpSampling(a, scale=2, sample_type='nearest')", "F.interpolate(a, scale_factor=2)"),
    Call("bilinear resize", [(8, 32, 32, 32)], "nd.contrib.BilinearResize2D(a, height=64, width=64)",
         "F.interpolate(a, size=(64, 64), mode='bilinear', align_corners=True)"),
    Call("bilinear sampler", [(8, 16, 32, 32), (8, 2, 32, 32)], "nd.BilinearSampler(a, b * 2 - 1)",
         "F.grid_sample(a, (b * 2 - 1).permute(0, 2, 3, 1), align_corners=True)"),
    Call("deconvolution 2x2, stride 2", [(8, 64, 28, 28), (64, 32, 2, 2)],
         "nd.Deconvolution(a, b, kernel=(2, 2), stride=(2, 2), num_filter=32)", "F.conv_transpose2d(a, b, stride=2)"),
    Call("deconvolution 4x4, stride 2", [(8, 64, 28, 28), (64, 32, 4, 4)],
         "nd.Deconvolution(a, b, kernel=(4, 4), stride=(2, 2), pad=(1, 1), num_filter=32)", "F.conv_transpose2d(a, b, stride=2, padding=1)"),
    Call("dot 512", [(512, 512)] * 2, "nd.dot(a, b)", "a @ b"),
    Call("dot of a vector", [(2048, 2048), (2048,)], "nd.dot(a, b)", "a @ b"),
    Call("fully connected, batch 1", [(1, 2048), (1000, 2048)], "nd.FullyConnected(a, b, num_hidden=1000, no_bias=True)", "F.linear(a, b)"),
    Call("fully connected, batch 32", [(32, 2048), (1000, 2048), (1000,)], "nd.FullyConnected(a, b, c, num_hidden=1000)", "F.linear(a, b, c)"),
    Call("attention scores", [(96, 128, 64)] * 2, "nd.batch_dot(a, b, transpose_b=True)", "torch.bmm(a, b.transpose(1, 2))"),
    Call("einsum", [(8, 12, 128, 64)] * 2, "np.einsum('bhqd,bhkd->bhqk', a, b)", "torch.einsum('bhqd,bhkd->bhqk', a, b)"),
    Call("max pooling 2x2", [(32, 64, 56, 56)], "nd.Pooling(a, kernel=(2, 2), stride=(2, 2), pool_type='max')", "F.max_pool2d(a, 2)"),
    Call("max pooling 3x3", [(8, 64, 112, 112)], "nd.Pooling(a, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type='max')", "F.max_pool2d(a, 3, 2, 1)"),
    Call("average pooling 3x3", [(8, 64, 56, 56)], "nd.Pooling(a, kernel=(3, 3), stride=(1, 1), pad=(1, 1), pool_type='avg')", "F.avg_pool2d(a, 3, 1, 1)"),
    Call("global average pooling", [(32, 512, 7, 7)], "nd.Pooling(a, kernel=(1, 1), global_pool=True, pool_type='avg')", "F.adaptive_avg_pool2d(a, 1)"),
    Call("layer normalization", [(1024, 768), (768,), (768,)], "nd.LayerNorm(a, b, c)", "F.layer_norm(a, (768,), b, c)"),
    Call("instance normalization", [(8, 64, 56, 56), (64,), (64,)], "nd.InstanceNorm(a, b, c)", "F.instance_norm(a, weight=b, bias=c)"),
    Call("local response normalization", [(8, 64, 28, 28)], "nd.LRN(a, nsize=5)", "F.local_response_norm(a, 5)"),
    Call("batch normalization", [(16, 64, 56, 56), (64,), (64,)], "nd.BatchNorm(a, b, c, nd.zeros(64), nd.ones(64), fix_gamma=False)",
         "F.batch_norm(a, None, None, b, c, training=True)"),
    Call("uniform", [], "nd.random.uniform(shape=(1000, 1000))", "torch.rand(1000, 1000)", gradient=False),
    Call("normal", [], "nd.random.normal(shape=(1000, 1000))", "torch.randn(1000, 1000)", gradient=False),
    Call("randint", [], "nd.random.randint(0, 100, shape=(1000, 1000))", "torch.randint(0, 100, (1000, 1000))", gradient=False),
    Call("shuffle", [(1000000,)], "nd.random.shuffle(a)", "a[torch.randperm(1000000)]", gradient=False),
    Call("arange", [], "nd.arange(1000000)", "torch.arange(1000000.0)", gradient=False),
    Call("zeros", [], "nd.zeros((1000, 1000))", "torch.zeros(1000, 1000)", gradient=False),
]

# Name, batch, channels, height and width, filters, kernel, stride, padding, groups, dilation.
for name, batch, channels, size, filters, kernel, stride, pad, groups, dilation in [
    ("7x7, stride 2, batch 1", 1, 3, 224, 64, 7, 2, 3, 1, 1),
    ("3x3, batch 1", 1, 256, 14, 256, 3, 1, 1, 1, 1),
    ("3x3 of 7x7 images, batch 1", 1, 512, 7, 512, 3, 1, 1, 1, 1),
    ("3x3, stride 2", 8, 128, 28, 128, 3, 2, 1, 1, 1),
    ("3x3 of 3 channels", 8, 3, 224, 64, 3, 1, 1, 1, 1),
    ("1x1 of 7x7 images, batch 1", 1, 512, 7, 2048, 1, 1, 0, 1, 1),
    ("1x1, stride 2", 8, 256, 56, 512, 1, 2, 0, 1, 1),
    ("5x5", 8, 32, 28, 64, 5, 1, 2, 1, 1),
    ("11x11, stride 4", 8, 3, 224, 64, 11, 4, 2, 1, 1),
    ("3x3, 32 groups", 8, 256, 28, 256, 3, 1, 1, 32, 1),
    ("3x3, depthwise", 8, 256, 28, 256, 3, 1, 1, 256, 1),
    ("7x7, depthwise", 8, 96, 56, 96, 7, 1, 3, 96, 1),
    ("3x3, dilation 2", 8, 256, 28, 256, 3, 1, 2, 1, 2),
]:
    mxnet = f"kernel=({kernel}, {kernel}), num_filter={filters}, stride=({stride}, {stride}), pad=({pad}, {pad}), num_group={groups}"
    CALLS.append(
        Call(
            f"convolution {name}",
            [(batch, channels, size, size), (filters, channels // groups, kernel, kernel)],
            f"nd.Convolution(a, b, {mxnet}, dilate=({dilation}, {dilation}), no_bias=True)",
            f"F.conv2d(a, b, stride={stride}, padding={pad}, groups={groups}, dilation={dilation})",
        )
    )
