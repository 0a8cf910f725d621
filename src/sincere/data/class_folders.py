"""A folder of files per class."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from sincere.data import images, sound
from sincere.data.options import Settings
from sincere.data.samples import UNLABELLED, Samples, legible, listed, number_classes, unlabelled
from sincere.errors import InputError
from sincere.tables import amount
from sincere.types import Kind

SUFFIXES: dict[Kind, frozenset[str]] = {"image": images.SUFFIXES, "sound": frozenset({".wav", ".wave"})}
OTHER_SOUND = frozenset([".mp3", ".flac", ".ogg", ".opus", ".m4a", ".aac", ".aiff", ".aif", ".wma"])
OF_FILES = (*images.SUFFIXES, *SUFFIXES["sound"], *OTHER_SOUND)  # how names of images and sound end


def read_class_folders(folder: Path, settings: Settings) -> tuple[Samples, tuple[str, ...]]:
    """Images or WAV files of `folder`, each of the class that its first sub-folder names; and notes.

    Files that lie in no sub-folder have no class: they are left out, or are `UNLABELLED` where labels are optional.
    """
    folders = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    files = {of.name: sorted(path for path in of.rglob("*") if _is_data(path, of)) for of in folders}
    loose = sorted(path for path in folder.iterdir() if _is_data(path, folder))
    if loose and settings.labels == "optional":
        files[UNLABELLED] = [*files.get(UNLABELLED, []), *loose]
    kind = settings.kind or _kind_of([path for some in files.values() for path in some], folder)
    if kind not in SUFFIXES:
        raise InputError(
            f"a folder with a sub-folder per class holds images or WAV files: got kind={kind!r}, {folder}."
        )
    chosen = {name: [path for path in some if path.suffix.lower() in SUFFIXES[kind]] for name, some in files.items()}
    paths = [path for some in chosen.values() for path in some]
    classes = number_classes([legible(name) for name, some in chosen.items() for _ in some])
    notes = _loose_note([path for path in loose if path.suffix.lower() in SUFFIXES[kind]], folder, settings)
    if empty := [name for name, some in chosen.items() if not some]:
        hold = "holds no {} and makes" if len(empty) == 1 else "hold no {} and make"
        what = f"{amount(len(empty), 'sub-folder')} of {folder} {hold.format(kind)}"
        notes.append(f"{what} no class: {listed(empty)}.")
    if other := [path for name, some in files.items() for path in some if path.suffix.lower() not in SUFFIXES[kind]]:
        are = f"is no {kind} file and was" if len(other) == 1 else f"are no {kind} files and were"
        notes.append(f"{amount(len(other), 'file')} of {folder} {are} left out: {listed(other, 5)}.")
    if not paths:
        raise InputError(f"{folder} must hold {kind} files in a sub-folder per class: its sub-folders hold none.")
    samples = (images.ImageFiles if kind == "image" else sound.SoundFiles)(tuple(paths), classes)
    return samples, tuple(notes)


def read_one_file(path: Path) -> tuple[Samples, tuple[str, ...]] | None:
    """A single image or WAV file, of no class, and a note that says so; None where it is neither."""
    for kind, suffixes in SUFFIXES.items():
        if path.suffix.lower() in suffixes:
            one = (images.ImageFiles if kind == "image" else sound.SoundFiles)((path,), unlabelled(1))
            return one, (f"{path} is read alone and so has no class: it is of one class, {UNLABELLED!r}.",)
    return None


def _loose_note(loose: Sequence[Path], folder: Path, settings: Settings) -> list[str]:
    if not loose:
        return []
    one = len(loose) == 1
    lie = "lies in none of its sub-folders and so has" if one else "lie in none of its sub-folders and so have"
    what = f"{amount(len(loose), 'file')} of {folder} {lie} no class"
    if settings.labels == "optional":
        return [f"{what}: {'it is' if one else 'they are'} of one class, {UNLABELLED!r}."]
    return [f"{what}, and {'was' if one else 'were'} left out: {listed(loose, 5)}."]


def _is_data(path: Path, folder: Path) -> bool:
    """A file that is not hidden, nor in a hidden folder: copies and thumbnails lie in such."""
    hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    return path.is_file() and not hidden


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
        raise InputError(f"{folder} holds sound that is not WAV: convert it, for instance with ffmpeg -i a.mp3 a.wav.")
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
