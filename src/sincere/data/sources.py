"""Which reader a source is for."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from sincere.checks import meant_beside
from sincere.data.arrays import read_npy, read_npz
from sincere.data.cifar import CIFAR10, CIFAR100, Edition, edition_of_archive, edition_of_folder, read_cifar
from sincere.data.class_folders import hint_about_file, read_class_folders, read_one_file
from sincere.data.digits import read_digits
from sincere.data.idx import image_files, read_idx_folder
from sincere.data.options import Settings
from sincere.data.samples import Found, listed
from sincere.data.tables import SUFFIXES, read_table
from sincere.data.tabular import read_tabular
from sincere.data.texts import read_trec
from sincere.data.torchvision_sets import read_torchvision
from sincere.errors import InputError, OptionError
from sincere.types import Kind

PARTS = {
    "train": ("train", "training"),
    "validation": ("val", "valid", "validation", "dev"),
    "test": ("test", "testing"),
}
OF_FILES = frozenset({"kind", "unreadable"})  # options of images and sound in files
SOURCES = (
    "digits, cifar10:PATH, cifar100:PATH, trec:PATH, torchvision:NAME:ROOT, a folder (a sub-folder per class; IDX "
    "files; train.csv and test.csv), or a file (.npz, .npy, .csv, .tsv, .jsonl, .parquet, .label)"
)

ELSEWHERE = {
    (".tar.gz", ".tgz"): "For CIFAR's archives write cifar10:PATH or cifar100:PATH.",
    (".xlsx", ".xls", ".ods"): "Save the table as .csv.",
    (".json",): "Save a table as a .jsonl, one JSON object a line.",
}


class Reader(NamedTuple):
    """How a source is read, and which of the options that are not for every source have a meaning for it."""

    read: Callable[[Settings], Found]
    takes: frozenset[str]


def find(source: str | Path, settings: Settings) -> Found:
    """Read a source, named or by path."""
    return reader_for(source).read(settings)


def reader_for(source: str | Path, kind: Kind | None = None) -> Reader:
    """Which reader a source is for, where this kind of samples is asked for; nothing is read yet."""
    if isinstance(source, str):
        if source == "digits":
            return Reader(read_digits, frozenset({"kind"}))
        name, _, rest = source.partition(":")
        if name in NAMED and rest:
            return NAMED[name](rest)
    if not isinstance(source, (str, os.PathLike)):
        raise InputError(
            f"data must be a name or a path, {SOURCES}: got {type(source).__name__}. What is in memory already is "
            "split by sincere.data.split_arrays(inputs, labels)."
        )
    path = Path(source).expanduser()
    if path.is_dir():
        return _of_folder(path, kind)
    if path.is_file():
        return _of_file(path, kind)
    hint = meant_beside(path) or f" Data must be {SOURCES}."
    raise InputError(f"there is no such file or folder: {source}.{hint}")


def path_of(source: str) -> Path | None:
    """Where a source has to lie; None for what comes with a library."""
    name, mark, rest = source.partition(":")
    if source == "digits" or (mark and name == "torchvision"):
        return None
    return Path(rest if mark and name in NAMED else source).expanduser()


def missing_path(*sources: str | None) -> Path | None:
    """The first place where one of these sources has to lie and nothing is."""
    places = (path_of(source) for source in sources if source is not None)
    return next((path for path in places if path is not None and not path.exists()), None)


def missed(path: Path) -> tuple[str, str]:
    """Where a run's data is not, in words, and how it gets there; a relative path counts from where one stands."""
    if path.is_absolute():
        return str(path), "Put the data, or a link to it, back there"
    return f"{path} in {Path.cwd()}", "Go to the folder where the run was trained, or put a link to the data here"


def _existing(text: str) -> Path:
    path = Path(text).expanduser()
    if not path.exists():
        raise InputError(f"there is no such file or folder: {path}.")
    return path


def _cifar(edition: Edition, path: Path) -> Reader:
    takes = {"verify", "level"} if edition is CIFAR100 else {"verify"}
    return Reader(partial(read_cifar, edition, path), frozenset(takes))


def _torchvision(text: str) -> Reader:
    name, _, root = text.partition(":")
    if not root:
        raise OptionError(f"torchvision:NAME:ROOT must name the folder with the data: got 'torchvision:{text}'.")
    return Reader(partial(read_torchvision, name, _existing(root)), frozenset())


def _trec(path: Path) -> Reader:
    return Reader(partial(_read_trec, path), frozenset({"level"}))


def _read_trec(path: Path, settings: Settings) -> Found:
    if path.is_file():
        return Found(path.stem, read_trec(path, settings))
    train, test = path / "train_5500.label", path / "TREC_10.label"
    if not train.is_file():
        raise InputError(
            f"{path} must hold TREC's train_5500.label, and TREC_10.label to judge by: the first is not there."
        )
    return Found("trec", read_trec(train, settings), test=read_trec(test, settings) if test.is_file() else None)


NAMED: dict[str, Callable[[str], Reader]] = {
    "cifar10": lambda text: _cifar(CIFAR10, _existing(text)),
    "cifar100": lambda text: _cifar(CIFAR100, _existing(text)),
    "trec": lambda text: _trec(_existing(text)),
    "torchvision": _torchvision,
}


def _of_folder(folder: Path, kind: Kind | None) -> Reader:
    edition = edition_of_folder(folder)
    if edition is not None:
        return _cifar(edition, folder)
    if (folder / "train_5500.label").is_file():
        return _trec(folder)
    if image_files(folder):
        return Reader(lambda settings: read_idx_folder(folder), frozenset())
    parts = _parts_of(folder)
    if len(parts) > 1 and "train" in parts:  # a folder `train` alone can be a class: bus, car, train
        takes = frozenset[str]().union(*(reader_for(path, kind).takes for path in parts.values()))
        return Reader(partial(_find_in_parts, folder, parts), takes)
    return Reader(partial(read_class_folders, folder), OF_FILES)


def _parts_of(folder: Path) -> dict[str, Path]:
    """Sub-folders or files called train, validation and test, by any of their usual names."""
    parts: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        readable = path.is_dir() or path.suffix.lower() in (*SUFFIXES, ".npz", ".label")
        for part, names in PARTS.items():
            if readable and path.stem.lower() in names:
                if part in parts:
                    raise InputError(
                        f"{folder} holds both {parts[part].name} and {path.name}: name the one to read, as source and "
                        "with test=…."
                    )
                parts[part] = path
    return parts


def _find_in_parts(folder: Path, parts: dict[str, Path], settings: Settings) -> Found:
    found = {part: find(path, settings) for part, path in parts.items()}
    only = {part: one.train for part, one in found.items()}
    notes = tuple(note for one in found.values() for note in one.notes)
    used = {path.name for path in parts.values()}
    if others := sorted(p.name for p in folder.iterdir() if p.name not in used and not p.name.startswith(".")):
        notes += (f"beside {listed(sorted(used))}, {folder} holds {listed(others, 8)}, which was not read.",)
    return Found(folder.name, only["train"], only.get("validation"), only.get("test"), notes)


def _of_file(path: Path, kind: Kind | None) -> Reader:
    suffix = path.suffix.lower()
    edition = edition_of_archive(path)
    if edition is not None:
        return _cifar(edition, path)
    if suffix in SUFFIXES:
        takes = {"kind", "label_column", "input_column", "encoding"}
        takes -= {"encoding"} if suffix == ".parquet" else set()
        takes -= {"input_column"} if kind == "array" else set()  # there all columns of numbers are learned from
        return Reader(partial(_find_in_table, path), frozenset(takes))
    if suffix == ".label":
        return _trec(path)
    if suffix == ".npz":
        return Reader(partial(read_npz, path), frozenset({"kind", "label_column", "input_column"}))
    if suffix == ".npy":
        return Reader(partial(read_npy, path), frozenset({"kind", "label_column"}))
    return Reader(partial(_find_one_file, path), OF_FILES)


def _find_in_table(path: Path, settings: Settings) -> Found:
    return read_tabular(read_table(path, settings), settings)


def _find_one_file(path: Path, settings: Settings) -> Found:
    if settings.labels == "optional" and (found := read_one_file(path)) is not None:
        return found
    if hint := hint_about_file(path):
        raise InputError(f"{path} {hint}.")
    advice = next((f" {words}" for suffixes, words in ELSEWHERE.items() if path.name.lower().endswith(suffixes)), "")
    raise InputError(f"data must be {SOURCES}: {path} has no known suffix.{advice}")
