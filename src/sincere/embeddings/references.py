"""The samples by which a model tells the classes of new ones: those that its run was trained on."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from sincere.data import LabelledData, Splits, open_data
from sincere.data.fingerprint import data_fingerprint
from sincere.data.sources import missed, missing_path
from sincere.defaults import usual_defaults
from sincere.embeddings.embedding_set import EmbeddingSet
from sincere.errors import InputError
from sincere.runs import RunFolder, read_json
from sincere.runs.files import not_kept
from sincere.runs.folder import Split

OR_GIVE = "or give labelled embeddings of this model, which model.embed(data) and `sincere embed` make: references=…"


@dataclass(frozen=True, eq=False)
class References:
    """Samples whose classes are known, as a model embeds them.

    train: new samples are compared with these. validation: the number of neighbours that vote is chosen on these; None
    where there are none.
    """

    train: EmbeddingSet
    validation: EmbeddingSet | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.train, EmbeddingSet):
            raise InputError(
                f"references must be an EmbeddingSet: got {type(self.train).__name__}. model.embed(data) makes one, "
                "and EmbeddingSet.load(path) reads what `sincere embed` wrote."
            )
        held = [name for name, count in self.train.class_counts().items() if count]
        if len(held) < 2:
            raise InputError(
                f"references must hold samples of two classes or more, to tell these apart: {self.train.name!r} has "
                f"{'none' if not held else f'one, {held[0]!r}'}. Embed labelled data that has several."
            )

    def to(self, device: torch.device) -> "References":
        """The same on another device."""
        return References(self.train.to(device), None if self.validation is None else self.validation.to(device))


@usual_defaults()
def references_of(folder: RunFolder, embed: Callable[[LabelledData], EmbeddingSet]) -> References:
    """What a run keeps of its training and validation samples; where it keeps none, embedded anew and kept."""
    kept = folder.embeddings("train")
    if not kept.exists():
        return _made(folder, embed)
    train, held_out = _lean(EmbeddingSet.load(kept)), folder.embeddings("validation")
    validation = _lean(EmbeddingSet.load(held_out)).with_classes(train.class_names) if held_out.exists() else None
    return References(train, validation)


def _lean(found: EmbeddingSet) -> EmbeddingSet:
    """Without features and pictures, which take most of the room and tell no class."""
    return replace(found, features=None, images=None)


def _made(folder: RunFolder, embed: Callable[[LabelledData], EmbeddingSet]) -> References:
    splits = _data_of(folder)
    made = References(embed(splits.train), None if splits.validation is None else embed(splits.validation))
    parts: dict[Split, EmbeddingSet | None] = {"train": made.train, "validation": made.validation}
    refused: dict[Path, OSError] = {}
    for split, part in parts.items():
        place = folder.embeddings(split)
        try:
            if part is not None:
                part.save(place)
        except OSError as error:  # a folder that cannot be made, too; whoever may only read a run can still use it
            refused[place] = error
    for words in not_kept(refused):
        warnings.warn(f"{words} They are made again next time.", stacklevel=2)
    return References(_lean(made.train), None if made.validation is None else _lean(made.validation))


def _data_of(folder: RunFolder) -> Splits:
    """What a run was trained on, read again as it was read then."""
    told = f"classes are told by the run's training samples: {folder.embeddings('train')} is not there"
    settings = dict(read_json(folder.config).get("data", {}))
    source, test = settings.get("source", "digits"), settings.get("test")
    if (path := missing_path(source, test)) is not None:
        place, advice = missed(path)
        raise InputError(f"{told}, and neither is the data, {place}. {advice}, {OR_GIVE}.")
    options = {**settings.pop("options", {}), **{name: value for name, value in settings.items() if name != "source"}}
    splits = open_data(source, **options)
    known = read_json(folder.provenance).get("data", {}).get("fingerprint")
    if known is not None and known != data_fingerprint(splits.train):
        raise InputError(
            f"{told}, and {source} is not what the run was trained on: it was changed, or the run's data was in memory "
            f"alone. Bring that data back, {OR_GIVE}."
        )
    return splits
