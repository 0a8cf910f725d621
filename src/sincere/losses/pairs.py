"""From the caller's arguments to what a backend needs: rows, their relation, and nothing else.

After `make_pairs` there are no views, half-precision numbers, temperatures, processes or kinds of label left:
only rows whose inner products are the logits s_ta = sim(z_t, z_a)/τ, and who is whose positive.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from sincere.checks import check_device, check_embeddings, check_finite, check_labels, shape_of
from sincere.errors import InputError
from sincere.losses.agreement import rows_of_all
from sincere.losses.class_balance import balanced, refuse_class_balance
from sincere.losses.contrast_checks import (
    check_contrast_labels,
    check_contrast_rows,
    check_given_together,
    check_matrix,
)
from sincere.losses.gather import gather_rows, rank
from sincere.losses.label_checks import check_no_class_ignored, check_numbers, check_probabilities
from sincere.losses.options import Settings
from sincere.losses.relation import Kind, Relation
from sincere.losses.similarity import inner_product_rows, unit_rows, zero_unless

SoftTargets = Literal["classes", "pairs"]
NoClasses = SoftTargets | Literal["numbers"]  # kinds of label that are no hard classes


@dataclass(frozen=True)
class Pairs:
    """n anchors, m contrasts, and everything a loss needs to know about them."""

    anchors: Tensor  # (n, d)
    contrasts: Tensor | None  # (m, d); None: the anchors themselves
    relation: Relation
    matrix: Callable[[], Tensor] | None  # all logits at once, for a similarity that is the caller's own function
    settings: Settings
    weights: Tensor | None  # (n,)
    batch_shape: tuple[int, ...]  # (n,), or (b, v) where views came
    counts: list[int]  # anchors of each process
    input_dtype: torch.dtype  # of the embeddings as they came; rows are float32 at least

    def logits(self, rows: slice | None = None) -> Tensor:
        """s_ta for the anchors in `rows`, or for all, and all contrasts."""
        rows = slice(None) if rows is None else rows
        if self.matrix is not None:
            return self.matrix()[rows]
        return self.anchors[rows] @ (self.anchors if self.contrasts is None else self.contrasts).T

    @property
    def bounded(self) -> bool:
        return self.settings.bounded

    @property
    def precision(self) -> str:
        """In which precision the embeddings came: "float32", "bfloat16" or "float16"."""
        half = {torch.bfloat16: "bfloat16", torch.float16: "float16"}
        return half.get(self.input_dtype, "float32")

    @property
    def own_rows(self) -> slice:
        """Where this process's anchors stand among everybody's."""
        start = sum(self.counts[: rank()]) if len(self.counts) > 1 else 0
        return slice(start, start + self.relation.anchors)


@dataclass(frozen=True)
class Samples:
    """One set of embeddings with its labels, views folded into rows."""

    rows: Tensor  # (n, d)
    labels: Tensor  # (n,), (n, classes), (n, m) pair weights, or (n, k) numbers
    views: int

    def gathered(self, counts: list[int]) -> "Samples":
        return Samples(gather_rows(self.rows, counts), gather_rows(self.labels, counts), self.views)

    def followed_by(self, more: "Samples") -> "Samples":
        return Samples(torch.cat([self.rows, more.rows]), torch.cat([self.labels, more.labels]), self.views)


def make_pairs(
    embeddings: Tensor,
    labels: Tensor,
    contrast_embeddings: Tensor | None,
    contrast_labels: Tensor | None,
    settings: Settings,
    soft: NoClasses | None = None,
) -> Pairs:
    """Check and unify the input of a loss; `soft` names the kind of label that is no hard class."""
    needs_labels, include_batch = soft != "pairs", settings.include_batch
    check_given_together(contrast_embeddings, contrast_labels, needs_labels=needs_labels, include_batch=include_batch)
    check_embeddings("embeddings", embeddings, labels)
    if soft == "pairs":
        anchors, others = _samples_with_pair_weights(embeddings, labels, contrast_embeddings)
    else:
        anchors = _samples("embeddings", embeddings, "labels", labels, soft)
        others = None
        if contrast_embeddings is not None and contrast_labels is not None:
            check_embeddings("contrast_embeddings", contrast_embeddings, contrast_labels)
            others = _samples("contrast_embeddings", contrast_embeddings, "contrast_labels", contrast_labels, soft)
            check_contrast_rows(anchors.rows, others.rows)
            check_contrast_labels(anchors.labels, others.labels)
    if settings.check_finite:
        check_finite("embeddings", embeddings)
        if others is not None:
            check_finite("contrast_embeddings", others.rows)

    given = None if others is None else (others.rows, others.labels)
    counts, other_counts = rows_of_all(anchors.rows, anchors.labels, given, settings)
    contrasts = _contrasts(anchors, others, counts, other_counts, settings)
    in_batch = others is None or settings.include_batch
    offset = (sum(counts[: rank()]) if len(counts) > 1 else 0) if in_batch else None
    relation = _relation(anchors, contrasts, offset, settings, soft)
    anchor_rows, contrast_rows, matrix = _logit_rows(anchors, contrasts, relation, settings)
    return Pairs(
        anchors=anchor_rows,
        contrasts=contrast_rows,
        relation=relation,
        matrix=matrix,
        settings=settings,
        weights=_anchor_weights(settings.weights, anchors),
        batch_shape=tuple(embeddings.shape[:-1]),
        counts=counts,
        input_dtype=embeddings.dtype,
    )


def fold_views(embeddings: Tensor) -> tuple[Tensor, int]:
    """(b, v, d) as (b·v, d), in at least single precision; and v."""
    views = embeddings.shape[1] if embeddings.ndim == 3 else 1
    rows = embeddings.flatten(0, 1) if embeddings.ndim == 3 else embeddings
    return in_full_precision(rows), views


def in_full_precision(embeddings: Tensor) -> Tensor:
    """Half precision as float32, anything else as it is."""
    return embeddings.float() if embeddings.dtype in (torch.float16, torch.bfloat16) else embeddings


def _samples(name: str, embeddings: Tensor, label_name: str, labels: Tensor, soft: NoClasses | None) -> Samples:
    if soft == "classes":
        check_probabilities(label_name, labels, name, embeddings)
    elif soft == "numbers":
        check_numbers(label_name, labels, name, embeddings)
    else:
        views = embeddings.shape[1] if embeddings.ndim == 3 else None
        check_labels(label_name, labels, embeddings.shape[0], name, embeddings.device, views=views)
    rows, views = fold_views(embeddings)
    # Soft labels of a teacher with a graph are constants all the same: no backend may send a gradient into them
    # where another does not.
    labels = _numbers(labels) if soft == "numbers" else labels.detach() if soft == "classes" else labels.long()
    return Samples(rows, labels.repeat_interleave(views, dim=0) if views != 1 else labels, views)


def _samples_with_pair_weights(
    embeddings: Tensor, weights: Tensor, contrast_embeddings: Tensor | None
) -> tuple[Samples, Samples | None]:
    rows, views = fold_views(embeddings)
    contrast_samples = embeddings.shape[0]
    others = None
    if contrast_embeddings is not None:
        check_embeddings("contrast_embeddings", contrast_embeddings)
        check_contrast_rows(embeddings, contrast_embeddings)
        contrast_samples = contrast_embeddings.shape[0]
        contrast_rows, contrast_views = fold_views(contrast_embeddings)
        others = Samples(contrast_rows, contrast_rows.new_zeros(contrast_rows.shape[0]), contrast_views)
    expected = (embeddings.shape[0], contrast_samples)
    if not isinstance(weights, Tensor) or weights.ndim != 2 or tuple(weights.shape) != expected:
        came = shape_of(weights) if isinstance(weights, Tensor) else type(weights).__name__
        raise InputError(
            f'labels must hold one weight per pair of samples with targets="pairs": expected {expected}, got {came}. '
            'For class probabilities pass targets="classes".'
        )
    check_device("labels", weights, "embeddings", embeddings.device)
    column_views = views if others is None else others.views
    weights = weights.detach().to(rows.dtype).clamp(min=0).repeat_interleave(views, dim=0)
    return Samples(rows, weights.repeat_interleave(column_views, dim=1), views), others


def _contrasts(
    anchors: Samples, others: Samples | None, counts: list[int], other_counts: list[int], settings: Settings
) -> Samples | None:
    """The set that anchors are contrasted with; None where it is the anchors themselves."""
    others = None if others is None else others.gathered(other_counts)
    if others is not None and not settings.include_batch:
        return others
    if others is None and len(counts) == 1:
        return None
    batch = anchors.gathered(counts)
    return batch if others is None else batch.followed_by(others)


def _relation(
    anchors: Samples, contrasts: Samples | None, offset: int | None, settings: Settings, soft: NoClasses | None
) -> Relation:
    contrast_labels = anchors.labels if contrasts is None else contrasts.labels
    if soft == "pairs":
        n, m = anchors.labels.shape
        everyone = torch.ones(n, dtype=torch.bool, device=anchors.rows.device)
        usable = torch.ones(m, dtype=torch.bool, device=anchors.rows.device)
        return Relation("pairs", anchors.labels, contrast_labels, usable, everyone, offset)
    if soft == "numbers":
        labelled, usable = (labels.isfinite().all(dim=1) for labels in (anchors.labels, contrast_labels))
        # Nobody asks how far an unlabelled sample is, but NaN has no place in an order.
        own, other = zero_unless(labelled, anchors.labels), zero_unless(usable, contrast_labels)
        return Relation("numbers", own, other, usable, labelled, offset)
    labelled = ~_ignored(anchors.labels, settings.ignore_label)
    usable = ~_ignored(contrast_labels, settings.ignore_label)
    if settings.ignored_as_negatives:
        usable = torch.ones_like(usable)
    if anchors.labels.ndim == 1:
        relation = Relation("classes", anchors.labels, contrast_labels, usable, labelled, offset)
        return balanced(relation, _common_type(anchors, contrasts)) if settings.class_balanced else relation
    refuse_class_balance(settings.class_balanced, "samples with several labels belong to no class alone")
    check_no_class_ignored(settings.ignore_label)
    kind: Kind = "soft" if soft == "classes" else settings.positives
    dtype = _common_type(anchors, contrasts)
    membership = _label_directions if soft == "classes" else _label_sets
    return Relation(
        kind, membership(anchors.labels, dtype), membership(contrast_labels, dtype), usable, labelled, offset
    )


def _common_type(anchors: Samples, contrasts: Samples | None) -> torch.dtype:
    """That of the logits."""
    return torch.promote_types(anchors.rows.dtype, (contrasts or anchors).rows.dtype)


def _numbers(labels: Tensor) -> Tensor:
    """(n, k) in double precision, in which differences of float32 numbers are exact and equal ones stay equal."""
    return (labels.unsqueeze(1) if labels.ndim == 1 else labels).detach().double()


def _ignored(labels: Tensor, ignore_label: int) -> Tensor:
    """Which samples are unlabelled. In a label matrix only a negative mark can be told from a label."""
    if labels.ndim == 1:
        return labels == ignore_label
    return (labels < 0).any(dim=1)


def _label_sets(labels: Tensor, dtype: torch.dtype) -> Tensor:
    return (_of_labelled(labels) > 0).to(dtype)


def _label_directions(labels: Tensor, dtype: torch.dtype) -> Tensor:
    return unit_rows(_of_labelled(labels).to(dtype))


def _of_labelled(labels: Tensor) -> Tensor:
    """Label rows, with zeros in those of unlabelled samples, so that whatever else these hold makes no positive."""
    return labels.masked_fill((labels < 0).any(dim=1, keepdim=True), 0)


def _logit_rows(
    anchors: Samples, contrasts: Samples | None, relation: Relation, settings: Settings
) -> tuple[Tensor, Tensor | None, Callable[[], Tensor] | None]:
    """Rows whose inner products are logits: each side carries τ^(−½), so equal sides stay equal.

    A similarity of the caller's own sees every row as it came: it may look at the whole batch, and zeros may be
    nothing that it can take.
    """
    dtype = _common_type(anchors, contrasts)
    a = anchors.rows.to(dtype)
    c = None if contrasts is None else contrasts.rows.to(dtype)
    temperature = settings.temperature
    if isinstance(temperature, Tensor):
        temperature = temperature.reshape(()).to(device=a.device, dtype=dtype)
    if callable(settings.similarity):
        similarity = settings.similarity
        other = a if c is None else c

        def matrix() -> Tensor:
            found = check_matrix(similarity(a, other), a.shape[0], other.shape[0])
            return in_full_precision(found) / temperature

        return a, c, matrix
    if relation.kind != "pairs":  # which leaves nobody out
        a = zero_unless(relation.usable if c is None else relation.labelled, a)
        c = None if c is None else zero_unless(relation.usable, c)
    a, c = inner_product_rows(a, c, settings.similarity, relation.usable)
    scale = temperature**-0.5
    return a * scale, None if c is None else c * scale, None


def _anchor_weights(weights: Tensor | None, anchors: Samples) -> Tensor | None:
    if weights is None:
        return None
    samples = anchors.rows.shape[0] // anchors.views if anchors.views else 0
    if not isinstance(weights, Tensor) or tuple(weights.shape) != (samples,):
        came = shape_of(weights) if isinstance(weights, Tensor) else type(weights).__name__
        raise InputError(f"weights must hold one number per sample: expected ({samples},), got {came}.")
    check_device("weights", weights, "embeddings", anchors.rows.device)
    return weights.to(anchors.rows.dtype).repeat_interleave(anchors.views)
