"""What a reader found, before it is brought to one form."""

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
from torch import Tensor

from sincere.checks import check_class_range
from sincere.data.labelled import Form
from sincere.data.options import Settings
from sincere.types import Kind

ESCAPED = re.compile("[\udc80-\udcff]")  # how Python keeps bytes of a name that are not UTF-8
SHOWN_FILES = 20  # as many paths as a message can bear
UNLABELLED = "unlabelled"  # the class of samples without one, where labels are optional


@dataclass(frozen=True, eq=False)
class Classes:
    """The class of each sample: numbers (n,) into names."""

    numbers: npt.NDArray[np.int64]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True, eq=False)
class Note:
    """What was done to samples, and which option does otherwise; none does where a model gives the form.

    >>> note = Note("3 of 9 texts were cut", "the option words keeps more")
    >>> note.told(advise=True), note.told(advise=False)
    ('3 of 9 texts were cut; the option words keeps more.', '3 of 9 texts were cut.')
    """

    words: str
    advice: str | None = None

    def told(self, *, advise: bool) -> str:
        return f"{self.words}; {self.advice}." if advise and self.advice else f"{self.words}."


@dataclass(frozen=True)
class Rendered:
    """Samples in one form.

    unreadable: why a sample could not be read, by its index; its row of `inputs` means nothing.
    notes: what was cut or converted.
    """

    inputs: Tensor
    unreadable: Mapping[int, str] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()


class Samples(Protocol):
    """Samples of one kind. `form` proposes a form for them, `render` brings them to any form of their kind."""

    @property
    def kind(self) -> Kind: ...
    @property
    def classes(self) -> Classes: ...
    @property
    def shown(self) -> tuple[str, ...] | None: ...
    def form(self, settings: Settings) -> Form: ...
    def render(self, form: Form) -> Rendered: ...


MINUS_ONE = Note(
    "the label −1 is taken as a class of its own, like the other numbers",
    "if it means unlabelled, as it does in the losses, leave those samples out",
)


@dataclass(frozen=True, eq=False)
class Found:
    """A source's samples, split as the source splits them. `notes` also has what the classes' names give rise to."""

    name: str
    train: Samples
    validation: Samples | None = None
    test: Samples | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = self.train.classes.names
        more = (*((MINUS_ONE.told(advise=True),) if _may_be_unlabelled(names) else ()), *_spelt_twice(names))
        object.__setattr__(self, "notes", tuple(dict.fromkeys((*self.notes, *more))))  # its parts may have said it


def number_classes(values: Sequence[str]) -> Classes:
    """Number classes in the order of their names; names that are whole numbers in the order of these.

    >>> number_classes(["10", "9", "10"]).names, number_classes(["b", "a", "b"]).numbers.tolist()
    (('9', '10'), [1, 0, 1])
    """
    composed = {value: one_spelling(value) for value in set(values)}
    distinct = set(composed.values())
    names = sorted(distinct, key=(lambda value: (int(value), value)) if _are_whole(distinct) else None)
    number = {name: i for i, name in enumerate(names)}
    return Classes(np.fromiter((number[composed[value]] for value in values), np.int64, len(values)), tuple(names))


def one_spelling(name: str) -> str:
    """A class's name, composed (NFC): a Mac's folders have accents apart, and `café` would be two classes."""
    return unicodedata.normalize("NFC", name)


def _are_whole(names: Collection[str]) -> bool:
    return all(name.removeprefix("-").isdecimal() for name in names)


def _may_be_unlabelled(names: Collection[str]) -> bool:
    """Is −1 the only class below 0? Beside 1 alone it is one of two classes; beside −2 it is a step of a scale."""
    numbers = set(map(int, names)) if _are_whole(names) else set()
    return len(numbers) > 1 and min(numbers) == -1 and numbers != {-1, 1}


def _spelt_twice(names: Collection[str]) -> tuple[str, ...]:
    """A note on names that differ in capitals or spaces alone. Of single letters it is usual: A and a are two."""
    spellings: dict[str, list[str]] = {}
    for name in names:
        spaced = " ".join(name.split())
        spellings.setdefault(spaced.casefold() if len(spaced) > 1 else spaced, []).append(name)
    twice = [" and ".join(map(repr, same)) for same in spellings.values() if len(same) > 1]
    if not twice:
        return ()
    return (
        f"classes differ in capitals or spaces alone: {listed(twice, 3)}. Each spelling is taken as a class of its "
        "own; if it is one class, spell it in one way.",
    )


def dealt_unlabelled(labels: Sequence[int], counts: Sequence[int]) -> tuple[str, ...]:
    """A note where batches of these labels, with so many samples each, hold some that a loss leaves out."""
    if -1 not in labels:
        return ()
    return (
        f"{counts[labels.index(-1)]:,} of {sum(counts):,} samples have the label −1, which is dealt out as a class of "
        "its own, while the losses leave it out as unlabelled: a batch may hold one class beside it, and no negative. "
        "Deal out the others alone, labels[labels != -1] and data to match; or, if −1 is a class, number the classes "
        "from 0.",
    )


def names_in_notes(classes: Sequence[int], names: Sequence[str] | None) -> list[str]:
    """What notes on batches call each class: its name where names are known, else its number."""
    if names is not None and (named := [c for c in classes if c >= 0]):
        check_class_range("labels", min(named), max(named), len(names))
    return [str(c) if names is None or c < 0 else names[c] for c in classes]


def unlabelled(count: int) -> Classes:
    """The one class of samples that have none."""
    return Classes(np.zeros(count, np.int64), (UNLABELLED,))


def classes_of_numbers(numbers: npt.NDArray[np.int64], names: Sequence[str] | None = None) -> Classes:
    """Classes that are numbers already, with their names where these are known."""
    if names is None:
        found, numbers = np.unique(numbers, return_inverse=True)
        return Classes(numbers.astype(np.int64), tuple(map(str, found.tolist())))
    if len(numbers):
        check_class_range("labels", int(numbers.min()), int(numbers.max()), len(names))
    return Classes(numbers, tuple(map(one_spelling, names)))


def listed(items: Sequence[object], most: int = SHOWN_FILES) -> str:
    """The first items, and how many more there are."""
    more = f", … ({len(items) - most} more)" if len(items) > most else ""
    return ", ".join(map(str, items[:most])) + more


def listed_names(names: Sequence[str], most: int) -> str:
    """The first class names, as `listed`; in quotation marks where one could be taken for more than a name.

    >>> listed_names(["cat", "red, dry", "seed=3"], 8)
    "cat, 'red, dry', 'seed=3'"
    """
    return listed([repr(name) if {*name} & {*"=,:()'"} else name for name in names], most)


def legible(name: object) -> str:
    """A file's name as text that can be saved: bytes that are not UTF-8, as old archives leave them, as Latin-1.

    >>> import os
    >>> legible(os.fsdecode(b"caf\\xe9"))
    'café'
    """
    return ESCAPED.sub(lambda byte: chr(ord(byte[0]) - 0xDC00), str(name))
