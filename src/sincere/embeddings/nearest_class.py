"""Embeddings → their classes, by samples whose classes are known."""

import torch
from torch import Tensor

from sincere.checks import check_choice, is_integral
from sincere.embeddings.prediction import METHODS, Method, Prediction
from sincere.embeddings.references import References
from sincere.errors import InputError, OptionError
from sincere.nearest.class_means import class_mean_scores, class_means
from sincere.nearest.default_k import settled_k
from sincere.nearest.neighbours import Neighbours, nearest, row_tiles, vote, votes
from sincere.nearest.precision import full_precision


@full_precision()
def nearest_class(
    new: Tensor, known: References, *, method: Method, k: int | None, top: int, shown: tuple[str, ...] | None = None
) -> Prediction:
    """The classes of embeddings (n, d): those that `sincere.evaluate` finds with the same samples to go by."""
    check_rule(method, k, top)
    gallery, labels, names = known.train.embeddings, known.train.labels, known.train.class_names
    _check_comparable(new, known)
    means = None
    if method == "knn":
        held_out = None if known.validation is None else (known.validation.embeddings, known.validation.labels)
        k, _ = settled_k(None if k is None else int(k), gallery, labels, held_out, classes=len(names))
    else:
        means = class_means(gallery, labels, classes=len(names))
    held = int((torch.bincount(labels, minlength=len(names)) > 0).sum())  # the others cannot be predicted
    parts = []
    # In blocks: a score of every sample for every class may be far more than the samples are.
    for block in row_tiles(max(len(new), 1), len(names), new.device):
        if means is not None:
            order_by = scores = class_mean_scores(new[block], means)
        else:
            assert k is not None
            near = nearest(new[block], gallery, labels, k=k)
            order_by, scores = vote(near, classes=len(names), k=k), votes(near, classes=len(names), k=k) / k
        best = order_by.sort(dim=1, descending=True, stable=True).indices  # of equal ones the first, as by argmax
        best = best[:, : max(2, min(top, held))]
        scores = scores.gather(1, best).float()
        parts.append((best, scores, scores[:, 0] if means is not None else _nearest_of(near, best[:, :1])))
    best, scores, cosine = (torch.cat(found) for found in zip(*parts, strict=True))
    margin = scores[:, 0] - scores[:, 1]
    return Prediction(method, names, best[:, 0], cosine, margin, best[:, :top], scores[:, :top], k, shown)


def _check_comparable(new: Tensor, known: References) -> None:
    """Refuse embeddings of another dimension than the references, and those that are not finite."""
    dimension = known.train.embeddings.shape[1]
    if new.shape[1] != dimension:
        raise InputError(
            f"references must have the dimension of the model's embeddings, {new.shape[1]}: {known.train.name!r} has "
            f"{dimension}. Embed them with this model."
        )
    broken = (~new.isfinite().all(dim=1)).nonzero().flatten()
    if broken.numel():
        raise InputError(
            f"samples must have finite embeddings, or no class is nearest: {len(broken):,} of {len(new):,} have not, "
            f"first sample {int(broken[0]) + 1:,}. Look for NaN and infinity in the inputs, and fill or remove them."
        )


def _nearest_of(near: Neighbours, label: Tensor) -> Tensor:
    """The cosine of the nearest neighbour of a class, (n,), `label` being (n, 1).

    A class that won by samples as near as the k-th need not be among the k that are listed: theirs is the last cosine.
    """
    among = near.cosines.masked_fill(near.labels != label, -torch.inf).amax(dim=1)
    return torch.where(among.isinf(), near.cosines[:, -1], among).float()


def check_rule(method: Method, k: int | None, top: int) -> None:
    """Refuse what cannot be, before anything is embedded."""
    check_choice("method", method, METHODS)
    for name, number in (("k", k), ("top", top)):
        if number is not None and (not is_integral(number) or number < 1):
            raise OptionError(f"{name} must be a whole number from 1: got {number!r}.")
    if k is not None and method != "knn":
        raise OptionError(f"k belongs to method='knn', by which neighbours vote: got k={k} and {method!r}.")
