"""MNIST-style IDX files: big-endian sizes, then bytes. Format: http://yann.lecun.com/exdb/mnist/"""

import gzip
import re
import struct
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sincere.data.ready import Ready, images_from
from sincere.data.samples import Found, classes_of_numbers
from sincere.errors import InputError

IMAGES = re.compile(r"(?P<part>train|t10k|test)-images[.-]idx3-ubyte(?:\.gz)?$")
UNSIGNED_BYTES = 0x08


def image_files(folder: Path) -> dict[str, Path]:
    """The folder's IDX files of images by part, "train" and "test"; a plain file goes before its .gz."""
    files: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        if match := IMAGES.search(path.name):
            part = "train" if match["part"] == "train" else "test"
            other = files.setdefault(part, path)
            if other.name.removesuffix(".gz") != path.name.removesuffix(".gz"):
                raise InputError(f"{folder} must hold one data set: it has both {other.name} and {path.name}.")
    return files


def read_idx_folder(folder: Path) -> Found:
    """train-images-idx3-ubyte with train-labels-idx1-ubyte, and t10k-… as the test set where it lies there."""
    files = image_files(folder)
    if "train" not in files:
        raise InputError(f"{folder} must hold train-images-idx3-ubyte, plain or .gz: it only has {files['test'].name}.")
    test = _read_part(files["test"]) if "test" in files else None
    return Found(folder.name, _read_part(files["train"]), test=test)


def _read_part(path: Path) -> Ready:
    images = images_from(read_idx(path), str(path))
    base = path.name.removesuffix(".gz").replace("images", "labels").replace("idx3", "idx1")
    candidates = [path.with_name(base), path.with_name(base + ".gz")]
    labels_path = next((candidate for candidate in candidates if candidate.is_file()), None)
    if labels_path is None:
        raise InputError(f"{path} must have its labels beside it, {base} or {base}.gz: neither is there.")
    labels = read_idx(labels_path)
    if labels.ndim != 1 or len(labels) != len(images):
        raise InputError(
            f"{labels_path} must hold one label for each image of {path.name}: expected ({len(images)},), "
            f"got {labels.shape}."
        )
    return Ready(images, classes_of_numbers(labels.astype(np.int64)), "image")


def read_idx(path: Path) -> npt.NDArray[np.uint8]:
    """One file of unsigned bytes, plain or .gz."""
    content = path.read_bytes()
    if not content:
        raise InputError(f"{path} is empty. Download it again.")
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"{path} is a broken .gz file: {error}. Download it again.") from error
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != UNSIGNED_BYTES:
        raise InputError(
            f"{path} must be an IDX file of unsigned bytes, opening with 00 00 08: got {content[:4].hex(' ')}."
        )
    dimensions = content[3]
    header = 4 + 4 * dimensions
    if len(content) < header:
        raise InputError(f"{path} ends within its header. Download it again.")
    shape = struct.unpack(f">{dimensions}I", content[4:header])
    if len(content) - header != int(np.prod(shape, dtype=np.uint64)):
        raise InputError(
            f"{path} must hold {shape} bytes as its header says, {np.prod(shape, dtype=np.uint64)} in all: "
            f"got {len(content) - header}. Download it again."
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)
