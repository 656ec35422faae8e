"""Exports model families from PyTorch, and tests the import of each.

    python3 tests/onnx/families.py make DIR [NAME ...]      # exports the models, with inputs of several sizes
    python3 tests/onnx/families.py compare DIR [NAME ...]   # checks, runs and exports them again with `target/debug/ferromx`

`make` needs the packages `torch`, `transformers`, `torchvision` and `onnxscript` besides those of `requirements.txt`. The models have random
weights and small configurations, so nothing is downloaded. Both exporters of PyTorch export each, with fixed and with dynamic dimensions.
`DIR/NAME/model.onnx` is an export and `DIR/NAME/SIZE/input_0.npy`, ... are its inputs; ONNX Runtime computes `expected_0.npy`, ...

`compare` prints a line for each export: whether `check` accepts it unchanged, how many sizes agree with ONNX Runtime when the model is
imported with dynamic dimensions and with the shapes of the inputs, and whether ONNX Runtime agrees with the export of the imported graph.
"""

import collections
import os
import pathlib
import shutil
import subprocess
import sys
import time
import warnings

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
FERROMX = os.environ.get("FERROMX", str(ROOT / "target/debug/ferromx"))

# A model with its inputs: `sizes` creates inputs for a batch size and a length (or image size), `axes` lists the dynamic dimensions.
Family = collections.namedtuple("Family", "make inputs axes sizes opsets")


def sequences(names, vocabulary=99):
    """Token ids, and masks of which the last row is shorter."""
    import torch

    def inputs(batch, length):
        made = []
        for name in names:
            if name.endswith("ids"):
                made.append(torch.randint(3, vocabulary, (batch, length)))
            else:
                mask = torch.ones(batch, length, dtype=torch.int64)
                mask[-1, length - length // 3 :] = 0
                made.append(mask)
        return dict(zip(names, made))

    return inputs, {name: {0: "batch", 1: "length"} for name in names}


def images(name="pixel_values", dynamic_side=False, channels=3):
    import torch

    axes = {0: "batch", 2: "height", 3: "width"} if dynamic_side else {0: "batch"}
    return (lambda batch, side: {name: torch.randn(batch, channels, side, side)}), {name: axes}


def first(output):
    """The tensors of a model's output, without caches."""
    import torch

    if isinstance(output, torch.Tensor):
        return (output,)
    values = output.values() if isinstance(output, dict) else output
    flat = []
    for value in values:
        if isinstance(value, torch.Tensor):
            flat.append(value)
        elif isinstance(value, (list, tuple)):
            flat.extend(v for v in value if isinstance(v, torch.Tensor))
    return tuple(flat)


def wrapped(model):
    import torch

    class Plain(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *args):
            return first(self.model(**dict(zip(self.names, args))))

    return Plain()


def families():
    import torch
    import torchvision.models as vision
    import transformers as t

    small = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=99)
    texts = [(2, 7), (1, 12), (3, 5)]
    ids, both = ["input_ids"], ["input_ids", "attention_mask"]

    def text(config, kind, names=both, **more):
        make = lambda: getattr(t, kind)(getattr(t, config)(**{**small, **more}))
        return Family(make, *sequences(names), texts, (18, 20))

    def image(make, sizes=((1, 64), (2, 64)), dynamic_side=False, name="pixel_values", opsets=(18, 20)):
        return Family(make, *images(name, dynamic_side), list(sizes), opsets)

    photos = lambda make, sizes=((1, 64), (2, 64)), dynamic_side=False: image(make, sizes, dynamic_side, "x")
    plain = dict(bos_token_id=1, eos_token_id=2, pad_token_id=0, use_cache=False)
    yield "bert", text("BertConfig", "BertModel")
    yield "bert-classifier", text("BertConfig", "BertForSequenceClassification")
    yield "distilbert", text("DistilBertConfig", "DistilBertModel", dim=32, hidden_dim=64, n_layers=2, n_heads=4)
    yield "roberta", text("RobertaConfig", "RobertaModel", max_position_embeddings=64)
    yield "deberta", text("DebertaV2Config", "DebertaV2Model", relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8, max_relative_positions=16)
    yield "modernbert", text("ModernBertConfig", "ModernBertModel", pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2, local_attention=4, reference_compile=False)
    yield "electra", text("ElectraConfig", "ElectraModel", embedding_size=16)
    yield "albert", text("AlbertConfig", "AlbertModel", embedding_size=16)
    yield "mpnet", text("MPNetConfig", "MPNetModel", max_position_embeddings=64)
    yield "gpt2", text("GPT2Config", "GPT2LMHeadModel", n_embd=32, n_layer=2, n_head=4, n_positions=64, **plain)
    yield "gpt-neox", text("GPTNeoXConfig", "GPTNeoXForCausalLM", **plain)
    yield "opt", text("OPTConfig", "OPTForCausalLM", ffn_dim=64, word_embed_proj_dim=32, **plain)
    yield "llama", text("LlamaConfig", "LlamaForCausalLM", num_key_value_heads=2, **plain)
    yield "mistral", text("MistralConfig", "MistralForCausalLM", num_key_value_heads=2, sliding_window=4, **plain)
    yield "qwen2", text("Qwen2Config", "Qwen2ForCausalLM", num_key_value_heads=2, **plain)
    yield "qwen3", text("Qwen3Config", "Qwen3ForCausalLM", num_key_value_heads=2, head_dim=8, **plain)
    yield "gemma", text("GemmaConfig", "GemmaForCausalLM", num_key_value_heads=1, head_dim=8, **plain)
    yield "gemma2", text("Gemma2Config", "Gemma2ForCausalLM", num_key_value_heads=2, head_dim=8, sliding_window=4, **plain)
    yield "phi", text("PhiConfig", "PhiForCausalLM", **plain)

    def encoder_decoder(config, kind, **more):
        make = lambda: getattr(t, kind)(getattr(t, config)(**{**plain, "decoder_start_token_id": 0, "vocab_size": 99, **more}))

        def inputs(batch, length):
            mask = torch.ones(batch, length, dtype=torch.int64)
            mask[-1, length - 2 :] = 0
            return {
                "input_ids": torch.randint(3, 99, (batch, length)),
                "attention_mask": mask,
                "decoder_input_ids": torch.randint(3, 99, (batch, length // 2 + 1)),
            }

        axes = {"input_ids": {0: "batch", 1: "length"}, "attention_mask": {0: "batch", 1: "length"}, "decoder_input_ids": {0: "batch", 1: "target"}}
        return Family(make, inputs, axes, texts, (18, 20))

    yield "t5", encoder_decoder("T5Config", "T5ForConditionalGeneration", d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
    bart = dict(d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64)
    yield "bart", encoder_decoder("BartConfig", "BartForConditionalGeneration", max_position_embeddings=64, **bart)

    def whisper():
        config = t.WhisperConfig(num_mel_bins=16, max_source_positions=20, max_target_positions=32, vocab_size=99, **{**plain, "decoder_start_token_id": 1}, **bart)
        return t.WhisperForConditionalGeneration(config)

    speech = lambda batch, length: {"input_features": torch.randn(batch, 16, 40), "decoder_input_ids": torch.randint(3, 99, (batch, length))}
    yield "whisper", Family(whisper, speech, {"input_features": {0: "batch"}, "decoder_input_ids": {0: "batch", 1: "length"}}, texts, (18, 20))

    def clip():
        vision_config = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=32, patch_size=16, projection_dim=16)
        text_config = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, vocab_size=99, max_position_embeddings=32, projection_dim=16, eos_token_id=98, bos_token_id=1, pad_token_id=0)
        return t.CLIPModel(t.CLIPConfig(text_config=text_config, vision_config=vision_config, projection_dim=16))

    both_kinds = lambda batch, length: {"input_ids": torch.randint(3, 99, (batch, length)), "pixel_values": torch.randn(batch + 1, 3, 32, 32), "attention_mask": torch.ones(batch, length, dtype=torch.int64)}
    axes = {"input_ids": {0: "texts", 1: "length"}, "pixel_values": {0: "images"}, "attention_mask": {0: "texts", 1: "length"}}
    yield "clip", Family(clip, both_kinds, axes, texts, (18, 20))

    def wave():
        return t.Wav2Vec2Model(t.Wav2Vec2Config(**small, conv_dim=(16, 16, 16), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3), num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=4, mask_time_prob=0.0))

    yield "wav2vec2", Family(wave, lambda batch, n: {"input_values": torch.randn(batch, n)}, {"input_values": {0: "batch", 1: "samples"}}, [(1, 400), (2, 640)], (18, 20))

    tiny = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=64, patch_size=16)
    yield "vit", image(lambda: t.ViTModel(t.ViTConfig(**tiny)))
    yield "dinov2", image(lambda: t.Dinov2Model(t.Dinov2Config(**tiny)), ((1, 64), (2, 96)), True)
    yield "swin", image(lambda: t.SwinModel(t.SwinConfig(image_size=64, patch_size=4, embed_dim=16, depths=[1, 1], num_heads=[2, 4], window_size=4)))
    yield "segformer", image(lambda: t.SegformerForSemanticSegmentation(t.SegformerConfig(num_encoder_blocks=2, depths=[1, 1], sr_ratios=[4, 2], hidden_sizes=[16, 32], patch_sizes=[7, 3], strides=[4, 2], num_attention_heads=[1, 2], mlp_ratios=[2, 2], decoder_hidden_size=32)), ((1, 64), (2, 96)), True)
    yield "convnext", image(lambda: t.ConvNextModel(t.ConvNextConfig(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2)), ((1, 64), (2, 96)), True)
    sides = ((1, 64), (2, 96))
    yield "resnet", photos(lambda: vision.resnet18(num_classes=10), sides, True)
    yield "mobilenet-v2", photos(lambda: vision.mobilenet_v2(num_classes=10, width_mult=0.35), sides, True)
    yield "mobilenet-v3", photos(lambda: vision.mobilenet_v3_small(num_classes=10, width_mult=0.5), sides, True)
    yield "shufflenet", photos(lambda: vision.shufflenet_v2_x0_5(num_classes=10), sides, True)
    yield "efficientnet", photos(lambda: vision.efficientnet_b0(num_classes=10), sides)
    yield "densenet", photos(lambda: vision.DenseNet(8, (2, 2), 16, num_classes=10), sides, True)
    yield "deeplab", photos(lambda: vision.segmentation.deeplabv3_mobilenet_v3_large(weights_backbone=None, num_classes=5), sides, True)
    yield "lraspp", photos(lambda: vision.segmentation.lraspp_mobilenet_v3_large(weights_backbone=None, num_classes=5), sides, True)

    class Unet(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.down = torch.nn.Conv2d(3, 8, 3, 2, 1)
            self.mid = torch.nn.Conv2d(8, 8, 3, padding=1)
            self.out = torch.nn.Conv2d(11, 2, 1)

        def forward(self, pixel_values):
            y = self.mid(self.down(pixel_values).relu()).relu()
            y = torch.nn.functional.interpolate(y, size=pixel_values.shape[2:], mode="bilinear", align_corners=False)
            return self.out(torch.cat([y, pixel_values], 1))

    yield "unet", image(Unet, ((1, 32), (2, 45)), True)

    class Recurrent(torch.nn.Module):
        def __init__(self, kind):
            super().__init__()
            self.cells = getattr(torch.nn, kind)(6, 8, 2, batch_first=True, bidirectional=True)
            self.head = torch.nn.Linear(16, 3)

        def forward(self, x):
            return self.head(self.cells(x)[0])

    for kind in ["LSTM", "GRU"]:
        recurrent = lambda kind=kind: Recurrent(kind)
        yield kind.lower(), Family(recurrent, lambda b, n: {"x": torch.randn(b, n, 6)}, {"x": {0: "batch", 1: "length"}}, texts, (18, 20))


def export(family, name, dynamo, is_dynamic, opset, folder):
    import torch

    torch.manual_seed(7)
    model = wrapped(family.make()).eval()
    sizes = family.sizes if is_dynamic else family.sizes[:1]
    given = [family.inputs(*size) for size in sizes]
    names = list(given[0])
    model.names = names
    args = tuple(given[0].values())
    options = {"input_names": names, "opset_version": opset, "dynamo": dynamo, "verbose": False}
    if is_dynamic and dynamo:
        dims = {}
        shapes = [{k: dims.setdefault(v, torch.export.Dim.DYNAMIC) for k, v in family.axes[n].items()} for n in names]
        options["dynamic_shapes"] = (tuple(shapes),)
    elif is_dynamic:
        options["dynamic_axes"] = family.axes
    with torch.no_grad():
        if dynamo:
            torch.onnx.export(model, args, **options).save(folder / "model.onnx")
        else:
            torch.onnx.export(model, args, str(folder / "model.onnx"), **options)
    return given


def session(path):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options)


def record(path, size, given):
    """Writes the inputs of a size, in the model's order, and the outputs of ONNX Runtime."""
    runtime = session(path / "model.onnx")
    folder = path / size
    folder.mkdir()
    wanted = [i.name for i in runtime.get_inputs()]
    feed = {n: given[n].numpy() for n in wanted}
    for k, n in enumerate(wanted):
        np.save(folder / f"input_{k}.npy", feed[n])
    for k, y in enumerate(runtime.run(None, feed)):
        np.save(folder / f"expected_{k}.npy", y)
    (folder / "model.onnx").symlink_to("../model.onnx")


def make(directory, wanted):
    warnings.filterwarnings("ignore")
    for name, family in families():
        if wanted and name not in wanted:
            continue
        for dynamo, is_dynamic in [(False, False), (False, True), (True, False), (True, True)]:
            opset = family.opsets[int(dynamo)]
            case = directory / f"{name}-{'new' if dynamo else 'old'}-{'dynamic' if is_dynamic else 'fixed'}"
            shutil.rmtree(case, ignore_errors=True)
            case.mkdir(parents=True)
            try:
                given = export(family, name, dynamo, is_dynamic, opset, case)
                for k, inputs in enumerate(given):
                    record(case, f"size_{k}", inputs)
                print(case.name, "made", flush=True)
            except Exception as e:
                # If PyTorch cannot export a family, there is nothing to test.
                print(case.name, "cannot be exported:", type(e).__name__, str(e).replace("\n", " ")[:160], flush=True)
                shutil.rmtree(case)


def close(folder, prefix, outputs):
    """How outputs differ from the expected ones; nothing if they agree."""
    expected = sorted(folder.glob("expected_*.npy"), key=lambda p: int(p.stem.split("_")[1]))
    for k, path in enumerate(expected):
        want = np.load(path)
        got = outputs(k)
        if got is None:
            return "an output is missing"
        if got.shape != want.shape:
            return f"output {k} has shape {list(got.shape)} instead of {list(want.shape)}"
        if not np.allclose(got, want, rtol=1e-3, atol=1e-4, equal_nan=True):
            return f"output {k} differs by {np.abs(got.astype(float) - want).max():.3g}"
    return None


def run(case, sizes, how):
    """Runs a model on inputs of several sizes, and its export in ONNX Runtime."""
    subprocess.run([FERROMX, "onnx", "run", str(case), "--export", *how], capture_output=True)
    ran, again = [], []
    for folder in sizes:
        read = lambda k: np.load(folder / f"output_{k}.npy") if (folder / f"output_{k}.npy").exists() else None
        error = folder / "error.txt"
        ran.append(error.read_text().strip() if error.exists() else close(folder, "output", read))
        export_error, exported = folder / "export_error.txt", folder / "exported.onnx"
        if export_error.exists() or not exported.exists():
            again.append(export_error.read_text().strip() if export_error.exists() else "not exported")
            continue
        try:
            runtime = session(exported)
            feed = {i.name: np.load(folder / f"input_{k}.npy") for k, i in enumerate(runtime.get_inputs())}
            made = runtime.run(None, feed)
            again.append(close(folder, "again", lambda k: made[k] if k < len(made) else None))
        except Exception as e:
            again.append(str(e).replace("\n", " ")[:300])
    return ran, again


def compare(directory, wanted):
    totals = collections.Counter()
    for case in sorted(directory.iterdir()):
        if wanted and not any(case.name.startswith(w) for w in wanted):
            continue
        sizes = sorted(case.glob("size_*"))
        if not sizes:
            continue
        start = time.time()
        checked = subprocess.run([FERROMX, "onnx", "check", "--external-data", str(case / "model.onnx")], capture_output=True, text=True)
        dynamic, redynamic = run(case, sizes, ["--dynamic"])
        fixed, refixed = run(case, sizes, [])
        count = lambda errors: f"{sum(e is None for e in errors)}/{len(errors)}"
        results = {"check": checked.returncode == 0, "dynamic": not any(dynamic), "re-export, dynamic": not any(redynamic), "fixed": not any(fixed), "re-export, fixed": not any(refixed)}
        totals.update({key: int(value) for key, value in results.items()})
        totals["all"] += 1
        print(f"{case.name:32} check {'ok' if results['check'] else 'NO':3} dynamic {count(dynamic)} again {count(redynamic)}  fixed {count(fixed)} again {count(refixed)}  {time.time() - start:.1f} s", flush=True)
        texts = [("check", checked.stderr.strip() if checked.returncode else None), ("dynamic", next(filter(None, dynamic), None)), ("dynamic again", next(filter(None, redynamic), None)), ("fixed", next(filter(None, fixed), None)), ("fixed again", next(filter(None, refixed), None))]
        for what, message in texts:
            if message and not (what == "dynamic" and checked.returncode):
                for line in message.splitlines()[:6]:
                    print(f"    {what}: {line[:220]}", flush=True)
    print(dict(totals))


if __name__ == "__main__":
    command = {"make": make, "compare": compare}.get(sys.argv[1] if len(sys.argv) > 2 else "")
    if command is None:
        sys.exit(__doc__)
    command(pathlib.Path(sys.argv[2]), sys.argv[3:])
