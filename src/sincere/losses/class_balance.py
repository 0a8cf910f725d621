"""Classes that compete with the same weight, however many samples each has: `class_balanced=True`.

With C classes among m contrasts every class counts as m/C samples, the size that all would have if they were equal:

    Σ_N e^s   becomes   Σ_{c ≠ y_t} (m/C) mean_{j ∈ c} e^{s_tj}
    Σ_P e^s   becomes   (m/C − 1) mean_{p ∈ P} e^{s_tp}          (m/C where the anchor is not among the contrasts)

If all classes have the same size, nothing changes. The first line is a bias of log (m/C)/n_c on the logits of
negatives, which backends add. The second line concerns losses with positives in the denominator, and is computed here.
With reduction="class_mean", the loss is least at the regular simplex whatever the sizes of the classes
(docs/theory.md has the proof).
"""

from collections.abc import Collection
from dataclasses import replace

import torch
from torch import Tensor

from sincere.errors import OptionError
from sincere.losses.relation import Relation, compact_ids
from sincere.losses.statistics import Combination, RowStatistics, Statistic, per_anchor, softplus


def balanced(relation: Relation, dtype: torch.dtype) -> Relation:
    """The same relation, with the bias of every contrast that is a negative."""
    sizes, typical = _class_sizes(relation, dtype)
    return replace(relation, negative_bias=(typical / sizes).log())


def statistics_wanted(combination: Combination) -> Collection[Statistic]:
    """The statistics that a balanced loss needs: it computes lse_all from those of positives and negatives."""
    if not combination.lse_all:
        return combination.wanted
    return {*combination.wanted, "lse_pos", "lse_neg"} - {"lse_all"}


def per_anchor_balanced(combination: Combination, stats: RowStatistics, relation: Relation) -> Tensor:
    """ℓ of every anchor; meaningless for an anchor without a positive.

    lse_all = own + softplus(lse_neg − own), own = lse_pos + log w with the weight w of a positive. The coefficients of
    lse_pos are added up before anything is differentiated: for L_in they cancel.
    """
    c = combination
    if not c.lse_all:
        return per_anchor(c, stats)
    has_positive = stats.has_positive
    _, typical = _class_sizes(relation, stats.weight_sum.dtype)
    others = typical - (0 if relation.self_offset is None else 1)
    log_weight = torch.where(has_positive, others / torch.where(has_positive, stats.weight_sum, 1), 1).log()
    own = torch.where(has_positive, stats["lse_pos"], 0) + log_weight
    rest = per_anchor(replace(c, lse_all=0.0, lse_pos=c.lse_pos + c.lse_all), stats)
    return rest + c.lse_all * (log_weight + softplus(stats["lse_neg"] - own))


def _class_sizes(relation: Relation, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """For each contrast, how many usable contrasts its class has, at least 1; and m/C."""
    ids, usable = compact_ids(relation.contrast), relation.usable.to(dtype)
    totals = torch.zeros_like(usable).index_add(0, ids, usable)
    classes = (totals > 0).sum().clamp(min=1)
    return totals[ids].clamp(min=1), usable.sum() / classes


def refuse_class_balance(class_balanced: bool, because: str) -> None:
    """For losses and labels that have no classes to balance."""
    if class_balanced:
        raise OptionError(f"class_balanced=True lets classes compete alike, and {because}: drop the option.")
