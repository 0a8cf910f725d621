"""What the losses of pytorch-metric-learning are made with, beside a temperature: read without importing the library.

distance, reducer and embedding_regularizer are objects of the library. Those are taken whose numbers ours are, and
others are refused with what to use instead.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypedDict

from torch import Tensor

from sincere.checks import did_you_mean, is_number
from sincere.errors import OptionError
from sincere.types import Reduction, SimilarityName

LIBRARY = "pytorch_metric_learning."
OURS = "sincere.SupConLoss and sincere.SINCERELoss"


class PairLossOptions(TypedDict, total=False):
    """The library's own arguments, by its names.

    distance: CosineSimilarity, or DotProductSimilarity with or without normalisation.
    reducer: MeanReducer, SumReducer or AvgNonZeroReducer, or a PerAnchorReducer of one of these. Pairs have no value of
        their own here, so NTXentLoss takes AvgNonZeroReducer only inside a PerAnchorReducer.
    embedding_regularizer: any module or function of the embeddings; its value is added.
    embedding_reg_weight: what that value is multiplied by.
    collect_stats: None or False.
    """

    distance: Any
    reducer: Any
    embedding_regularizer: Callable[[Tensor], Tensor] | None
    embedding_reg_weight: float
    collect_stats: bool | None


@dataclass(frozen=True)
class Reducer:
    """How the values of all anchors become one: `reduction` says it in our words."""

    reduction: Reduction = "mean"
    above_zero: bool = False  # are values of exactly 0 left out?
    per_anchor: bool = True  # or is every pair counted, and an anchor as often as it has positives?


REDUCERS: Mapping[str, Reducer] = {
    "MeanReducer": Reducer("mean_all"),
    "SumReducer": Reducer("sum"),
    "AvgNonZeroReducer": Reducer("mean", above_zero=True),
}


def read_options(options: PairLossOptions, default: Reducer) -> tuple[SimilarityName, Reducer]:
    """What is to be computed; everything is checked. `default` is the reducer of the loss itself."""
    _check_names(options)
    _check_regularizer(options.get("embedding_regularizer"), options.get("embedding_reg_weight", 1))
    return similarity_of(options.get("distance")), reducer_of(options.get("reducer"), default)


def _check_names(options: Mapping[str, object]) -> None:
    """Refuse what is no argument of the library."""
    known = ["temperature", *PairLossOptions.__annotations__]
    for name in options:
        if name not in known:
            raise OptionError(
                f"unknown option {name!r}.{did_you_mean(name, known)} Options: {', '.join(known)}. "
                f"{OURS} have options of their own."
            )
    if options.get("collect_stats"):
        raise OptionError(
            "collect_stats must be None or False: no statistics are kept here. sincere.diagnose(embeddings, labels) "
            "says how a batch is made up."
        )


def similarity_of(distance: Any) -> SimilarityName:
    """Whose inner products the library's distance takes: those of rows as they are, or of unit rows."""
    name = _library_name(distance)
    if distance is None:
        return "cosine"
    if name not in ("CosineSimilarity", "DotProductSimilarity"):
        _refuse_distance(_words_for(distance))
    if distance.power != 1:
        _refuse_distance(f"{name}(power={distance.power})")
    if not distance.normalize_embeddings:
        return "dot"
    if distance.p != 2:
        _refuse_distance(f"{name}(p={distance.p})")
    return "cosine"


def reducer_of(reducer: Any, default: Reducer) -> Reducer:
    """The library's reducer in our words."""
    if reducer is None:
        return default
    name = _library_name(reducer)
    if name == "PerAnchorReducer":
        if reducer.aggregation_func is not vars(sys.modules[type(reducer).__module__])["aggregation_func"]:
            _refuse_reducer("PerAnchorReducer with an aggregation_func of your own")
        return reducer_of(reducer.reducer, Reducer())
    if name == "ThresholdReducer":
        if (reducer.low, reducer.high) != (0, None):
            _refuse_reducer(f"ThresholdReducer(low={reducer.low}, high={reducer.high})")
        name = "AvgNonZeroReducer"
    if name not in REDUCERS:
        _refuse_reducer(_words_for(reducer))
    if not default.per_anchor and name == "AvgNonZeroReducer":
        _refuse_reducer("AvgNonZeroReducer for single pairs: use PerAnchorReducer(AvgNonZeroReducer()), or MeanReducer")
    return replace(REDUCERS[str(name)], per_anchor=default.per_anchor)


def _check_regularizer(regularizer: object, weight: object) -> None:
    if regularizer is not None and (isinstance(regularizer, type) or not callable(regularizer)):
        raise OptionError(
            f"embedding_regularizer must be a module or a function of the embeddings: got {_words_for(regularizer)}."
        )
    if not is_number(weight):
        raise OptionError(f"embedding_reg_weight must be a number: got {type(weight).__name__}.")


def _library_name(given: object) -> str | None:
    """The name of the library's class that this is an object of; a class derived from one may compute anything."""
    kind = type(given)
    return kind.__name__ if kind.__module__.startswith(LIBRARY) else None


def _words_for(given: object) -> str:
    return f"the class {given.__name__}, not an object of it" if isinstance(given, type) else type(given).__name__


def _refuse_distance(came: str) -> NoReturn:
    raise OptionError(
        "distance must be CosineSimilarity() or DotProductSimilarity(...) of pytorch-metric-learning, with power=1 and "
        f'p=2: got {came}. {OURS} take similarity="euclidean", or a function of yours.'
    )


def _refuse_reducer(came: str) -> NoReturn:
    raise OptionError(
        "reducer must be MeanReducer(), SumReducer() or AvgNonZeroReducer() of pytorch-metric-learning, or a "
        f'PerAnchorReducer(...) of one: got {came}. {OURS} take reduction="none", which gives the value of every '
        "anchor, and weights=…."
    )
