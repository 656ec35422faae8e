"""Batches of sequences: SequenceMask, SequenceReverse, SequenceLast, CTCLoss."""

import numpy as np

from cases import FLOATS, INTS, InferCase, OpCase, data


def cases():
    yield from steps()
    yield from ctc()


def steps():
    for op in ("SequenceMask", "SequenceReverse", "SequenceLast"):
        for dtype in FLOATS + INTS + ("bool",):
            grad = {"train": True, "grad": ["data"]} if dtype in FLOATS else {}
            yield OpCase(op, [data((3, 2, 2), dtype)], **grad)
            lengths = np.array([1, 3], "float32" if dtype == "bool" else dtype)
            yield OpCase(op, [data((3, 2, 2), dtype), lengths], {"use_sequence_length": True}, **grad)
        for dtype in FLOATS + INTS:
            yield OpCase(op, [data((3, 2, 2)), np.array([2, 3], dtype)], {"use_sequence_length": True})
        for shape in ((4, 3), (2, 3, 2, 2), (1, 3)):
            lengths = np.array([1, min(2, shape[0]), shape[0]], "float32")
            yield OpCase(op, [data(shape), lengths], {"use_sequence_length": True}, train=True, grad=["data"])
        yield OpCase(op, [data((3, 2)), np.array([1.9, 2.2], "float32")], {"use_sequence_length": True},
                     why="fractions are cut off")
        yield OpCase(op, [data((3, 2)), np.array([1, 2], "float32")], {"use_sequence_length": True}, train=True,
                     grad=["data"], req="add")
        yield OpCase(op, [data((3, 2)), np.array([1, 2, 3], "float32")], {"use_sequence_length": True},
                     why="more lengths than sequences")
        yield OpCase(op, [data((3,))], why="too few axes")
        yield OpCase(op, [data((3, 2))], {"axis": 2}, why="no such axis")
        yield OpCase(op, [data((3, 2)), np.array([1, -1], "float32")], {"use_sequence_length": True}, refuse=True,
                     why="a negative length")
        yield InferCase(op, {"use_sequence_length": True}, shapes={"data": (3, 0, 4)})
        yield InferCase(op, {"use_sequence_length": True}, types={"data": "float16"})
        yield InferCase(op, {"use_sequence_length": True}, types={"data": "float16", "sequence_length": "int32"})
    for op in ("SequenceMask", "SequenceLast"):
        for shape in ((3, 4), (3, 4, 2)):
            yield OpCase(op, [data(shape)], {"axis": 1}, train=True, grad=["data"])
            yield OpCase(op, [data(shape), np.array([1, 4, 2], "float32")], {"use_sequence_length": True, "axis": 1},
                         train=True, grad=["data"])
    for value in ("-1", "0.5", "1e9"):
        yield OpCase("SequenceMask", [data((3, 2)), np.array([0, 2], "float32")],
                     {"use_sequence_length": True, "value": value}, train=True, grad=["data"])
    yield OpCase("SequenceMask", [data((3, 2)), np.array([0, 9], "float32")], {"use_sequence_length": True},
                 why="more steps than there are")
    yield OpCase("_npx_sequence_mask", [data((3, 2)), np.array([0, 2], "float32")], {"use_sequence_length": True})
    yield OpCase("SequenceReverse", [data((3, 2)), np.array([0, 2], "float32")], {"use_sequence_length": True})
    yield OpCase("SequenceReverse", [data((3, 2))], {"axis": 1}, why="only the first axis")
    for op, lengths in (("SequenceLast", [0, 1]), ("SequenceLast", [1, 4]), ("SequenceReverse", [4, 1])):
        yield OpCase(op, [data((3, 2)), np.array(lengths, "float32")], {"use_sequence_length": True}, refuse=True,
                     why="a step that is not there")


def ctc():
    def case(frames, labels, classes=4, op="CTCLoss", attrs=None, **more):
        labels = np.array(labels, "float32")
        more.setdefault("train", True)
        more.setdefault("grad", ["data"])
        scores = data((frames, labels.shape[0], classes), more.pop("dtype", "float32"))
        return OpCase(op, [scores, labels] + more.pop("lengths", []), attrs or {}, **more)

    for op in ("CTCLoss", "ctc_loss", "_contrib_CTCLoss", "_contrib_ctc_loss"):
        yield case(5, [[1, 2, 0], [3, 3, 1]], op=op)
    yield case(5, [[1, 2, 0], [3, 3, 1]], req="add")
    yield case(5, [[0, 1, -1], [2, 2, 1]], attrs={"blank_label": "last"})
    yield case(1, [[1], [3]])
    yield case(12, [[1, 2, 3, 4, 5, 6, 5, 4], [3, 3, 3, 3, 0, 0, 0, 0]], classes=8)
    yield case(4, [[0, 0, 0], [3, 0, 2]], why="no label; nothing counts after padding")
    yield case(3, [[1, 2, 0], [3, 3, 1]], grad=None, why="labels that do not fit into the frames")
    yield case(5, [[1, 2, 0], [3, 3, 1]], attrs={"use_data_lengths": True}, lengths=[np.array([3, 5], "float32")])
    yield case(5, [[1, 2, 3], [3, 1, 2]], attrs={"use_label_lengths": True}, lengths=[np.array([2, 1], "float32")])
    yield case(5, [[1, 2, 3], [3, 1, 2]], attrs={"use_data_lengths": True, "use_label_lengths": True},
               lengths=[np.array([4, 5], "float32"), np.array([2, 0], "float32")])
    yield case(5, [[1, 2, 0], [3, 3, 1]], grad=None, train=False)
    yield case(2, [[1, 2, 0]], why="more labels than frames")
    yield case(5, [[1, 2, 0]], attrs={"blank_label": "middle"}, why="no such blank")
    yield case(5, [[1, 4, 0]], refuse=True, grad=None, why="a label that is no class")
    for dtype in ("float16", "float64", "int32"):
        yield case(5, [[1, 2, 0]], dtype=dtype, grad=None, train=False)
    yield InferCase("CTCLoss", shapes={"data": (5, 2, 4), "label": (2, 3)})
