"""Whatever a caller wants reported on → subjects."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard

from sincere.embeddings.embedding_set import EmbeddingSet
from sincere.errors import InputError, OptionError
from sincere.evaluate.inputs import FROM_ARRAYS
from sincere.report.subject import Say, Subject, read_subject, subject_of
from sincere.tables import amount

Source: TypeAlias = str | Path | EmbeddingSet | Subject
Known: TypeAlias = str | Path | EmbeddingSet | None


def sources_of(inputs: "Sequence[Source] | Source") -> list[Source]:
    """One or several, as a list, all of them of a kind that can be reported on."""
    given: list[Any] = list(inputs) if _are_several(inputs) else [inputs]
    if not given:
        raise OptionError("a report needs something to report on: pass an EmbeddingSet, a run or a file of embeddings.")
    for one in given:
        if not isinstance(one, (str, Path, EmbeddingSet, Subject)):
            raise InputError(
                "what a report is on must be an EmbeddingSet, the folder of a run, a file of embeddings, or a list of "
                f"these: got {type(one).__name__}{' in the list' if _are_several(inputs) else ''}. {FROM_ARRAYS}"
            )
    return given


def training_sets_of(train: "Sequence[Known] | Known", sources: Sequence[Source]) -> list[Known]:
    """The training samples of every source, in their order."""
    if train is None:
        return [None] * len(sources)
    given: list[Any] = list(train) if _are_several(train) else [train]
    for one in given:
        if one is not None and not isinstance(one, (str, Path, EmbeddingSet)):
            raise InputError(
                f"train must be an EmbeddingSet, or a file of embeddings: got {type(one).__name__}. {FROM_ARRAYS}"
            )
    if len(given) != len(sources):
        raise OptionError(
            "train must hold one set of training samples, or None, for each of the "
            f"{amount(len(sources), 'input')}, in their order: got {len(given)}. Each model has embeddings of its own; "
            "a set that serves several is listed for each."
        )
    return given


def _are_several(given: object) -> TypeGuard[Iterable[Any]]:
    """A list, a tuple, a generator; rows of an array, keys of a dictionary and letters of a path are not meant."""
    return isinstance(given, Iterable) and not isinstance(given, (str, Path, Mapping)) and not hasattr(given, "shape")


def subject_from(source: Source, train: Known, say: Say) -> Subject:
    """One of them, read or measured."""
    if isinstance(source, Subject):
        if train is not None:
            raise InputError(
                f"train belongs to embeddings: the subject {source.name!r} has been measured already. Pass the "
                "EmbeddingSet itself, or subject_of(test, train=…)."
            )
        return source
    if isinstance(source, EmbeddingSet):
        known = EmbeddingSet.load(train) if isinstance(train, (str, Path)) else train
        return subject_of(source, train=known, on_step=say)
    return read_subject(source, train=train, on_step=say)
