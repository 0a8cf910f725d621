"""The losses on a whole set: which pairs each pushes apart, how far it is from its floor, and which KL divergence its
value proves."""

from collections.abc import Iterator
from statistics import fmean

import torch
from torch import Tensor

import sincere.functional as SF
from sincere.checks import is_whole
from sincere.embeddings.embedding_set import EmbeddingSet
from sincere.errors import OptionError
from sincere.geometry.anchors import AnchorRows, anchor_rows
from sincere.geometry.directions import Directions, check_not_empty, directions_of
from sincere.losses.floors import simplex_floors, simplex_gap
from sincere.losses.loss_readings import EPSILON, LOSSES, LossReading
from sincere.nearest.precision import full_precision

SET_LOSS_UP_TO = 2_048  # samples: beyond, its sums over subsets take minutes


@full_precision()
def repulsion(found: EmbeddingSet, *, temperature: float = 0.1) -> dict[str, float]:
    """The share of same-class pairs (t, p) that a loss pushes apart, ∂ℓ_t/∂s_tp > 0, each sample an anchor.

    SupCon's derivative is softmax_A(s)_tp − 1/|P|, SINCERE Eq. 14, and its positive cases are counted pair by pair. The
    derivatives of the other losses are at most 0 for any embeddings, so their share is 0 without counting:

        sincere         −σ(lse_N − s_tp)/|P|
        eps_supinfonce  −σ(lse_N + ε − s_tp)/|P|
        decoupled       −1/|P|
        supcon_in       e^s_tp (1/Σ_A e^s − 1/Σ_P e^s), and the first sum holds all of the second
        set_nce         (π_p − 1)/|P|, π_p a probability

    If a class has collapsed to one point and its negatives are far, SupCon's two terms are equal up to rounding; such a
    pair is not counted.
    """
    check_not_empty(found)
    return repulsion_from(anchor_rows(directions_of(found), temperature))


def repulsion_from(anchors: AnchorRows) -> dict[str, float]:
    """The shares, from the counted pairs."""
    share = float(anchors.repelled.sum() / anchors.num_pos.sum().clamp(min=1))
    return {name: share if name == "supcon" else 0.0 for name in LOSSES}


@full_precision()
def kl_bounds(found: EmbeddingSet, *, temperature: float = 0.1) -> dict[str, float]:
    """A lower bound, in nats, of KL(p(x|class) ‖ p(x|other classes)): the mean of log|N| − SINCERE over its anchors.

    Source: SINCERE, Theorem 3. It cannot exceed log|N|, and a bound below 0 says nothing. A class without two samples,
    or without negatives, has none.
    """
    check_not_empty(found)
    rows = directions_of(found)
    return kl_bounds_from(anchor_rows(rows, temperature), rows, found.class_names)


def kl_bounds_from(anchors: AnchorRows, rows: Directions, class_names: tuple[str, ...]) -> dict[str, float]:
    """The bounds of the classes that have one, by name."""
    usable = (anchors.num_pos > 0) & (anchors.num_neg > 0)
    bound = (anchors.num_neg.log() - anchors.mean_softplus)[usable]
    numbers = rows.numbers[usable]
    counts = torch.bincount(numbers, minlength=rows.classes)
    means = torch.bincount(numbers, weights=bound, minlength=rows.classes) / counts
    found = zip(class_names, means.tolist(), counts.tolist(), strict=True)
    return {name: mean for name, mean, count in found if count}


@full_precision()
def loss_readings(
    found: EmbeddingSet, *, temperature: float = 0.1, batch: int | None = None, seed: int = 0
) -> dict[str, LossReading]:
    """Value and floor of every loss: over the whole set at once, or the mean over random batches.

    A loss depends on how many positives and negatives an anchor has, and so does its floor: to compare with training,
    give the batch size of training. The floor is that of the batches as drawn, with their class sizes; the excess is
    what can still be gained.

    Args:
        found: the embeddings.
        temperature: of the losses.
        batch: samples in a batch, drawn without replacement until the set is used up; what does not fill a batch is
            left out. None reads the whole set, with set_nce only up to 2,048 samples.
        seed: of the batches.
    """
    check_not_empty(found)
    if batch is None:
        rows = directions_of(found)
        return readings_from(anchor_rows(rows, temperature), rows, temperature)
    if not is_whole(batch) or not 2 <= batch <= len(found):
        raise OptionError(f"batch must lie between 2 and the {len(found)} samples, a whole number: got {batch!r}.")
    readings = [_one_batch(part, temperature) for part in _batches(found, batch, seed)]
    joined: dict[str, LossReading] = {}
    for name in LOSSES:
        known = [reading[name] for reading in readings if name in reading]
        if known:
            floors = [reading.floor for reading in known if reading.floor is not None]
            joined[name] = LossReading(fmean(reading.value for reading in known), fmean(floors) if floors else None)
    return joined


def _batches(found: EmbeddingSet, batch: int, seed: int) -> Iterator[EmbeddingSet]:
    shuffled = torch.randperm(len(found), generator=torch.Generator().manual_seed(seed), device="cpu")
    for start in range(0, len(found) - batch + 1, batch):
        yield found.subset(shuffled[start : start + batch])


def _one_batch(part: EmbeddingSet, temperature: float) -> dict[str, LossReading]:
    rows = directions_of(part)
    return readings_from(anchor_rows(rows, temperature), rows, temperature, set_loss=True)


def readings_from(
    anchors: AnchorRows, rows: Directions, temperature: float, *, set_loss: bool | None = None
) -> dict[str, LossReading]:
    """Means over the anchors that have a positive; decoupled needs a negative too. Empty where no anchor has any."""
    values = anchors.losses()
    if set_loss or (set_loss is None and rows.rows.shape[0] <= SET_LOSS_UP_TO):
        with full_precision():
            values["set_nce"] = SF.set_nce(rows.rows, rows.layout.classes, temperature=temperature, reduction="none")
    floors = _floors(rows.layout.sizes, temperature)
    readings = {}
    for name in (name for name in LOSSES if name in values):
        valid = anchors.num_pos > 0
        if name == "decoupled":
            valid = valid & (anchors.num_neg > 0)
        if bool(valid.any()):
            floor = floors[name][rows.layout.classes][valid]
            readings[name] = LossReading(float(values[name].double()[valid].mean()), float(floor.mean()))
    return readings


def _floors(sizes: Tensor, temperature: float) -> dict[str, Tensor]:
    """The floor of an anchor of each class, (classes present,). Computed once for each size that classes have."""
    kinds, which = torch.unique(sizes, return_inverse=True)
    gap = simplex_gap(sizes.shape[0], temperature)
    several = kinds > 1  # a class of one has no anchor
    floors = (
        simplex_floors(kinds[several] - 1, sizes.sum() - kinds[several], gap, EPSILON) if bool(several.any()) else {}
    )
    found = {}
    for name in LOSSES:
        of_kind = torch.zeros(kinds.shape[0], dtype=torch.float64, device=sizes.device)
        if name in floors:
            of_kind[several] = floors[name]
        found[name] = of_kind[which]
    return found
