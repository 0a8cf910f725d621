"""What can be chosen when data is read: declared once, checked once."""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from numbers import Real
from pathlib import Path
from typing import Literal, ParamSpec, TypeAlias, TypedDict, TypeVar, get_args

from sincere.checks import check_choice, check_flag, check_whole, did_you_mean, is_whole
from sincere.data.text import BUCKETS, PIECES
from sincere.errors import OptionError
from sincere.types import Kind

Unreadable: TypeAlias = Literal["stop", "skip"]
Level: TypeAlias = Literal["fine", "coarse"]
Labels: TypeAlias = Literal["needed", "optional"]
P = ParamSpec("P")
T = TypeVar("T")


class DataOptions(TypedDict, total=False):
    """What may be passed by name to `open_data` and `read_data`.

    test: a file or folder to judge by, instead of a share of the source.
    kind: "image", "array", "text" or "sound", where the files leave it open.
    validation_share, test_share: of the samples of each class; an official split goes first.
    seed: of the split. The same seed gives the same split everywhere.
    unreadable: "stop" with a message that names the files, or "skip" them with a note.
    image_size: height and width in pixels; the most common size otherwise.
    label_column: column of a table, key of an .npz, or file with the labels of an .npy.
    input_column: column with the text, or key of an .npz with the samples.
    labels: "needed", or "optional" for `read_data`: samples without a label are then of one class, "unlabelled".
    level: "fine" or "coarse" classes, where a data set has both (CIFAR-100, TREC).
    words, pieces, buckets: size of hashed text, see `hash_texts`.
    sample_rate: of sound; clips of another rate are resampled.
    seconds: length of sound; longer clips are cut.
    encoding: of text files.
    verify: compare CIFAR's files with their published MD5 sums.
    """

    test: str | Path | None
    kind: Kind | None
    validation_share: float
    test_share: float
    seed: int
    unreadable: Unreadable
    image_size: int | None
    label_column: str | None
    input_column: str | None
    labels: Labels
    level: Level | None
    words: int | None
    pieces: int
    buckets: int
    sample_rate: int | None
    seconds: float | None
    encoding: str
    verify: bool


@dataclass(frozen=True)
class Settings:
    """`DataOptions` with every default filled in and every value checked."""

    test: str | Path | None = None
    kind: Kind | None = None
    validation_share: float = 0.1
    test_share: float = 0.2
    seed: int = 0
    unreadable: Unreadable = "stop"
    image_size: int | None = None
    label_column: str | None = None
    input_column: str | None = None
    labels: Labels = "needed"
    level: Level | None = None
    words: int | None = None
    pieces: int = PIECES
    buckets: int = BUCKETS
    sample_rate: int | None = None
    seconds: float | None = None
    encoding: str = "utf-8-sig"
    verify: bool = True

    def __post_init__(self) -> None:
        if self.kind is not None:
            check_choice("kind", self.kind, get_args(Kind))
        if self.level is not None:
            check_choice("level", self.level, get_args(Level))
        check_choice("unreadable", self.unreadable, get_args(Unreadable))
        check_choice("labels", self.labels, get_args(Labels))
        for name in ("image_size", "words", "pieces", "buckets", "sample_rate"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), 2 if name == "buckets" else 1)
        check_flag("verify", self.verify)
        if self.seconds is not None and not (isinstance(self.seconds, Real) and 0 < self.seconds < math.inf):
            raise OptionError(f"seconds must be a positive number: got {self.seconds!r}.")
        if not is_whole(self.seed):
            raise OptionError(f"seed must be a whole number: got {self.seed!r}.")
        check_shares(self.validation_share, self.test_share)


def check_shares(validation_share: float, test_share: float) -> None:
    """Refuse shares that leave nothing to train on."""
    shares = (validation_share, test_share)
    if not all(isinstance(share, Real) and 0 <= share < 1 for share in shares) or sum(shares) >= 1:
        raise OptionError(
            "validation_share and test_share must be at least 0 and together less than 1, so that something is left "
            f"to train on: got {validation_share!r} and {test_share!r}."
        )


# Whose options these are; what is not here is for every source.
OF_A_SOURCE = {
    "label_column": "tables, .npz and .npy",
    "input_column": "tables of text, and .npz",
    "encoding": ".csv, .tsv and .jsonl",
    "level": "CIFAR-100 and TREC",
    "verify": "CIFAR",
    "unreadable": "images and sound in files",
}
OF_A_KIND: dict[str, tuple[Kind, str]] = {
    "image_size": ("image", "images"),
    "words": ("text", "texts"),
    "pieces": ("text", "texts"),
    "buckets": ("text", "texts"),
    "sample_rate": ("sound", "sound"),
    "seconds": ("sound", "sound"),
}
DEFAULTS = {field.name: field.default for field in fields(Settings)}


def settings_from(options: DataOptions) -> Settings:
    """Check the options' names and values, and fill in the defaults."""
    for name in options:
        if name not in DEFAULTS:
            hint = did_you_mean(name, DEFAULTS)
            raise OptionError(f"unknown option {name!r}.{hint} Options: {', '.join(DEFAULTS)}.")
    return Settings(**options)


def check_meant(settings: Settings, takes: frozenset[str], kind: Kind, source: str | Path) -> None:
    """Refuse options that would change nothing: whoever gave them expects something of them.

    `takes` are those of `OF_A_SOURCE`, and perhaps "kind", that the source's reader looks at; `kind` is of its samples.
    """
    given = [name for name, default in DEFAULTS.items() if getattr(settings, name) != default]
    for name in given:
        if name in OF_A_SOURCE and name not in takes:
            raise OptionError(f"{name} belongs to {OF_A_SOURCE[name]}, and says nothing of {source}: leave it out.")
        wanted, of = OF_A_KIND.get(name, (kind, ""))
        if wanted != kind:
            raise OptionError(f"{name} belongs to {of}, and {source} is of kind {kind!r}: leave it out.")
    if settings.kind not in (None, kind) and "kind" not in takes:
        raise OptionError(f"kind must be that of the data: {source} is of kind {kind!r}, got {settings.kind!r}.")


def shows_options(function: Callable[P, T]) -> Callable[P, T]:
    """Spell out `**options` in the function's signature, so that help() and editors show them."""
    signature = inspect.signature(function)
    own = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value) for name, value in DEFAULTS.items()]
    function.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
    return function
