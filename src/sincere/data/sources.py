"""Which reader a source is for."""

from collections.abc import Callable
from pathlib import Path

from sincere.data.arrays import read_npy, read_npz
from sincere.data.cifar import CIFAR10, CIFAR100, edition_of_archive, is_cifar_folder, read_cifar
from sincere.data.class_folders import read_class_folders, read_one_file
from sincere.data.digits import read_digits
from sincere.data.idx import image_files, read_idx_folder
from sincere.data.options import Settings
from sincere.data.samples import Found, listed
from sincere.data.tables import SUFFIXES, read_table
from sincere.data.tabular import read_tabular
from sincere.data.texts import read_trec
from sincere.data.torchvision_sets import read_torchvision
from sincere.errors import InputError, OptionError

PARTS = {
    "train": ("train", "training"),
    "validation": ("val", "valid", "validation", "dev"),
    "test": ("test", "testing"),
}
SOURCES = (
    "digits, cifar10:PATH, cifar100:PATH, trec:PATH, torchvision:NAME:ROOT, a folder (a sub-folder per class; IDX "
    "files; train.csv and test.csv), or a file (.npz, .npy, .csv, .tsv, .jsonl, .parquet, .label)"
)


def find(source: str | Path, settings: Settings) -> Found:
    """Read a source, named or by path."""
    if isinstance(source, str):
        if source == "digits":
            return read_digits(settings)
        name, _, rest = source.partition(":")
        if name in NAMED and rest:
            return NAMED[name](rest, settings)
    path = Path(source).expanduser()
    if path.is_dir():
        return _find_in_folder(path, settings)
    if path.is_file():
        return _find_in_file(path, settings)
    raise InputError(f"there is no such file or folder: {source}. Data must be {SOURCES}.")


def _existing(text: str) -> Path:
    path = Path(text).expanduser()
    if not path.exists():
        raise InputError(f"there is no such file or folder: {path}.")
    return path


def _torchvision(text: str, settings: Settings) -> Found:
    name, _, root = text.partition(":")
    if not root:
        raise OptionError(f"torchvision:NAME:ROOT must name the folder with the data: got 'torchvision:{text}'.")
    return read_torchvision(name, _existing(root), settings)


def _trec(text: str, settings: Settings) -> Found:
    path = _existing(text)
    if path.is_file():
        return Found(path.stem, read_trec(path, settings))
    train, test = path / "train_5500.label", path / "TREC_10.label"
    if not train.is_file():
        raise InputError(
            f"{path} must hold TREC's train_5500.label, and TREC_10.label to judge by: the first is not there."
        )
    return Found("trec", read_trec(train, settings), test=read_trec(test, settings) if test.is_file() else None)


NAMED: dict[str, Callable[[str, Settings], Found]] = {
    "cifar10": lambda text, settings: read_cifar(CIFAR10, _existing(text), settings),
    "cifar100": lambda text, settings: read_cifar(CIFAR100, _existing(text), settings),
    "trec": _trec,
    "torchvision": _torchvision,
}


def _find_in_folder(folder: Path, settings: Settings) -> Found:
    edition = is_cifar_folder(folder)
    if edition is not None:
        return read_cifar(edition, folder, settings)
    if (folder / "train_5500.label").is_file():
        return _trec(str(folder), settings)
    if image_files(folder):
        return read_idx_folder(folder)
    parts = _parts_of(folder)
    if len(parts) > 1 and "train" in parts:  # a folder `train` alone can be a class: bus, car, train
        return _find_in_parts(folder, parts, settings)
    samples, notes = read_class_folders(folder, settings)
    return Found(folder.name, samples, notes=notes)


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


def _find_in_file(path: Path, settings: Settings) -> Found:
    suffix = path.suffix.lower()
    edition = edition_of_archive(path)
    if edition is not None:
        return read_cifar(edition, path, settings)
    if suffix in SUFFIXES:
        samples, notes = read_tabular(read_table(path, settings), settings)
        return Found(path.stem, samples, notes=notes)
    if suffix == ".label":
        return Found(path.stem, read_trec(path, settings))
    if suffix in (".npz", ".npy"):
        return (read_npz if suffix == ".npz" else read_npy)(path, settings)
    if settings.labels == "optional" and (one := read_one_file(path)) is not None:
        return Found(path.stem, one)
    hint = (
        " For CIFAR's archives write cifar10:PATH or cifar100:PATH." if path.name.endswith((".tar.gz", ".tgz")) else ""
    )
    raise InputError(f"data must be {SOURCES}: {path} has no known suffix.{hint}")
