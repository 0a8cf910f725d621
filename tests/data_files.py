"""Small files of every format that the readers know, written by other means than the readers use."""

import gzip
import pickle
import struct
import tarfile
import wave
from pathlib import Path

import numpy as np
from PIL import Image


class Frame:
    """As much of a data frame as is asked for here: named columns, and an array of what is in them."""

    def __init__(self, values, columns):
        self.values, self.columns = np.asarray(values), list(columns)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=dtype)

    def __getitem__(self, columns):
        return Frame(self.values[:, [self.columns.index(name) for name in columns]], columns)


def write_images(folder: Path, counts: dict[str, int], size: tuple[int, int] = (6, 5), mode: str = "RGB") -> Path:
    """`counts` PNG files of (height, width) a class; pixel values tell class and number."""
    for c, (name, count) in enumerate(counts.items()):
        (folder / name).mkdir(parents=True)
        for i in range(count):
            shape = size if mode == "L" else (*size, 3)
            Image.fromarray(np.full(shape, 40 * c + i, np.uint8)).save(folder / name / f"{i}.png")
    return folder


def write_wav(path: Path, samples: np.ndarray, *, rate: int = 8000, width: int = 2) -> None:
    """Integer samples (n,) or (n, channels) as PCM of `width` bytes; 8 bits are unsigned in WAV."""
    path.parent.mkdir(parents=True, exist_ok=True)
    frames = samples if samples.ndim == 2 else samples[:, None]
    with wave.open(str(path), "wb") as file:
        file.setnchannels(frames.shape[1])
        file.setsampwidth(width)
        file.setframerate(rate)
        signed = width > 1
        file.writeframes(b"".join(int(v).to_bytes(width, "little", signed=signed) for v in frames.flatten()))


def write_idx(path: Path, values: np.ndarray) -> None:
    content = struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape) + values.tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def cifar10_batch(seed: int, count: int = 20) -> dict[bytes, object]:
    rng = np.random.default_rng(seed)
    return {
        b"data": rng.integers(0, 256, (count, 3072), dtype=np.uint8),
        b"labels": [int(i) % 10 for i in range(count)],
        b"filenames": [f"{seed}_{i}.png".encode() for i in range(count)],
        b"batch_label": b"some batch",
    }


def write_cifar10(folder: Path) -> dict[str, dict[bytes, object]]:
    """The seven files of CIFAR-10's archive with 20 images each; returns what they hold."""
    held: dict[str, dict[bytes, object]] = {f"data_batch_{i}": cifar10_batch(i) for i in range(1, 6)}
    held["test_batch"] = cifar10_batch(6)
    held["batches.meta"] = {b"label_names": [f"class {i}".encode() for i in range(10)], b"num_vis": 3072}
    folder.mkdir(parents=True)
    for name, content in held.items():
        (folder / name).write_bytes(pickle.dumps(content, protocol=3))
    return held


def write_cifar100(folder: Path) -> None:
    folder.mkdir(parents=True)
    for seed, name in enumerate(("train", "test")):
        batch = cifar10_batch(seed, 200 if name == "train" else 100)
        labels = np.arange(len(batch.pop(b"labels"))) % 100
        batch |= {b"fine_labels": labels.tolist(), b"coarse_labels": (labels // 5).tolist()}
        (folder / name).write_bytes(pickle.dumps(batch, protocol=3))
    names = {b"fine_label_names": [f"f{i}" for i in range(100)], b"coarse_label_names": [f"c{i}" for i in range(20)]}
    (folder / "meta").write_bytes(pickle.dumps(names, protocol=3))


def write_archive(path: Path, folder: Path) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        archive.add(folder, arcname=folder.name)
    return path
