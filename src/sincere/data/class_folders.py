"""A folder of files per class."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from sincere.data import images, sound
from sincere.data.options import Settings
from sincere.data.samples import UNLABELLED, Found, legible, listed, number_classes, unlabelled
from sincere.errors import InputError
from sincere.tables import amount
from sincere.types import Kind

SUFFIXES: dict[Kind, frozenset[str]] = {"image": images.SUFFIXES, "sound": frozenset({".wav", ".wave"})}
OTHER_SOUND = frozenset([".mp3", ".flac", ".ogg", ".opus", ".m4a", ".aac", ".aiff", ".aif", ".wma"])
OTHER_IMAGES = frozenset([".heic", ".heif", ".avif", ".jxl", ".jp2", ".svg", ".psd", ".dng", ".cr2", ".nef", ".arw"])
OTHER: dict[Kind, frozenset[str]] = {"image": OTHER_IMAGES, "sound": OTHER_SOUND}  # forms that we do not read
SAMPLES: dict[Kind, type[images.ImageFiles] | type[sound.SoundFiles]] = {
    "image": images.ImageFiles,
    "sound": sound.SoundFiles,
}
CONVERT: dict[Kind, str] = {
    "image": "convert them to PNG or JPEG, for instance with magick a.heic a.png",
    "sound": "convert them to WAV, for instance with ffmpeg -i a.mp3 a.wav",
}
OF_FILES = (*images.SUFFIXES, *SUFFIXES["sound"], *OTHER_SOUND)  # how names of images and sound end


def read_class_folders(folder: Path, settings: Settings) -> Found:
    """Images or WAV files of `folder`, each of the class that its first sub-folder names.

    Files that lie in no sub-folder have no class: they are left out, or are `UNLABELLED` where labels are optional.
    """
    files, loose = _files_by_class(folder)
    folders = tuple(files)
    if loose and settings.labels == "optional":
        files[UNLABELLED] = [*files.get(UNLABELLED, []), *loose]
    kind = settings.kind or _kind_of([path for some in files.values() for path in some], folder)
    if kind not in SUFFIXES:
        raise InputError(
            f"a folder with a sub-folder per class holds images or WAV files: got kind={kind!r}, {folder}."
        )
    chosen = {name: [path for path in some if _is_of(kind, path) or _is_lost(path)] for name, some in files.items()}
    paths = [path for some in chosen.values() for path in some]
    classes = number_classes([legible(name) for name, some in chosen.items() for _ in some])
    notes = _loose_note([path for path in loose if _is_of(kind, path)], folder, settings)
    if empty := [name for name in folders if not chosen[name]]:
        hold = "holds no {} and makes" if len(empty) == 1 else "hold no {} and make"
        what = f"{amount(len(empty), 'sub-folder')} of {folder} {hold.format(kind)}"
        notes.append(f"{what} no class: {listed(empty)}.")
    seen = {*paths, *(path for path in loose if _is_of(kind, path))}
    others = [path for path in dict.fromkeys(chain(*files.values(), loose)) if path not in seen]
    notes += _left_out(others, folder, kind)
    if not paths:
        raise InputError(f"{folder} must hold {kind} files in a sub-folder per class: its sub-folders hold none.")
    return Found(folder.name, SAMPLES[kind](tuple(paths), classes), notes=tuple(notes))


def hint_about_file(path: Path) -> str:
    """What to do with a file that is no data by itself, but would be among others; empty where it would not."""
    for kind, forms in OTHER.items():
        if path.suffix.lower() in forms:
            return f"is of a form that is not read here. To use such files, {CONVERT[kind]}"
    if any(_is_of(kind, path) for kind in SUFFIXES):
        return (
            "is one file, of no class: sort such files into a folder with a sub-folder per class, and name that folder"
        )
    return ""


def read_one_file(path: Path) -> Found | None:
    """A single image or WAV file, of no class; None where it is neither."""
    note = f"{path} is read alone and so has no class: it is of one class, {UNLABELLED!r}."
    kind = next((kind for kind in SAMPLES if _is_of(kind, path)), None)
    return None if kind is None else Found(path.stem, SAMPLES[kind]((path,), unlabelled(1)), notes=(note,))


def _loose_note(loose: Sequence[Path], folder: Path, settings: Settings) -> list[str]:
    if not loose:
        return []
    one = len(loose) == 1
    lie = "lies in none of its sub-folders and so has" if one else "lie in none of its sub-folders and so have"
    what = f"{amount(len(loose), 'file')} of {folder} {lie} no class"
    if settings.labels == "optional":
        return [f"{what}: {'it is' if one else 'they are'} of one class, {UNLABELLED!r}."]
    return [f"{what}, and {'was' if one else 'were'} left out: {listed(loose, 5)}."]


def _left_out(paths: Sequence[Path], folder: Path, kind: Kind) -> list[str]:
    """Notes on files that are not read: those of forms unknown here, which their owner may expect to be used, and all
    others."""
    forms, others = list[Path](), list[Path]()
    for path in paths:
        (forms if path.suffix.lower() in OTHER[kind] else others).append(path)
    notes = []
    if forms:
        are, were = ("is of a form that is", "was") if len(forms) == 1 else ("are of forms that are", "were")
        what = f"{amount(len(forms), 'file')} of {folder} {are} not read here, and {were} left out"
        notes.append(f"{what}: {listed(forms, 5)}. To use such files, {CONVERT[kind]}.")
    if others:
        are = f"is no {kind} file and was" if len(others) == 1 else f"are no {kind} files and were"
        notes.append(f"{amount(len(others), 'file')} of {folder} {are} left out: {listed(others, 5)}.")
    return notes


def _is_of(kind: Kind, path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES[kind]


def _is_lost(path: Path) -> bool:
    """Is it a link that leads nowhere, or a folder that may not be opened? It counts as a sample, so that reading it
    says what is wrong."""
    return not os.path.isfile(path)


def _files_by_class(folder: Path) -> tuple[dict[str, list[Path]], list[Path]]:
    """Files of each sub-folder, by its name, and those beside them.

    A link beside the sub-folders that leads nowhere is taken for one of them, unless it is called like a file.
    """
    files: dict[str, list[Path]] = {}
    loose = []
    above = _above(folder) | {_identity(folder)}
    for entry in _entries(folder):
        path = folder / entry.name
        if _is_folder(entry):
            files[entry.name] = sorted(_below(path, above | _above(path)))
        elif _is_file(entry) and _is_lost(path) and not path.suffix:
            files[entry.name] = [path]
        elif _is_file(entry):
            loose.append(path)
    return files, loose


def _below(folder: Path, seen: set[tuple[int, int]]) -> Iterator[Path]:
    """Files in a folder and in the folders below, also behind links; and what is lost.

    Every folder is visited once, and those in `seen` are not, since links may form a ring. Links are followed last: the
    folder that one leads to may also be here by itself.
    """
    folders, links = [folder], list[Path]()
    while folders or links:
        here = (folders or links).pop(0)
        try:
            if (identity := _identity(here)) in seen:
                continue
            entries = _entries(here)
        except OSError:
            yield here
            continue
        seen.add(identity)
        for entry in entries:
            if _is_folder(entry):
                (links if entry.is_symlink() else folders).append(here / entry.name)
            elif _is_file(entry):
                yield here / entry.name


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """The entries of a folder by name, without hidden ones, as copies and thumbnails are."""
    with os.scandir(folder) as entries:
        return sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda entry: entry.name)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    # Entries know what they are without another look at the disk, but raise where a link cannot be followed.
    return os.path.isdir(entry) if entry.is_symlink() else entry.is_dir()


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Is it a file, or a link that leads nowhere?"""
    return os.path.isfile(entry) or not os.path.exists(entry) if entry.is_symlink() else entry.is_file()


def _identity(folder: Path) -> tuple[int, int]:
    found = folder.stat()
    return found.st_dev, found.st_ino


def _above(folder: Path) -> set[tuple[int, int]]:
    return {_identity(parent) for parent in folder.resolve().parents}


def _kind_of(files: Sequence[Path], folder: Path) -> Kind:
    suffixes = Counter(path.suffix.lower() for path in files)
    counts = {kind: sum(suffixes[suffix] for suffix in of_kind) for kind, of_kind in SUFFIXES.items()}
    if all(counts.values()):
        raise InputError(
            f"{folder} holds {amount(counts['image'], 'image')} and {amount(counts['sound'], 'WAV file')}: choose with "
            "kind='image' or kind='sound'."
        )
    for kind, count in counts.items():
        if count:
            return kind
    if any(suffixes[suffix] for suffix in OTHER_SOUND):
        raise InputError(f"{folder} holds sound files that are not WAV: {CONVERT['sound']}.")
    if lost := sorted(suffix for suffix in suffixes if suffix in OTHER_IMAGES):
        raise InputError(f"{folder} holds images of a form that is not read here, {listed(lost)}: {CONVERT['image']}.")
    raise InputError(_no_classes(folder))


def _no_classes(folder: Path) -> str:
    here = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    loose = sum(Path(name).suffix.lower() in frozenset().union(*SUFFIXES.values()) for name in here)
    found = f"it is empty, {folder}" if not here else f"{folder} holds {listed(here, 8)}"
    hint = f" Its {loose} files lie side by side: move each into a folder named for its class." if loose else ""
    if loose == 1:
        hint = " Its one file lies in no sub-folder: move it into one named for its class."
    return (
        "a folder of data must have a sub-folder per class with images or WAV files (cat/1.png, dog/2.png), or files "
        f"named in the docs (train.csv, train-images-idx3-ubyte, …): {found}.{hint}"
    )
