"""CIFAR-10 and CIFAR-100 as their authors publish them: a .tar.gz, or its folder.

Source: Krizhevsky, 2009, Learning Multiple Layers of Features from Tiny Images; https://www.cs.toronto.edu/~kriz/cifar.html
"""

import hashlib
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sincere.data.cifar_pickle import read_pickle
from sincere.data.options import Settings
from sincere.data.ready import Ready
from sincere.data.samples import Found, classes_of_numbers
from sincere.errors import InputError


@dataclass(frozen=True)
class Edition:
    """One of the two data sets: its folder, and the published MD5 sum of each of its files."""

    name: str
    folder: str
    train: dict[str, str]
    test: dict[str, str]
    names: dict[str, str]

    @property
    def sums(self) -> dict[str, str]:
        return {**self.train, **self.test, **self.names}


CIFAR10 = Edition(
    "cifar10",
    "cifar-10-batches-py",
    train={
        "data_batch_1": "c99cafc152244af753f735de768cd75f",
        "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
        "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
        "data_batch_4": "634d18415352ddfa80567beed471001a",
        "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    },
    test={"test_batch": "40351d587109b95175f43aff81a1287e"},
    names={"batches.meta": "5ff9c542aee3614f3951f8cda6e48888"},
)
CIFAR100 = Edition(
    "cifar100",
    "cifar-100-python",
    train={"train": "16019d7e3df5f24257cddd939b257f8d"},
    test={"test": "f0ef6b0ae62326f3e7ffdfab6717acfc"},
    names={"meta": "7973b15100ade9c7d40fb424638fde48"},
)


def read_cifar(edition: Edition, path: Path, settings: Settings) -> Found:
    """Read an archive or folder. Its pickles are read as data, never run, whether their sums are verified or not."""
    files = _from_archive(edition, path) if path.is_file() else _from_folder(edition, path)
    if settings.verify:
        for name, content in files.items():
            _verify(f"{path}: {name}", content, edition.sums[name])
    pickles = {name: read_pickle(files.pop(name), f"{path}: {name}") for name in edition.sums}  # one copy at a time
    (names,) = (pickles[name] for name in edition.names)
    train, test = (
        _samples([pickles[name] for name in part], names, settings) for part in (edition.train, edition.test)
    )
    return Found(edition.name, train, test=test)


def edition_of_folder(folder: Path) -> Edition | None:
    """Which edition lies in the folder, or in the sub-folder that the archive makes."""
    for edition in (CIFAR10, CIFAR100):
        if any(all((place / name).is_file() for name in edition.sums) for place in (folder, folder / edition.folder)):
            return edition
    return None


def edition_of_archive(path: Path) -> Edition | None:
    """Which edition an archive is, by its official name."""
    named = {"cifar-10-python.tar.gz": CIFAR10, "cifar-100-python.tar.gz": CIFAR100}
    return named.get(path.name)


def _from_archive(edition: Edition, path: Path) -> dict[str, bytes]:
    """The edition's files, read out of the archive without unpacking it to disk."""
    files = {}
    try:
        with tarfile.open(path, "r|*") as archive:
            for member in archive:
                name = Path(member.name).name
                file = archive.extractfile(member) if member.isfile() and name in edition.sums else None
                if file is not None:
                    files[name] = file.read()
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise InputError(
            f"{path} cannot be read as an archive: {error}. It may be incomplete; download it again."
        ) from error
    return _complete(edition, files, path)


def _from_folder(edition: Edition, path: Path) -> dict[str, bytes]:
    folder = path / edition.folder if (path / edition.folder).is_dir() else path
    files = {name: (folder / name).read_bytes() for name in edition.sums if (folder / name).is_file()}
    return _complete(edition, files, folder)


def _complete(edition: Edition, files: dict[str, bytes], path: Path) -> dict[str, bytes]:
    if missing := [name for name in edition.sums if name not in files]:
        raise InputError(
            f"{path} must hold the files of {edition.name}'s official archive for Python: missing {', '.join(missing)}."
        )
    return files


def _verify(what: str, content: bytes, published: str) -> None:
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != published:
        raise InputError(
            f"{what} must have the published MD5 sum {published}: got {found}. The file is damaged or was changed; "
            "download the archive again, or pass verify=False to read it as it is."
        )


def _samples(batches: list[dict[str, Any]], names: dict[str, Any], settings: Settings) -> Ready:
    try:
        if "fine_labels" in batches[0]:
            level = settings.level or "fine"
            key, class_names = f"{level}_labels", names[f"{level}_label_names"]
        else:
            key, class_names = "labels", names["label_names"]
        images = np.concatenate([batch["data"] for batch in batches]).reshape(-1, 3, 32, 32)
        labels = np.concatenate([np.asarray(batch[key], np.int64) for batch in batches])
        shown = tuple(str(name) for batch in batches for name in batch.get("filenames", ()))
    except (KeyError, ValueError, TypeError) as error:
        raise InputError(f"a CIFAR file does not hold what it should: {error}. Download the archive again.") from error
    classes = classes_of_numbers(labels, [str(name) for name in class_names])
    return Ready(torch.from_numpy(images), classes, "image", shown if len(shown) == len(images) else None)
