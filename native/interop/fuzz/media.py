"""Makes the first inputs of the fuzz targets `images`, `records` and `tables`. Needs Pillow.

    python3 native/interop/fuzz/media.py       # writes native/interop/fuzz/corpus
"""

import io
import pathlib
import struct

from PIL import Image

CORPUS = pathlib.Path(__file__).parent / "corpus"
MAGIC = 0xCED7230A


def write(name, data):
    path = CORPUS / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def encoded(mode, form, **options):
    pixels = bytes((7 * x + 11 * y + 40 * c) % 256 for y in range(18) for x in range(21) for c in range(3))
    out = io.BytesIO()
    Image.frombytes("RGB", (21, 18), pixels).convert(mode).save(out, form, **options)
    return out.getvalue()


def record(data):
    return struct.pack("<II", MAGIC, len(data)) + data + bytes(-len(data) % 4)


def labeled(index, labels, image):
    """An image with its header, as `mxnet.recordio.pack` writes it."""
    if len(labels) == 1:
        return struct.pack("<IfQQ", 0, labels[0], index, 0) + image
    return struct.pack(f"<IfQQ{len(labels)}f", len(labels), 0, index, 0, *labels) + image


def main():
    images = {
        "baseline.jpg": encoded("RGB", "JPEG"),
        "progressive.jpg": encoded("RGB", "JPEG", progressive=True, subsampling=2),
        "gray.jpg": encoded("L", "JPEG"),
        "cmyk.jpg": encoded("CMYK", "JPEG"),
        "rgb.png": encoded("RGB", "PNG"),
        "palette.png": encoded("P", "PNG"),
        "alpha.png": encoded("RGBA", "PNG"),
        "bits.png": encoded("1", "PNG"),
        "rgb.bmp": encoded("RGB", "BMP"),
        "palette.bmp": encoded("P", "BMP"),
    }
    for name, data in images.items():
        write(f"images/{name}", data)

    examples = [labeled(i, [float(i)], images[name]) for i, name in enumerate(["gray.jpg", "rgb.png", "rgb.bmp"])]
    write("records/images.rec", b"".join(map(record, examples)))
    objects = [2, 5, 1, 0.1, 0.2, 0.6, 0.7, 0, 0.3, 0.3, 0.9, 0.8]
    write("records/objects.rec", record(labeled(0, objects, images["rgb.png"])))
    # A record that contains the magic number is stored in two parts.
    first, last = b"first part", b"last part."
    parts = [struct.pack("<II", MAGIC, kind << 29 | len(p)) + p + bytes(-len(p) % 4) for kind, p in [(1, first), (3, last)]]
    write("records/parts.rec", b"".join(parts))

    write("tables/numbers.csv", b"1,2.5\n-3,4e2\nnan,inf\n")
    write("tables/sparse.svm", b"1 0:0.5 2:-1\n0 1:2\n1\n")
    write("tables/images.idx3", struct.pack(">IIII", 0x803, 2, 2, 3) + bytes(range(12)))
    write("tables/labels.idx1", struct.pack(">II", 0x801, 2) + bytes([3, 7]))


main()
