"""The options that every loss shares: declared once, checked once, shown in every signature."""

import functools
import inspect
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from numbers import Integral
from typing import ParamSpec, TypedDict, cast, get_args

import torch
from torch import Tensor

from sincere.checks import check_choice, check_flag, check_temperature, did_you_mean
from sincere.errors import OptionError
from sincere.types import Backend, Positives, Reduction, Similarity, SimilarityName


class StandingOptions(TypedDict, total=False):
    """The options that do not belong to a single batch: all of `LossOptions` but `weights`."""

    temperature: float | Tensor
    reduction: Reduction
    similarity: Similarity
    backend: Backend
    positives: Positives
    ignore_label: int
    ignored_as_negatives: bool
    class_balanced: bool
    include_batch: bool
    gather: bool
    check_finite: bool


class LossOptions(StandingOptions, total=False):
    """What may be passed by name to every loss function.

    temperature: a positive number, or a one-element tensor to learn it.
    reduction: "mean" over anchors that have a positive, "mean_all" over all labelled anchors,
        "class_mean" per class and then over classes, "sum", or "none" for one value per anchor.
    similarity: "cosine", "dot", "euclidean" (−½‖a−b‖²), or a function of two batches that
        returns the (n, m) matrix (dense backend).
    backend: "auto", "dense" (the definition, n×m memory), "tiled" (memory linear in n) or "triton"
        (the same on a CUDA GPU, much faster).
    positives: how multi-hot labels make positives: "any" shared label, weighed by "jaccard", or "per_label", each of
        the anchor's labels for itself.
    weights: one non-negative weight per sample; weighs anchors.
    ignore_label: the label of unlabelled samples; they are no anchors.
    ignored_as_negatives: let unlabelled samples serve as negatives of every anchor, instead of
        leaving them out.
    class_balanced: let all classes compete with the same weight, however many contrasts each has; with
        reduction="class_mean", the optimum is the regular simplex whatever the sizes of the classes.
    include_batch: contrast with the batch *and* the given contrasts, not with the contrasts alone.
    gather: contrast with the embeddings of all processes of torch.distributed.
    check_finite: refuse NaN and infinity in the embeddings (makes a GPU wait).
    """

    weights: Tensor | None


@dataclass(frozen=True)
class Settings:
    """`LossOptions` with every default filled in and every value checked."""

    temperature: float | Tensor = 0.1
    reduction: Reduction = "mean"
    similarity: Similarity = "cosine"
    backend: Backend = "auto"
    positives: Positives = "any"
    weights: Tensor | None = None
    ignore_label: int = -1
    ignored_as_negatives: bool = False
    class_balanced: bool = False
    include_batch: bool = False
    gather: bool = False
    check_finite: bool = False

    def __post_init__(self) -> None:
        check_temperature(self.temperature)
        check_choice("reduction", self.reduction, get_args(Reduction))
        check_choice("backend", self.backend, get_args(Backend))
        check_choice("positives", self.positives, get_args(Positives))
        if not callable(self.similarity):
            check_choice("similarity", self.similarity, get_args(SimilarityName))
        if isinstance(self.ignore_label, bool) or not isinstance(self.ignore_label, Integral):
            raise OptionError(
                f"ignore_label must be an integer, the label of unlabelled samples: got {self.ignore_label!r}. "
                "Where every sample is labelled, a number that is no class, such as -1, will do."
            )
        for name in ("ignored_as_negatives", "class_balanced", "include_batch", "gather", "check_finite"):
            check_flag(name, getattr(self, name))
        if self.class_balanced and self.ignored_as_negatives:
            raise OptionError(
                "class_balanced=True lets classes compete alike, and with ignored_as_negatives=True samples without a "
                "class compete, too: drop one of the two."
            )
        if callable(self.similarity):
            _check_own_similarity(self.backend)

    @property
    def bounded(self) -> bool:
        """Is |s| ≤ 32 known without looking at the rows? Then e^s cannot overflow float32, nor times another e^s."""
        if self.similarity != "cosine" or isinstance(self.temperature, Tensor):
            return False
        return self.temperature >= 1 / 32


# Options of other implementations, and what to use here instead.
ELSEWHERE = {
    "base_temperature": "The value here is the equation's, without a factor temperature/base_temperature; "
    "sincere.compat.supcontrast.SupConLoss has it.",
    "contrast_mode": "Every view is an anchor here, as with contrast_mode='all'; sincere.compat.supcontrast.SupConLoss "
    "has both.",
    "normalize": "similarity='cosine' normalises embeddings, similarity='dot' takes them as they are.",
    "tau": "Did you mean 'temperature'?",
}
DEFAULTS = {field.name: field.default for field in fields(Settings)}
OWN_SIMILARITY = "the similarity is the caller's function, and kernels compute inner products"


def _check_own_similarity(backend: Backend) -> None:
    if backend == "tiled":
        raise OptionError(
            'backend="tiled" computes similarities tile by tile from inner products, and a function of the '
            'caller\'s gives whole matrices: use backend="dense" or "auto" with it.'
        )
    if backend == "triton":
        raise refused_kernels(OWN_SIMILARITY)


def refused_kernels(reason: str) -> OptionError:
    """The refusal of a backend that was asked for by name."""
    return OptionError(f'backend="triton" cannot run here: {reason}. Use backend="auto", which picks one that can.')


def settings_from(options: LossOptions) -> Settings:
    """Check the options' names and values, and fill in the defaults; options without tensors are checked once."""
    if torch.compiler.is_compiling() or any(isinstance(value, Tensor) or callable(value) for value in options.values()):
        return _checked(options)
    try:
        return _checked_once(tuple((name, type(value), value) for name, value in options.items()))
    except TypeError:  # a value that cannot be a key is no valid option either, and the checks have the words for it
        return _checked(options)


@functools.lru_cache(maxsize=256)
def _checked_once(items: tuple[tuple[str, type, object], ...]) -> Settings:
    """With the values' types in the key: True equals 1, and is no temperature."""
    return _checked(cast(LossOptions, {name: value for name, _, value in items}))


def _checked(options: LossOptions) -> Settings:
    check_names(options, DEFAULTS)
    return Settings(**options)


def check_names(options: Iterable[str], known: Collection[str]) -> None:
    """Refuse a name that is no option, with a guess at what was meant."""
    for name in options:
        if name not in known:
            hint = f" {ELSEWHERE[name]}" if name in ELSEWHERE else did_you_mean(name, known)
            raise OptionError(f"unknown option {name!r}.{hint} Options: {', '.join(known)}.")


P = ParamSpec("P")


def loss_function(function: Callable[P, Tensor]) -> Callable[P, Tensor]:
    """Make a public loss of `function`: full precision under autocast, and a signature that shows the options.

    Autocast would compute the similarities in half precision, where e^(s/τ) loses most of its digits.
    """

    @functools.wraps(function)
    def in_full_precision(*args: P.args, **kwargs: P.kwargs) -> Tensor:
        embeddings = args[0] if args else kwargs.get("embeddings")
        if isinstance(embeddings, Tensor) and _autocast_is_on(embeddings.device.type):
            with torch.autocast(embeddings.device.type, enabled=False):
                return function(*args, **kwargs)
        return function(*args, **kwargs)

    in_full_precision.__signature__ = signature_with_options(function)  # type: ignore[attr-defined]
    return in_full_precision


def full_precision(embeddings: Tensor) -> AbstractContextManager[object]:
    """Autocast off where it is on, for code that is no `loss_function`."""
    kind = embeddings.device.type
    return torch.autocast(kind, enabled=False) if _autocast_is_on(kind) else nullcontext()


def _autocast_is_on(device_type: str) -> bool:
    """Tensors without values, of the device "meta", have no autocast, and torch refuses the question."""
    return device_type != "meta" and torch.is_autocast_enabled(device_type)


def signature_with_options(function: Callable[..., object]) -> inspect.Signature:
    """The signature of `function` with `**options` spelled out, so that help() and editors show them."""
    signature = inspect.signature(function)
    own = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    shared = [
        inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type)
        for field in fields(Settings)
        if field.name not in signature.parameters
    ]
    return signature.replace(parameters=[*own, *shared])
