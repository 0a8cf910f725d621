"""What a batch and its embeddings look like, in numbers and in words."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isfinite, log, log1p

import torch
from torch import Tensor

from sincere.checks import check_embeddings, check_flag, shape_of
from sincere.errors import InputError
from sincere.losses.class_cosines import ClassCosines, class_cosines
from sincere.losses.loss_readings import LossReading, balanced_readings, loss_readings, read_rows
from sincere.losses.options import full_precision, settings_from
from sincere.losses.pairs import Pairs, in_full_precision, make_pairs
from sincere.losses.similarity import unit_rows
from sincere.losses.tf32 import without_tf32
from sincere.tables import amount
from sincere.types import SimilarityName

FEW = 16  # labelled rows among which chance alone can hide what an encoder knows


@dataclass(frozen=True)
class Diagnosis:
    """Everything `diagnose` found; print it to read it."""

    samples: int  # rows: every view counts as one
    dim: int
    temperature: float
    class_counts: dict[int, int]  # of labelled rows
    unlabelled: int
    anchors_without_positives: int
    norms: tuple[float, float, float]  # least, mean, largest, before normalisation
    repulsion: float  # share of same-class pairs that SupCon pushes apart; SINCERE and the set loss push none
    losses: dict[str, LossReading]
    kl_bound: dict[int, float]  # per class: KL(class ‖ rest) ≥ this many nats
    messages: tuple[str, ...] = ()
    cosines: ClassCosines | None = None  # None where there are no pairs of both kinds
    class_balanced: bool = False  # are the losses those of classes that compete alike, with the mean over classes

    @property
    def single_class(self) -> bool:
        return len(self.class_counts) == 1

    def __str__(self) -> str:
        counts = sorted(self.class_counts.values())
        spread = "no labelled row"
        if counts:
            spread = f"{_range(f'{counts[0]}', f'{counts[-1]}')} {'row' if counts[-1] == 1 else 'rows'} each"
        lines = [
            f"{amount(self.samples, 'embedding')} of dimension {self.dim}, "
            f"{amount(len(self.class_counts), 'class', 'classes')}, {spread}"
            + (f", {self.unlabelled} unlabelled" if self.unlabelled else ""),
            f"norms {self.norms[0]:.3g} to {self.norms[2]:.3g}, mean {self.norms[1]:.3g}; "
            f"{amount(self.anchors_without_positives, 'anchor')} without positives",
            f"SupCon pushes apart {100 * self.repulsion:.1f} % of same-class pairs; SINCERE and the set loss none",
            *self._cosines_in_words(),
            *(["losses with class_balanced=True and the mean over classes:"] if self.class_balanced else []),
            f"{'loss at temperature ' + format(self.temperature, 'g'):<28}{'value':>9}{'floor':>9}{'excess':>9}",
        ]
        for name, reading in self.losses.items():
            floor = "–" if reading.floor is None else f"{reading.floor:.4f}"
            excess = "–" if reading.excess is None else f"{reading.excess:.4f}"
            lines.append(f"  {name:<26}{reading.value:>9.4f}{floor:>9}{excess:>9}")
        if self.kl_bound:
            low, high = min(self.kl_bound.values()), max(self.kl_bound.values())
            nothing = " (below 0 it says nothing)" if low < 0 else ""
            lines.append(f"KL(class ‖ rest) is at least {_range(f'{low:.3f}', f'{high:.3f}')} nats{nothing}")
        lines += [f"! {message}" for message in self.messages]
        return "\n".join(lines)

    def _cosines_in_words(self) -> Iterator[str]:
        if self.cosines is not None:
            yield f"mean cosine {self.cosines.within:.3f} within classes, {self.cosines.between:.3f} between them"


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


@torch.no_grad()
def diagnose(
    embeddings: Tensor,
    labels: Tensor,
    *,
    temperature: float = 0.1,
    similarity: SimilarityName = "cosine",
    ignore_label: int = -1,
    set_loss: bool = True,
    class_balanced: bool = False,
) -> Diagnosis:
    """Look at a batch: what its classes are, what the losses say and could say, and what is wrong, in words.

    In memory linear in n. Without the set loss it costs some four forward passes of SINCERE, cheap enough to log every
    step; with it ten, and more where classes are small and the set loss is computed exactly.

    >>> print(diagnose(torch.eye(4), torch.tensor([5, 5, 5, 5])).messages[0].split(",")[0])
    every sample of this batch has class 5

    Args:
        embeddings: (n, d), or (b, v, d).
        labels: integer classes (n,) or (b,).
        temperature: the losses' temperature.
        similarity: the losses' similarity.
        ignore_label: the label of unlabelled samples.
        set_loss: compute the set loss too, the most expensive one.
        class_balanced: read the losses as `class_balanced=True, reduction="class_mean"` computes them; their floor is
            then right for classes of any size. The set loss has no such form and is left out. Everything else is as
            without it.
    """
    settings = settings_from(
        {"temperature": temperature, "similarity": similarity, "ignore_label": ignore_label, "reduction": "mean"}
    )
    check_flag("class_balanced", class_balanced)
    check_embeddings("embeddings", embeddings, labels)
    _check_single_classes(labels)
    # Counting pushed pairs compares a logit with a log-sum-exp: if kernels computed the latter in fewer digits, half of
    # the pairs of a collapsed class would count as pushed apart.
    with full_precision(embeddings), without_tf32():
        pairs = make_pairs(in_full_precision(embeddings), labels, None, None, settings)
        rows = read_rows(pairs, set_loss and not class_balanced)
        counts, kl_bound = _by_class(pairs, rows)
        with_floor = temperature if similarity == "cosine" else None
        if class_balanced:
            weighed = replace(settings, class_balanced=True, reduction="class_mean")
            alike = make_pairs(in_full_precision(embeddings), labels, None, None, weighed)
            readings = balanced_readings(alike, len(counts), with_floor)
        else:
            readings = loss_readings(pairs, rows, len(counts), with_floor)
    norms = embeddings.detach().flatten(0, -2).double().norm(dim=1)
    found = Diagnosis(
        samples=norms.shape[0],
        dim=embeddings.shape[-1],
        temperature=float(temperature),
        class_counts=counts,
        unlabelled=int((~pairs.relation.labelled).sum()),
        anchors_without_positives=int((pairs.relation.labelled & (rows["num_pos"] == 0)).sum()),
        norms=(float(norms.min()), float(norms.mean()), float(norms.max())) if norms.numel() else (0.0, 0.0, 0.0),
        repulsion=float(rows["repelled"].sum() / rows["num_pos"].sum().clamp(min=1)),
        losses=readings,
        kl_bound=kl_bound,
        cosines=_cosines(pairs, embeddings),
        class_balanced=class_balanced,
    )
    return replace(found, messages=tuple(_messages(found)))


def _cosines(pairs: Pairs, embeddings: Tensor) -> ClassCosines | None:
    labelled = pairs.relation.labelled
    rows = in_full_precision(embeddings).detach().flatten(0, -2)[labelled]
    views = embeddings.shape[1] if embeddings.ndim == 3 else 1
    return class_cosines(unit_rows(rows), pairs.relation.anchor[labelled], views=views)


def _check_single_classes(labels: object) -> None:
    if isinstance(labels, Tensor) and labels.ndim != 1:
        one_hot = "one-hot rows as labels.int().argmax(dim=1)"
        columns = "multi-hot labels one class at a time, class c against the rest, as labels[:, c].long()"
        advice = " Call .squeeze(1) on it." if labels.ndim == 2 and labels.shape[1] == 1 else ""
        if labels.ndim == 2 and labels.shape[1] > 1:
            advice = f" Pass {one_hot}; {columns}."
        raise InputError(f"diagnose takes one integer class per sample: expected (n,), got {shape_of(labels)}.{advice}")


def _by_class(pairs: Pairs, rows: dict[str, Tensor]) -> tuple[dict[int, int], dict[int, float]]:
    """Rows per class, and the KL bound of each class: mean over its anchors of log|N| − SINCERE (Theorem 3)."""
    labelled = pairs.relation.labelled
    labels = pairs.relation.anchor[labelled]
    bound = (rows["num_neg"].double().log() - rows["sincere"].double())[labelled]
    usable = (rows["num_pos"][labelled] > 0) & (rows["num_neg"][labelled] > 0)
    names, members, counts = torch.unique(labels, return_inverse=True, return_counts=True)
    anchors = torch.zeros(names.shape[0], dtype=torch.float64, device=labels.device)
    anchors.index_add_(0, members, usable.double())
    total = torch.zeros_like(anchors).index_add_(0, members, torch.where(usable, bound, 0))
    means = (total / anchors).tolist()
    keys = names.tolist()
    bounds = {key: mean for key, mean, count in zip(keys, means, anchors.tolist(), strict=True) if count}
    return dict(zip(keys, counts.tolist(), strict=True)), bounds


def _messages(found: Diagnosis) -> Iterator[str]:
    """Common mistakes, in words."""
    classes, labelled = len(found.class_counts), found.samples - found.unlabelled
    if found.samples == 0:
        yield "the batch is empty"
        return
    if classes == 0:
        yield "no sample is labelled, so there is no anchor"
    elif found.single_class:
        yield (
            f"every {'labelled ' if found.unlabelled else ''}sample of this batch has class "
            f"{next(iter(found.class_counts))}, so nothing is to be told apart: "
            "a sampler that groups by label makes such batches"
        )
    elif found.anchors_without_positives == labelled:
        yield (
            "no anchor has a positive, so every loss is 0: draw at least two samples of each class into a batch, "
            "or pass two views as (b, 2, d)"
        )
    elif found.anchors_without_positives:
        yield (
            f"{found.anchors_without_positives} of {labelled} anchors have no positive and carry no loss: "
            "a sampler that draws at least two of each class, or two views, would use them"
        )
    yield from _messages_about_embeddings(found, classes)


def _nothing_apart(found: Diagnosis) -> bool:
    """Does SINCERE, too, have its value for equal logits? SupCon can pass its own one while classes are apart."""
    labelled, sizes = found.samples - found.unlabelled, [size for size in found.class_counts.values() if size > 1]
    if not sizes:
        return False
    if found.class_balanced:  # whatever its size, a class has the others against it as if all had the mean size
        expected = log1p(labelled - labelled / len(found.class_counts))
    else:
        expected = sum(size * log1p(labelled - size) for size in sizes) / sum(sizes)
    return abs(found.losses["sincere"].value - expected) < 0.05


def _messages_about_embeddings(found: Diagnosis, classes: int) -> Iterator[str]:
    least, mean, _ = found.norms
    if not isfinite(mean):
        yield "some embeddings are NaN or infinite: look at the encoder's output before the loss"
        return
    if least == 0:
        yield "some embeddings are zero: they have no direction, and get no gradient from cosine similarity"
    if classes > found.dim + 1:
        yield (
            f"{classes} classes do not fit a regular simplex in {found.dim} dimensions (at most {found.dim + 1}): "
            "the floors cannot be reached"
        )
    supcon = found.losses["supcon"].value
    if classes > 1 and found.repulsion > 0.25:
        share = 100 * found.repulsion
        yield f"SupCon would push {share:.0f} % of same-class pairs apart on this batch: consider SINCERE"
    labelled = found.samples - found.unlabelled  # the others are nobody's contrasts
    if classes > 1 and supcon and labelled > 2 and abs(supcon - log(labelled - 1)) < 0.01 and _nothing_apart(found):
        yield (
            f"SupCon stands at log(n − 1) = {log(labelled - 1):.2f}, the value of embeddings that tell nothing "
            "apart: they are untrained, or have collapsed to one point"
        )
    elif found.cosines is not None and labelled >= FEW and not found.cosines.related:
        yield (
            "samples of one class are no more alike than others: is the encoder untrained, or are labels and "
            "embeddings in different orders?"
        )
