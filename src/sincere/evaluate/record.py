"""What an evaluation found: everything that a table, a report or a comparison needs, and nothing that needs a model."""

import json
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from sincere.checks import check_class_range
from sincere.errors import InputError, OptionError
from sincere.evaluate.accuracy import confusion_matrix
from sincere.evaluate.packing import pack, unpack
from sincere.evaluate.table import render, sentences

FORMAT = "sincere.evaluation/1"
Setting: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True)
class Estimate:
    """A share between 0 and 1, or a difference of two, with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.value:.2f} ({100 * self.low:.1f}–{100 * self.high:.1f})"


@dataclass(frozen=True)
class ClassifierResult:
    """One classifier on the test samples."""

    method: str  # "knn", "class_means", "linear", "linear_paper"
    title: str  # for people
    settings: dict[str, Setting]  # what it was run with, and how that was chosen
    predicted: tuple[int, ...]  # class of each test sample
    # None where it says nothing: with five classes or fewer, and where fewer than five neighbours vote.
    in_top5: tuple[bool, ...] | None
    top1: Estimate
    balanced: Estimate
    top5: Estimate | None
    per_class: tuple[Estimate | None, ...]  # None for a class without test samples


@dataclass(frozen=True)
class RetrievalResult:
    """Each test sample that has another of its class, as a query."""

    gallery: str  # where it looked
    queries: tuple[int, ...]  # their places among the test samples
    # k → whether one of the k nearest has the query's class; where samples tie for the k-th place, each query's chance
    hits: dict[int, tuple[bool, ...] | tuple[float, ...]]
    precisions: tuple[float, ...]  # R-precision of each query
    average_precisions: tuple[float, ...]  # average precision at R of each query
    recall: dict[int, Estimate]
    r_precision: Estimate
    map_at_r: Estimate


@dataclass(frozen=True)
class Evaluation:
    """What `evaluate` found. Print it for a table, `summary` for sentences, `compare` it with another."""

    name: str  # of the model or run
    data: str  # of the test samples
    class_names: tuple[str, ...]
    labels: tuple[int, ...]  # of the test samples
    train_samples: int
    dims: dict[str, int]  # of embeddings and features
    classifiers: tuple[ClassifierResult, ...]
    retrieval: RetrievalResult | None
    draws: int
    seed: int
    notes: tuple[str, ...] = ()
    samples: str | None = None  # which test samples they were, where that is known: see `EmbeddingSet`

    def __post_init__(self) -> None:
        samples, classes = len(self.labels), len(self.class_names)
        for name, numbers in (("labels", self.labels), *((one.method, one.predicted) for one in self.classifiers)):
            if numbers:
                check_class_range(name, min(numbers), max(numbers), classes)
        for result in self.classifiers:
            if len(result.predicted) != samples:
                raise InputError(f"{result.method} must predict {samples} test samples: got {len(result.predicted)}.")
            hits = result.predicted if result.in_top5 is None else result.in_top5
            if len(result.per_class) != classes or len(hits) != samples:
                raise InputError(f"{result.method} must have a figure for each class and a top-5 hit for each sample.")
        if self.retrieval is not None:
            found = self.retrieval
            lists = (found.precisions, found.average_precisions, *found.hits.values())
            if any(len(values) != len(found.queries) for values in lists) or found.hits.keys() != found.recall.keys():
                raise InputError(
                    f"retrieval must have a value of every metric for each of {len(found.queries)} queries."
                )

    def __str__(self) -> str:
        return render(self)

    @property
    def summary(self) -> tuple[str, ...]:
        """The findings in plain sentences."""
        return tuple(sentences(self))

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of its classifiers, for `classifier` and `confusion`."""
        return tuple(result.method for result in self.classifiers)

    def classifier(self, method: str) -> ClassifierResult:
        """The result of one classifier."""
        for result in self.classifiers:
            if result.method == method:
                return result
        raise OptionError(f"method must be one that was evaluated, {', '.join(self.methods)}: got {method!r}.")

    def correct(self, method: str) -> Tensor:
        """Whether each test sample was classified right, bool (n,)."""
        predicted, labels = self._on_cpu(method)
        return predicted == labels

    def confusion(self, method: str) -> Tensor:
        """Samples of class r (row) that were taken for class c (column)."""
        predicted, labels = self._on_cpu(method)
        return confusion_matrix(predicted, labels, classes=len(self.class_names))

    def _on_cpu(self, method: str) -> tuple[Tensor, Tensor]:
        """Predicted and true classes, on the CPU whatever torch's default device is: what compares them works there."""
        predicted = torch.tensor(self.classifier(method).predicted, device="cpu")
        return predicted, torch.tensor(self.labels, device="cpu")

    def to_json(self) -> str:
        """As JSON; figures are plain, lists as long as the test set are packed."""
        document = {"format": FORMAT, **asdict(self), "labels": pack(self.labels)}
        for result in document["classifiers"]:
            result["predicted"] = pack(result["predicted"])
            result["in_top5"] = None if result["in_top5"] is None else pack(result["in_top5"])
        if self.retrieval is not None:
            for name in ("queries", "precisions", "average_precisions"):
                document["retrieval"][name] = pack(document["retrieval"][name])
            document["retrieval"]["hits"] = {k: pack(hits) for k, hits in self.retrieval.hits.items()}
        return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "Evaluation":
        """The record that `to_json` wrote."""
        try:
            document = json.loads(text)
            found = document.pop("format", None) if isinstance(document, dict) else None
            if found != FORMAT:
                raise InputError(f"an evaluation must be JSON of the format {FORMAT!r}: got {found!r}.")
            document["classifiers"] = tuple(map(_classifier, document["classifiers"]))
            document["retrieval"] = None if document["retrieval"] is None else _retrieval(document["retrieval"])
            document["labels"] = tuple(unpack(document["labels"]))
            document["class_names"], document["notes"] = tuple(document["class_names"]), tuple(document["notes"])
            return cls(**document)
        except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
            raise InputError(f"this is not a complete evaluation: {error!r}. Evaluate the run again.") from error


def _classifier(document: dict[str, Any]) -> ClassifierResult:
    top5, hits = document["top5"], document["in_top5"]
    return ClassifierResult(
        **{
            **document,
            "predicted": tuple(unpack(document["predicted"])),
            "in_top5": None if hits is None else tuple(unpack(hits)),
            "top1": Estimate(**document["top1"]),
            "balanced": Estimate(**document["balanced"]),
            "top5": None if top5 is None else Estimate(**top5),
            "per_class": tuple(None if found is None else Estimate(**found) for found in document["per_class"]),
        }
    )


def _retrieval(document: dict[str, Any]) -> RetrievalResult:
    packed = {name: tuple(unpack(document[name])) for name in ("queries", "precisions", "average_precisions")}
    return RetrievalResult(
        **{
            **document,
            **packed,
            "hits": {int(k): tuple(unpack(hits)) for k, hits in document["hits"].items()},
            "recall": {int(k): Estimate(**found) for k, found in document["recall"].items()},
            "r_precision": Estimate(**document["r_precision"]),
            "map_at_r": Estimate(**document["map_at_r"]),
        }
    )
