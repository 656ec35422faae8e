"""mx.io: iterators over files, RecordIO data sets of images, mx.image; a DataLoader with processes."""

import os
import struct
import tempfile
import zlib

import mxnet as mx
import numpy as np
from mxnet import gluon, nd

from record import record


def png(image):
    height, width, _ = image.shape
    rows = b"".join(b"\0" + row.tobytes() for row in image)

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def image(height, width):
    y, x = np.mgrid[:height, :width]
    return np.stack([(x * 7 + y * 3 + k * 40) % 256 for k in range(3)], 2).astype("uint8")


def passes(name, it, limit=5):
    for epoch in range(2):
        for i, batch in enumerate(it):
            if i == limit:
                break
            record(f"{name}/{epoch}/{i}/data", batch.data[0])
            record(f"{name}/{epoch}/{i}/label", batch.label[0])
            record(f"{name}/{epoch}/{i}/pad", batch.pad)
        it.reset()


folder = tempfile.mkdtemp()
packed, index, objects, two = (os.path.join(folder, f) for f in ("a.rec", "a.idx", "objects.rec", "two.rec"))
writer = mx.recordio.MXIndexedRecordIO(index, packed, "w")
for i in range(7):
    header = mx.recordio.IRHeader(0, float(i), i, 0)
    writer.write_idx(i, mx.recordio.pack(header, png(image(20 + 2 * i, 24 + i))))
writer.close()
writer = mx.recordio.MXRecordIO(two, "w")
for i in range(5):
    writer.write(mx.recordio.pack(mx.recordio.IRHeader(0, [i, i + 0.5], i, 0), png(image(16, 16))))
writer.close()
writer = mx.recordio.MXRecordIO(objects, "w")
for i in range(5):
    boxes = sum(([j, 0.1 + 0.1 * j, 0.2, 0.5, 0.6] for j in range(1 + i % 3)), [])
    writer.write(mx.recordio.pack(mx.recordio.IRHeader(0, [2, 5] + boxes, i, 0), png(image(16, 20))))
writer.close()
with open(os.path.join(folder, "a.lst"), "w") as lst:
    lst.writelines(f"{i}\t{i * 10}\t{i * 10 + 1}\tx.png\n" for i in range(7))

common = {"path_imgrec": packed, "data_shape": (3, 8, 8), "batch_size": 3, "verbose": False}
normal = {"mean_r": 10, "mean_g": 20, "mean_b": 30, "std_r": 2, "std_g": 3, "std_b": 4, "scale": 0.5}
for name, kind, options in [
    ("plain", "ImageRecordIter", {}),
    ("v1", "ImageRecordIter_v1", {}),
    ("uint8", "ImageRecordUInt8Iter", {}),
    ("uint8_v1", "ImageRecordUInt8Iter_v1", {}),
    ("int8", "ImageRecordInt8Iter", {}),
    ("dtype", "ImageRecordIter", {"dtype": "uint8"}),
    ("dtype_normal", "ImageRecordIter", dict(normal, dtype="uint8")),
    ("uint8_mirror", "ImageRecordUInt8Iter", dict(normal, mirror=True)),
    ("int8_normal", "ImageRecordInt8Iter", dict(normal, mean_r=100.5, mirror=True)),
    ("normal", "ImageRecordIter", normal),
    ("mirror", "ImageRecordIter", {"mirror": True}),
    ("mean_computed", "ImageRecordIter", {"mean_img": os.path.join(folder, "mean.bin")}),
    ("mean_read", "ImageRecordIter_v1", {"mean_img": os.path.join(folder, "mean.bin"), "scale": 0.5, "mirror": True}),
    ("mean_of_objects", "ImageDetRecordIter",
     {"path_imgrec": objects, "data_shape": (3, 12, 12), "mean_img": os.path.join(folder, "objects.bin")}),
    ("gray", "ImageRecordIter", {"data_shape": (1, 8, 8)}),
    ("resize", "ImageRecordIter", {"resize": 12}),
    ("resize_nearest", "ImageRecordIter", {"resize": 12, "inter_method": 0}),
    ("resize_cubic", "ImageRecordIter", {"resize": 12, "inter_method": 2}),
    ("resize_area", "ImageRecordIter", {"resize": 12, "inter_method": 3}),
    ("resize_auto", "ImageRecordIter", {"resize": 40, "inter_method": 9, "data_shape": (3, 36, 36)}),
    ("enlarged", "ImageRecordIter", {"data_shape": (3, 40, 40)}),
    ("wide", "ImageRecordIter", {"data_shape": (3, 10, 40)}),
    ("padded", "ImageRecordIter", {"pad": 4, "fill_value": 7, "data_shape": (3, 28, 32)}),
    ("shrunk", "ImageRecordIter", {"min_random_scale": 0.7, "max_random_scale": 0.7}),
    ("scaled", "ImageRecordIter", {"min_random_scale": 1.5, "max_random_scale": 1.5}),
    ("rotated", "ImageRecordIter", {"rotate": 30, "fill_value": 9, "data_shape": (3, 28, 32)}),
    ("rotated_more", "ImageRecordIter", {"rotate": 75}),
    ("square", "ImageRecordIter", {"max_crop_size": 10, "min_crop_size": 10}),
    ("two", "ImageRecordIter", {"path_imgrec": two, "label_width": 2}),
    ("list", "ImageRecordIter", {"path_imglist": os.path.join(folder, "a.lst"), "label_width": 2}),
    ("part", "ImageRecordIter", {"num_parts": 2, "part_index": 0}),
    ("part_of_index", "ImageRecordIter", {"num_parts": 2, "part_index": 1, "path_imgidx": index}),
    ("objects", "ImageDetRecordIter", {"path_imgrec": objects, "data_shape": (3, 12, 12)}),
    ("objects_padded", "ImageDetRecordIter", {"path_imgrec": objects, "data_shape": (3, 12, 12), "label_pad_width": 20}),
    ("objects_fit", "ImageDetRecordIter", {"path_imgrec": objects, "data_shape": (3, 12, 12), "resize_mode": "fit"}),
    ("objects_shrunk", "ImageDetRecordIter", {"path_imgrec": objects, "data_shape": (3, 30, 30), "resize_mode": "shrink"}),
    ("objects_mirrored", "ImageDetRecordIter", {"path_imgrec": objects, "data_shape": (3, 12, 12), "rand_mirror_prob": 1}),
]:
    passes(name, getattr(mx.io, kind)(**dict(common, **options)))

for (height, width), to in (((32, 28), (100, 20)), ((26, 35), (27, 50)), ((21, 21), (63, 7)), ((52, 12), (43, 27))):
    for interp in range(5):
        source = nd.array(image(height, width), dtype="uint8")
        record(f"imresize/{height} x {width}/{interp}", mx.image.imresize(source, *to, interp=interp))

shuffled = mx.io.ImageRecordIter(**dict(common, shuffle=True, seed=5, path_imgidx=index, batch_size=7))
record("shuffled", sorted(next(shuffled).label[0].asnumpy().tolist()))

path = os.path.join(folder, "a.svm")
with open(path, "w") as text:
    text.write("1.0 0:0.5 2:1.2\n-2.0\n-3.0 0:0.6 1:2.4 2:1.2\n4 2:-1.2\n")
unsorted = path + ".unsorted"
with open(unsorted, "w") as file:
    file.write("1 2:3 0:1\n0 1:2\n")
record("svm_unsorted", mx.io.LibSVMIter(data_libsvm=unsorted, data_shape=(3,), batch_size=2).next().data[0])
it = mx.io.LibSVMIter(data_libsvm=path, data_shape=(3,), batch_size=3)
passes("svm", it)
record("svm/stype", it.getdata().stype if it.iter_next() else "")
labels = os.path.join(folder, "label.svm")
with open(labels, "w") as text:
    text.write("1.0\n-2.0 0:0.125\n-3.0 2:1.2\n4 1:1.0 2:-1.2\n")
passes("svm_labels", mx.io.LibSVMIter(data_libsvm=path, data_shape=(3,), label_libsvm=labels, label_shape=(3,), batch_size=2))

path = os.path.join(folder, "a.csv")
np.savetxt(path, np.arange(24).reshape(6, 4), delimiter=",")
passes("csv", mx.io.CSVIter(data_csv=path, data_shape=(2, 2), batch_size=3))
passes("csv_kept", mx.io.CSVIter(data_csv=path, data_shape=(4,), batch_size=4, round_batch=False))
passes("prefetching", mx.io.PrefetchingIter(mx.io.CSVIter(data_csv=path, data_shape=(4,), batch_size=3)))
# Whole passes only: after a partial pass, MXNet's position depends on what it has prefetched.
passes("resized", mx.io.ResizeIter(mx.io.CSVIter(data_csv=path, data_shape=(4,), batch_size=3), 4))
batch = mx.io.NDArrayIter({"a": np.arange(10), "b": np.ones((10, 2))}, np.arange(10), 4, last_batch_handle="discard")
record("ndarray", [b.label[0].asnumpy() for b in batch])

pixels = image(30, 40)
record("imdecode", mx.image.imdecode(png(pixels)))
record("imdecode gray", mx.image.imdecode(png(pixels), flag=0))
record("imresize", mx.image.imresize(nd.array(pixels, dtype="uint8"), 20, 10))
record("center_crop", mx.image.center_crop(nd.array(pixels, dtype="uint8"), (10, 8))[0])
augmented = mx.image.CreateAugmenter((3, 24, 24), resize=28, mean=True, std=True)
value = nd.array(pixels, dtype="uint8")
for augmenter in augmented:
    value = augmenter(value)
record("augmented", value)
it = mx.image.ImageIter(3, (3, 16, 16), path_imgrec=packed, path_imgidx=index)
record("image_iter", [b.data[0].asnumpy() for b in it])
dataset = gluon.data.vision.ImageRecordDataset(packed)
record("record_dataset", [float(dataset[i][1]) for i in range(len(dataset))])
transform = gluon.data.vision.transforms.Compose(
    [gluon.data.vision.transforms.Resize((12, 12)), gluon.data.vision.transforms.ToTensor()]
)
loader = gluon.data.DataLoader(dataset.transform_first(transform), batch_size=3, num_workers=2)
record("loader", np.concatenate([x.asnumpy() for x, _ in loader]))
record("loader/labels", np.concatenate([y.asnumpy() for _, y in loader]))

# Border types of OpenCV: 16 says that the image is not a region of another one.
for kind in (0, 1, 2, 3, 4, 16, 17, 20):
    source = mx.nd.array(image(5, 6), dtype="uint8")
    record(f"border/{kind}", mx.image.copyMakeBorder(source, 1, 2, 3, 2, kind, values=(7.0, 8.0, 9.0)))
boxes = np.array([[0, 0.1, 0.1, 0.9, 0.9]])
padded, labels = mx.image.DetRandomPadAug(area_range=(2.0, 2.0))(mx.nd.array(image(8, 8), dtype="uint8"), boxes)
record("border/augmenter", [len(padded.shape), labels.shape[1]])
