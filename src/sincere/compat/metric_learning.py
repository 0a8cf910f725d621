"""SupCon, NT-Xent and SINCERE with the call of pytorch-metric-learning, and the numbers of its defaults.

All are called as `loss(embeddings, labels, indices_tuple, ref_emb, ref_labels)`:

    embeddings     (n, d), normalised here
    labels         (n,) classes, −1 too; may be left out where an indices_tuple is given
    indices_tuple  what a miner returns: triplets (anchors, positives, negatives), or pairs (anchors, positives,
                   anchors, negatives). They, and no labels, then say who is a positive and a negative of whom
    ref_emb        (m, d), contrast with these instead of the batch
    ref_labels     (m,). If it is the very tensor that was passed as labels, row i of ref_emb is taken for anchor i
                   itself and left out, as there; pass labels.clone() to contrast the two

They are made as there, with temperature, distance, reducer, embedding_regularizer and embedding_reg_weight, where the
numbers are the same: :class:`sincere.compat.metric_learning_options.PairLossOptions` says which. Others are refused.

They work inside its `CrossBatchMemory` and `SelfSupervisedLoss`. Its `DistributedLossWrapper` takes none but its own
classes: use :class:`sincere.SupConLoss` or :class:`sincere.SINCERELoss` with gather=True, whose gradients are exact.
"""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TypeAlias, Unpack, final

import torch
from torch import Tensor, nn

from sincere.checks import check_device, check_embeddings, check_temperature, shape_of
from sincere.compat.metric_learning_options import PairLossOptions, Reducer, read_options
from sincere.errors import InputError
from sincere.losses.backends.select import row_statistics
from sincere.losses.options import Settings, full_precision
from sincere.losses.pairs import Pairs, make_pairs
from sincere.losses.reduction import reduce_over_anchors
from sincere.losses.relation import Relation
from sincere.losses.statistics import RowStatistics

IndicesTuple: TypeAlias = tuple[Tensor, Tensor, Tensor] | tuple[Tensor, Tensor, Tensor, Tensor]


class PairLoss(nn.Module, ABC):
    """What the losses here share: the call, its checks, and who is whose positive."""

    default = Reducer()  # the mean over anchors that have a positive

    def __init__(self, temperature: float, options: PairLossOptions) -> None:
        super().__init__()
        check_temperature(temperature)
        self.temperature = temperature
        self.similarity, self.reducer = read_options(options, self.default)
        self.embedding_regularizer = options.get("embedding_regularizer")
        self.embedding_reg_weight = options.get("embedding_reg_weight", 1)

    @abstractmethod
    def of_pairs(self, pairs: Pairs) -> Tensor:
        """The loss of anchors and contrasts whose relation is known."""

    def with_mined(self, pairs: Pairs, positives: Tensor, negatives: Tensor) -> Pairs:
        """`pairs` as an indices_tuple relates them, from how often it holds each pair; here each counts once."""
        return _related(pairs, positives > 0, (positives + negatives) > 0)

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor | None = None,
        indices_tuple: IndicesTuple | None = None,
        ref_emb: Tensor | None = None,
        ref_labels: Tensor | None = None,
    ) -> Tensor:
        """The loss of one batch; the module's page describes the arguments."""
        _check_call(embeddings, labels, indices_tuple, ref_emb, ref_labels)
        with full_precision(embeddings):
            pairs = _unrelated_pairs(
                embeddings, ref_emb, Settings(temperature=self.temperature, similarity=self.similarity)
            )
            if indices_tuple is not None:
                pairs = self.with_mined(pairs, *_mined_pairs(indices_tuple, pairs))
            elif labels is not None:
                pairs = _with_labels(pairs, labels, ref_labels)
            value = self.of_pairs(pairs)
        if self.embedding_regularizer is None:
            return value
        return value + self.embedding_reg_weight * self.embedding_regularizer(embeddings)

    def reduced(self, values: Tensor, valid: Tensor, pairs: Pairs) -> Tensor:
        """One value of those of all anchors, by the reducer."""
        counted = valid & ~(values <= 0) if self.reducer.above_zero else valid
        settings = replace(pairs.settings, reduction=self.reducer.reduction)
        return reduce_over_anchors(values, counted, replace(pairs, settings=settings))

    def extra_repr(self) -> str:
        own = (f"temperature={self.temperature}", self.similarity != "cosine" and f"similarity={self.similarity!r}")
        return ", ".join(str(part) for part in (*own, self.reducer != self.default and self.reducer) if part)


@final
class SupConLoss(PairLoss):
    r"""SupCon, with the mean over anchors whose loss is above zero.

    .. math:: \ell_t = \frac{1}{|P|} \sum_{p \in P} -\log \frac{e^{s_{tp}}}{\sum_{a \in A} e^{s_{ta}}}

    Source: Khosla et al., 2020, arXiv 2004.11362, Eq. 2; call and mean are those of pytorch-metric-learning 2.9.
    Conventions: cosine similarity. A mined pair counts once however often it was mined. The value is 0 where the batch
    has no positive or no negative at all, or just one of each.
    Differs from: :class:`sincere.SupConLoss`, which counts every anchor that has a positive, and whose value for a
    batch of one class is the equation's. pytorch-metric-learning, which drops an anchor whose loss is NaN and so may
    report 0 for a broken batch; here NaN shows. The two may disagree on whether a loss counts
    that is zero but for rounding.

    >>> import torch
    >>> loss = SupConLoss(temperature=0.1)
    >>> loss(torch.randn(8, 16, requires_grad=True), torch.arange(8) // 2).backward()
    """

    default = Reducer(above_zero=True)

    def __init__(self, temperature: float = 0.1, **options: Unpack[PairLossOptions]) -> None:
        super().__init__(temperature, options)

    def of_pairs(self, pairs: Pairs) -> Tensor:
        stats = row_statistics(pairs, "lse_all", "mean_pos")
        per_anchor = stats["lse_all"] - stats["mean_pos"]
        return torch.where(_has_enough_pairs(stats), self.reduced(per_anchor, stats.has_positive, pairs), 0)


@final
class NTXentLoss(PairLoss):
    r"""NT-Xent of every positive pair against its anchor's negatives: SINCERE with anchors weighed by |P|.

    .. math:: L = \frac{1}{\sum_t |P_t|} \sum_t \sum_{p \in P_t}
              -\log \frac{e^{s_{tp}}}{e^{s_{tp}} + \sum_{j \in N_t} e^{s_{tj}}}

    Source: Sohn, 2016; Chen et al., 2020, arXiv 2002.05709; per anchor SINCERE Eq. 12 (arXiv 2309.14277). The call and
    the mean are those of pytorch-metric-learning 2.9.
    Conventions: cosine similarity. A mined pair counts as often as it was mined, as a positive in the mean and as a
    negative in the sum, so triplets count a negative once for each positive that it came with. The value is 0 where
    the batch has no positive or no negative at all, or just one of each.
    Differs from: :class:`SINCERELoss`, which weighs anchors alike. pytorch-metric-learning, which adds the smallest
    number to the fraction, so that a loss above 87 (708 in double precision) loses its gradient; and which needs memory
    for all positive pairs times all negative pairs.
    """

    default = Reducer(per_anchor=False)

    def __init__(self, temperature: float = 0.07, **options: Unpack[PairLossOptions]) -> None:
        super().__init__(temperature, options)

    def with_mined(self, pairs: Pairs, positives: Tensor, negatives: Tensor) -> Pairs:
        """Each pair as often as it was mined: k equal terms in a sum of exponentials are one, log k higher.

        A mean per anchor counts its positives once all the same, as PerAnchorReducer does.
        """
        repeated = negatives.clamp(min=1).log()
        related = super().with_mined(pairs, positives, negatives)
        return replace(
            related,
            relation=replace(related.relation, anchor=positives.clamp(max=1) if self.reducer.per_anchor else positives),
            matrix=lambda: pairs.logits() + repeated,
        )

    def of_pairs(self, pairs: Pairs) -> Tensor:
        stats = row_statistics(pairs, "mean_softplus")
        if not self.reducer.per_anchor:
            pairs = replace(pairs, weights=stats.weight_sum)
        mean = self.reduced(stats["mean_softplus"], stats.has_positive, pairs)
        return torch.where(_has_enough_pairs(stats), mean, 0)


@final
class SINCERELoss(PairLoss):
    r"""SINCERE behind the call of pytorch-metric-learning, which has no such loss.

    .. math:: \ell_t = \frac{1}{|P|} \sum_{p \in P} -\log \frac{e^{s_{tp}}}{e^{s_{tp}} + \sum_{j \in N} e^{s_{tj}}}

    Source: Feeney and Hughes, 2023, arXiv 2309.14277, Eq. 12.
    Conventions: those of :func:`sincere.functional.sincere`: the mean over anchors that have a positive. A mined pair
    counts once however often it was mined.
    Differs from: :class:`NTXentLoss`, where an anchor counts once for each of its positives.
    """

    def __init__(self, temperature: float = 0.1, **options: Unpack[PairLossOptions]) -> None:
        super().__init__(temperature, options)

    def of_pairs(self, pairs: Pairs) -> Tensor:
        stats = row_statistics(pairs, "mean_softplus")
        return self.reduced(stats["mean_softplus"], stats.has_positive, pairs)


def _has_enough_pairs(stats: RowStatistics) -> Tensor:
    """At least one positive pair, one negative pair, and a third of either kind."""
    positives, negatives = stats.weight_sum.sum(), stats.num_neg.sum()
    return (positives > 0) & (negatives > 0) & (positives + negatives > 2)


def _unrelated_pairs(embeddings: Tensor, ref_emb: Tensor | None, settings: Settings) -> Pairs:
    """Rows and logits; the relation, of one class, is there to be replaced."""

    def one_class(rows: Tensor) -> Tensor:
        return torch.zeros(rows.shape[0], dtype=torch.int64, device=rows.device)

    ref_classes = None if ref_emb is None else one_class(ref_emb)
    return make_pairs(embeddings, one_class(embeddings), ref_emb, ref_classes, settings)


def _with_labels(pairs: Pairs, labels: Tensor, ref_labels: Tensor | None) -> Pairs:
    device = pairs.anchors.device
    anchor_labels = labels.to(device)
    contrast_labels = anchor_labels if ref_labels is None else ref_labels.to(device)
    relation = Relation(
        kind="classes",
        anchor=anchor_labels,
        contrast=contrast_labels,
        usable=torch.ones_like(contrast_labels, dtype=torch.bool),
        labelled=torch.ones_like(anchor_labels, dtype=torch.bool),
        self_offset=0 if contrast_labels is anchor_labels else None,
    )
    return replace(pairs, relation=relation)


def _related(pairs: Pairs, positive: Tensor, usable: Tensor) -> Pairs:
    """`pairs` with a relation of (n, m) masks, in which an anchor may meet itself if it was told to."""
    return replace(pairs, relation=Relation("pairs", positive, positive, usable, pairs.relation.labelled, None))


def _mined_pairs(indices_tuple: IndicesTuple, pairs: Pairs) -> tuple[Tensor, Tensor]:
    """How often the tuple holds each pair, (n, m), as a positive and as a negative.

    Reads the indices' values; a miner has made a GPU wait for them already.
    """
    n, m = pairs.relation.anchors, pairs.relation.contrasts
    names, tensors = _named_indices(indices_tuple)
    counts = []
    for at in (0, 2):
        rows = _check_indices(names[at], tensors[at], n, "embeddings").to(pairs.anchors.device)
        columns = _check_indices(names[at + 1], tensors[at + 1], m, "contrasts").to(pairs.anchors.device)
        if rows.shape != columns.shape:
            raise InputError(
                f"indices_tuple must hold pairs, with as many entries in {names[at]} as in {names[at + 1]}: "
                f"got {rows.shape[0]} and {columns.shape[0]}."
            )
        once = torch.ones(rows.shape, dtype=pairs.anchors.dtype, device=pairs.anchors.device)
        counts.append(once.new_zeros(n, m).index_put_((rows, columns), once, accumulate=True))
    positives, negatives = counts
    contradictory = int(((positives > 0) & (negatives > 0)).sum())
    if contradictory:
        raise InputError(
            "indices_tuple must hold a pair as a positive or as a negative: "
            f"{contradictory} pairs are both. Look at the miner and at the labels that it was given."
        )
    return positives, negatives


def _named_indices(indices_tuple: object) -> tuple[list[str], list[Tensor]]:
    """The four tensors (anchors, positives, anchors, negatives), and what to call them."""
    length = len(indices_tuple) if isinstance(indices_tuple, (tuple, list)) else None
    if not isinstance(indices_tuple, (tuple, list)) or length not in (3, 4):
        came = type(indices_tuple).__name__ if length is None else f"{length} entries"
        raise InputError(
            "indices_tuple must hold triplets (anchors, positives, negatives) or pairs (anchors, positives, anchors, "
            f"negatives), as a miner returns them: got {came}."
        )
    order = (0, 1, 0, 2) if length == 3 else (0, 1, 2, 3)
    return [f"indices_tuple[{i}]" for i in order], [indices_tuple[i] for i in order]


def _check_indices(name: str, indices: object, size: int, of: str) -> Tensor:
    if not isinstance(indices, Tensor) or indices.ndim != 1:
        came = shape_of(indices) if isinstance(indices, Tensor) else type(indices).__name__
        raise InputError(f"{name} must be a tensor of indices with one dimension: got {came}.")
    if indices.numel() == 0:
        return indices.long()
    if indices.is_floating_point() or indices.is_complex() or indices.dtype == torch.bool:
        raise InputError(
            f"{name} must be integers: got {indices.dtype}. Call .long() on indices, .nonzero() on a mask."
        )
    low, high = int(indices.min()), int(indices.max())
    if low < 0 or high >= size:
        raise InputError(f"{name} must point into the {size} {of}: got indices from {low} to {high}.")
    return indices.long()


def _check_call(
    embeddings: Tensor,
    labels: Tensor | None,
    indices_tuple: IndicesTuple | None,
    ref_emb: Tensor | None,
    ref_labels: Tensor | None,
) -> None:
    if labels is None and indices_tuple is None:
        raise InputError("labels or an indices_tuple must say who is a positive of whom: got neither.")
    _check_batch("embeddings", embeddings, "labels", labels)
    pairs_say_all = labels is None and ref_labels is None
    if (ref_emb is None) != (ref_labels is None) and not pairs_say_all:
        missing = "ref_labels" if ref_labels is None else "ref_emb"
        raise InputError(f"ref_emb and ref_labels go together: {missing} is missing.")
    if ref_emb is None:
        return
    _check_batch("ref_emb", ref_emb, "ref_labels", ref_labels)
    if ref_emb.shape[1] != embeddings.shape[1]:
        expected = f"(m, {embeddings.shape[1]})"
        raise InputError(f"ref_emb must have the embeddings' dimension: expected {expected}, got {shape_of(ref_emb)}.")
    check_device("ref_emb", ref_emb, "embeddings", embeddings.device)


def _check_batch(name: str, embeddings: Tensor, label_name: str, labels: object) -> None:
    check_embeddings(name, embeddings)
    if embeddings.ndim != 2:
        raise InputError(
            f"{name} must have shape (n, d): got {shape_of(embeddings)}. "
            "For views call .flatten(0, 1) and repeat the labels, or use sincere.SupConLoss, which takes (b, v, d)."
        )
    if labels is None:
        return
    expected = (embeddings.shape[0],)
    if not isinstance(labels, Tensor) or tuple(labels.shape) != expected:
        came = shape_of(labels) if isinstance(labels, Tensor) else type(labels).__name__
        raise InputError(
            f"{label_name} must be a tensor with one class per row of {name}: expected {expected}, got {came}."
        )
